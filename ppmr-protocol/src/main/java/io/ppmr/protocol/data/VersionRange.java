package io.ppmr.protocol.data;

import java.util.Arrays;
import java.util.stream.Collectors;

/**
 * The versions of the protocol that one end of a connection knows, or of another format, from the oldest to the newest.
 * The numbers of a peer may be any bytes.
 */
public record VersionRange(int newest, int oldest) {
    /** The versions of this release. */
    public static final VersionRange OF_THIS_RELEASE =
            new VersionRange(ProtocolVersion.NEWEST.number(), ProtocolVersion.OLDEST.number());

    /**
     * Returns the newest version that both ends know.
     *
     * @param peer the peer's versions
     * @param name the peer, for the error
     * @throws ProtocolException if there is no such version, with the versions of both
     */
    public ProtocolVersion agreedWith(VersionRange peer, Object name) throws ProtocolException {
        int agreed = Math.min(newest, peer.newest);
        if (peer.oldest == 0 || peer.oldest > peer.newest || agreed < Math.max(oldest, peer.oldest)) {
            throw new ProtocolException("peer " + name + " uses version " + peer
                    + " of the protocol, this service version "
                    + this + ": install the same release of ppmr on both nodes, or two releases of which one follows"
                    + " the other");
        }
        return ProtocolVersion.of(agreed).orElseThrow();
    }

    /** Returns what the newest version of this range has and an agreed version does not have; empty for the newest. */
    public String unusedWith(ProtocolVersion agreed) {
        return Arrays.stream(ProtocolVersion.values())
                .filter(version -> agreed.isBefore(version) && version.number() <= newest)
                .map(ProtocolVersion::added)
                .collect(Collectors.joining("; "));
    }

    @Override
    public String toString() {
        if (oldest == newest) {
            return String.valueOf(newest);
        }
        if (oldest == 0 || oldest > newest) {
            return newest + " (oldest " + oldest + ")";
        }
        return newest + " (and " + oldest + (oldest == newest - 1 ? "" : " to " + (newest - 1)) + ")";
    }
}
