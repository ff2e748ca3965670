package io.ppmr.checkpoint;

import io.ppmr.checkpoint.FilePlacement.PlacedFile;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps the names of a held rank's Unix sockets, unix(7), in filesystems that both nodes share. A restart removes such
 * a name, and binds a socket of the copy to it. If it is rolled back after that, no socket can be bound a second time.
 * So each socket gets a second name in the same folder before its checkpoint.
 *
 * <p>A note in the work directory has these names until they are gone, for the next run of a service that died. A
 * process of the job's user makes and removes them. For any thread, one at a time for a rank.
 */
public final class KeptNames {
    private static final Logger LOG = LoggerFactory.getLogger(KeptNames.class);
    private static final String PREFIX = "names-";
    private static final Pattern OWNER = Pattern.compile("(\\d{1,10}) (\\d{1,10})");
    /** Maximum length of a note that is read. */
    private static final int MOST_BYTES = 1 << 22;

    private final Path workDirectory;
    private final String migrationId;
    private final NativePrograms programs;

    /** Makes the names of one migration. */
    public KeptNames(Path workDirectory, String migrationId, NativePrograms programs) {
        this.workDirectory = workDirectory;
        this.migrationId = migrationId;
        this.programs = programs;
    }

    /** Works on the names of a note. */
    @FunctionalInterface
    private interface Step {
        void on(FilePlacer placer) throws CheckpointException;
    }

    /**
     * Gives the sockets of a held rank a second name each.
     *
     * @param attempt number of the attempt
     * @param paths their names, one character from 0 to 255 for each byte
     */
    public void keep(int attempt, int rank, JobUser user, List<String> paths) throws CheckpointException {
        // An earlier attempt may have left the rank held.
        each(rankEnd(rank), FilePlacer::bringNamesBack);
        if (paths.isEmpty()) {
            return;
        }
        List<PlacedFile> entries =
                paths.stream().map(path -> new PlacedFile(path, false, "")).toList();
        FilePlacement names = new FilePlacement(migrationId + "." + attempt + rankEnd(rank), user, entries);
        try {
            write(names);
        } catch (IOException e) {
            throw new CheckpointException(
                    "the names of the job's sockets cannot be noted in " + workDirectory + ": " + e
                            + ". Remedy: make room there",
                    e);
        }
        run(names, FilePlacer::keepNames);
    }

    private static String rankEnd(int rank) {
        return "." + rank;
    }

    /** Gives each socket its name again. Call it before the originals continue. Failures are logged. */
    public void bringBack() {
        logFailure("did not get their names again", FilePlacer::bringNamesBack);
    }

    /** Removes the second names. Call it before the originals are killed. Failures are logged. */
    public void drop() {
        logFailure("keep a second name, .ppmr-" + migrationId + ".*", FilePlacer::dropNames);
    }

    private void logFailure(String what, Step step) {
        try {
            each("", step);
        } catch (CheckpointException e) {
            LOG.error(
                    "migration {}: Unix sockets of the job {}: {}. The second name of a socket is beside its first one:"
                            + " rename or remove it",
                    migrationId,
                    what,
                    e.getMessage());
        }
    }

    private void each(String end, Step step) throws CheckpointException {
        Optional<CheckpointException> failure = Optional.empty();
        for (Path note : notes(end)) {
            try {
                Optional<FilePlacement> names = read(note);
                if (names.isPresent()) {
                    run(names.get(), step);
                }
                Files.delete(note);
            } catch (IOException e) {
                failure = Optional.of(new CheckpointException(note + " cannot be read or removed: " + e, e));
            } catch (CheckpointException e) {
                failure = Optional.of(e);
            }
        }
        if (failure.isPresent()) {
            throw failure.get();
        }
    }

    private void run(FilePlacement names, Step step) throws CheckpointException {
        try (FilePlacer placer = FilePlacer.start(programs, names, () -> false)) {
            step.on(placer);
        }
    }

    private List<Path> notes(String end) throws CheckpointException {
        List<Path> found = new ArrayList<>();
        String begin = PREFIX + migrationId + ".";
        try (DirectoryStream<Path> all = Files.newDirectoryStream(workDirectory, path -> {
            String name = path.getFileName().toString();
            return name.startsWith(begin) && name.endsWith(end);
        })) {
            all.forEach(found::add);
        } catch (NoSuchFileException e) {
            LOG.debug("{} does not exist, so it has no notes of names", workDirectory, e);
        } catch (IOException | DirectoryIteratorException e) {
            throw new CheckpointException(workDirectory + " cannot be read: " + e, e);
        }
        return found;
    }

    /** The note is on the disk before the first name is made. */
    private void write(FilePlacement names) throws IOException {
        StringBuilder text = new StringBuilder();
        text.append(Integer.toUnsignedString(names.user().uid())).append(' ');
        text.append(Integer.toUnsignedString(names.user().gid())).append('\0');
        names.entries().forEach(entry -> text.append(entry.path()).append('\0'));
        text.append('\0');
        Path note = workDirectory.resolve(PREFIX + names.name());
        try (FileChannel file = FileChannel.open(note, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
            ByteBuffer bytes = ByteBuffer.wrap(text.toString().getBytes(StandardCharsets.ISO_8859_1));
            while (bytes.hasRemaining()) {
                file.write(bytes);
            }
            file.force(true);
        }
    }

    /** Returns what a note names, or empty if its service died while it was written, before any name was made. */
    private static Optional<FilePlacement> read(Path note) throws IOException {
        if (Files.size(note) > MOST_BYTES) {
            throw new IOException("it has more than " + MOST_BYTES + " bytes");
        }
        String text = Files.readString(note, StandardCharsets.ISO_8859_1);
        if (!text.endsWith("\0\0")) {
            return Optional.empty();
        }
        List<String> lines = List.of(text.split("\0"));
        Matcher owner = OWNER.matcher(lines.get(0));
        if (!owner.matches()) {
            throw new IOException("it names no user");
        }
        JobUser user = new JobUser(Integer.parseUnsignedInt(owner.group(1)), Integer.parseUnsignedInt(owner.group(2)));
        String name = note.getFileName().toString().substring(PREFIX.length());
        List<PlacedFile> entries = lines.subList(1, lines.size()).stream()
                .map(path -> new PlacedFile(path, false, ""))
                .toList();
        return Optional.of(new FilePlacement(name, user, entries));
    }
}
