package io.ppmr.transport;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

/**
 * Binds a direct connection to the authenticated control session. The source stores 32 random bytes, and the control
 * session sends their address and their SHA-256. The target reads the bytes through the direct connection. Only the
 * node at the session's other end can have both. Immutable.
 *
 * @param address the address of the random bytes at the source
 * @param key their remote key
 * @param digest their SHA-256, as 64 hexadecimal digits
 */
public record MemoryProof(long address, long key, String digest) {
    public static final int SECRET_BYTES = 32;
    /** For a connection that was proved in another way. */
    public static final MemoryProof NONE = new MemoryProof(0, 0, "");

    /** Returns the digest of these bytes. */
    public static String digest(byte[] secret) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(secret));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JDK has SHA-256", e);
        }
    }

    /** Returns whether these bytes have the digest. */
    public boolean matches(byte[] secret) {
        return digest(secret).equals(digest);
    }
}
