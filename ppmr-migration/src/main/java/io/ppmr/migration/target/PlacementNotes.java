package io.ppmr.migration.target;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.FilePlacement;
import io.ppmr.checkpoint.FilePlacement.PlacedFile;
import io.ppmr.checkpoint.FilePlacer;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.linux.Folders;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The files of jobs that this target places, with one note for each rank of an attempt, in a folder beside the journal.
 * A note is on the disk before its first file is. It stays until the files are removed, or final. Therefore the next
 * run of a service that died leaves none of them behind. For any thread; an attempt's notes belong to one at a time.
 */
final class PlacementNotes {
    private static final Logger LOG = LoggerFactory.getLogger(PlacementNotes.class);
    private static final String FOLDER = "carried-files";
    private static final String NEW = ".new";
    private static final Pattern NAME = Pattern.compile("([A-Za-z0-9_-]{1,64})\\.(\\d{1,9})\\.\\d{1,10}");
    private static final int ENTRY_FIELDS = 3;
    private static final int HEAD_FIELDS = 3;
    private static final String COMMITTED = "committed";
    private static final String OPEN = "open";
    private static final long AGAIN_S = 60;
    /** Maximum number of tries. A filesystem that fails permanently must not keep a migration from its end. */
    private static final int MOST_TRIES = 5;

    private final Path folder;
    private final NativePrograms programs;
    private final Map<String, Integer> tries = new HashMap<>();

    /** @param journal the folder of the journal */
    PlacementNotes(Path journal, NativePrograms programs) throws IOException {
        this.folder = journal.resolve(FOLDER);
        this.programs = programs;
        Folders.create(folder, Folders.PRIVATE);
    }

    /** Returns the name of the placement of a rank's files. */
    static String name(String migrationId, int attempt, int rank) {
        return migrationId + "." + attempt + "." + rank;
    }

    /** Writes or replaces a note. The note is on the disk when this returns. */
    void write(FilePlacement placement) throws IOException {
        write(placement, false);
    }

    private void write(FilePlacement placement, boolean committed) throws IOException {
        StringBuilder text = new StringBuilder();
        JobUser user = placement.user();
        text.append(user.uid()).append('\0').append(user.gid()).append('\0');
        text.append(committed ? COMMITTED : OPEN).append('\0');
        for (PlacedFile entry : placement.entries()) {
            text.append(entry.path()).append('\0');
            text.append(entry.replaces()).append('\0');
            text.append(entry.identity()).append('\0');
        }
        Path fresh = folder.resolve(placement.name() + NEW);
        try (FileChannel file = FileChannel.open(
                fresh, StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING)) {
            ByteBuffer bytes = ByteBuffer.wrap(text.toString().getBytes(StandardCharsets.ISO_8859_1));
            while (bytes.hasRemaining()) {
                file.write(bytes);
            }
            file.force(true);
        }
        Files.move(
                fresh,
                folder.resolve(placement.name()),
                StandardCopyOption.ATOMIC_MOVE,
                StandardCopyOption.REPLACE_EXISTING);
        syncFolder();
    }

    private void syncFolder() throws IOException {
        try (FileChannel directory = FileChannel.open(folder, StandardOpenOption.READ)) {
            directory.force(true);
        }
    }

    /** A note, and whether its files are final. Final files are never removed. */
    private record Note(FilePlacement placement, boolean committed) {}

    private Note read(String name) throws IOException {
        String text = Files.readString(folder.resolve(name), StandardCharsets.ISO_8859_1);
        String[] fields = text.split("\0", -1);
        if (fields.length < HEAD_FIELDS + 1 || (fields.length - HEAD_FIELDS - 1) % ENTRY_FIELDS != 0) {
            throw new IOException(folder.resolve(name) + " is damaged. Remedy: find files whose names begin with"
                    + " .ppmr-" + name + " in the folders that [files] copy names, and remove the note");
        }
        List<PlacedFile> entries = new ArrayList<>();
        int next = HEAD_FIELDS;
        while (next + ENTRY_FIELDS < fields.length) {
            entries.add(new PlacedFile(fields[next], Boolean.parseBoolean(fields[next + 1]), fields[next + 2]));
            next += ENTRY_FIELDS;
        }
        JobUser user = new JobUser(Integer.parseInt(fields[0]), Integer.parseInt(fields[1]));
        return new Note(new FilePlacement(name, user, entries), fields[2].equals(COMMITTED));
    }

    private List<String> names() throws IOException {
        List<String> names = new ArrayList<>();
        try (Stream<Path> found = Files.list(folder)) {
            for (Path path : found.sorted().toList()) {
                String name = path.getFileName().toString();
                if (NAME.matcher(name).matches()) {
                    names.add(name);
                }
            }
        }
        return names;
    }

    /** Lists the names of an attempt's notes. */
    private List<String> namesOf(String migrationId, int attempt) throws IOException {
        String prefix = migrationId + "." + attempt + ".";
        return names().stream().filter(name -> name.startsWith(prefix)).toList();
    }

    private interface SettleAction {
        void settle(FilePlacer placer) throws CheckpointException;
    }

    private void settle(String name, FilePlacement placement, SettleAction how)
            throws IOException, CheckpointException {
        try (FilePlacer placer = FilePlacer.start(programs, placement, () -> false)) {
            how.settle(placer);
        }
        Files.delete(folder.resolve(name));
        syncFolder();
    }

