package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Enclosure;
import io.ppmr.checkpoint.FillingCopies;
import io.ppmr.checkpoint.FrozenCgroups;
import io.ppmr.checkpoint.HeldRank;
import io.ppmr.checkpoint.KeptNames;
import io.ppmr.checkpoint.OrphanedCommand;
import io.ppmr.checkpoint.ProcessPrivileges;
import io.ppmr.checkpoint.ProcessSnapshot;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.RankCapabilities;
import io.ppmr.checkpoint.ResidentMemory;
import io.ppmr.checkpoint.RightsBounds;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.linux.LogContext;
import io.ppmr.linux.ParallelWork;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.linux.UninterruptedWait;
import io.ppmr.migration.RankSurroundings;
import io.ppmr.migration.node.Preparation;
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
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The processes of a job on the source node, from the order to move them until they are gone or continue. Owned by the
 * migration's worker.
 */
final class OriginalRanks {
    private static final Logger LOG = LoggerFactory.getLogger(OriginalRanks.class);
    private static final Duration END_DEADLINE = Duration.ofSeconds(20);
    /** A copy is filled at a gigabyte a second and more. */
    private static final Duration FILL_LIMIT = Duration.ofMinutes(2);

    private final String migrationId;
    private final ProcessTable processes;
    private final RankSurroundings surroundings;
    private final KeptNames names;
    private final Map<Integer, ProcessIdentity> roots;
    private final Map<Integer, HeldRank> held = new LinkedHashMap<>();
    /** A copy of {@link #held} for other threads. */
    private volatile List<HeldRank> heldNow = List.of();

    /** The processes that were found stopped before the job was changed, by rank. */
    private final Map<Integer, Set<ProcessIdentity>> stoppedByJob = new LinkedHashMap<>();

    /**
     * The checks of all ranks while they are held, or none until then. Each returns why the ranks continue here, or
     * nothing.
     */
    private final List<FutureTask<String>> checks = new ArrayList<>();
    /** The first of these checks, for shared objects, or null until then. */
    private Callable<String> sharing;

    private boolean isStoppedSearched;
    /** Work directories of checkpoint commands that an earlier run of the service may have left. */
    private final List<Path> orphaned = new ArrayList<>();

    /**
     * The directory that is still to be searched for these, or null after the search, or if there was no earlier run.
     */
    private Path unsearched;

    private boolean recorded;
    private FrozenCgroups frozen = FrozenCgroups.NONE;
    /** The pods that leave, by rank. */
    private final Map<Integer, RankSurroundings.RankDeparture> departures = new ConcurrentHashMap<>();
    /** True while the networks of pods may be disconnected. */
    private boolean detached;
    /** True while pods whose networks are connected may have records that they leave. */
    private boolean unsettled;
    /** The time of the last call that continued the ranks. */
    private long continuedNs;

    private OriginalRanks(
            String migrationId,
            ProcessTable processes,
            RankSurroundings surroundings,
            KeptNames names,
            Map<Integer, ProcessIdentity> roots) {
        this.migrationId = migrationId;
        this.processes = processes;
        this.surroundings = surroundings;
        this.names = names;
        this.roots = new LinkedHashMap<>(roots);
    }

    /** Returns the present processes of a job. Throws if one does not exist or belongs to another user. */
    static OriginalRanks of(
            String migrationId, ProcessTable processes, RankSurroundings surroundings, KeptNames names, Job job)
            throws CheckpointException {
        Map<Integer, ProcessIdentity> roots = new LinkedHashMap<>();
        for (Job.RankProcess rank : job.ranks()) {
            ProcessIdentity root = processes.of(rank.pid());
            processes.requireOwner(root, job.user());
            roots.put(rank.rank(), root);
        }
        return new OriginalRanks(migrationId, processes, surroundings, names, roots);
    }

    /** Waits until ranks that were moved here before are whole. */
    void awaitFilled(Preparation preparation) throws CheckpointException {
        FillingCopies.await(roots, FILL_LIMIT, preparation::isOver);
    }

