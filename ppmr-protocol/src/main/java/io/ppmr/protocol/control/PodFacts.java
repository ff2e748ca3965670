package io.ppmr.protocol.control;

import java.util.List;

/**
 * Describes a pod that moves: its target creates it from these values, and checks the requirements. Immutable.
 *
 * <p>Pods are an optional part of the services. Their facts stand among the messages of the core, as do {@link
 * ControlMessage.AddressAway} and {@link ControlMessage.AddressAwayAck}. Nodes may have different parts, and each must
 * be able to read another node's message in order to refuse it by name.
 *
 * @param uid the user that owns the pod
 * @param gid the user's group
 * @param name the name that the user chose
 * @param job the name of the pod's job; pods of one job move together
 * @param template the name by which the target finds the settings that root grants
 * @param address its IPv4 address
 * @param address6 its additional IPv6 address; empty for none
 * @param prefixBits the number of leading bits that name the network
 * @param mac its MAC address
 * @param mtuBytes the largest packet
 * @param mounts the node's directories that it sees, by their paths in the pod
 * @param environment the environment of further commands in it, each NAME=VALUE
 * @param command the command for which it was created
 * @param startedAtMs its start, in milliseconds since 1970 UTC
 * @param answers whether its veth is up, so that it responds for its address where it is
 */
public record PodFacts(
        int uid,
        int gid,
        String name,
        String job,
        String template,
        String address,
        String address6,
        int prefixBits,
        String mac,
        int mtuBytes,
        List<String> mounts,
        List<String> environment,
        List<String> command,
        long startedAtMs,
        boolean answers) {
    public PodFacts {
        mounts = List.copyOf(mounts);
        environment = List.copyOf(environment);
        command = List.copyOf(command);
    }

    /** Returns the same pod with its veth up or down. */
    public PodFacts answering(boolean now) {
        return new PodFacts(
                uid,
                gid,
                name,
                job,
                template,
                address,
                address6,
                prefixBits,
                mac,
                mtuBytes,
                mounts,
                environment,
                command,
                startedAtMs,
                now);
    }
}
