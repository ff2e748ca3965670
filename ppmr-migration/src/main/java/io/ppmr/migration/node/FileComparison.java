package io.ppmr.migration.node;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.FileLooker;
import io.ppmr.checkpoint.FileLooker.Question;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.files.CarriedFile;
import io.ppmr.checkpoint.files.FileFacts;
import io.ppmr.checkpoint.files.FileRules;
import io.ppmr.checkpoint.files.FileRules.FileDecision;
import io.ppmr.checkpoint.files.OpenedFile;
import io.ppmr.checkpoint.files.OpenedFiles;
import io.ppmr.checkpoint.files.OutsideHolders;
import io.ppmr.checkpoint.sharing.DescriptorInfo;
import io.ppmr.checkpoint.sharing.Refusal;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.protocol.control.ControlMessage.FilesInspected;
import io.ppmr.protocol.control.ControlMessage.InspectFiles;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Predicate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Compares the files that ranks have open or mapped with those of the target. It runs before the ranks are stopped, and
 * again while they are held. Only a digest of each name is kept, so the memory does not grow with the names. Both nodes
 * access the files as the job's user. Owned by one thread at a time.
 */
public final class FileComparison {
    private static final Logger LOG = LoggerFactory.getLogger(FileComparison.class);
    private static final int PAGE_FILES = 100;
    private static final int PAGE_CHARS = 16_384;
    /** Maximum number of refusals that are collected. */
    private static final int MOST_REFUSALS = 100;

    private static final int KEY_BYTES = 16;
    private static final Duration LEAST_CONTENT_LIMIT = Duration.ofSeconds(30);
    private static final Duration MOST_CONTENT_LIMIT = Duration.ofMinutes(10);
    /** Minimum rate of a disk or server. A slower one counts as not answering. */
    private static final long LEAST_BYTES_A_SECOND = 10 << 20;

    private static final int LENGTH_TRIES = 25;
    /**
     * Pause between two reads. Clients of network filesystems query their servers for a length about once per second.
     */
    private static final long LENGTH_PAUSE_NS = TimeUnit.MILLISECONDS.toNanos(200);

    private static final int MISSING = 2;
    private static final int DENIED = 13;
    private static final Path BOOT_ID = Path.of("/proc/sys/kernel/random/boot_id");

    /** The connection to the node that the job would move to. */
    @FunctionalInterface
    public interface PeerQuery {
        /**
         * Sends the query.
         *
         * @param limit time limit for the answer
         */
        FilesInspected ask(InspectFiles question, Duration limit) throws IOException, InterruptedException;
    }

    /** The other node declines to inspect files. The message has its reason. */
    public static final class DeclinedException extends IOException {
        private static final long serialVersionUID = 1;

        DeclinedException(String reason) {
            super(reason);
        }
    }

    /** A file that waits to be compared, with its facts on this node. */
    private record Pending(int rank, OpenedFile file, ByteBuffer key, FileFacts here) {
        Pending seen(FileFacts facts) {
            return new Pending(rank, file, key, facts);
        }

        String path() {
            return file.pathElsewhere(here.which());
        }

        Question question() {
            return new Question(file.link(), file.path());
        }
    }

    /** A refusal, with its file. */
    private record FoundRefusal(Pending file, Refusal refusal) {}

    private final JobUser user;
    private final FileLooker looker;
    private final JobFiles files;
    private final Predicate<String> compared;
    private final PeerQuery peer;
    private final ProcessTable processes;

    private final Set<ByteBuffer> known = new HashSet<>();
    /** Digests of the paths of writable files that are one object at both nodes. */
    private final Set<ByteBuffer> shared = new HashSet<>();

    private final NameComparison names;
    private final Cargo cargo;
    private boolean held;

    private final List<Pending> page = new ArrayList<>();
    private int pageChars;
    private final List<FoundRefusal> found = new ArrayList<>();
    /** The files of the current comparison that move with the job. */
    private final List<Pending> carriedNow = new ArrayList<>();

