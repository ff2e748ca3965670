package io.ppmr.daemon.config;

import io.ppmr.linux.FileFailure;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.HexFormat;

/** Makes key files. */
public final class KeyFile {
    private static final int KEY_BYTES = 32;

    private KeyFile() {}

    /** Writes a new random key to a new file that only its owner can read. Throws if the file exists. */
    public static void create(Path file) throws IOException {
        byte[] key = new byte[KEY_BYTES];
        new SecureRandom().nextBytes(key);
        String line = HexFormat.of().formatHex(key) + "\n";
        try {
            Files.createFile(file, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
            Files.writeString(file, line);
        } catch (FileAlreadyExistsException e) {
            throw new IOException(
                    file + " already exists. Nodes may be using it. Remedy: remove it first, or choose another file",
                    e);
        } catch (NoSuchFileException e) {
            Path parent = file.toAbsolutePath().getParent();
            throw new IOException(
                    "cannot make " + file + ": "
                            + (Files.isDirectory(parent)
                                    ? "no file can be made in " + parent + ". Remedy: choose another directory"
                                    : "the directory " + parent + " does not exist. Remedy: mkdir -p " + parent),
                    e);
        } catch (IOException e) {
            throw new IOException("cannot make the key: " + FileFailure.describe(e), e);
        }
    }
}
