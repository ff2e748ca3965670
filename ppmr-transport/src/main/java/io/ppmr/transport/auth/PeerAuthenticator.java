package io.ppmr.transport.auth;

/**
 * A mechanism by which two services prove to each other that they belong together. Both sides make a proof over the
 * same transcript of the handshake (both nonces, the kind of connection, the session), each in its own role. Safe for
 * any thread.
 */
public interface PeerAuthenticator {

    /** The side that makes a proof; a proof of one role is worthless in the other. */
    enum Role {
        SOURCE,
        TARGET
    }

    /** Length of a proof. */
    int PROOF_BYTES = 32;

    /** Number of the mechanism in the handshake; both sides must use the same. */
    int mechanism();

    /** A proof of {@link #PROOF_BYTES} bytes over the transcript. */
    byte[] prove(Role role, byte[] transcript);

    /**
     * A digest of {@link #PROOF_BYTES} bytes that only who holds the secret can make: of what a service leaves on a
     * disk, and another run of it, or another node's, will trust. Worthless as a proof.
     */
    byte[] seal(byte[] text);

    /** Returns true if a peer's proof is right; it takes the same time whatever it is. */
    boolean verify(Role role, byte[] transcript, byte[] proof);
}
