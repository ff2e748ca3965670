package io.ppmr.cli.install;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The record of an installation: the SHA-256 of each file, in the form of sha256sum(1), and the folders that it had to
 * make. Owned by one thread.
 */
final class InstallManifest {
    static final String NAME = "install.manifest";
    private static final String FOLDER = "folder";
    private static final int HASH_CHARACTERS = 64;

    private final Map<Path, String> files = new LinkedHashMap<>();
    private final List<Path> folders = new ArrayList<>();

    /** Reads the manifest of an installation. Empty if there is none. */
    static InstallManifest read(Path file) throws IOException {
        InstallManifest manifest = new InstallManifest();
        if (!Files.exists(file)) {
            return manifest;
        }
        for (String line : Files.readAllLines(file, StandardCharsets.UTF_8)) {
            int gap = line.indexOf("  ");
            String word = gap < 0 ? "" : line.substring(0, gap);
            if (word.equals(FOLDER)) {
                manifest.folders.add(Path.of(line.substring(gap + 2)));
            } else if (word.length() == HASH_CHARACTERS) {
                manifest.files.put(Path.of(line.substring(gap + 2)), word);
            } else {
                throw new IOException(file + " is damaged: '" + line + "'. Install again over it");
            }
        }
        return manifest;
    }

    void write(Path file) throws IOException {
        StringBuilder text = new StringBuilder();
        folders.forEach(
                folder -> text.append(FOLDER).append("  ").append(folder).append('\n'));
        files.forEach(
                (path, hash) -> text.append(hash).append("  ").append(path).append('\n'));
        Files.writeString(file, text);
    }

    void addFile(Path file, String hash) {
        files.put(file, hash);
    }

    void addFolder(Path folder) {
        if (!folders.contains(folder)) {
            folders.add(folder);
        }
    }

    Map<Path, String> files() {
        return files;
    }

    /** Parent folders are first. */
    List<Path> folders() {
        return folders;
    }

    /** Returns true if a file is there and not as it was installed. */
    boolean isChanged(Path file) throws IOException {
        return Files.exists(file) && files.containsKey(file) && !hash(file).equals(files.get(file));
    }

    static String hash(Path file) throws IOException {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(file)));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JDK has SHA-256", e);
        }
    }
}
