package io.ppmr.transport.auth;

import io.ppmr.protocol.data.VersionRange;

/**
 * A mechanism by which the two ends of a connection prove to each other that they belong together. Each side computes a
 * proof in its own role. Both proofs are over the same transcript of the handshake: the versions of both ends, both
 * nonces, the kind of connection, and the session. So an attacker between the ends cannot lower the agreed version.
 * Safe for any thread.
 */
public interface ConnectionProof {

    /** The side that computes a proof. A proof of one role is invalid in the other. */
    enum Role {
        SOURCE,
        TARGET
    }

    /** Length of a proof. */
    int PROOF_BYTES = 32;

    /** Number of the mechanism in the handshake. Both sides must use the same. */
    int mechanism();

    /** The versions of the protocol that this end offers in its handshakes. */
    default VersionRange versions() {
        return VersionRange.OF_THIS_RELEASE;
    }

    /** Computes a proof of {@link #PROOF_BYTES} bytes over the transcript. */
    byte[] prove(Role role, byte[] transcript);

    /** Verifies a peer's proof, in constant time. */
    boolean verify(Role role, byte[] transcript, byte[] proof);
}
