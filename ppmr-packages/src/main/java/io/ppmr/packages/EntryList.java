package io.ppmr.packages;

import io.ppmr.packages.PackageEntry.PackagedFile;
import io.ppmr.packages.PackageEntry.PackagedFolder;
import io.ppmr.packages.PackageEntry.PackagedLink;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import java.util.zip.Deflater;
import org.apache.commons.compress.compressors.gzip.GzipCompressorOutputStream;
import org.apache.commons.compress.compressors.gzip.GzipParameters;

/**
 * Collects the entries of one package, sorted by path. Files whose bytes are made here go to a directory of the build.
 * It is used once, by one thread.
 */
final class EntryList {
    static final int PROGRAM = 0755;
    static final int DATA = 0644;

    private final Path made;
    private final List<String> own;
    private final Map<String, PackageEntry> entries = new TreeMap<>();

    /**
     * @param made the directory for files that are made here
     * @param own the directories of the package: each directory below them is the package's, too
     */
    EntryList(Path made, String... own) {
        this.made = made;
        this.own = List.of(own);
        this.own.forEach(this::folder);
    }

    /** Returns the entries, sorted by path. The directory of each is before it. */
    List<PackageEntry> all() {
        return List.copyOf(entries.values());
    }

    void folder(String path) {
        entries.put(path, new PackagedFolder(path, PROGRAM));
    }

    void link(String path, String target) {
        entries.put(path, new PackagedLink(path, target));
    }

    void file(String path, int mode, Path source) throws IOException {
        if (!Files.isRegularFile(source)) {
            throw new IOException(source + " is missing, for " + path + ". Remedy: ./ppmr build, then ./ppmr package");
        }
        entries.put(path, new PackagedFile(path, mode, source));
        ownFolders(path);
    }

    private void ownFolders(String path) {
        String parent = path.substring(0, path.lastIndexOf('/'));
        if (own.stream().anyMatch(parent::startsWith) && !entries.containsKey(parent)) {
            folder(parent);
            ownFolders(parent);
        }
    }

    void text(String path, String text) throws IOException {
        Path file = place(path);
        file(path, DATA, Files.write(file, text.getBytes(StandardCharsets.UTF_8)));
    }

    /** Compresses as Debian requires it for manual pages: as much as possible, without name and time. */
    void compressed(String path, byte[] bytes) throws IOException {
        GzipParameters parameters = new GzipParameters();
        parameters.setCompressionLevel(Deflater.BEST_COMPRESSION);
        Path file = place(path);
        try (OutputStream out = new GzipCompressorOutputStream(Files.newOutputStream(file), parameters)) {
            out.write(bytes);
        }
        file(path, DATA, file);
    }

    private Path place(String path) throws IOException {
        Path file = made.resolve(path.substring(1));
        Files.createDirectories(file.getParent());
        return file;
    }

    /**
     * Adds what Debian's own tools read: the changelog in their form, and arguments for tags of lintian.
     *
     * @param overrides the file with the arguments
     */
    void ofDebian(String name, PackageFacts facts, Path overrides) throws IOException {
        String day = DateTimeFormatter.RFC_1123_DATE_TIME.format(facts.time().atOffset(ZoneOffset.UTC));
        String changes = name + " (" + facts.version() + ") unstable; urgency=medium\n\n  * " + PackageFacts.CHANGES
                + "\n\n -- " + PackageFacts.MAINTAINER + "  " + changelogDay(day) + "\n";
        compressed("/usr/share/doc/" + name + "/changelog.gz", changes.getBytes(StandardCharsets.UTF_8));
        file("/usr/share/lintian/overrides/" + name, DATA, overrides);
    }

    /** Debian's changelogs write the zone as a number and the day with two digits. */
    private static String changelogDay(String day) {
        String numbered = day.replace("GMT", "+0000");
        return numbered.charAt(6) == ' ' ? numbered.substring(0, 5) + "0" + numbered.substring(5) : numbered;
    }

    /** Returns a digest of all files below a path, by which two builds of one version differ. */
    String digest(String below) throws IOException {
        MessageDigest digest = PackageDigest.sha256();
        for (PackageEntry entry : entries.values()) {
            if (entry instanceof PackagedFile file && file.path().startsWith(below)) {
                digest.update(file.path().getBytes(StandardCharsets.UTF_8));
                digest.update(Files.readAllBytes(file.source()));
            }
        }
        return HexFormat.of().formatHex(digest.digest());
    }

    /** Lists the files of a directory whose names have this end, sorted. A directory that is missing has none. */
    static List<Path> files(Path folder, String end) throws IOException {
        if (!Files.isDirectory(folder)) {
            return List.of();
        }
        try (Stream<Path> found = Files.list(folder)) {
            return found.filter(Files::isRegularFile)
                    .filter(file -> file.getFileName().toString().endsWith(end))
                    .sorted()
                    .toList();
        }
    }
}
