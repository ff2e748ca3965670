package io.ppmr.transaction.journal;

import io.ppmr.linux.Folders;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Clock;
import java.time.Duration;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * The journal of a service in an append-only memory-mapped file; see docs/internals/transaction.md, "The journal". A
 * full file becomes {@code NAME.NUMBER}, for history. A new one starts with every record of the open migrations, and
 * with the recent outcomes, because another node may still query them. Records stay in the file. The heap has only the
 * names of open migrations.
 *
 * <p>Each service has one, and holds a lock on {@code NAME.lock}. Any thread.
 */
public final class MappedJournal implements TransactionJournal {
    /** The journal's name in its folder. */
    public static final String FILE_NAME = "journal";

    /** The version of the journals that this release writes. It has one digit. */
    public static final int VERSION = 3;

    /** The oldest version that this release reads. */
    public static final int OLDEST_VERSION = 1;

    private static final long FILE_BYTES = 4L * 1024 * 1024;
    private static final Duration KEEP_ENDS = Duration.ofDays(30);
    private static final int KEEP_FILES = 16;

    private final Path path;
    private final long fileBytes;
    private final Clock clock;
    private final FileChannel lockChannel;
    private JournalIndex index;
    private JournalFile file;
    private boolean closed;

    private MappedJournal(
            Path path, long fileBytes, Clock clock, FileChannel lockChannel, JournalIndex index, JournalFile file) {
        this.path = path;
        this.fileBytes = fileBytes;
        this.clock = clock;
        this.lockChannel = lockChannel;
        this.index = index;
        this.file = file;
    }

    /** Opens the journal in a folder of its own. Missing ones are made. */
    public static MappedJournal in(Path folder) throws IOException {
        Folders.create(folder, Folders.PRIVATE);
        return open(folder.resolve(FILE_NAME));
    }

    /**
     * Opens the journal, or makes it.
     *
     * @throws IOException if another process uses it, it is damaged, or the disk is full
     */
    public static MappedJournal open(Path path) throws IOException {
        return open(path, FILE_BYTES, Clock.systemUTC());
    }