    /** Throws, with the cause and the remedy, if one of the ranks is where its checkpointer must not go. */
    void requireReachable(Job job) throws CheckpointException {
        if (job.pods().isEmpty()) {
            job.checkpointer().requireReachable(roots);
        }
    }

    /**
     * Throws if a checkpointer cannot move one of the ranks as it is now, or if one exceeds the bounds. The message
     * names the cause and the remedy.
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

    /** Lists the TCP connections of all pods to other addresses than their own. */
    List<RankSurroundings.OutgoingConnection> connections() throws IOException {
        List<RankSurroundings.OutgoingConnection> connections = new ArrayList<>();
        for (ProcessIdentity init : roots.values()) {
            connections.addAll(surroundings.connections(init));
        }
        return connections;
    }

    /** Returns true if the networks of pods may be disconnected. */
    boolean isDetached() {
        return detached;
    }

    /** Returns the enclosure for the checkpoint of each pod; none for other jobs. Changes nothing. */
    Map<Integer, Enclosure> enclosures(Job job) throws IOException {
        Map<Integer, Enclosure> enclosures = new LinkedHashMap<>();
        for (int rank : job.pods().keySet()) {
            enclosures.put(rank, surroundings.enclosure(roots.get(rank)));
        }
        return enclosures;
    }

    /** Notes that the ranks' pods leave. Their networks are not touched. Other jobs have none. */
    void leave(Job job, Optional<MigrationSecret> secret) throws IOException {
        detached |= !job.pods().isEmpty();
        ParallelWork.forEach(
                "ppmr-pod-leave",
                job.pods().keySet(),
                rank -> departures.put(rank, surroundings.leave(migrationId, secret, roots.get(rank))));
    }

    /** Disconnects the networks of all pods that leave. */
    void detachAll() throws IOException {
        ParallelWork.forEach("ppmr-pod-detach", departures.keySet(), this::detach);
    }

    /** Disconnects the network of a pod that leaves. Any thread, one for each pod. */
    void detach(int rank) throws IOException {
        departures.get(rank).detach();
    }

    /**
     * Returns the ranks that an earlier run of the service left stopped or running, as recorded in its journal.
     *
     * @param workDirectory directory in which that run may have left checkpoint commands
     * @param records records of the migration, in the journal's order
     */
    static OriginalRanks recorded(
            String migrationId,
            ProcessTable processes,
            RankSurroundings surroundings,
            KeptNames names,
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
        OriginalRanks originals = new OriginalRanks(migrationId, processes, surroundings, names, roots);
        originals.held.putAll(held);
        originals.heldNow = List.copyOf(held.values());
        originals.recorded = true;
        // Without a pod, this has no effect.
        originals.detached = true;
        originals.frozen = FrozenCgroups.recorded(TransactionRecord.Frozen.of(records));
        originals.unsearched = workDirectory;
        return originals;
    }

    /** Returns the pods that an earlier run of the service has left held for a checkpoint. */
    static OriginalRanks noted(
            String id,
            ProcessTable processes,
            RankSurroundings surroundings,
            KeptNames names,
            Path workDirectory,
            Map<Integer, CheckpointNote.HeldMember> pods) {
        List<PlannedRank> ranks = new ArrayList<>();
        List<PlannedRank> stopped = new ArrayList<>();
        pods.forEach((rank, pod) -> {
            ranks.add(new PlannedRank(rank, "", pod.processes()));
            stopped.add(new PlannedRank(rank, "", pod.stopped()));
        });
        return recorded(
                id,
                processes,
                surroundings,
                names,
                workDirectory,
                ranks,
                List.of(new TransactionRecord.JobStopped(id, 0, stopped)));
    }

    /** Returns true when the work directory was read. If it cannot be read, its commands count as running. */
    private boolean findOrphaned() {
        if (unsearched == null) {
            return true;
        }
        try (Stream<Path> found = Files.list(unsearched)) {
            found.filter(directory -> directory.getFileName().toString().startsWith(migrationId + "."))
                    .forEach(orphaned::add);
        } catch (NoSuchFileException e) {
            LOG.debug("{} does not exist, so it has no notes of commands", unsearched, e);
        } catch (IOException | UncheckedIOException e) {
            LOG.error(
                    "migration {}: {} cannot be read: {}. A checkpoint command of the previous service run may still"
                            + " run, so the originals are left unchanged. Remedy: make that directory readable",
                    migrationId,
                    unsearched,
                    e.getMessage());
            orphaned.clear();
            return false;
        }
        unsearched = null;
        return true;
    }

