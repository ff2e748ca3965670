package io.ppmr.pods;

import com.fasterxml.jackson.annotation.JsonIgnore;
import com.fasterxml.jackson.annotation.JsonUnwrapped;
import io.ppmr.protocol.control.PodAddresses;
import io.ppmr.protocol.control.PodSpecification;
import java.util.List;
import java.util.Locale;

/**
 * The status of a pod, for users. It is immutable. An answer on the control socket.
 *
 * @param name its full name, UID/NAME
 * @param specification the pod as its user ordered it, without the environment
 * @param state {@code running}, {@code moving} during a move, or {@code ended} for a pod whose command ended at once
 * @param addresses its addresses
 * @param prefixBits how many leading bits of the IPv4 address name the network, or 0 if its template is gone
 * @param bridge the bridge that its virtual cable is plugged into
 * @param link the node's end of its virtual cable
 * @param init the PID of its init on the node, or 0 if it ended
 * @param processes how many processes are in it, with its init
 * @param startedAtMs its start, in milliseconds since 1970 UTC
 */
public record PodStatus(
        String name,
        PodSpecification specification,
        String state,
        @JsonUnwrapped PodAddresses addresses,
        int prefixBits,
        String bridge,
        String link,
        int init,
        int processes,
        long startedAtMs) {
    private static final String MOVING = "moving";

    /** Returns its IPv4 address. */
    public String address() {
        return addresses.address();
    }

    /** Returns true while a migration has it. */
    @JsonIgnore
    public boolean isMoving() {
        return state.equals(MOVING);
    }

    /** Describes pods for people, each in one line. */
    static List<String> lines(List<PodStatus> pods) {
        return pods.isEmpty()
                ? List.of("no pod")
                : pods.stream().map(PodStatus::line).toList();
    }

    private String line() {
        return String.format(
                Locale.ROOT,
                "%-24s %-15s %-12s %4d processes  %s",
                name,
                address(),
                specification.template(),
                processes,
                String.join(" ", specification.command()));
    }

    static PodStatus running(PodRecord pod, int prefixBits, int processes) {
        return of(pod, pod.moves() ? MOVING : "running", prefixBits, pod.init().pid(), processes);
    }

    static PodStatus ended(PodRecord pod) {
        return of(pod, "ended", 0, 0, 0);
    }

    private static PodStatus of(PodRecord pod, String state, int prefixBits, int init, int processes) {
        return new PodStatus(
                pod.fullName(),
                pod.specification().withoutEnvironment(),
                state,
                pod.addresses(),
                prefixBits,
                pod.bridge(),
                pod.link(),
                init,
                processes,
                pod.startedAtMs());
    }
}