    /**
     * Removes the files of an attempt, and restores the replaced files.
     *
     * @return false if another try makes sense
     */
    boolean undo(String migrationId, int attempt) {
        boolean done = true;
        List<String> names;
        try {
            names = namesOf(migrationId, attempt);
        } catch (IOException e) {
            LOG.error("the notes of files in {} cannot be read: {}", folder, e.getMessage());
            return false;
        }
        for (String name : names) {
            try {
                Note note = read(name);
                if (note.committed()) {
                    LOG.error("migration {}: its files stay, because they are final", migrationId);
                    continue;
                }
                settle(name, note.placement(), FilePlacer::undo);
                LOG.info("migration {}: removed the arrived files of {}", migrationId, name);
            } catch (IOException | CheckpointException e) {
                int tried = tried(name);
                LOG.error(
                        "migration {}: arrived files of {} could not be removed: {}{}",
                        migrationId,
                        name,
                        e.getMessage(),
                        tried < MOST_TRIES ? "" : ". The next start of the service tries it again");
                done &= tried >= MOST_TRIES;
            }
        }
        return done;
    }

    private synchronized int tried(String name) {
        return tries.merge(name, 1, Integer::sum);
    }

    /**
     * Makes the files final before the copies run. From now on they are never removed, whatever the journal contains.
     */
    void commit(String migrationId, int attempt) throws IOException {
        for (String name : namesOf(migrationId, attempt)) {
            write(read(name).placement(), true);
        }
    }

    /** Throws if one of these paths belongs to a migration without an outcome. */
    void requireFree(List<String> paths) throws IOException, CheckpointException {
        for (String name : names()) {
            for (PlacedFile entry : read(name).placement().entries()) {
                if (paths.contains(entry.path())) {
                    throw new CheckpointException(entry.shown() + " arrived with migration " + name
                            + ", which has no outcome yet. Remedy: move the job later");
                }
            }
        }
    }

    /** Returns whether files of a migration wait for its outcome. */
    boolean hasAny(String migrationId) throws IOException {
        return names().stream().anyMatch(name -> name.startsWith(migrationId + "."));
    }

    /** Removes the files that were replaced, because the copies run. A failure is left to the service's next start. */
    void finish(String migrationId, int attempt) {
        try {
            for (String name : namesOf(migrationId, attempt)) {
                settle(name, read(name).placement(), FilePlacer::finish);
            }
        } catch (IOException | CheckpointException e) {
            LOG.warn(
                    "migration {}: the files that its files replaced could not be removed: {}. The next start of"
                            + " the service"
                            + " tries again",
                    migrationId,
                    e.getMessage());
        }
    }

    /** The outcome of an attempt that an earlier run of the service began. */
    enum AttemptOutcome {
        COMMITTED,
        ROLLED_BACK,
        OPEN
    }

    /** Returns the outcome of an attempt. */
    interface Outcomes {
        AttemptOutcome of(String migrationId, int attempt) throws IOException;
    }

    /** Settles the notes of an earlier run, except for attempts that are still open. Returns false if some are left. */
    private boolean settleLeft(List<String> left, Outcomes outcomes) throws IOException {
        boolean done = true;
        Set<String> attempts = new LinkedHashSet<>();
        for (String name : left) {
            attempts.add(name.substring(0, name.lastIndexOf('.')));
        }
        for (String one : attempts) {
            String id = one.substring(0, one.lastIndexOf('.'));
            int attempt = Integer.parseInt(one.substring(one.lastIndexOf('.') + 1));
            boolean committed = false;
            for (String name : namesOf(id, attempt)) {
                committed |= read(name).committed();
            }
            AttemptOutcome outcome = outcomes.of(id, attempt);
            if (outcome == AttemptOutcome.OPEN) {
                LOG.info("migration {}: its placed files wait for its outcome", id);
            } else if (committed || outcome == AttemptOutcome.COMMITTED) {
                finish(id, attempt);
                done &= namesOf(id, attempt).isEmpty();
            } else {
                done &= undo(id, attempt);
            }
        }
        return done;
    }

    /**
     * Settles the notes of an earlier run of the service, on its own thread. It tries again each minute while some are
     * left, because a filesystem may be mounted later. It ends when it is interrupted.
     */
    Thread recover(Outcomes outcomes) throws IOException {
        try (Stream<Path> found = Files.list(folder)) {
            for (Path path : found.filter(one -> one.toString().endsWith(NEW)).toList()) {
                // Its files were not begun, or a complete note exists beside it.
                Files.deleteIfExists(path);
            }
        }
        List<String> left = names();
        Thread thread = new Thread(
                () -> {
                    try {
                        // The thread is interrupted when the service ends. The next start continues.
                        while (!settleLeft(left, outcomes)) {
                            LockSupport.parkNanos(TimeUnit.SECONDS.toNanos(AGAIN_S));
                            if (Thread.interrupted()) {
                                break;
                            }
                        }
                    } catch (IOException | RuntimeException e) {
                        LOG.error("the notes of files in {} cannot be read: {}", folder, e.getMessage());
                    }
                },
                "ppmr-placements");
        thread.setDaemon(true);
        if (!left.isEmpty()) {
            thread.start();
        }
        return thread;
    }
}