    /**
     * Ends the checkpoint commands that an earlier run of the service left running. They have sessions of their own,
     * and continue without the service. Their writes fail, because its mount is gone. They get time to end by
     * themselves, because a killed command can leave its process broken.
     *
     * @return whether none is left; if one is, the log has the reason
     */
    boolean endOrphanedCheckpoints() {
        if (!findOrphaned()) {
            return false;
        }
        for (Iterator<Path> left = orphaned.iterator(); left.hasNext(); left.remove()) {
            Path directory = left.next();
            try {
                new OrphanedCommand(OrphanedCommand.read(directory)).endPatiently();
            } catch (IOException | CheckpointException e) {
                LOG.error(
                        "a checkpoint command of the previous service run is left, so its original is left"
                                + " unchanged: {}",
                        e.getMessage());
                return false;
            }
            WorkDirectories.removeOrWarn(directory);
        }
        return true;
    }

    /** Returns a leg's ranks with their known processes: all processes of a held rank, otherwise its root. */
    List<PlannedRank> planned(MigrationPlan.Leg leg) {
        return leg.ranks().stream()
                .map(rank -> new PlannedRank(rank, leg.address(), known(rank)))
                .toList();
    }

    /** Returns the known processes of each rank: all of a held rank, otherwise its root. */
    Map<Integer, List<ProcessIdentity>> processes() {
        Map<Integer, List<ProcessIdentity>> all = new LinkedHashMap<>();
        roots.keySet().forEach(rank -> all.put(rank, known(rank)));
        return all;
    }

    private List<ProcessIdentity> known(int rank) {
        return held.containsKey(rank) ? held.get(rank).processes() : List.of(roots.get(rank));
    }

    /**
     * Finds out which processes the job itself has stopped. Call it before the job is changed. Later calls have no
     * effect, because the ranks may be held by then.
     */
    void findStoppedByJob() {
        if (isStoppedSearched) {
            return;
        }
        isStoppedSearched = true;
        processes.snapshot().trees(roots).forEach((rank, tree) -> {
            Set<ProcessIdentity> stopped = new LinkedHashSet<>(tree);
            stopped.removeIf(process -> !processes.isHeld(process));
            stoppedByJob.put(rank, stopped);
        });
    }

    /** Finds them again, after a time in which the job computed. Nothing changes if ranks are held. */
    void findStoppedByJobAgain() {
        isStoppedSearched = anyHeld();
        findStoppedByJob();
    }

    /**
     * Returns the processes of a rank that the job itself has stopped, without those that were continued before the
     * hold.
     */
    Set<ProcessIdentity> stoppedByJob(int rank) {
        return held.containsKey(rank) ? held.get(rank).stoppedByJob() : stoppedByJob.getOrDefault(rank, Set.of());
    }

    /** Returns the ranks with processes that the job itself has stopped, and only these processes, for the journal. */
    List<PlannedRank> stopped(MigrationPlan plan) {
        return plan.legs().stream()
                .flatMap(leg -> leg.ranks().stream()
                        .filter(rank -> !stoppedByJob(rank).isEmpty())
                        .map(rank -> new PlannedRank(rank, leg.address(), List.copyOf(stoppedByJob(rank)))))
                .toList();
    }

    /** Returns all present processes of each rank. For a rank that is gone, it returns the root. */
    Map<Integer, List<ProcessIdentity>> trees() {
        Map<Integer, List<ProcessIdentity>> trees = processes.snapshot().trees(roots);
        trees.replaceAll((rank, tree) -> tree.isEmpty() ? List.of(roots.get(rank)) : tree);
        return trees;
    }

