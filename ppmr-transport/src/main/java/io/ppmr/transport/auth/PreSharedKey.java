package io.ppmr.transport.auth;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HexFormat;
import java.util.Set;

/**
 * Authentication by a key that both nodes have in a file. TLS uses it as an external key ({@link ImportedKey}). Where
 * connections are not encrypted a proof is HMAC-SHA256 over role and transcript (RFC 2104).
 */
public final class PreSharedKey implements PeerAuthenticator {
    private static final int MECHANISM = 1;
    private static final int MIN_KEY_BYTES = 32;
    private static final int MAX_KEY_BYTES = 4096;
    private static final int NAME_BYTES = 8;
    /** The byte order mark of UTF-8, each byte as a character. */
    private static final String BYTE_ORDER_MARK = "\u00ef\u00bb\u00bf";

    private static final Set<PosixFilePermission> OWNER_ONLY =
            EnumSet.of(PosixFilePermission.OWNER_READ, PosixFilePermission.OWNER_WRITE);

    private final Hmac key;
    private final ImportedKey imported;
    private final Encryption encryption;

    public PreSharedKey(byte[] secret) {
        if (secret.length < MIN_KEY_BYTES) {
            throw new IllegalArgumentException("a key of " + secret.length + " bytes: it must have at least "
                    + MIN_KEY_BYTES + " (make one: ppmr keygen FILE)");
        }
        key = new Hmac(secret);
        byte[] name = Arrays.copyOf(digest("ppmr identity ", new byte[0]), NAME_BYTES);
        imported = ImportedKey.of(secret, "ppmr " + HexFormat.of().formatHex(name));
        encryption = Encryption.CONTROL;
    }

    private PreSharedKey(PreSharedKey same, Encryption encryption) {
        key = same.key;
        imported = same.imported;
        this.encryption = encryption;
    }

    /** Returns the same key for connections with this protection. */
    public PreSharedKey with(Encryption protection) {
        return new PreSharedKey(this, protection);
    }

    /**
     * Reads the key from a file, without surrounding white space and without a byte order mark, which some editors add.
     *
     * @throws IOException if the file cannot be read, is too short or too long, or is readable by users other than its
     *     owner
     */
    public static PreSharedKey load(Path file) throws IOException {
        if (Files.isDirectory(file)) {
            throw new IOException("key file " + file + " is a directory: name the file with the key in key_file");
        }
        if (!Files.isRegularFile(file)) {
            throw new IOException("key file " + file + " does not exist: make one (ppmr keygen " + file
                    + ") and put the same on every node");
        }
        Set<PosixFilePermission> permissions = Files.getPosixFilePermissions(file);
        if (!OWNER_ONLY.containsAll(permissions)) {
            throw new IOException("key file " + file + " can be read by users other than its owner: chmod 600 " + file);
        }
        if (Files.size(file) > MAX_KEY_BYTES) {
            throw new IOException("key file " + file + " is longer than " + MAX_KEY_BYTES + " bytes: is it a key?");
        }
        String whole = Files.readString(file, StandardCharsets.ISO_8859_1);
        String text = (whole.startsWith(BYTE_ORDER_MARK) ? whole.substring(BYTE_ORDER_MARK.length()) : whole).strip();
        try {
            return new PreSharedKey(text.getBytes(StandardCharsets.ISO_8859_1));
        } catch (IllegalArgumentException e) {
            throw new IOException("key file " + file + ": " + e.getMessage(), e);
        }
    }

    @Override
    public int mechanism() {
        return MECHANISM;
    }

    @Override
    public byte[] prove(Role role, byte[] transcript) {
        return digest("ppmr peer " + role, transcript);
    }

    @Override
    public byte[] seal(byte[] text) {
        return digest("ppmr seal ", text);
    }

    private byte[] digest(String purpose, byte[] text) {
        return key.of(purpose.getBytes(StandardCharsets.US_ASCII), text);
    }

    @Override
    public Encryption encryption() {
        return encryption;
    }

    @Override
    public ImportedKey imported() {
        return imported;
    }

    @Override
    public boolean verify(Role role, byte[] transcript, byte[] proof) {
        return MessageDigest.isEqual(prove(role, transcript), proof);
    }
}
