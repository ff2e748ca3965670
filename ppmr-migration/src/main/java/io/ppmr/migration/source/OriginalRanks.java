package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Enclosure;
import io.ppmr.checkpoint.FrozenCgroups;
import io.ppmr.checkpoint.HeldRank;
import io.ppmr.checkpoint.OrphanedCommand;
import io.ppmr.checkpoint.ProcessPrivileges;
import io.ppmr.checkpoint.ProcessSnapshot;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.RankCapabilities;
import io.ppmr.checkpoint.ResidentMemory;
import io.ppmr.checkpoint.RightsBounds;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.migration.RankSurroundings;
import io.ppmr.migration.node.Preparation;
import io.ppmr.os.LogContext;
import io.ppmr.os.ProcessIdentity;
import io.ppmr.os.UninterruptedWait;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The processes of a job on the node that is given up, from the order to move them until they are gone or continue.
 * Owned by the migration's worker.
 */
final class OriginalRanks {
    private static final Logger LOG = LoggerFactory.getLogger(OriginalRanks.class);
    private static final Duration END_DEADLINE = Duration.ofSeconds(20);

    private final String migrationId;
    private final ProcessTable processes;
    private final RankSurroundings surroundings;
    private final Map<Integer, ProcessIdentity> roots;
    private final Map<Integer, HeldRank> held = new LinkedHashMap<>();
    /** The same as {@link #held}, for other threads. */
    private volatile List<HeldRank> heldNow = List.of();

    /** The processes that were found stopped before anything was done to the job, by rank. */
    private final Map<Integer, Set<ProcessIdentity>> stoppedByJob = new LinkedHashMap<>();

    /** The looks at all ranks while they are held; none until then. Each gives why they continue here, or nothing. */
    private final List<FutureTask<String>> looks = new ArrayList<>();
    /** The look for what ranks share, the first of these; null until then. */
    private Callable<String> sharing;

    private boolean looked;
    /** Work directories of checkpoint commands that an earlier run of the service may have left. */
    private final List<Path> abandoned = new ArrayList<>();

    /** The directory in which those are still to be looked for; null when that is done, or there was no earlier run. */
    private Path unsearched;

    private boolean recorded;
    private FrozenCgroups frozen = FrozenCgroups.NONE;
    /** True while the cables of pods are out, or may be. */
    private boolean detached;

    private OriginalRanks(
            String migrationId,
            ProcessTable processes,
            RankSurroundings surroundings,
            Map<Integer, ProcessIdentity> roots) {
        this.migrationId = migrationId;
        this.processes = processes;
        this.surroundings = surroundings;
        this.roots = new LinkedHashMap<>(roots);
    }

    /** The processes of a job as they are now; throws if one does not exist or belongs to another user. */
    static OriginalRanks of(String migrationId, ProcessTable processes, RankSurroundings surroundings, Job job)
            throws CheckpointException {
        Map<Integer, ProcessIdentity> roots = new LinkedHashMap<>();
        for (Job.RankProcess rank : job.ranks()) {
            ProcessIdentity root = processes.of(rank.pid());
            processes.requireOwner(root, job.user());
            roots.put(rank.rank(), root);
        }
        return new OriginalRanks(migrationId, processes, surroundings, roots);
    }

    /** Throws, and says why and what helps, if one of the ranks lives where its checkpointer must not go. */
    void requireReachable(Job job) throws CheckpointException {
        if (job.pods().isEmpty()) {
            job.checkpointer().requireReachable(roots);
        }
    }

    /**
     * Throws, and says why and what helps, if a checkpointer is known not to move one of the ranks as it is now, or if
     * one exceeds the bounds.
     */
    void requireMovable(Job job, SourceSettings settings, Preparation preparation)
            throws IOException, CheckpointException {
        RightsBounds bounds =
                new RightsBounds(settings.rankFiles(), settings.node().workDirectory(), preparation::isOver);
        Map<Integer, List<ProcessIdentity>> trees = trees();
        for (Map.Entry<Integer, List<ProcessIdentity>> tree : trees.entrySet()) {
            preparation.requireTime();
            ProcessPrivileges.requireReadable("rank " + tree.getKey(), tree.getValue(), bounds);
        }
        if (job.pods().isEmpty()) {
            new RankCapabilities(processes).require(job.checkpointer(), trees, job.user());
            job.checkpointer().requireMovable(roots, job.user());
            return;
        }
        job.checkpointer().requireMovablePods(roots, job.user());
        for (ProcessIdentity init : roots.values()) {
            surroundings.requireMovable(init);
        }
    }

