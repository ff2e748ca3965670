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
import io.ppmr.os.ProcStat;
import io.ppmr.os.ProcessIdentity;
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
 * Compares the files that ranks have open or mapped with those of the node to which they would go, before they are
 * stopped, and once more while they are held. What is kept of a file is a digest of its name, so the memory does not
 * grow with the names. Both nodes look as the job's user. Owned by one thread at a time.
 */
public final class FileComparison {
    private static final Logger LOG = LoggerFactory.getLogger(FileComparison.class);
    private static final int PAGE_FILES = 100;
    private static final int PAGE_CHARS = 16_384;
    /** More reasons than these need not be found. */
    private static final int MOST_REFUSALS = 100;

    private static final int KEY_BYTES = 16;
    private static final Duration LEAST_CONTENT_LIMIT = Duration.ofSeconds(30);
    private static final Duration MOST_CONTENT_LIMIT = Duration.ofMinutes(10);
    /** A disk or a server that reads more slowly than this counts as one that does not answer. */
    private static final long LEAST_BYTES_A_SECOND = 10 << 20;

    private static final int LENGTH_TRIES = 25;
    /** Between two looks: clients of network filesystems ask their servers for a length once a second or so. */
    private static final long LENGTH_PAUSE_NS = TimeUnit.MILLISECONDS.toNanos(200);

    private static final int MISSING = 2;
    private static final int DENIED = 13;
    private static final Path BOOT_ID = Path.of("/proc/sys/kernel/random/boot_id");

    /** The node to which the job would go. */
    @FunctionalInterface
    public interface PeerQuery {
        /**
         * Asks it.
         *
         * @param limit how long the answer may take
         */
        FilesInspected ask(InspectFiles question, Duration limit) throws IOException, InterruptedException;
    }

    /** The other node does not look, for a reason of its own that is the message. */
    public static final class DeclinedException extends IOException {
        private static final long serialVersionUID = 1;

        DeclinedException(String reason) {
            super(reason);
        }
    }

    /** A file that waits to be compared, with what was seen of it here. */
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

    /** A reason, with the file that it is about. */
    private record Found(Pending file, Refusal refusal) {}

    private final JobUser user;
    private final FileLooker looker;
    private final JobFiles files;
    private final Predicate<String> compared;
    private final PeerQuery peer;
    private final ProcessTable processes;

    private final Set<ByteBuffer> known = new HashSet<>();
    /** Files that can be written and are one object at both nodes, by the digests of their paths. */
    private final Set<ByteBuffer> shared = new HashSet<>();

    private final Cargo cargo;
    private boolean held;

    private final List<Pending> page = new ArrayList<>();
    private int pageChars;
    private final List<Found> found = new ArrayList<>();
    /** Those of the current comparison that travel with the job. */
    private final List<Pending> carriedNow = new ArrayList<>();

    private Set<String> pids = Set.of();
    private boolean ignored;

    /**
     * @param user the job's
     * @param looker looks here, as that user
     * @param files what is expected of them
     * @param compared tells by a path whether its file is one of the node's at all
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
    }

    /**
     * Compares what was not compared before.
     *
     * @param trees each rank's processes
     * @return why they cannot go there, in words for people; empty if they can
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
            // Each rank has PIDs of its own.
            flush();
        }
        weigh();
        List<Refusal> left = new ArrayList<>();
        for (Found one : found) {
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
            LOG.warn("the target's configuration says that it does not matter (ignore_checks): {}", why);
            return Optional.empty();
        }
        return Optional.of(why);
    }

    // ---- files that travel with the job --------------------------------------------------------------------------

    /** Asks what the files take here and may take there, and whether they can be put there. */
    private void weigh() throws IOException, CheckpointException, InterruptedException {
        List<Pending> all = List.copyOf(carriedNow);
        for (int from = 0; from < all.size(); from += PAGE_FILES) {
            List<Pending> asked = all.subList(from, Math.min(all.size(), from + PAGE_FILES));
            List<String> here =
                    looker.dataBytes(asked.stream().map(Pending::question).toList());
            List<String> there = ask(
                            'w',
                            asked.stream()
                                    .map(one -> one.here().gid() + " " + one.path())
                                    .toList(),
                            FileLooker.ANSWER_LIMIT.multipliedBy(2))
                    .lines();
            for (int at = 0; at < asked.size(); at++) {
                Pending one = asked.get(at);
                Optional<Refusal> refusal =
                        cargo.weigh(one.rank(), one.file(), one.path(), here.get(at), there.get(at));
                if (refusal.isPresent()) {
                    cargo.remove(one.rank(), one.file());
                    found.add(new Found(one, refusal.get()));
                }
            }
        }
    }

    /** Returns how many bytes travel with the job as its own files, without their holes. */
    public synchronized long carriedBytes() {
        return cargo.bytes();
    }

