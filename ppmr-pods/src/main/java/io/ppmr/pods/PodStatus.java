package io.ppmr.pods;

import com.fasterxml.jackson.annotation.JsonIgnore;
import java.util.List;

/**
 * Tells users of a pod. Immutable; an answer on the control socket.
 *
 * @param name its full name, UID/NAME
 * @param job the job that it belongs to, with whose pods it moves
 * @param state {@code running}, {@code moving} while it is being moved, or {@code ended} for one whose command was over
 *     at once
 * @param template the kind of pod
 * @param address its IPv4 address
 * @param prefixBits how many leading bits of the address name the network; 0 if its template is gone
 * @param address6 its IPv6 address besides; empty for none
 * @param mac its MAC address
 * @param bridge what it is plugged into
 * @param link the node's end of its cable
 * @param init the PID of its init on the node; 0 if it has ended
 * @param processes how many processes are in it, with its init
 * @param startedAtMs when it was started, in milliseconds since 1970 UTC
 * @param command what it was made for
 */
public record PodStatus(
        String name,
        String job,
        String state,
        String template,
        String address,
        int prefixBits,
        String address6,
        String mac,
        String bridge,
        String link,
        int init,
        int processes,
        long startedAtMs,
        List<String> command) {
    private static final String MOVING = "moving";

    public PodStatus {
        command = List.copyOf(command);
    }

    /** Returns true while a migration has it. */
    @JsonIgnore
    public boolean isMoving() {
        return state.equals(MOVING);
    }

    static PodStatus running(PodRecord pod, int prefixBits, int processes) {
        return of(
                pod,
                pod.move() == null ? "running" : MOVING,
                prefixBits,
                pod.init().pid(),
                processes);
    }

    static PodStatus ended(PodRecord pod) {
        return of(pod, "ended", 0, 0, 0);
    }

    private static PodStatus of(PodRecord pod, String state, int prefixBits, int init, int processes) {
        return new PodStatus(
                pod.fullName(),
                pod.jobName(),
                state,
                pod.template(),
                pod.address(),
                prefixBits,
                pod.address6(),
                pod.mac(),
                pod.bridge(),
                pod.link(),
                init,
                processes,
                pod.startedAtMs(),
                pod.command());
    }
}
