package io.ppmr.protocol.control;

import java.util.List;

/**
 * Describes a pod that is to move: what its target makes anew, and what it must have for that. Immutable.
 *
 * <p>Pods are an optional part of the services. Their facts stand among the messages of the core, as do {@link
 * ControlMessage.AddressAway} and {@link ControlMessage.AddressAwayAck}: nodes may have different parts, and each must
 * read what another one sends, to refuse it by name.
 *
 * @param uid whose it is
 * @param gid the user's group
 * @param name what the user calls it
 * @param job the job that it belongs to, by name; pods of one job move together
 * @param template by whose name the target knows what root grants
 * @param address its IPv4 address
 * @param address6 its IPv6 address besides; empty for none
 * @param prefixBits how many leading bits of the address name the network
 * @param mac its MAC address
 * @param mtuBytes the largest packet
 * @param mounts directories of the node that it sees, by their paths in the pod
 * @param environment what further commands in it get, each NAME=VALUE
 * @param command what it was made for
 * @param startedAtMs when, in milliseconds since 1970 UTC
 * @param answers whether its cable is in, so that it answers for its address where it is
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

    /** The same pod, whose cable is in or not. */
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
