package io.ppmr.protocol.control;

import java.util.List;

/**
 * Describes a pod that is to move: the target makes the pod from it, and checks that it can. Immutable.
 *
 * <p>Pods are an optional part of the services. Their facts stand among the messages of the core, as do {@link
 * ControlMessage.AddressAway} and {@link ControlMessage.AddressAwayAck}: nodes may have different parts, and each must
 * read what another one sends, to refuse it by name.
 *
 * @param specification the pod as its user ordered it
 * @param uid its user
 * @param gid its user's group
 * @param addresses its addresses
 * @param prefixBits how many leading bits of the IPv4 address name the network
 * @param mtuBytes the largest packet
 * @param mounts directories of the node that it sees, by their paths in the pod
 * @param startedAtMs its start, in milliseconds since 1970 UTC
 * @param answers whether its virtual cable is plugged in, so that it answers for its address at the source
 */
public record PodFacts(
        PodSpecification specification,
        int uid,
        int gid,
        PodAddresses addresses,
        int prefixBits,
        int mtuBytes,
        List<String> mounts,
        long startedAtMs,
        boolean answers) {
    public PodFacts {
        mounts = List.copyOf(mounts);
    }

    /** Returns the same pod, whose virtual cable is plugged in or not. */
    public PodFacts answering(boolean now) {
        return new PodFacts(specification, uid, gid, addresses, prefixBits, mtuBytes, mounts, startedAtMs, now);
    }
}
