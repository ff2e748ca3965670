package io.ppmr.transport.auth;

import java.security.GeneralSecurityException;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** HMAC-SHA256 (RFC 2104) under one key. Immutable. */
final class Hmac {
    private static final String ALGORITHM = "HmacSHA256";

    private final SecretKeySpec key;

    Hmac(byte[] key) {
        this.key = new SecretKeySpec(key, ALGORITHM);
    }

    /** Returns the digest of the parts, one behind the other. */
    byte[] of(byte[]... parts) {
        try {
            Mac mac = Mac.getInstance(ALGORITHM);
            mac.init(key);
            for (byte[] part : parts) {
                mac.update(part);
            }
            return mac.doFinal();
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException(ALGORITHM + " is missing in this JDK, though every JDK must have it", e);
        }
    }
}
