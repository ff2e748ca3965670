package io.ppmr.protocol.control;

import java.util.List;

/**
 * Describes a pod that moves: its target creates it from these values, and checks the requirements. Immutable.
 *
 * <p>Pods are an optional part of the services. Their facts stand among the messages of the core, as do {@link
 * ControlMessage.AddressAway} and {@link ControlMessage.AddressAwayAck}. Nodes may have different parts, and each must
 * be able to read another node's message in order to refuse it by name.
 *
 * @param specification the pod as its user ordered it
 * @param uid the user that owns the pod
 * @param gid the user's group
 * @param addresses its addresses
 * @param prefixBits the number of leading bits of the IPv4 address that name the network
 * @param mtuBytes the largest packet
 * @param mounts the node's directories that it sees, by their paths in the pod
 * @param startedAtMs its start, in milliseconds since 1970 UTC
 * @param answers whether its veth is up, so that it responds for its address at the source
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

    /** Returns the same pod with its veth up or down. */
    public PodFacts answering(boolean now) {
        return new PodFacts(specification, uid, gid, addresses, prefixBits, mtuBytes, mounts, startedAtMs, now);
    }
}
