package io.ppmr.migration.target;

import io.ppmr.checkpoint.ArrivingPrivileges;
import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Checkpointer.RestartTask;
import io.ppmr.checkpoint.Enclosure;
import io.ppmr.checkpoint.FilePlacement;
import io.ppmr.checkpoint.HeldRank;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.OrphanedCommand;
import io.ppmr.checkpoint.PrivilegeCheck;
import io.ppmr.checkpoint.ProcessPrivileges;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.RankCommand;
import io.ppmr.checkpoint.RankCommands;
import io.ppmr.checkpoint.ResidentMemory;
import io.ppmr.checkpoint.RightsBounds;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.checkpoint.files.CarryPolicy;
import io.ppmr.checkpoint.files.OutsideHolders;
import io.ppmr.checkpoint.sharing.EscapedName;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.ControlMessage.Begin;
import io.ppmr.protocol.control.PodFacts;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.TransferReport;
import io.ppmr.target.image.ArrivingFile;
import io.ppmr.target.image.ArrivingImages;
import io.ppmr.target.session.Transfer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The restarts of one attempt. They read the images while these arrive (paper 1, section IV). It decides nothing. Owned
 * by the migration's thread.
 */
final class Restoration {
    private static final Logger LOG = LoggerFactory.getLogger(Restoration.class);
    private static final Duration END_DEADLINE = Duration.ofSeconds(20);

    private static final long CHECK_NS = TimeUnit.SECONDS.toNanos(1);
    /** A command that only polls uses less than this fraction (1/n) of a core. */
    private static final int IDLE_SHARE = 20;

    /**
     * Maximum size of the records of a migration's originals. They are files of the work directory until they are
     * compared.
     */
    private static final long MAX_RECORD_CHARS = 512L << 20;

    private final Begin begin;
    private final Map<Integer, PodFacts> pods;
    /** The name of migration and attempt for the pods. */
    private final String move;

    private final Checkpointer checkpointer;
    private final Transfer transfer;
    private final TargetContext service;
    private final RestoredRanks copies;
    private final Path imageRoot;
    private final Path workRoot;
    private final ProcessTable processes = new ProcessTable();
    private final RankCommands restarts = new RankCommands("restart");
    private final List<HeldRank> restored = new ArrayList<>();
    private final Map<Integer, FileArrival> files = new TreeMap<>();
    private final AtomicLong carriedBytes = new AtomicLong();
    private final Map<Integer, ProcessPrivileges> originals = new HashMap<>();
    /** The record that arrives now, of one rank at a time; null between two. */
    private ArrivingPrivileges record;

    private long recordChars;
    private long lastCheckNs = System.nanoTime();
    private long lastMoveNs = lastCheckNs;
    private long lastMoved;
    private long lastProcessorNs;
    private boolean isComputing;
    private boolean begun;

    /**
     * @param pods facts of the ranks that are pods
     *
     * @param directory the attempt's own directory, in the mount and in the work directory
     */
    Restoration(
            Begin begin,
            Map<Integer, PodFacts> pods,
            Checkpointer checkpointer,
            Transfer transfer,
            String directory,
            RestoredRanks copies,
            TargetContext service) {
        this.begin = begin;
        this.pods = pods;
        String[] words = directory.split("\\.", -1);
        this.move = words[0] + "." + words[1];
        this.checkpointer = checkpointer;
        this.transfer = transfer;
        this.service = service;
        this.copies = copies;
        this.imageRoot = service.settings().node().mount().resolve(directory);
        this.workRoot = service.settings().node().workDirectory().resolve(directory);
    }

    /** Begins a restart for every rank. Each waits for its image. */
    void start() {
        JobUser user = new JobUser(begin.uid(), begin.gid());
        begun = true;
        restarts.start(begin.ranks(), rank -> {
            Path checkRestarts = WorkDirectories.create(workRoot, rank);
            Path images = imageRoot.resolve(ArrivingImages.rankPath(rank).substring(1));
            RankCommand restart = checkpointer.restart(new RestartTask(
                    rank,
                    user,
                    images,
                    checkRestarts,
                    service.settings().rules().restartDeadline(),
                    enclosure(rank)));
            OrphanedCommand.note(workRoot, restart.started());
            return restart;
        });
    }

    private Optional<Enclosure> enclosure(int rank) throws IOException {
        PodFacts pod = pods.get(rank);
        return pod == null
                ? Optional.empty()
                : Optional.of(service.surroundings()
                        .prepare(move, Optional.of(begin.secret()), pod, !checkpointer.isPrecopied()));
    }

    private void noteRestored(HeldRank rank) throws CheckpointException {
        try {
            OrphanedCommand.note(workRoot, rank.processes());
            PodFacts pod = pods.get(rank.rank());
            if (pod != null) {
                service.surroundings().restored(move, pod, rank.processes().get(0));
            }
        } catch (IOException e) {
            throw new CheckpointException(
                    "rank " + rank.rank() + " is restored, but " + workRoot + " cannot be written: make room", e);
        }
    }