    /** Returns true if the cables of pods are out, or may be. */
    boolean isDetached() {
        return detached;
    }

    /** Pulls the cables of the pods that the ranks are, and says how each is checkpointed; nothing for other jobs. */
    Map<Integer, Enclosure> detach(Job job, MigrationSecret secret) throws IOException {
        Map<Integer, Enclosure> enclosures = new LinkedHashMap<>();
        for (int rank : job.pods().keySet()) {
            detached = true;
            enclosures.put(rank, surroundings.detach(migrationId, secret, roots.get(rank)));
        }
        return enclosures;
    }

    /**
     * Those that an earlier run of the service has left stopped, or running, by its journal.
     *
     * @param workDirectory in which that run may have left checkpoint commands
     * @param records of the migration, in the journal's order
     */
    static OriginalRanks recorded(
            String migrationId,
            ProcessTable processes,
            RankSurroundings surroundings,
            Path workDirectory,
            List<PlannedRank> ranks,
            List<TransactionRecord> records) {
        Map<Integer, ProcessIdentity> roots = new LinkedHashMap<>();
        Map<Integer, HeldRank> held = new LinkedHashMap<>();
        ProcessSnapshot now = processes.snapshot();
        for (PlannedRank rank : ranks) {
            roots.put(rank.rank(), rank.processes().get(0));
            List<ProcessIdentity> stopped = TransactionRecord.JobStopped.of(records, 0, rank.rank());
            held.put(rank.rank(), HeldRank.recorded(rank.rank(), rank.processes(), stopped, now));
        }
        OriginalRanks originals = new OriginalRanks(migrationId, processes, surroundings, roots);
        originals.held.putAll(held);
        originals.heldNow = List.copyOf(held.values());
        originals.recorded = true;
        // Where there is no pod nothing comes of it.
        originals.detached = true;
        originals.frozen = FrozenCgroups.recorded(TransactionRecord.Frozen.of(records));
        originals.unsearched = workDirectory;
        return originals;
    }

    /** Returns true when the work directory was read: of one that cannot be read no command counts as ended. */
    private boolean findAbandoned() {
        if (unsearched == null) {
            return true;
        }
        try (Stream<Path> found = Files.list(unsearched)) {
            found.filter(directory -> directory.getFileName().toString().startsWith(migrationId + "."))
                    .forEach(abandoned::add);
        } catch (NoSuchFileException e) {
            LOG.debug("{} is gone, and no command is noted in it", unsearched, e);
        } catch (IOException | UncheckedIOException e) {
            LOG.error(
                    "migration {}: {} cannot be read: {}. A checkpoint command of the service before may still run, so"
                            + " no original is touched. Remedy: make that directory readable",
                    migrationId,
                    unsearched,
                    e.getMessage());
            abandoned.clear();
            return false;
        }
        unsearched = null;
        return true;
    }

    /**
     * Sees ended the checkpoint commands that an earlier run of the service has left running: they have sessions of
     * their own, and continue without it. Their writes fail, since its mount is gone; they are given time to end by
     * themselves, as one that is killed in the middle can leave its process broken.
     *
     * @return whether none is left; if one is, the log says why
     */
    boolean endAbandonedCheckpoints() {
        if (!findAbandoned()) {
            return false;
        }
        for (Iterator<Path> left = abandoned.iterator(); left.hasNext(); left.remove()) {
            Path directory = left.next();
            try {
                new OrphanedCommand(OrphanedCommand.read(directory)).endPatiently();
            } catch (IOException | CheckpointException e) {
                LOG.error(
                        "a checkpoint command of the service before is left, so its original is not touched: {}",
                        e.getMessage());
                return false;
            }
            WorkDirectories.removeOrWarn(directory);
        }
        return true;
    }

    /** A plan's ranks with the processes that are known: all where a rank is held, else its root. */
    List<PlannedRank> planned(MigrationPlan.Leg leg) {
        return leg.ranks().stream()
                .map(rank -> new PlannedRank(rank, leg.address(), known(rank)))
                .toList();
    }

    /** The processes of each rank that are known: all where it is held, else its root. */
    Map<Integer, List<ProcessIdentity>> processes() {
        Map<Integer, List<ProcessIdentity>> all = new LinkedHashMap<>();
        roots.keySet().forEach(rank -> all.put(rank, known(rank)));
        return all;
    }

    private List<ProcessIdentity> known(int rank) {
        return held.containsKey(rank) ? held.get(rank).processes() : List.of(roots.get(rank));
    }

