package io.ppmr.protocol.control;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * Proves that an address is back by the migration that took it away. Source and target derive the same token from the
 * migration's secret. While the address is away other nodes receive only the token's digest, from which the token
 * cannot be computed. Immutable.
 *
 * @param text 64 hexadecimal digits
 */
public record ReturnToken(String text) {
    private static final Pattern DIGITS = Pattern.compile("[0-9a-f]{64}");
    private static final String MAC = "HmacSHA256";
    private static final String DIGEST = "SHA-256";

    /** Derives the token of a migration for one address. */
    public static ReturnToken of(MigrationSecret secret, String address) {
        byte[] key = ByteBuffer.allocate(2 * Long.BYTES)
                .putLong(secret.high())
                .putLong(secret.low())
                .array();
        try {
            Mac mac = Mac.getInstance(MAC);
            mac.init(new SecretKeySpec(key, MAC));
            byte[] text = mac.doFinal(("return of " + address).getBytes(StandardCharsets.US_ASCII));
            return new ReturnToken(HexFormat.of().formatHex(text));
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("this Java has no " + MAC, e);
        }
    }

    /** Returns the SHA-256 digest of the token, which other nodes receive first. */
    public String digest() {
        try {
            byte[] digest = MessageDigest.getInstance(DIGEST).digest(text.getBytes(StandardCharsets.US_ASCII));
            return HexFormat.of().formatHex(digest);
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("this Java has no " + DIGEST, e);
        }
    }

    /** Returns true if a text has the form of tokens and digests. */
    static boolean isWellFormed(String text) {
        return DIGITS.matcher(text).matches();
    }

    /** Logs must not contain the token. */
    @Override
    public String toString() {
        return "token";
    }
}