    /**
     * Handles restarts that ended.
     *
     * @param toSource sends messages to the source
     * @return whether every rank is restored and every byte accounted for
     */
    boolean checkRestarts(Consumer<Message> toSource) throws CheckpointException, InterruptedException {
        for (Optional<HeldRank> next = restarts.next(Duration.ZERO);
                next.isPresent();
                next = restarts.next(Duration.ZERO)) {
            HeldRank rank = next.get();
            copies.add(rank);
            restored.add(rank);
            // The rank may have a session of its own, so it is not found from the restart's processes.
            noteRestored(rank);
            toSource.accept(new ControlMessage.Restored(
                    rank.rank(),
                    rank.processes().stream().map(ProcessIdentity::pid).toList()));
        }
        for (FileArrival arrival : files.values()) {
            if (arrival.failure().isPresent()) {
                throw new CheckpointException(arrival.failure().get());
            }
            if (arrival.isNewlyPlaced()) {
                toSource.accept(new ControlMessage.FilesPlaced(arrival.rank()));
            }
        }
        requireProgress(System.nanoTime());
        return begun
                && restarts.isEmpty()
                && transfer.complete()
                && files.values().stream().allMatch(FileArrival::isPlaced);
    }

    /**
     * Fails restarts that make no progress although all bytes are here. Before that, the transfer watches them. A
     * restart makes progress if it reads, computes, or restores a rank.
     */
    private void requireProgress(long nowNs) throws CheckpointException {
        if (nowNs - lastCheckNs < CHECK_NS || restarts.isEmpty()) {
            return;
        }
        List<ProcStat> commands = processes.snapshot().stats(restarts.started());
        long processorNs = commands.stream().mapToLong(ProcStat::processorNs).sum();
        boolean wantsProcessor = commands.stream().anyMatch(ProcStat::isRunnable);
        // A computing restart may get no time on a busy node. A polling one is runnable now and then, but not in two
        // checks in a row.
        boolean computes = processorNs - lastProcessorNs > (nowNs - lastCheckNs) / IDLE_SHARE
                || (wantsProcessor && isComputing && processorNs > lastProcessorNs);
        isComputing = wantsProcessor;
        DataMessage.Progress bytes = transfer.lastProgress();
        long moved = bytes.arrivedBytes() + bytes.readBytes() + restored.size();
        if (computes || moved != lastMoved || !transfer.complete()) {
            lastMoveNs = nowNs;
        }
        lastCheckNs = nowNs;
        lastMoved = moved;
        lastProcessorNs = processorNs;
        Duration limit = service.settings().transfer().stallLimit();
        if (nowNs - lastMoveNs > limit.toNanos()) {
            throw new CheckpointException("the restarts of ranks " + restarts.ranks() + " have read nothing, computed"
                    + " nothing and restored no rank for " + limit.toSeconds() + " s (stall_limit), although all bytes"
                    + " of their images are here. Remedy: find out what such a restart waits for, such as a file lock"
                    + " of the original, and let the job run without it");
        }
    }

    /** Places the files that the source sends for a rank, if this node's configuration allows it. */
    void onMessage(ControlMessage.CarriedFiles carry) throws CheckpointException {
        CarryPolicy policy = service.settings().carry();
        Optional<ArrivingFile> stream = transfer.images().carried(carry.rank());
        if (!begin.ranks().contains(carry.rank()) || files.containsKey(carry.rank()) || stream.isEmpty()) {
            throw new CheckpointException("the source sends files of rank " + carry.rank()
                    + ", which is not in its plan here, or for the second time: the source is broken");
        }
        int chars = carry.paths().stream().mapToInt(String::length).sum();
        if (carry.paths().isEmpty()
                || carry.paths().size() > CarryPolicy.MOST_FILES
                || chars > CarryPolicy.MOST_PATH_CHARS) {
            throw new CheckpointException("the source sends no files, or too many: the source is broken");
        }
        if (Set.copyOf(carry.paths()).size() < carry.paths().size()) {
            throw new CheckpointException("the source names a file twice: it is broken");
        }
        List<FilePlacement.PlacedFile> entries = new ArrayList<>();
        Set<String> replaced = new HashSet<>();
        for (int at = 0; at < carry.paths().size(); at++) {
            String path = carry.paths().get(at);
            boolean replaces = carry.replacing().contains(at);
            if (path.indexOf('\0') >= 0 || !policy.names(path) || (replaces && !policy.replace())) {
                throw new CheckpointException("the configuration of this node does not allow " + EscapedName.text(path)
                        + " to be placed here. Remedy: see [files] copy and replace of this target");
            }
            entries.add(new FilePlacement.PlacedFile(path, replaces, ""));
            if (replaces) {
                replaced.add(path);
            }
        }
        try {
            service.placements().requireFree(carry.paths());
            Optional<String> holder = OutsideHolders.holderOf(replaced);
            if (holder.isPresent()) {
                throw new CheckpointException(holder.get() + ". Remedy: end that process, or name another spare node");
            }
        } catch (IOException e) {
            throw new CheckpointException("the use of files here could not be checked: " + e.getMessage(), e);
        }
        String[] words = move.split("\\.", -1);
        String name = PlacementNotes.name(words[0], Integer.parseInt(words[1]), carry.rank());
        files.put(
                carry.rank(),
                new FileArrival(
                        carry.rank(),
                        new FilePlacement(name, new JobUser(begin.uid(), begin.gid()), entries),
                        stream.get(),
                        policy.copyLimit(),
                        carriedBytes,
                        service.settings().rules().restartDeadline(),
                        service.placements(),
                        service.programs(),
                        workRoot));
    }

