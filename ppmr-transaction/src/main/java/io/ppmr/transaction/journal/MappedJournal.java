package io.ppmr.transaction.journal;

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
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * The journal of a service in a memory-mapped file that is only ever added to; docs/transaction.md, "The journal". A
 * full file becomes {@code NAME.NUMBER}, for history, and a new one starts with what is still needed: every record of
 * an open migration, and how each migration ended that has ended lately, since another node may still ask.
 *
 * <p>One for each service, which holds a lock on {@code NAME.lock}. Any thread.
 */
public final class MappedJournal implements TransactionJournal {
    /** The journal's name in its folder. */
    public static final String FILE_NAME = "journal";

    private static final long FILE_BYTES = 4L * 1024 * 1024;
    private static final Duration KEEP_ENDS = Duration.ofDays(30);
    private static final int KEEP_FILES = 16;

    private final Path path;
    private final long fileBytes;
    private final Clock clock;
    private final FileChannel lockChannel;
    private final List<Entry> entries;
    private JournalFile file;
    private boolean closed;

    private MappedJournal(
            Path path, long fileBytes, Clock clock, FileChannel lockChannel, List<Entry> entries, JournalFile file) {
        this.path = path;
        this.fileBytes = fileBytes;
        this.clock = clock;
        this.lockChannel = lockChannel;
        this.entries = entries;
        this.file = file;
    }

    /** Opens the journal in a folder of its own; both are made if they are missing. */
    public static MappedJournal in(Path folder) throws IOException {
        Files.createDirectories(folder);
        return open(folder.resolve(FILE_NAME));
    }

    /**
     * Opens the journal, or makes it.
     *
     * @throws IOException another process has it, it is damaged, or there is no room for it
     */
    public static MappedJournal open(Path path) throws IOException {
        return open(path, FILE_BYTES, Clock.systemUTC());
    }

    static MappedJournal open(Path path, long fileBytes, Clock clock) throws IOException {
        FileChannel lock = lock(path);
        try {
            if (!Files.exists(path) || JournalLayout.isUnwritten(path)) {
                // Whole before it has its name, so that no later start finds a part of it.
                JournalFile fresh = JournalFile.create(newFile(path), fileBytes);
                Files.move(newFile(path), path, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
                syncDirectory(path);
                return new MappedJournal(path, fileBytes, clock, lock, new ArrayList<>(), fresh);
            }
            JournalLayout.Contents contents = JournalLayout.read(path);
            requireBeginnings(path, contents.entries());
            return new MappedJournal(
                    path,
                    fileBytes,
                    clock,
                    lock,
                    new ArrayList<>(contents.entries()),
                    JournalFile.open(path, contents));
        } catch (IOException | RuntimeException e) {
            lock.close();
            throw e;
        }
    }

    /**
     * Throws where the steps of an open migration do not start with its beginning. Participants and processes are then
     * unknown, and an empty list of them fulfils every condition on all of them.
     */
    private static void requireBeginnings(Path path, List<Entry> entries) throws IOException {
        List<TransactionRecord> steps = entries.stream()
                .map(Entry::record)
                .filter(TransactionRecord::isStep)
                .toList();
        Map<String, TransactionRecord> first = new HashMap<>();
        steps.forEach(step -> first.putIfAbsent(step.migrationId(), step));
        for (String id : TransactionJournal.openIn(steps)) {
            if (!first.get(id).isBeginning()) {
                throw new IOException("the journal " + path + " has steps of migration " + id + " and not its"
                        + " beginning: it is damaged, and nothing is done with it. Look at its copies and at the"
                        + " processes by hand, then move it away");
            }
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
            throw new IOException("the journal " + path + " is open in this process already", e);
        } catch (IOException e) {
            channel.close();
            throw e;
        }
        channel.close();
        throw new IOException("the journal " + path + " belongs to another running service; end that one, or give this"
                + " one a state directory of its own");
    }

    /**
     * Everything that the journal knows, that of the older files too, oldest first; also while its service runs.
     *
     * @throws IOException it cannot be read, or is damaged
     */
    public static List<Entry> read(Path path) throws IOException {
        if (!Files.exists(path)) {
            throw new IOException("there is no journal at " + path + "; the service's configuration names it");
        }
        Set<Entry> all = new LinkedHashSet<>();
        for (Path old : oldFiles(path)) {
            all.addAll(JournalLayout.read(old).entries());
        }
        all.addAll(JournalLayout.read(path).entries());
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
            throw new IOException("the journal " + path + " is closed: its service ends");
        }
        Entry entry = new Entry(clock.millis(), record);
        byte[] frame = JournalLayout.frame(entry, sync);
        if (!file.hasRoom(frame)) {
            rotate(frame.length);
        }
        file.add(frame, sync);
        entries.add(entry);
    }

    private void rotate(int nextBytes) throws IOException {
        List<Entry> needed = needed();
        List<byte[]> frames =
                needed.stream().map(entry -> JournalLayout.frame(entry, true)).toList();
        long neededBytes = frames.stream().mapToLong(frame -> frame.length).sum() + nextBytes;
        long capacityBytes = fileBytes;
        while (capacityBytes < 2 * neededBytes + JournalLayout.HEADER_BYTES) {
            capacityBytes *= 2;
        }
        Path fresh = newFile(path);
        JournalFile next = JournalFile.create(fresh, capacityBytes);
        try {
            for (byte[] frame : frames) {
                next.add(frame, false);
            }
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
        entries.clear();
        entries.addAll(needed);
    }

    private static String nextNumber(List<Path> old) {
        if (old.isEmpty()) {
            return "000001";
        }
        String last = old.get(old.size() - 1).getFileName().toString();
        return String.format("%06d", Integer.parseInt(last.substring(last.length() - 6)) + 1);
    }

    private List<Entry> needed() {
        Set<String> open = Set.copyOf(TransactionJournal.openIn(records()));
        Set<TransactionRecord> prefaces = prefaces();
        long sinceMs = clock.millis() - KEEP_ENDS.toMillis();
        return entries.stream()
                .filter(entry -> open.contains(entry.record().migrationId())
                        || prefaces.contains(entry.record())
                        || (entry.atEpochMs() >= sinceMs && isEnd(entry.record())))
                .toList();
    }

    /** Finds what participants have written before their votes; a vote may be what has no room in this file. */
    private Set<TransactionRecord> prefaces() {
        Set<String> voted = new HashSet<>();
        Set<TransactionRecord> prefaces = new HashSet<>();
        for (int i = entries.size() - 1; i >= 0; i--) {
            TransactionRecord record = entries.get(i).record();
            boolean preface = record instanceof TransactionRecord.Stopped
                    || record instanceof TransactionRecord.Placement
                    || record instanceof TransactionRecord.Secret;
            if (record.isStep()) {
                voted.add(record.migrationId());
            } else if (preface && !voted.contains(record.migrationId())) {
                prefaces.add(record);
            }
        }
        return prefaces;
    }

    private static boolean isEnd(TransactionRecord record) {
        return record instanceof TransactionRecord.Done
                || record instanceof TransactionRecord.CommittedHere
                || record instanceof TransactionRecord.RolledBackHere;
    }

    private List<TransactionRecord> records() {
        return entries.stream().map(Entry::record).toList();
    }

    @Override
    public synchronized List<TransactionRecord> records(String migrationId) {
        return records().stream()
                .filter(record -> record.migrationId().equals(migrationId))
                .toList();
    }

    @Override
    public synchronized List<String> open() {
        return TransactionJournal.openIn(records());
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
