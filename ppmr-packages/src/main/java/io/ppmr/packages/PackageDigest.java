package io.ppmr.packages;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/** Makes the digests by which files are known. */
final class PackageDigest {
    private PackageDigest() {}

    static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JDK has SHA-256", e);
        }
    }
}