    /**
     * Finds out which processes the job itself has stopped. To be called before anything is done to the job; from the
     * second time on it does nothing, as the ranks may be held by then.
     */
    void lookForStopped() {
        if (looked) {
            return;
        }
        looked = true;
        processes.snapshot().trees(roots).forEach((rank, tree) -> {
            Set<ProcessIdentity> stopped = new LinkedHashSet<>(tree);
            stopped.removeIf(process -> !processes.isHeld(process));
            stoppedByJob.put(rank, stopped);
        });
    }

    /** The processes of a rank that the job itself has stopped; less by those that were continued before the hold. */
    Set<ProcessIdentity> stoppedByJob(int rank) {
        return held.containsKey(rank) ? held.get(rank).stoppedByJob() : stoppedByJob.getOrDefault(rank, Set.of());
    }

    /** The ranks of which the job itself has stopped some processes, with those alone; for the journal. */
    List<PlannedRank> stopped(MigrationPlan plan) {
        return plan.legs().stream()
                .flatMap(leg -> leg.ranks().stream()
                        .filter(rank -> !stoppedByJob(rank).isEmpty())
                        .map(rank -> new PlannedRank(rank, leg.address(), List.copyOf(stoppedByJob(rank)))))
                .toList();
    }

    /** All processes of each rank as they are now; of one that is gone, its root. */
    Map<Integer, List<ProcessIdentity>> trees() {
        Map<Integer, List<ProcessIdentity>> trees = processes.snapshot().trees(roots);
        trees.replaceAll((rank, tree) -> tree.isEmpty() ? List.of(roots.get(rank)) : tree);
        return trees;
    }

    /** About how large the images of these processes will be. */
    static long imageBytes(Map<Integer, List<ProcessIdentity>> trees) {
        return trees.values().stream()
                .flatMap(List::stream)
                .mapToLong(process -> ResidentMemory.unfiledBytes(process.pid()))
                .sum();
    }

    /** Looks at the files of held ranks, and says why the copies would not have the same. */
    @FunctionalInterface
    interface FilesLook {
        Optional<String> whyOther(Map<Integer, List<ProcessIdentity>> held)
                throws IOException, CheckpointException, InterruptedException;
    }

    /**
     * If all ranks are held: has other threads look for what they have come to share or to open before they were
     * stopped. The copies are restored at the same time, and {@link #whyNotHeld} has the result.
     */
    void lookAtHeld(Job job, FilesLook files) {
        if (!held.keySet().containsAll(roots.keySet())) {
            return;
        }
        // Those of an attempt before, whose ranks have stayed held.
        looks.clear();
        Map<Integer, ProcessIdentity> all = Map.copyOf(roots);
        Map<Integer, List<ProcessIdentity>> trees = Map.copyOf(processes());
        sharing = () -> {
            job.checkpointer().requireNothingShared(all);
            return "";
        };
        look("held-ranks-look", sharing);
        look("held-files-look", () -> files.whyOther(trees).orElse(""));
    }

    private static FutureTask<String> task(Callable<String> finds) {
        return new FutureTask<>(() -> {
            try {
                return finds.call();
            } catch (IOException | CheckpointException e) {
                return String.valueOf(e.getMessage());
            }
        });
    }

    private void look(String name, Callable<String> finds) {
        FutureTask<String> look = task(finds);
        looks.add(look);
        Thread looking = new Thread(look, name);
        looking.setDaemon(true);
        looking.start();
    }

    /** Each look bounds its time, and is over long before a target votes. */
    private String whyNotAsBefore() {
        List<String> reasons =
                new ArrayList<>(looks.stream().map(OriginalRanks::found).toList());
        if (!reasons.isEmpty() && !reasons.get(0).isEmpty()) {
            // What this service borrows of a held rank to read or to flush it looks shared. By now that is over.
            FutureTask<String> again = task(sharing);
            again.run();
            looks.set(0, again);
            reasons.set(0, found(again));
        }
        return reasons.stream().filter(reason -> !reason.isEmpty()).findFirst().orElse(null);
    }

    private static String found(FutureTask<String> look) {
        return UninterruptedWait.of(() -> {
            try {
                return look.get();
            } catch (ExecutionException e) {
                throw new IllegalStateException("the look at the held ranks has failed: " + e.getCause(), e);
            }
        });
    }

    /** Returns true if any of them has been stopped. */
    boolean anyHeld() {
        return !held.isEmpty();
    }

    /** The ranks that are proved to be stopped just now. Any thread. */
    List<Integer> heldRanks() {
        return heldNow.stream()
                .filter(HeldRank::isHeld)
                .map(HeldRank::rank)
                .sorted()
                .toList();
    }