    /** Receives the privileges and open files of a rank's originals, or a part of them. */
    void onMessage(ControlMessage.OriginalRights part) throws CheckpointException {
        recordChars += part.lines().stream().mapToInt(String::length).sum();
        if (!begin.ranks().contains(part.rank())
                || originals.containsKey(part.rank())
                || (record != null && record.rank() != part.rank())) {
            throw new CheckpointException("the source sent privileges of the originals of rank " + part.rank()
                    + ", which is not in its plan here, was complete before, or comes between another rank's: the"
                    + " source is broken");
        }
        if (recordChars > MAX_RECORD_CHARS) {
            throw new CheckpointException(
                    "the source's record of its originals' privileges and open files has more than " + MAX_RECORD_CHARS
                            + " characters. Remedy: move fewer ranks, or ranks with fewer threads, at once");
        }
        if (record == null) {
            record = new ArrivingPrivileges(workRoot, part.rank());
        }
        record.add(part.lines());
        if (part.last()) {
            originals.put(part.rank(), record.end());
            record = null;
        }
    }

    /**
     * Compares every copy with its original. Throws if one has more privileges, or a rank has no original. Call it when
     * every rank is restored and every message before the end of the images has been handled.
     */
    void requireNoEscalation() throws CheckpointException {
        Path own;
        try {
            own = workRoot.toRealPath();
        } catch (IOException e) {
            throw new CheckpointException("the work directory " + workRoot + " cannot be read: " + e.getMessage(), e);
        }
        Set<Integer> missing = new TreeSet<>(begin.ranks());
        restored.forEach(rank -> missing.remove(rank.rank()));
        if (!missing.isEmpty()) {
            throw new CheckpointException("ranks " + missing + " are not restored");
        }
        Map<HeldRank, ProcessPrivileges> compared = new LinkedHashMap<>();
        for (HeldRank rank : restored) {
            ProcessPrivileges original = originals.get(rank.rank());
            if (original == null) {
                throw new CheckpointException("the source has not sent the privileges of the originals of rank "
                        + rank.rank() + ", so their copies cannot be compared. Remedy: install the same release on both"
                        + " nodes");
            }
            compared.put(rank, original);
        }
        RightsBounds bounds = new RightsBounds(service.settings().rankFiles(), workRoot, () -> false);
        new PrivilegeCheck(service.programs(), new JobUser(begin.uid(), begin.gid()), own, bounds)
                .requireNoEscalation(compared);
        originals.values().forEach(ProcessPrivileges::close);
        for (FileArrival arrival : files.values()) {
            arrival.verify();
        }
    }

    /** Notes that the vote is in the journal. From now on, the next run of a service that dies uses that record. */
    void noteVote() {
        try {
            OrphanedCommand.forget(workRoot);
        } catch (IOException e) {
            LOG.warn("a note in {} could not be removed: {}", workRoot, e.getMessage());
        }
    }

    TransferReport report() {
        return transfer.report(ResidentMemory.peakBytes());
    }

    /**
     * Ends the current restarts. Ranks that were restored in the meantime belong to the copies.
     *
     * @return false if a process that writes files of the job has not ended, and another try is needed
     */
    boolean giveUp(String reason) {
        transfer.stop(reason);
        restarts.endAll(END_DEADLINE).forEach(copies::add);
        boolean ended = true;
        for (FileArrival arrival : files.values()) {
            ended &= arrival.end();
        }
        return ended;
    }

    /** Frees the transfer and the work directory. */
    void close() {
        files.values().forEach(FileArrival::end);
        transfer.close();
        try {
            if (record != null) {
                record.close();
            }
        } catch (IOException e) {
            LOG.warn("a record in {} could not be closed: {}", workRoot, e.getMessage());
        }
        WorkDirectories.removeOrWarn(workRoot);
    }

    /**
     * Kills the restores of a service that died, and removes their work directories.
     *
     * @param voted whether the attempt of a directory was voted for; then its ranks belong to the transaction
     */
    static void endInterrupted(Path workDirectory, Predicate<String> voted) throws IOException, CheckpointException {
        List<Path> directories;
        try (Stream<Path> found = Files.list(workDirectory)) {
            directories = found.toList();
        }
        for (Path directory : directories) {
            String name = directory.getFileName().toString();
            if (OrphanedCommand.isNoted(directory) && !voted.test(name)) {
                LOG.warn("killing {}: its restore was interrupted by a service restart", name);
                new OrphanedCommand(OrphanedCommand.read(directory)).endAll();
                OrphanedCommand.endMarked(directory);
                WorkDirectories.removeOrWarn(directory);
            }
        }
    }
}