    /**
     * Returns why what travels with the job cannot: processes outside of a rank work on it.
     *
     * @param ranks those that are looked at
     * @param trees each rank's processes, those of ranks too that go elsewhere
     */
    public synchronized Optional<String> whyNotAlone(List<Integer> ranks, Map<Integer, List<ProcessIdentity>> trees)
            throws IOException {
        Map<Integer, Map<String, CarriedFile>> looked = new HashMap<>(cargo.ranks());
        looked.keySet().retainAll(ranks);
        return looked.isEmpty()
                ? Optional.empty()
                : new OutsideHolders(looked, trees).find().flatMap(refusal -> reason(List.of(refusal)));
    }

    /** Returns whether files of a rank travel with it. */
    public synchronized boolean carries(int rank) {
        return !cargo.ranks().getOrDefault(rank, Map.of()).isEmpty();
    }

    /** Returns those files of a held rank's that travel with it, each once. */
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
        try {
            pids.add(Integer.toString(processes.pidInside(process)));
        } catch (CheckpointException e) {
            if (processes.isAlive(process)) {
                throw e;
            }
        }
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
            LOG.debug("process {} has ended while it was looked at", process.pid(), e);
        }
    }

    /** Takes a failure through the reader of a process's files. */
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
        List<Pending> asked = List.copyOf(page);
        page.clear();
        pageChars = 0;
        FileRules alone = rules(false);
        List<Pending> toCompare = new ArrayList<>();
        List<String> lines = looker.look(asked.stream().map(Pending::question).toList());
        for (int at = 0; at < asked.size(); at++) {
            Optional<FileFacts> facts = FileFacts.parse(lines.get(at));
            Pending one = asked.get(at).seen(facts.orElse(null));
            if (one.file().seemsUnnamed() && !isNamed(one)) {
                // What has no name travels in the image.
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

    /** The kernel adds a word to a name that is gone, and a name can have that word itself. */
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
            throw new IOException("the target answers for " + answer.lines().size() + " of " + paths.size()
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

    /** From now on the ranks are stopped, so contents are compared for a short time alone. */
    public void whileHeld() {
        held = true;
    }

    private void decide(Pending one, FileDecision verdict) {
        if (verdict instanceof FileRules.Refused refused) {
            found.add(new Found(one, refused.refusal()));
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

    /** Returns the name of the kernel that runs here, since it was booted. */
    public static String kernel() {
        try {
            return Files.readString(BOOT_ID, StandardCharsets.ISO_8859_1).strip();
        } catch (IOException e) {
            throw new UncheckedIOException("reading " + BOOT_ID, e);
        }
    }

    // ---- while the ranks are held --------------------------------------------------------------------------------

    /** A file that both nodes have, by one descriptor or mapping through which it is written. */
    private record Written(OpenedFile file, String path) {}

    /**
     * Writes what the held ranks have written to files that both nodes have to the files' servers, and compares the
     * lengths that both nodes see then.
     *
     * @param trees each rank's processes
     * @param flushers starts what does it
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

    /** Returns true if a rank writes to files that both nodes have; to be asked before the ranks are stopped. */
    public boolean hasSharedWrites() {
        return !shared.isEmpty();
    }

    /**
     * The same for one rank that was just stopped, before its image is begun: a restart compares the length of each
     * file with the image's, besides those that are only appended to. Throws, and says why, if both nodes see other
     * lengths. May be called on several threads, one after the other.
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

    /** Writes by a mapping change no length. */
    private static boolean hasComparedLength(OpenedFile file) throws IOException {
        String link = file.link();
        return link.startsWith("/proc/")
                && DescriptorInfo.read(file.pid(), link.substring(link.lastIndexOf('/') + 1))
                        .filter(info -> info.reads() || !info.appends())
                        .isPresent();
    }

    /** Starts programs that write what a process has written to the disk or server. */
    @FunctionalInterface
    public interface Flushers {
        FileLooker start() throws CheckpointException;
    }

    /** Others may append to a file meanwhile: then its length there lies between two that were seen here. */
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
                    // It was opened by another user, or before its mode was changed: its length is not known there.
                    continue;
                }
                long seen = length(there.get(at), file, "at the target");
                if (seen < before.get(file) || seen > flushed(file, flusher)) {
                    why = file.file() + ", which has " + before.get(file) + " bytes here and " + seen
                            + " as the target sees it";
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
                : Optional.of("what was written to a file that both nodes have does not arrive there: " + why
                        + ". Remedy: look at the server of that filesystem, and at the options of its mounts");
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
                .orElseThrow(() -> new CheckpointException(file.file() + ", which cannot be looked at " + where
                        + " now (" + line + "). Remedy: look at the server of that filesystem"));
    }
}
