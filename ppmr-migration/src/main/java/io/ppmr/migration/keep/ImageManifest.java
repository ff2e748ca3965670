package io.ppmr.migration.keep;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.source.image.ImageName.NameKind;
import io.ppmr.transport.auth.PeerAuthenticator;
import java.io.IOException;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.zip.CRC32C;

/**
 * The manifest of a kept copy of a job's images. It is a text file of lines, with words between single spaces. The last
 * line has the CRC32C of all lines before it. docs/internals/architecture.md draws it. Immutable.
 *
 * @param version version of the ppmr that wrote it
 * @param job the job's name
 * @param checkpointer checkpointer that wrote the images, and can restart them
 * @param user the job's user
 * @param migrationId migration during which it was made
 * @param attempt attempt of that migration
 * @param writtenEpochMs time at which it was complete
 * @param node host name of the node that the job ran on
 * @param originals the original processes of each rank
 * @param entries every name in it
 * @param pod the pod, if it is an image of a set of a job over several nodes
 */
public record ImageManifest(
        String version,
        String job,
        String checkpointer,
        JobUser user,
        String migrationId,
        int attempt,
        long writtenEpochMs,
        String node,
        Map<Integer, List<ProcessIdentity>> originals,
        List<ManifestEntry> entries,
        Optional<MemberImage> pod) {
    /** Its name in a copy's directory. */
    public static final String FILE_NAME = "manifest";

    /** The name of the file with the keyed digest of the manifest, in hexadecimal digits and with a line end. */
    public static final String DIGEST_FILE_NAME = "manifest.hmac-sha256";

    private static final String FIRST_LINE = "ppmr kept copy 1";
    /** The first line of an image of a pod, which earlier releases cannot restart. */
    private static final String POD_LINE = "ppmr kept copy 2";

    private static final String LAST_WORD = "crc32c ";
    /** Maximum size. A name needs some hundred bytes, so a copy may have some ten thousand of them. */
    static final int MAX_BYTES = 8 << 20;

    /** Maximum size of a file. Images are smaller, and the sum over all files still fits a number. */
    private static final long MAX_FILE_BYTES = 1L << 44;

    /**
     * A name in a copy.
     *
     * @param kind kind of the entry
     * @param path path relative to the copy's directory
     * @param sizeBytes size of a file
     * @param crc32c checksum of a file
     * @param target target of a symbolic link, otherwise empty
     */
    public record ManifestEntry(NameKind kind, String path, long sizeBytes, int crc32c, String target) {}

    /** Makes the manifest of a copy that is not of a pod. */
    public ImageManifest(
            String version,
            String job,
            String checkpointer,
            JobUser user,
            String migrationId,
            int attempt,
            long writtenEpochMs,
            String node,
            Map<Integer, List<ProcessIdentity>> originals,
            List<ManifestEntry> entries) {
        this(
                version,
                job,
                checkpointer,
                user,
                migrationId,
                attempt,
                writtenEpochMs,
                node,
                originals,
                entries,
                Optional.empty());
    }

    public ImageManifest {
        originals = Map.copyOf(originals);
        entries = List.copyOf(entries);
    }

    /** Returns the total size of its files. */
    public long totalBytes() {
        return entries.stream().mapToLong(ManifestEntry::sizeBytes).sum();
    }

    /** Returns the text of the file with the keyed digest, for a manifest of these bytes. */
    public static String digest(PeerAuthenticator key, byte[] manifest) {
        return HexFormat.of().formatHex(key.seal(manifest)) + "\n";
    }

    /** Returns the text of the file. */
    public String text() {
        StringBuilder text = new StringBuilder(pod.isPresent() ? POD_LINE : FIRST_LINE).append('\n');
        line(text, "version", version);
        line(text, "job", job);
        line(text, "checkpointer", checkpointer);
        line(text, "user", Integer.toString(user.uid()), Integer.toString(user.gid()));
        line(text, "migration", migrationId, Integer.toString(attempt));
        line(text, "written", Long.toString(writtenEpochMs));
        line(text, "node", node);
        originals.keySet().stream().sorted().forEach(rank -> {
            line(text, "rank", Integer.toString(rank));
            for (ProcessIdentity process : originals.get(rank)) {
                line(
                        text,
                        "process",
                        process.bootId(),
                        Long.toString(process.pidNamespace()),
                        Integer.toString(process.pid()),
                        Long.toString(process.startTimeTicks()));
            }
        });
        pod.ifPresent(image -> image.lines().forEach(line -> line(text, line.toArray(String[]::new))));
        for (ManifestEntry entry : entries) {
            switch (entry.kind()) {
                case DIRECTORY -> line(text, "directory", entry.path());
                case SYMLINK -> line(text, "symlink", entry.path(), entry.target());
                case FILE ->
                    line(
                            text,
                            "file",
                            entry.path(),
                            Long.toString(entry.sizeBytes()),
                            Integer.toHexString(entry.crc32c()));
            }
        }
        int crc32c = crcOf(text.toString());
        return text.append(LAST_WORD)
                .append(Integer.toHexString(crc32c))
                .append('\n')
                .toString();
    }

    private static void line(StringBuilder text, String... words) {
        text.append(words[0]);
        for (String word : Arrays.asList(words).subList(1, words.length)) {
            text.append(' ').append(URLEncoder.encode(word, StandardCharsets.UTF_8));
        }
        text.append('\n');
    }

    private static int crcOf(String text) {
        CRC32C crc = new CRC32C();
        crc.update(text.getBytes(StandardCharsets.UTF_8));
        return (int) crc.getValue();
    }

    /**
     * Reads the manifest of a copy.
     *
     * @throws IOException if it is missing, damaged, or of another version
     */
    public static ImageManifest read(Path copy) throws IOException {
        Path file = copy.resolve(FILE_NAME);
        String text;
        try {
            if (Files.size(file) > MAX_BYTES) {
                throw new IOException(file + " is longer than " + MAX_BYTES + " bytes, the most that a copy's"
                        + " manifest can have");
            }
            text = Files.readString(file);
        } catch (NoSuchFileException e) {
            throw new IOException(copy + " has no file " + FILE_NAME + ", so it is no kept copy", e);
        } catch (CharacterCodingException e) {
            throw new IOException(file + " is damaged: it is not UTF-8", e);
        }
        boolean isOfPod = text.startsWith(POD_LINE + "\n");
        if (!isOfPod && !text.startsWith(FIRST_LINE + "\n")) {
            throw new IOException(
                    file + " does not start with '" + FIRST_LINE + "': it is damaged, or of another" + " ppmr");
        }
        int last = text.lastIndexOf('\n', text.length() - 2) + 1;
        String due = LAST_WORD + Integer.toHexString(crcOf(text.substring(0, last))) + "\n";
        if (!text.substring(last).equals(due)) {
            throw new IOException(file + " is damaged: its CRC32C is wrong");
        }
        try {
            return parse(text.substring(0, last).lines().skip(1).toList());
        } catch (IllegalArgumentException | IndexOutOfBoundsException e) {
            throw new IOException(file + " is damaged: " + e.getMessage(), e);
        }
    }

    private static ImageManifest parse(List<String> lines) {
        Map<String, List<String>> single = new LinkedHashMap<>();
        Map<Integer, List<ProcessIdentity>> originals = new LinkedHashMap<>();
        List<ManifestEntry> entries = new ArrayList<>();
        MemberImage.MemberLines pod = new MemberImage.MemberLines();
        List<ProcessIdentity> rank = List.of();
        for (String line : lines) {
            List<String> w = Arrays.stream(line.split(" ", -1))
                    .map(word -> URLDecoder.decode(word, StandardCharsets.UTF_8))
                    .toList();
            switch (w.get(0)) {
                case "rank" -> {
                    rank = new ArrayList<>();
                    int number = Integer.parseInt(w.get(1));
                    require(number >= 0 && originals.put(number, rank) == null, "rank " + number);
                }
                case "process" -> {
                    require(!originals.isEmpty(), "a process before any rank");
                    rank.add(new ProcessIdentity(
                            w.get(1), Long.parseLong(w.get(2)), Integer.parseInt(w.get(3)), Long.parseLong(w.get(4))));
                }
                case "directory" -> entries.add(new ManifestEntry(NameKind.DIRECTORY, path(w.get(1)), 0, 0, ""));
                case "symlink" -> entries.add(new ManifestEntry(NameKind.SYMLINK, path(w.get(1)), 0, 0, w.get(2)));
                case "file" -> {
                    long sizeBytes = Long.parseLong(w.get(2));
                    require(sizeBytes >= 0 && sizeBytes <= MAX_FILE_BYTES, "a file of " + sizeBytes + " bytes");
                    entries.add(new ManifestEntry(
                            NameKind.FILE, path(w.get(1)), sizeBytes, Integer.parseUnsignedInt(w.get(3), 16), ""));
                }
                case "pod", "set", "environment", "command", "mount", "open", "stopped" -> pod.add(w);
                default -> require(single.put(w.get(0), w) == null, "the line '" + w.get(0) + "' twice");
            }
        }
        // A rank without processes would never count as alive, and a copy without ranks would be restarted at once.
        require(!originals.isEmpty(), "no rank");
        originals.forEach(
                (number, processes) -> require(!processes.isEmpty(), "rank " + number + " without a process"));
        return new ImageManifest(
                word(single, "version", 1),
                word(single, "job", 1),
                word(single, "checkpointer", 1),
                new JobUser(Integer.parseInt(word(single, "user", 1)), Integer.parseInt(word(single, "user", 2))),
                word(single, "migration", 1),
                Integer.parseInt(word(single, "migration", 2)),
                Long.parseLong(word(single, "written", 1)),
                word(single, "node", 1),
                originals,
                entries,
                pod.end());
    }

    private static void require(boolean sound, String what) {
        if (!sound) {
            throw new IllegalArgumentException("invalid entry: " + what);
        }
    }

    /** Returns the path if it stays in the copy's directory, or throws. */
    private static String path(String path) {
        boolean inside = !path.isEmpty() && path.indexOf('\0') < 0 && !path.startsWith("/");
        require(inside && !List.of(path.split("/", -1)).contains(".."), "a name that leads out of it");
        return path;
    }

    private static String word(Map<String, List<String>> lines, String name, int place) {
        List<String> line = lines.get(name);
        if (line == null) {
            throw new IllegalArgumentException("missing line '" + name + "'");
        }
        return line.get(place);
    }
}