    private Set<String> pids = Set.of();
    private boolean ignored;

    /**
     * @param user the job's user
     *
     * @param looker reads files here, as that user
     * @param files the configured expectations
     * @param compared returns true for a path whose file exists on each node
     * @param peer the other node
     */
    public FileComparison(
            JobUser user,
            FileLooker looker,
            JobFiles files,
            Predicate<String> compared,
            PeerQuery peer,
            ProcessTable processes) {
        this.user = user;
        this.looker = looker;
        this.files = files;
        this.cargo = new Cargo(files.carry());
        this.compared = compared;
        this.peer = peer;
        this.processes = processes;
        this.names = new NameComparison(
                looker,
                compared,
                (kind, paths) -> ask(kind, paths, FileLooker.ANSWER_LIMIT.multipliedBy(2)),
                there -> rules(there.equals(kernel())));
    }

    /**
     * Compares the files that were not compared before.
     *
     * @param trees each rank's processes
     * @return the reason why the job cannot move, for people, or empty if it can
     */
    public synchronized Optional<String> compare(Map<Integer, List<ProcessIdentity>> trees)
            throws IOException, CheckpointException, InterruptedException {
        found.clear();
        carriedNow.clear();
        for (Map.Entry<Integer, List<ProcessIdentity>> tree : trees.entrySet()) {
            pids = new HashSet<>();
            for (ProcessIdentity process : tree.getValue()) {
                addPid(process);
            }
            for (ProcessIdentity process : tree.getValue()) {
                read(tree.getKey(), process);
            }
            // Each rank has its own PIDs.
            flush();
        }
        evaluateCarried();
        List<Refusal> left = new ArrayList<>();
        for (Map.Entry<Integer, List<ProcessIdentity>> tree : trees.entrySet()) {
            left.addAll(names.compare(tree.getKey(), tree.getValue()));
        }
        for (FoundRefusal one : found) {
            if (OpenedFiles.isStillThere(one.file().file())) {
                left.add(one.refusal());
            } else {
                known.remove(one.file().key());
            }
        }
        if (left.isEmpty()) {
            return Optional.empty();
        }
        return reason(left);
    }

    private Optional<String> reason(List<Refusal> left) {
        String why = FileRules.worded(left);
        if (ignored) {
            LOG.warn("the target's configuration ignores this (ignored_checks): {}", why);
            return Optional.empty();
        }
        return Optional.of(why);
    }

    // ---- files that move with the job -----------------------------------------------------------------------------

    /** Queries both nodes about the files: their sizes here, the room there, and whether they can be written there. */
    private void evaluateCarried() throws IOException, CheckpointException, InterruptedException {
        List<Pending> all = List.copyOf(carriedNow);
        for (int from = 0; from < all.size(); from += PAGE_FILES) {
            List<Pending> batch = all.subList(from, Math.min(all.size(), from + PAGE_FILES));
            List<String> here =
                    looker.dataBytes(batch.stream().map(Pending::question).toList());
            List<String> there = ask(
                            'w',
                            batch.stream()
                                    .map(one -> one.here().gid() + " " + one.path())
                                    .toList(),
                            FileLooker.ANSWER_LIMIT.multipliedBy(2))
                    .lines();
            for (int at = 0; at < batch.size(); at++) {
                Pending one = batch.get(at);
                Optional<Refusal> refusal =
                        cargo.evaluate(one.rank(), one.file(), one.path(), here.get(at), there.get(at));
                if (refusal.isPresent()) {
                    cargo.remove(one.rank(), one.file());
                    found.add(new FoundRefusal(one, refusal.get()));
                }
            }
        }
    }

    /** Returns the size of the files that move with the job, without their holes. */
    public synchronized long carriedBytes() {
        return cargo.bytes();
    }