    /** Returns the estimated size of the images of these processes. */
    static long imageBytes(Map<Integer, List<ProcessIdentity>> trees) {
        return trees.values().stream()
                .flatMap(List::stream)
                .mapToLong(process -> ResidentMemory.unfiledBytes(process.pid()))
                .sum();
    }

    /** Checks the files of held ranks. Returns why the copies would not have the same files. */
    @FunctionalInterface
    interface FilesCheck {
        Optional<String> whyOther(Map<Integer, List<ProcessIdentity>> held)
                throws IOException, CheckpointException, InterruptedException;
    }

    /**
     * If all ranks are held, other threads check which objects and files they came to share or open before they were
     * stopped. The copies are restored at the same time. {@link #whyNotHeld} has the result.
     */
    void startHeldChecks(Job job, FilesCheck files) {
        if (!held.keySet().containsAll(roots.keySet())) {
            return;
        }
        // Removes the checks of the previous attempt, whose ranks stayed held.
        checks.clear();
        Map<Integer, ProcessIdentity> all = Map.copyOf(roots);
        Map<Integer, List<ProcessIdentity>> trees = Map.copyOf(processes());
        sharing = () -> {
            job.checkpointer().requireNothingShared(all);
            return "";
        };
        startCheck("held-ranks-look", sharing);
        startCheck("held-files-look", () -> files.whyOther(trees).orElse(""));
    }

    private static FutureTask<String> newCheck(Callable<String> finds) {
        return new FutureTask<>(() -> {
            try {
                return finds.call();
            } catch (IOException | CheckpointException e) {
                return String.valueOf(e.getMessage());
            }
        });
    }

    private void startCheck(String name, Callable<String> finds) {
        FutureTask<String> check = newCheck(finds);
        checks.add(check);
        Thread checking = new Thread(check, name);
        checking.setDaemon(true);
        checking.start();
    }

    /** Each check has a time limit, and ends long before a target votes. */
    private String whyNotAsBefore() {
        List<String> reasons =
                new ArrayList<>(checks.stream().map(OriginalRanks::resultOf).toList());
        if (!reasons.isEmpty() && !reasons.get(0).isEmpty()) {
            // Objects that this service borrows from a held rank, to read or flush them, look shared. By now that is
            // over.
            FutureTask<String> again = newCheck(sharing);
            again.run();
            checks.set(0, again);
            reasons.set(0, resultOf(again));
        }
        return reasons.stream().filter(reason -> !reason.isEmpty()).findFirst().orElse(null);
    }

    private static String resultOf(FutureTask<String> check) {
        return UninterruptedWait.of(() -> {
            try {
                return check.get();
            } catch (ExecutionException e) {
                throw new IllegalStateException("the check of the held ranks failed: " + e.getCause(), e);
            }
        });
    }

    /** Returns true if any rank has been stopped. */
    boolean anyHeld() {
        return !held.isEmpty();
    }

    /** Lists the ranks that are proved to be stopped now. Any thread. */
    List<Integer> heldRanks() {
        return heldNow.stream()
                .filter(HeldRank::isHeld)
                .map(HeldRank::rank)
                .sorted()
                .toList();
    }

    /** Returns the root process of each rank. */
    Map<Integer, ProcessIdentity> roots() {
        return roots;
    }

    /** Notes that a rank's checkpoint has left it stopped. */
    void held(HeldRank rank) {
        held.put(rank.rank(), rank);
        heldNow = List.copyOf(held.values());
    }

    /** Returns the cgroups in which only held ranks live. */
    FrozenCgroups cgroups() {
        return FrozenCgroups.around(held.values().stream()
                .flatMap(rank -> rank.processes().stream())
                .toList());
    }

    /** Holds the ranks also by the freezer of these cgroups. No SIGCONT continues them then. */
    void freeze(FrozenCgroups cgroups) {
        frozen = cgroups;
        cgroups.freeze();
    }

    /** Releases the freezer. The ranks are held only by their stop signal again. */
    void thaw() {
        frozen.thaw();
        frozen = FrozenCgroups.NONE;
    }

