package io.ppmr.transport.auth;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;

/**
 * A shared key for TLS 1.3, imported out of a key of any length as RFC 9258 defines: bound to TLS 1.3, to HKDF with
 * SHA-384, and to ppmr. Its identity names the key by a short digest, and reveals nothing else. Immutable.
 */
public final class ImportedKey {
    private static final byte[] CONTEXT = "ppmr".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] LABEL = "tls13 derived psk".getBytes(StandardCharsets.US_ASCII);
    private static final int TLS_13 = 0x0304;
    private static final int HKDF_SHA384 = 0x0002;
    private static final int KEY_BYTES = 48;
    private static final int DIGEST_BYTES = 32;

    private final byte[] identity;
    private final byte[] key;

    private ImportedKey(byte[] identity, byte[] key) {
        this.identity = identity;
        this.key = key;
    }

    /**
     * Imports a key.
     *
     * @param secret the key
     * @param name the identity of the key before the import
     */
    static ImportedKey of(byte[] secret, String name) {
        byte[] external = name.getBytes(StandardCharsets.US_ASCII);
        ByteArrayOutputStream identity = new ByteArrayOutputStream();
        writeVector(identity, external);
        writeVector(identity, CONTEXT);
        writeNumber(identity, TLS_13);
        writeNumber(identity, HKDF_SHA384);
        Hmac extracted = new Hmac(new Hmac(new byte[DIGEST_BYTES]).of(secret));
        return new ImportedKey(identity.toByteArray(), expand(extracted, digest(identity.toByteArray())));
    }

    /** HKDF-Expand-Label of RFC 8446. */
    private static byte[] expand(Hmac extracted, byte[] context) {
        ByteArrayOutputStream info = new ByteArrayOutputStream();
        writeNumber(info, KEY_BYTES);
        info.write(LABEL.length);
        info.writeBytes(LABEL);
        info.write(context.length);
        info.writeBytes(context);
        byte[] first = extracted.of(info.toByteArray(), new byte[] {1});
        byte[] second = extracted.of(first, info.toByteArray(), new byte[] {2});
        return Arrays.copyOf(Handshake.joined(first, second), KEY_BYTES);
    }

    private static byte[] digest(byte[] text) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(text);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("SHA-256 is missing in this JDK, though every JDK must have it", e);
        }
    }

    private static void writeVector(ByteArrayOutputStream to, byte[] bytes) {
        writeNumber(to, bytes.length);
        to.writeBytes(bytes);
    }

    private static void writeNumber(ByteArrayOutputStream to, int number) {
        to.write(number >> Byte.SIZE);
        to.write(number);
    }

    /** The identity that a source sends in the clear. */
    byte[] identity() {
        return identity;
    }

    byte[] key() {
        return key;
    }
}
