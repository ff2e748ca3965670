package io.ppmr.transport.auth;

/** The protection of the connections between two services. Both ends must be configured with the same one. */
public enum Encryption {
    /** Control connections use TLS 1.3. Data connections prove a key of their session, and carry bytes in the clear. */
    CONTROL,
    /** All connections prove the shared key when they open, and carry bytes in the clear. */
    OFF
}