    /**
     * Returns why the files cannot move with the job: processes outside of a rank use them.
     *
     * @param ranks ranks that are checked
     * @param trees each rank's processes, including ranks that move elsewhere
     */
    public synchronized Optional<String> whyNotAlone(List<Integer> ranks, Map<Integer, List<ProcessIdentity>> trees)
            throws IOException {
        Map<Integer, Map<String, CarriedFile>> looked = new HashMap<>(cargo.ranks());
        looked.keySet().retainAll(ranks);
        return looked.isEmpty()
                ? Optional.empty()
                : new OutsideHolders(looked, trees).find().flatMap(refusal -> reason(List.of(refusal)));
    }

    /** Returns whether files of a rank move with it. */
    public synchronized boolean carries(int rank) {
        return !cargo.ranks().getOrDefault(rank, Map.of()).isEmpty();
    }

    /** Returns the files of a held rank that move with it, each once. */
    public synchronized List<CarriedFile> carried(int rank, List<ProcessIdentity> tree) throws IOException {
        Map<String, CarriedFile> judged = cargo.ranks().getOrDefault(rank, Map.of());
        Map<String, CarriedFile> open = new LinkedHashMap<>();
        for (ProcessIdentity process : judged.isEmpty() ? List.<ProcessIdentity>of() : tree) {
            OpenedFiles.read(process.pid(), "", file -> {
                CarriedFile one = judged.get(file.path());
                if (one != null) {
                    open.putIfAbsent(
                            one.path(),
                            new CarriedFile(
                                    file,
                                    one.path(),
                                    file.inode().isEmpty() ? one.inode() : file.inode(),
                                    one.device(),
                                    one.replaces()));
                }
            });
        }
        return List.copyOf(open.values());
    }

    private FileRules rules(boolean sameKernel) {
        return new FileRules(files.equivalent(), sameKernel, files.carry(), user.uid());
    }

    private void addPid(ProcessIdentity process) throws CheckpointException {
        processes.findPidInside(process).ifPresent(pid -> pids.add(Integer.toString(pid)));
    }

    private void read(int rank, ProcessIdentity process) throws IOException, CheckpointException, InterruptedException {
        Optional<ProcStat> stat = ProcStat.read(Path.of("/proc", Integer.toString(process.pid()), "stat"));
        if (stat.isEmpty() || stat.get().startTimeTicks() != process.startTimeTicks()) {
            return;
        }
        try {
            OpenedFiles.read(process.pid(), stat.get().name(), file -> add(rank, file));
        } catch (Broken e) {
            throw e.cause();
        } catch (IOException e) {
            if (processes.isAlive(process)) {
                throw e;
            }
            LOG.debug("process {} ended during the scan", process.pid(), e);
        }
    }

    /** Carries a failure through the reader of a process's files. */
    private static final class Broken extends IOException {
        private static final long serialVersionUID = 1;

        Broken(Exception cause) {
            super(cause);
        }

        IOException cause() throws CheckpointException, InterruptedException {
            if (getCause() instanceof CheckpointException failure) {
                throw failure;
            }
            if (getCause() instanceof InterruptedException interrupt) {
                throw interrupt;
            }
            return (IOException) getCause();
        }
    }

    private void add(int rank, OpenedFile file) throws Broken {
        if (!compared.test(file.path()) || found.size() >= MOST_REFUSALS) {
            return;
        }
        ByteBuffer key = digest(file.path()
                + '\0'
                + file.link().startsWith("/proc/")
                + file.inode()
                + file.reads()
                + file.writes()
                + file.runs());
        if (!known.add(key)) {
            cargo.addAlso(rank, file);
            return;
        }
        page.add(new Pending(rank, file, key, null));
        pageChars += file.path().length();
        if (page.size() >= PAGE_FILES || pageChars >= PAGE_CHARS) {
            try {
                flush();
            } catch (IOException | CheckpointException | InterruptedException e) {
                throw new Broken(e);
            }
        }
    }

