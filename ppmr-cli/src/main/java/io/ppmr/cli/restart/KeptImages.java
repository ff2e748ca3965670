package io.ppmr.cli.restart;

import io.ppmr.checkpoint.ProcessIdentity;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.cli.CommandFailure;
import io.ppmr.cli.ExitCode;
import io.ppmr.source.image.ImageName.Kind;
import io.ppmr.source.keep.Manifest;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import java.util.zip.CRC32C;

/** A kept copy on disk, and whether a job may be restarted from it. Every refusal names what is wrong. */
final class KeptImages {
    private static final String PARTIAL = ".partial";
    private static final String RESTARTED = "restarted";
    private static final int READ_BYTES = 1 << 20;
    private static final int MOST_NAMED = 10;

    private final Path directory;
    private final Manifest manifest;

    private KeptImages(Path directory, Manifest manifest) {
        this.directory = directory;
        this.manifest = manifest;
    }

    /** Opens one; refuses what is no whole copy. */
    static KeptImages open(Path named) throws CommandFailure, IOException {
        if (!Files.isDirectory(named)) {
            throw refused(named + " is no directory");
        }
        Path directory = named.toRealPath();
        if (directory.getFileName() != null
                && directory.getFileName().toString().endsWith(PARTIAL)) {
            throw refused(directory + " is an incomplete copy: its migration broke off, or it could not be kept");
        }
        if (!Files.exists(directory.resolve(Manifest.FILE_NAME))) {
            List<Path> inside = copiesIn(directory);
            throw refused(directory + " is no kept copy: it has no file " + Manifest.FILE_NAME
                    + (inside.isEmpty() ? "" : ". Name one of those in it: " + inside));
        }
        try {
            return new KeptImages(directory, Manifest.read(directory));
        } catch (IOException e) {
            throw new CommandFailure(ExitCode.REFUSED, e.getMessage(), e);
        }
    }

    private static List<Path> copiesIn(Path directory) throws IOException {
        try (Stream<Path> inside = Files.list(directory)) {
            return inside.filter(one -> !one.toString().endsWith(PARTIAL))
                    .filter(one -> Files.exists(one.resolve(Manifest.FILE_NAME)))
                    .sorted()
                    .toList();
        }
    }

    private static CommandFailure refused(String reason) {
        return new CommandFailure(ExitCode.REFUSED, reason);
    }

    Manifest manifest() {
        return manifest;
    }

    /** The image of a rank. */
    Path rank(int rank) {
        return directory.resolve("rank-" + rank);
    }

    /** Refuses if a process that it was made of, or one that was restarted from it, lives on this node. */
    void requireNobodyLives(ProcessTable processes) throws CommandFailure, IOException {
        for (var rank : manifest.originals().entrySet()) {
            for (ProcessIdentity process : rank.getValue()) {
                if (processes.isAlive(process)) {
                    throw refused("rank " + rank.getKey() + " of job " + manifest.job() + " still lives here as PID "
                            + process.pid() + ", from which this copy was made: a second one would compute the same."
                            + " End it first");
                }
            }
        }
        Path noted = directory.resolve(RESTARTED);
        if (Files.exists(noted)) {
            for (String line : Files.readAllLines(noted)) {
                String[] words = line.split(" ", -1);
                ProcessIdentity process = new ProcessIdentity(
                        words[0], Long.parseLong(words[1]), Integer.parseInt(words[2]), Long.parseLong(words[3]));
                if (processes.isAlive(process)) {
                    throw refused("job " + manifest.job() + " was restarted from this copy before, and lives here as"
                            + " PID " + process.pid() + ". End it first");
                }
            }
        }
    }

    /** Leaves word of what was restarted, for the next who wants to. */
    void noteRestarted(List<ProcessIdentity> restarted) throws IOException {
        List<String> lines = restarted.stream()
                .map(process -> process.bootId() + " " + process.pidNamespace() + " " + process.pid() + " "
                        + process.startTimeTicks())
                .toList();
        Path noted = directory.resolve(RESTARTED);
        Files.deleteIfExists(noted);
        try (FileChannel channel = FileChannel.open(
                noted,
                Set.of(StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW),
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")))) {
            ByteBuffer bytes = StandardCharsets.UTF_8.encode(String.join("\n", lines) + "\n");
            while (bytes.hasRemaining()) {
                channel.write(bytes);
            }
            channel.force(true);
        }
    }

    /** Refuses, and names what is missing or not as it was written. */
    void requireWhole() throws CommandFailure {
        List<String> wrong = new ArrayList<>();
        ByteBuffer buffer = ByteBuffer.allocate(READ_BYTES);
        for (Manifest.Entry entry : manifest.entries()) {
            String complaint = complaint(entry, buffer);
            if (!complaint.isEmpty()) {
                wrong.add(entry.path() + " " + complaint);
            }
        }
        if (!wrong.isEmpty()) {
            throw refused("the copy " + directory + " is damaged: "
                    + String.join("; ", wrong.subList(0, Math.min(MOST_NAMED, wrong.size())))
                    + (wrong.size() > MOST_NAMED ? "; and " + (wrong.size() - MOST_NAMED) + " more" : ""));
        }
    }

    private String complaint(Manifest.Entry entry, ByteBuffer buffer) {
        Path path = directory.resolve(entry.path()).normalize();
        if (!path.startsWith(directory)) {
            return "leads out of the copy";
        }
        if (!Files.exists(path, LinkOption.NOFOLLOW_LINKS)) {
            return "is missing";
        }
        try {
            if (entry.kind() == Kind.DIRECTORY) {
                return Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS) ? "" : "is no directory";
            }
            if (entry.kind() == Kind.SYMLINK) {
                boolean same = Files.isSymbolicLink(path)
                        && Files.readSymbolicLink(path).toString().equals(entry.target());
                return same ? "" : "is not the link that it was";
            }
            if (!Files.isRegularFile(path, LinkOption.NOFOLLOW_LINKS)) {
                return "is no file";
            }
            long sizeBytes = Files.size(path);
            if (sizeBytes != entry.sizeBytes()) {
                return "has " + sizeBytes + " bytes instead of " + entry.sizeBytes();
            }
            return crcOf(path, buffer) == entry.crc32c()
                    ? ""
                    : "has other bytes than were written: its CRC32C is wrong";
        } catch (IOException e) {
            return "cannot be read: " + e.getMessage();
        }
    }

    private static int crcOf(Path file, ByteBuffer buffer) throws IOException {
        CRC32C crc = new CRC32C();
        try (FileChannel channel = FileChannel.open(file, Set.of(StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS))) {
            while (channel.read(buffer.clear()) >= 0) {
                crc.update(buffer.flip());
            }
        }
        return (int) crc.getValue();
    }
}
