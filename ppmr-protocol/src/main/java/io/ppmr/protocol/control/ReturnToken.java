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
 * Proves that an address is back by the migration that took it away. Source and target make the same token out of the
 * migration's secret. While the address is away other nodes are told the token's lock alone, its digest, and out of
 * that no token can be made. Immutable.
 *
 * @param text 64 hexadecimal digits
 */
public record ReturnToken(String text) {
    private static final Pattern DIGITS = Pattern.compile("[0-9a-f]{64}");
    private static final String MAC = "HmacSHA256";
    private static final String DIGEST = "SHA-256";

    /** Makes the token of a migration for one address. */
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

    /** Gives the lock that this token opens. */
    public String lock() {
        try {
            byte[] digest = MessageDigest.getInstance(DIGEST).digest(text.getBytes(StandardCharsets.US_ASCII));
            return HexFormat.of().formatHex(digest);
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("this Java has no " + DIGEST, e);
        }
    }

    /** Returns true if a text is of the form that tokens and locks have. */
    static boolean isOne(String text) {
        return DIGITS.matcher(text).matches();
    }

    /** Logs do not show it. */
    @Override
    public String toString() {
        return "token";
    }
}