    private static ByteBuffer digest(String text) {
        try {
            byte[] all = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.ISO_8859_1));
            return ByteBuffer.wrap(all, 0, KEY_BYTES).slice();
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java has SHA-256", e);
        }
    }

    private void flush() throws IOException, CheckpointException, InterruptedException {
        if (page.isEmpty()) {
            return;
        }
        List<Pending> batch = List.copyOf(page);
        page.clear();
        pageChars = 0;
        FileRules alone = rules(false);
        List<Pending> toCompare = new ArrayList<>();
        List<String> lines = looker.look(batch.stream().map(Pending::question).toList());
        for (int at = 0; at < batch.size(); at++) {
            Optional<FileFacts> facts = FileFacts.parse(lines.get(at));
            Pending one = batch.get(at).seen(facts.orElse(null));
            if (one.file().seemsUnnamed() && !isNamed(one)) {
                // A file without a name is part of the image.
                continue;
            }
            if (facts.isEmpty()) {
                decide(one, alone.unseen(one.rank(), one.file(), FileFacts.error(lines.get(at)), false));
                continue;
            }
            Optional<FileDecision> verdict = alone.alone(one.rank(), one.file(), facts.get(), pids);
            if (verdict.isPresent()) {
                decide(one, verdict.get());
            } else {
                toCompare.add(one);
            }
        }
        compare(toCompare);
    }

    /** The kernel appends a word to the name of a removed file, but a real name can end with that word, too. */
    private boolean isNamed(Pending one) throws CheckpointException {
        if (one.here() == null || one.here().links() == 0) {
            return false;
        }
        String path = one.file().path();
        Optional<FileFacts> literal =
                FileFacts.parse(looker.look(List.of(new Question("", path))).get(0));
        String inode =
                one.file().inode().isEmpty() ? one.here().inode() : one.file().inode();
        return literal.isPresent() && literal.get().inode().equals(inode);
    }

    private FilesInspected ask(char kind, List<String> paths, Duration limit)
            throws IOException, CheckpointException, InterruptedException {
        FilesInspected answer = peer.ask(new InspectFiles(user.uid(), user.gid(), kind, paths), limit);
        if (!answer.failure().isEmpty()) {
            throw new DeclinedException(answer.failure());
        }
        if (answer.lines().size() != paths.size()) {
            throw new IOException("the target answered for " + answer.lines().size() + " of " + paths.size()
                    + " files. Remedy: install the same release on both nodes");
        }
        ignored = answer.ignored();
        return answer;
    }

    private void compare(List<Pending> files) throws IOException, CheckpointException, InterruptedException {
        if (files.isEmpty()) {
            return;
        }
        FilesInspected there =
                ask('s', files.stream().map(Pending::path).toList(), FileLooker.ANSWER_LIMIT.multipliedBy(2));
        FileRules rules = rules(there.kernel().equals(kernel()));
        for (int at = 0; at < files.size(); at++) {
            Pending one = files.get(at);
            String line = there.lines().get(at);
            Optional<FileFacts> facts = FileFacts.parse(line);
            FileDecision verdict = facts.isPresent()
                    ? rules.compare(one.rank(), one.file(), one.here(), facts.get())
                    : FileFacts.error(line) == MISSING
                            ? rules.missing(one.rank(), one.file(), one.here())
                            : rules.unseen(one.rank(), one.file(), FileFacts.error(line), true);
            decide(one, verdict instanceof FileRules.CompareContent ? contents(one, rules) : verdict);
        }
    }

    private FileDecision contents(Pending one, FileRules rules)
            throws IOException, CheckpointException, InterruptedException {
        Duration limit = contentLimit(one.here().lengthBytes());
        if (held && limit.compareTo(LEAST_CONTENT_LIMIT) > 0) {
            limit = LEAST_CONTENT_LIMIT;
        }
        boolean byId = one.file().runs();
        String here = looker.content(one.question(), one.here(), byId, limit);
        String there = ask(byId ? 'c' : 'd', List.of(one.path()), limit.plus(FileLooker.ANSWER_LIMIT))
                .lines()
                .get(0);
        return rules.contents(one.rank(), one.file(), one.here(), here, there);
    }

    /** Returns the time limit for reading this many bytes. */
    public static Duration contentLimit(long bytes) {
        Duration limit = LEAST_CONTENT_LIMIT.plusSeconds(bytes / LEAST_BYTES_A_SECOND);
        return limit.compareTo(MOST_CONTENT_LIMIT) < 0 ? limit : MOST_CONTENT_LIMIT;
    }

    /** Notes that the ranks are stopped from now on. Contents are then compared only for a short time. */
    public void whileHeld() {
        held = true;
    }

    private void decide(Pending one, FileDecision verdict) {
        if (verdict instanceof FileRules.Refused refused) {
            found.add(new FoundRefusal(one, refused.refusal()));
        } else if (verdict instanceof FileRules.Carried carried) {
            CarriedFile file = new CarriedFile(
                    one.file(), one.path(), one.here().inode(), one.here().device(), carried.replaces());
            cargo.add(one.rank(), file);
            carriedNow.add(one);
        } else if (verdict instanceof FileRules.Same same
                && same.shared()
                && one.file().writes()) {
            shared.add(digest(one.path()));
        }
    }

    /** Returns the identity of the running kernel, which changes at each boot. */
    public static String kernel() {
        try {
            return Files.readString(BOOT_ID, StandardCharsets.ISO_8859_1).strip();
        } catch (IOException e) {
            throw new UncheckedIOException("reading " + BOOT_ID, e);
        }
    }

    // ---- while the ranks are held --------------------------------------------------------------------------------

    /** A shared file, with one descriptor or mapping through which it is written. */
    private record Written(OpenedFile file, String path) {}

    /**
     * Flushes the held ranks' writes to shared files to their servers. Then it compares the lengths at both nodes.
     *
     * @param trees each rank's processes
     * @param flushers starts the programs that flush
     */
    public Optional<String> compareLengths(Map<Integer, List<ProcessIdentity>> trees, Flushers flushers)
            throws IOException, CheckpointException, InterruptedException {
        if (shared.isEmpty()) {
            return Optional.empty();
        }
        Map<ByteBuffer, Written> written = new LinkedHashMap<>();
        for (List<ProcessIdentity> tree : trees.values()) {
            for (ProcessIdentity process : tree) {
                OpenedFiles.read(process.pid(), "", file -> {
                    ByteBuffer path = digest(file.path());
                    if (file.writes() && shared.contains(path)) {
                        written.merge(
                                path,
                                new Written(file, file.path()),
                                (one, other) -> one.file().link().isEmpty() ? other : one);
                    }
                });
            }
        }
        try (FileLooker flusher = flushers.start()) {
            List<Written> all = new ArrayList<>(written.values());
            for (int from = 0; from < all.size(); from += PAGE_FILES) {
                Optional<String> other =
                        compareLengths(all.subList(from, Math.min(all.size(), from + PAGE_FILES)), flusher);
                if (other.isPresent()) {
                    return other;
                }
            }
        }
        return Optional.empty();
    }

    /** Returns true if a rank has a Unix socket with a name. Call it before the ranks are stopped. */
    public boolean hasNames() {
        return names.hasAny();
    }

    /**
     * Returns the names of a rank's Unix sockets that both nodes share. The rank was just stopped, and its image is not
     * begun. Throws if it has a name that was not compared. Several threads may call it, one after the other.
     *
     * @param rank its processes
     */
    public synchronized List<String> sharedNames(List<ProcessIdentity> rank) throws IOException, CheckpointException {
        return names.shared(rank);
    }

    /** Returns true if a rank writes to shared files. Call it before the ranks are stopped. */
    public boolean hasSharedWrites() {
        return !shared.isEmpty();
    }

    /**
     * Requires equal lengths for a rank that was just stopped, before its image is begun. A restart compares the length
     * of each file with the image's, and requires it unless the file is only appended to. Several threads may call it,
     * one after the other.
     *
     * @param rank its processes
     */
    public synchronized void requireLengths(List<ProcessIdentity> rank, Flushers flushers)
            throws IOException, CheckpointException, InterruptedException {
        Map<ByteBuffer, Written> written = new LinkedHashMap<>();
        for (ProcessIdentity process : rank) {
            OpenedFiles.read(process.pid(), "", file -> {
                ByteBuffer path = digest(file.path());
                if (file.writes() && shared.contains(path) && hasComparedLength(file)) {
                    written.putIfAbsent(path, new Written(file, file.path()));
                }
            });
        }
        if (written.isEmpty()) {
            return;
        }
        try (FileLooker flusher = flushers.start()) {
            Optional<String> other = compareLengths(List.copyOf(written.values()), flusher);
            if (other.isPresent()) {
                throw new CheckpointException(other.get());
            }
        }
    }

    /** Returns false for a mapping, whose writes change no length. */
    private static boolean hasComparedLength(OpenedFile file) throws IOException {
        String link = file.link();
        return link.startsWith("/proc/")
                && DescriptorInfo.read(file.pid(), link.substring(link.lastIndexOf('/') + 1))
                        .filter(info -> info.reads() || !info.appends())
                        .isPresent();
    }

    /** Starts programs that flush a process's writes to the disk or server. */
    @FunctionalInterface
    public interface Flushers {
        FileLooker start() throws CheckpointException;
    }

    /**
     * Other processes may append to a file in the meantime. Then the target's length must lie between two lengths that
     * were read here.
     */
    private Optional<String> compareLengths(List<Written> files, FileLooker flusher)
            throws IOException, CheckpointException, InterruptedException {
        List<Written> left = files;
        String why = "";
        for (int attempt = 0; attempt < LENGTH_TRIES && !left.isEmpty(); attempt++) {
            Map<Written, Long> before = new HashMap<>();
            for (Written file : left) {
                before.put(file, flushed(file, flusher));
            }
            List<String> there = ask(
                            'l', left.stream().map(Written::path).toList(), FileLooker.ANSWER_LIMIT.multipliedBy(2))
                    .lines();
            List<Written> differ = new ArrayList<>();
            for (int at = 0; at < left.size(); at++) {
                Written file = left.get(at);
                if (FileFacts.error(there.get(at)) == DENIED) {
                    // The file was opened by another user, or before its mode was changed. Its length is unknown there.
                    continue;
                }
                long seen = length(there.get(at), file, "at the target");
                if (seen < before.get(file) || seen > flushed(file, flusher)) {
                    why = file.file() + ", which has " + before.get(file) + " bytes here and " + seen
                            + " at the target";
                    differ.add(file);
                }
            }
            left = differ;
            if (!left.isEmpty()) {
                LockSupport.parkNanos(LENGTH_PAUSE_NS);
                if (Thread.interrupted()) {
                    throw new InterruptedException();
                }
            }
        }
        return left.isEmpty()
                ? Optional.empty()
                : Optional.of("writes to a file that both nodes share do not arrive at the target: " + why
                        + ". Remedy: check the server of that filesystem, and its mount options");
    }

    private long flushed(Written file, FileLooker flusher) throws CheckpointException {
        String link = file.file().link();
        String line = link.startsWith("/proc/")
                ? flusher.flush(file.file().pid(), link.substring(link.lastIndexOf('/') + 1))
                : looker.sync(List.of(new Question(link, file.path()))).get(0);
        return length(line, file, "here");
    }

    private static long length(String line, Written file, String where) throws CheckpointException {
        return FileFacts.parse(line)
                .map(FileFacts::lengthBytes)
                .orElseThrow(() -> new CheckpointException(file.file() + ", which cannot be read " + where + " now ("
                        + line + "). Remedy: check the server of that filesystem"));
    }
}