    /** The root process of each rank. */
    Map<Integer, ProcessIdentity> roots() {
        return roots;
    }

    /** A rank's checkpoint has left it stopped. */
    void held(HeldRank rank) {
        held.put(rank.rank(), rank);
        heldNow = List.copyOf(held.values());
    }

    /** Returns the cgroups in which nothing lives but ranks that are held. */
    FrozenCgroups cgroups() {
        return FrozenCgroups.around(held.values().stream()
                .flatMap(rank -> rank.processes().stream())
                .toList());
    }

    /** Has the freezer of these cgroups hold the ranks besides; no SIGCONT continues them then. */
    void freeze(FrozenCgroups cgroups) {
        frozen = cgroups;
        cgroups.freeze();
    }

    /** The ranks are held by their stop signal alone again. */
    void thaw() {
        frozen.thaw();
        frozen = FrozenCgroups.NONE;
    }

    /** Names the ranks that are gone; null if there are ranks and none is gone. */
    String whyNotAlive() {
        if (roots.isEmpty()) {
            return "no original of migration " + migrationId + " is known";
        }
        List<Integer> gone = roots.entrySet().stream()
                .filter(root -> !processes.isAlive(root.getValue()))
                .map(Map.Entry::getKey)
                .toList();
        return gone.isEmpty() ? null : "the originals of ranks " + gone + " are gone";
    }

    /**
     * Names a rank that is not proved to be stopped now, or that has run since it was held, or that had come to share
     * something by then; null if there is none.
     */
    String whyNotHeld() {
        for (int rank : roots.keySet()) {
            HeldRank original = held.get(rank);
            if (original == null) {
                return "rank " + rank + " has not been stopped";
            }
            try {
                original.requireHeld();
            } catch (CheckpointException e) {
                return e.getMessage();
            }
        }
        return whyNotAsBefore();
    }

    /** Ends them all; what could not be ended, or null. Ending what is gone already is no failure. */
    String end() {
        Set<Integer> unknown = new TreeSet<>(roots.keySet());
        unknown.removeAll(held.keySet());
        if (roots.isEmpty() || !unknown.isEmpty()) {
            return "which processes must be ended is not known of "
                    + (roots.isEmpty() ? "any rank" : "ranks " + unknown);
        }
        if (detached) {
            try {
                surroundings.disconnect(migrationId);
            } catch (IOException e) {
                return "the link of a pod cannot be taken away: " + e.getMessage();
            }
        }
        Map<Integer, String> left = HeldRank.endAll(held.values(), END_DEADLINE);
        // Processes that enter that cgroup later must run.
        thaw();
        left.forEach((rank, why) -> logOf(rank, "the original of rank {} is left: {}", why));
        if (detached && left.isEmpty()) {
            try {
                surroundings.ended(migrationId);
            } catch (IOException e) {
                LOG.warn("migration {}: something of its pods is taken away later: {}", migrationId, e.getMessage());
            }
        }
        return left.isEmpty() ? null : String.join("; ", left.values());
    }

    /**
     * Lets all that are held continue, except for what the job itself had stopped.
     *
     * @return false where the network of a pod could not be put in order, so that all are held still
     */
    boolean release() {
        thaw();
        looks.clear();
        if (detached) {
            try {
                releasePods();
            } catch (IOException | CheckpointException e) {
                LOG.error("migration {}: its pods stay stopped: {}", migrationId, e.getMessage());
                return false;
            }
        }
        Map<Integer, String> failures = recorded
                // A checkpoint may have been under way when the service died, and stop its rank once more.
                ? OrphanedCommand.resumeAll(held.values())
                : HeldRank.releaseAll(held.values());
        failures.forEach((rank, why) -> logOf(rank, "the original of rank {} cannot be continued: {}", why));
        held.clear();
        heldNow = List.of();
        return true;
    }

    /** A checkpoint that has failed leaves its pod stopped, so each is continued whether it was held or not. */
    private void releasePods() throws IOException, CheckpointException {
        if (!surroundings.has(migrationId)) {
            detached = false;
            return;
        }
        surroundings.attach(migrationId);
        detached = false;
        processes.snapshot().trees(roots).forEach((rank, tree) -> {
            if (!tree.isEmpty()) {
                held.putIfAbsent(rank, new HeldRank(rank, tree, List.of()).withStoppedByJob(stoppedByJob(rank)));
            }
        });
        recorded = true;
    }

    private void logOf(int rank, String message, String why) {
        try (LogContext.Scope about = LogContext.rank(rank)) {
            LOG.error("migration {}: " + message, migrationId, rank, why);
        }
    }
}
