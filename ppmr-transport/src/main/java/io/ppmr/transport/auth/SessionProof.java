package io.ppmr.transport.auth;

import io.ppmr.protocol.data.VersionRange;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;

/**
 * The proof of a session's data connections: HMAC-SHA256 under a key that only the two ends of the session's TLS
 * connection have. So a data connection needs no key exchange of its own.
 */
final class SessionProof implements ConnectionProof {
    static final int MECHANISM = 2;

    private final Hmac key;
    private final VersionRange versions;

    SessionProof(byte[] key, VersionRange versions) {
        this.key = new Hmac(key);
        this.versions = versions;
    }

    @Override
    public int mechanism() {
        return MECHANISM;
    }

    @Override
    public VersionRange versions() {
        return versions;
    }

    @Override
    public byte[] prove(Role role, byte[] transcript) {
        return key.of(("ppmr data " + role).getBytes(StandardCharsets.US_ASCII), transcript);
    }

    @Override
    public boolean verify(Role role, byte[] transcript, byte[] proof) {
        return MessageDigest.isEqual(prove(role, transcript), proof);
    }
}
