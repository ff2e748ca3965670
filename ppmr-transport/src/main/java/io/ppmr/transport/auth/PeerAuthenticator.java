package io.ppmr.transport.auth;

/** The secret by which two services prove to each other that they belong together. Safe for any thread. */
public interface PeerAuthenticator extends ConnectionProof {

    /** The protection of connections that are opened or accepted with this secret. */
    Encryption encryption();

    /** Returns the secret in the form in which TLS uses it. */
    ImportedKey imported();

    /**
     * Computes a digest of {@link #PROOF_BYTES} bytes that requires the secret. A service seals a file on disk with it,
     * so that a later run, or another node's service, can trust the file. It is not valid as a proof.
     */
    byte[] seal(byte[] text);
}