    static MappedJournal open(Path path, long fileBytes, Clock clock) throws IOException {
        FileChannel lock = lock(path);
        try {
            if (!Files.exists(path) || JournalLayout.isUnwritten(path)) {
                // The file is complete before it gets its name, so that no later start finds a part of it.
                JournalFile fresh = JournalFile.create(newFile(path), fileBytes);
                Files.move(newFile(path), path, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
                syncDirectory(path);
                return new MappedJournal(path, fileBytes, clock, lock, new JournalIndex(), fresh);
            }
            JournalIndex index = new JournalIndex();
            int endOffset = JournalLayout.scan(path, index::note);
            index.requireBeginnings(path);
            return new MappedJournal(path, fileBytes, clock, lock, index, JournalFile.open(path, endOffset));
        } catch (IOException | RuntimeException e) {
            lock.close();
            throw e;
        }
    }

    private static FileChannel lock(Path path) throws IOException {
        Path lockPath = path.resolveSibling(path.getFileName() + ".lock");
        FileChannel channel = FileChannel.open(
                lockPath,
                Set.of(StandardOpenOption.CREATE, StandardOpenOption.WRITE),
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        try {
            FileLock held = channel.tryLock();
            if (held != null) {
                return channel;
            }
        } catch (OverlappingFileLockException e) {
            channel.close();
            throw new IOException("the journal " + path + " is already open in this process", e);
        } catch (IOException e) {
            channel.close();
            throw e;
        }
        channel.close();
        throw new IOException("the journal " + path + " belongs to another running service; stop that service, or"
                + " configure another state directory for this one");
    }

    /** Accepts the records of a journal, one after the other. */
    @FunctionalInterface
    public interface EntryReader {
        /**
         * Accepts one record. Records that a newer file repeats of an older one are passed again, equal to the first
         * time.
         */
        void accept(JournalEntry entry);
    }

    /**
     * Passes all records of the journal and its older files, oldest first, and keeps none. The service may be running.
     *
     * @throws IOException if the journal cannot be read or is damaged
     */
    public static void forEach(Path path, EntryReader reader) throws IOException {
        if (!Files.exists(path)) {
            throw new IOException("there is no journal at " + path + "; the service's configuration names it");
        }
        for (Path old : oldFiles(path)) {
            JournalLayout.scan(old, (entry, offset) -> reader.accept(entry));
        }
        JournalLayout.scan(path, (entry, offset) -> reader.accept(entry));
    }

    /** Returns all records as a list, for journals that fit the heap. */
    public static List<JournalEntry> read(Path path) throws IOException {
        Set<JournalEntry> all = new LinkedHashSet<>();
        forEach(path, all::add);
        return List.copyOf(all);
    }

    private static List<Path> oldFiles(Path path) throws IOException {
        Pattern numbered = Pattern.compile(Pattern.quote(path.getFileName() + ".") + "[0-9]{6}");
        try (Stream<Path> files = Files.list(path.toAbsolutePath().getParent())) {
            return files.filter(file ->
                            numbered.matcher(file.getFileName().toString()).matches())
                    .sorted()
                    .toList();
        }
    }

    @Override
    public synchronized void append(TransactionRecord record) throws IOException {
        add(record, false);
    }

    @Override
    public synchronized void appendSynced(TransactionRecord record) throws IOException {
        add(record, true);
    }

    private void add(TransactionRecord record, boolean sync) throws IOException {
        if (closed) {
            throw new IOException("the journal " + path + " is closed because its service ends");
        }
        JournalEntry entry = new JournalEntry(clock.millis(), record);
        byte[] frame = JournalLayout.frame(entry, sync);
        if (!file.hasRoom(frame)) {
            rotate(frame.length);
        }
        int offset = file.endOffset();
        file.add(frame, sync);
        index.note(entry, offset);
    }

    /** Begins a new file with the records that are still needed. They are read and written one by one. */
    private void rotate(int nextBytes) throws IOException {
        long[] neededBytes = {nextBytes};
        forEachNeeded(entry -> neededBytes[0] += JournalLayout.frame(entry, true).length);
        long capacityBytes = fileBytes;
        while (capacityBytes < 2 * neededBytes[0] + JournalLayout.HEADER_BYTES) {
            capacityBytes *= 2;
        }
        Path fresh = newFile(path);
        JournalFile next = JournalFile.create(fresh, capacityBytes);
        JournalIndex nextIndex = new JournalIndex();
        try {
            forEachNeeded(entry -> {
                int offset = next.endOffset();
                next.add(JournalLayout.frame(entry, true), false);
                nextIndex.note(entry, offset);
            });
            next.force();
            file.force();
            List<Path> old = oldFiles(path);
            Files.createLink(path.resolveSibling(path.getFileName() + "." + nextNumber(old)), path);
            Files.move(fresh, path, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
            syncDirectory(path);
            for (int i = 0; i <= old.size() - KEEP_FILES; i++) {
                Files.deleteIfExists(old.get(i));
            }
        } catch (IOException | RuntimeException e) {
            next.close();
            throw e;
        }
        file.close();
        file = next;
        index = nextIndex;
    }

    /** Accepts an entry that the next file must contain. */
    private interface Needed {
        void accept(JournalEntry entry) throws IOException;
    }

    private void forEachNeeded(Needed needed) throws IOException {
        long sinceMs = clock.millis() - KEEP_ENDS.toMillis();
        JournalLayout.forEach(file.view(), file.endOffset(), (entry, offset) -> {
            boolean recent = entry.atEpochMs() >= sinceMs && isEnd(entry.record());
            if (recent || index.needs(entry.record(), offset)) {
                needed.accept(entry);
            }
        });
    }

    private static String nextNumber(List<Path> old) {
        if (old.isEmpty()) {
            return "000001";
        }
        String last = old.get(old.size() - 1).getFileName().toString();
        return String.format("%06d", Integer.parseInt(last.substring(last.length() - 6)) + 1);
    }

    private static boolean isEnd(TransactionRecord record) {
        return record instanceof TransactionRecord.Done
                || record instanceof TransactionRecord.CommittedHere
                || record instanceof TransactionRecord.RolledBackHere;
    }

    @Override
    public synchronized List<TransactionRecord> records(String migrationId) {
        return JournalLayout.recordsOf(file.view(), file.endOffset(), migrationId);
    }

    @Override
    public synchronized List<String> open() {
        return index.open();
    }

    private static Path newFile(Path path) {
        return path.resolveSibling(path.getFileName() + ".new");
    }

    private static void syncDirectory(Path path) throws IOException {
        try (FileChannel directory = FileChannel.open(path.toAbsolutePath().getParent(), StandardOpenOption.READ)) {
            directory.force(true);
        }
    }

    @Override
    public synchronized void close() throws IOException {
        closed = true;
        try {
            file.force();
        } finally {
            file.close();
            lockChannel.close();
        }
    }
}