    /** Names the ranks that are gone, or null if there are ranks and none is gone. */
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
     * Names a rank that is not proved to be stopped now, that ran since it was held, or that shares an object by then.
     * Returns null if there is none.
     */
    String whyNotHeld() {
        for (int rank : roots.keySet()) {
            HeldRank original = held.get(rank);
            if (original == null) {
                return "rank " + rank + " was not stopped";
            }
            try {
                original.requireHeld();
            } catch (CheckpointException e) {
                return e.getMessage();
            }
        }
        return whyNotAsBefore();
    }

    /**
     * Kills all originals. Returns those that could not be killed, or null. Originals that are gone already are no
     * failure.
     */
    String end() {
        Set<Integer> unknown = new TreeSet<>(roots.keySet());
        unknown.removeAll(held.keySet());
        if (roots.isEmpty() || !unknown.isEmpty()) {
            return "the processes to kill are unknown for " + (roots.isEmpty() ? "any rank" : "ranks " + unknown);
        }
        if (detached) {
            try {
                surroundings.disconnect(migrationId);
            } catch (IOException e) {
                return "the network link of a pod cannot be removed: " + e.getMessage();
            }
        }
        names.drop();
        Map<Integer, String> left = HeldRank.endAll(held.values(), END_DEADLINE);
        // Processes that enter that cgroup later must run.
        thaw();
        left.forEach((rank, why) -> logOf(rank, "the original of rank {} could not be killed: {}", why));
        if (detached && left.isEmpty()) {
            try {
                surroundings.ended(migrationId);
            } catch (IOException e) {
                LOG.warn("migration {}: resources of its pods will be removed later: {}", migrationId, e.getMessage());
            }
        }
        return left.isEmpty() ? null : String.join("; ", left.values());
    }

    /**
     * Continues all held ranks, except for processes that the job itself had stopped. The records of pods are changed
     * after that, as these writes would lengthen the pause. A service that dies in between continues them once more.
     *
     * @return false if the network of a pod could not be restored, so that all ranks stay held, or if the record of a
     *     pod that runs could not be changed. A repeated call does the rest.
     */
    boolean release() {
        thaw();
        checks.clear();
        names.bringBack();
        if (detached) {
            try {
                releasePods();
            } catch (IOException | CheckpointException e) {
                LOG.error("migration {}: its pods stay stopped: {}", migrationId, e.getMessage());
                return false;
            }
        }
        Map<Integer, String> failures = recorded
                // A checkpoint may have been under way when the service died, and may stop its rank once more.
                ? OrphanedCommand.resumeAll(held.values())
                : HeldRank.releaseAll(held.values());
        continuedNs = System.nanoTime();
        failures.forEach((rank, why) -> logOf(rank, "the original of rank {} could not be continued: {}", why));
        held.clear();
        heldNow = List.of();
        return settle();
    }

    /** Returns the time at which {@link #release} has continued the ranks. */
    long continuedNs() {
        return continuedNs;
    }

    private boolean settle() {
        if (unsettled) {
            try {
                surroundings.settle(migrationId);
                departures.clear();
                unsettled = false;
            } catch (IOException e) {
                LOG.error(
                        "migration {}: its pods run, but their records still have it: {}", migrationId, e.getMessage());
            }
        }
        return !unsettled;
    }

    /** Continues each pod, held or not, because a failed checkpoint leaves its pod stopped. */
    private void releasePods() throws IOException, CheckpointException {
        if (!surroundings.has(migrationId)) {
            detached = false;
            return;
        }
        surroundings.attach(migrationId);
        detached = false;
        unsettled = true;
        processes.snapshot().trees(roots).forEach((rank, tree) -> {
            if (!tree.isEmpty()) {
                held.putIfAbsent(rank, new HeldRank(rank, tree, List.of()).withStoppedByJob(stoppedByJob(rank)));
            }
        });
        recorded = true;
    }

    /** Removes kept names after an end in which the originals were neither killed nor continued. */
    void dropNames() {
        if (whyNotAlive() != null) {
            names.drop();
        }
    }

    private void logOf(int rank, String message, String why) {
        try (LogContext.Scope about = LogContext.rank(rank)) {
            LOG.error("migration {}: " + message, migrationId, rank, why);
        }
    }
}
