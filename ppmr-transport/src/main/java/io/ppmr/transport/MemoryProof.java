package io.ppmr.transport;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

/**
 * Ties a direct connection to the authenticated control session: 32 random bytes lie at the source, the control
 * session says where and what their SHA-256 is, and the target reads them through the direct connection. Only the node
 * that holds the session's other end can have both. Immutable.
 *
 * @param address of the random bytes at the source
 * @param key the remote key that opens them
 * @param digest their SHA-256, as 64 hexadecimal digits
 */
public record MemoryProof(long address, long key, String digest) {
    public static final int SECRET_BYTES = 32;
    /** Of a connection that has proved in another way whose it is. */
    public static final MemoryProof NONE = new MemoryProof(0, 0, "");

    /** The digest of these bytes. */
    public static String digest(byte[] secret) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(secret));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JDK has SHA-256", e);
        }
    }

    /** Returns whether these are the promised bytes. */
    public boolean holds(byte[] secret) {
        return digest(secret).equals(digest);
    }
}
