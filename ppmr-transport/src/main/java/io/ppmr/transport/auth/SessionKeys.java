package io.ppmr.transport.auth;

import io.ppmr.protocol.data.ProtocolVersion;

/** The keys that the two ends of a session share after the handshake of its control connection. Immutable. */
public final class SessionKeys {
    private final SessionId session;
    private final ProtocolVersion version;
    private final ConnectionProof proof;
    private final byte[] resumption;

    SessionKeys(SessionId session, ProtocolVersion version, ConnectionProof proof, byte[] resumption) {
        this.session = session;
        this.version = version;
        this.proof = proof;
        this.resumption = resumption;
    }

    public SessionId session() {
        return session;
    }

    /** Returns the version of the protocol that both ends agreed on. */
    public ProtocolVersion version() {
        return version;
    }

    /** Returns the mechanism by which the session's data connections prove that they belong to it. */
    public ConnectionProof proof() {
        return proof;
    }

    /** Returns the secret by which a connection proves that it may replace the session's control connection. */
    byte[] resumption() {
        return resumption;
    }
}
