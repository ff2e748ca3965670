package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer.CheckpointTask;
import io.ppmr.checkpoint.Enclosure;
import io.ppmr.checkpoint.HeldRank;
import io.ppmr.checkpoint.OrphanedCommand;
import io.ppmr.checkpoint.PreparedCheckpoint;
import io.ppmr.checkpoint.RankCommand;
import io.ppmr.checkpoint.RankCommands;
import io.ppmr.checkpoint.StoppedProcesses;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.linux.Command;
import io.ppmr.linux.LogContext;
import io.ppmr.linux.ParallelWork;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.RankSurroundings;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.keep.ImageManifest;
import io.ppmr.migration.keep.MemberImage;
import io.ppmr.migration.keep.SetDirectory;
import io.ppmr.migration.node.Preparation;
import io.ppmr.protocol.control.PodFacts;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A checkpoint of a job's pods on this node, to the directories of a set. All pods are held, with their cables out,
 * then
 * dumped, and then continue: nothing is ended, so nothing can be lost. Its caller decides when they continue, since a
 * job over several nodes must be held on all of them at one moment.
 *
 * <p>The calls come in this order: {@link #look}, {@link #hold}, {@link #isDumped} until it is true, {@link #resume},
 * {@link #write}. At any point {@link #resume} and {@link #close} give it up. One thread owns it. A note on the disk
 * has
 * what the next run of a service that dies continues.
 */
public final class JobCheckpoint implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(JobCheckpoint.class);
    private static final Duration END_DEADLINE = Duration.ofSeconds(20);
    private static final Duration POLL = Duration.ofMillis(50);
    private static final long AGAIN_NS = TimeUnit.SECONDS.toNanos(1);
    /** After that time the next run of the service continues the pods by the note. */
    private static final Duration RESUME_AT_THE_END = Duration.ofSeconds(20);

    private static final long MOST_WAIT_NS = TimeUnit.SECONDS.toNanos(10);

    /** Beside memory, an image has some megabytes of CRIU's files. */
    private static final long IMAGE_MARGIN_BYTES = 64L << 20;

    /**
     * The order.
     *
     * @param set the name of the set
     * @param incarnation the incarnation of the job
     * @param directory the directory of checkpoints, of the pods' template
     */
    public record CheckpointOrder(String set, long incarnation, Path directory) {}

    /**
     * The written images.
     *
     * @param digests a digest of each pod's image
     * @param bytes the size of all
     * @param heldMs for how long the pods were held, in milliseconds
     * @param dumpMs the time of the dumps
     * @param syncMs the time until the images were on the disk
     */
    public record ImagesWritten(Map<String, String> digests, long bytes, long heldMs, long dumpMs, long syncMs) {}

    private final SourceContext service;
    private final Job job;
    private final CheckpointOrder order;
    private final SetDirectory images;
    private final String id = "checkpoint-" + UUID.randomUUID();
    private final Path workRoot;
    private final OriginalRanks originals;
    private final RankCommands dumps = new RankCommands("checkpoint");
    private final Map<Integer, PreparedCheckpoint> prepared = new ConcurrentHashMap<>();
    private final Map<String, List<MemberImage.WrittenFile>> files = new TreeMap<>();
    private final Map<Integer, StoppedProcesses> stopped = new TreeMap<>();
    private Map<Integer, List<ProcessIdentity>> trees = Map.of();
    private Optional<CheckpointNote> note = Optional.empty();
    private boolean isRunning = true;
    private boolean isWritten;
    private final StepTimes times = new StepTimes();

    /** The ends of the steps of a hold. */
    private static final class StepTimes {
        private long heldNs;
        private long outNs;
        private long dumpedNs;
        private long checkedNs;
        private long orderedNs;
        private long resumedNs;

        private long heldMs() {
            return TimeUnit.NANOSECONDS.toMillis(resumedNs - heldNs);
        }

        private long dumpMs() {
            return TimeUnit.NANOSECONDS.toMillis(dumpedNs - heldNs);
        }

        /** Returns the milliseconds of each step. */
        @Override
        public String toString() {
            long[] ends = {heldNs, outNs, dumpedNs, checkedNs, orderedNs, resumedNs};
            String[] names = {"cables out", "dumps", "checks", "GO", "cables in"};
            List<String> words = new ArrayList<>();
            for (int step = 0; step < names.length; step++) {
                words.add(names[step] + " " + TimeUnit.NANOSECONDS.toMillis(ends[step + 1] - ends[step]));
            }
            return String.join(", ", words);
        }
    }

    private JobCheckpoint(SourceContext service, Job job, CheckpointOrder order) throws CheckpointException {
        this.service = service;
        this.job = job;
        this.order = order;
        this.images = new SetDirectory(order.directory(), job.user().uid(), jobName(job));
        this.workRoot = service.settings().node().workDirectory().resolve(id + ".1");
        this.originals = OriginalRanks.of(id, service.processes(), service.surroundings(), service.names(id), job);
    }

    /** Prepares a checkpoint. Nothing is touched. */
    static JobCheckpoint of(SourceContext service, Job job, CheckpointOrder order)
            throws CheckpointException, RequestException {
        if (job.pods().isEmpty()) {
            throw new RequestException("job " + job.name() + " is in no pods, and only such jobs are checkpointed so");
        }
        return new JobCheckpoint(service, job, order);
    }

    private static String jobName(Job job) {
        return job.pods().values().iterator().next().specification().job();
    }

    /** Finds the addresses that belong to no pod of the job, on any node. */
    @FunctionalInterface
    public interface ForeignAddresses {
        /**
         * Returns those of the addresses that belong to no pod of the job. May block for some seconds.
         *
         * @param peers the addresses of the peers of connections
         */
        Set<String> of(Set<String> peers) throws IOException, RequestException, InterruptedException;
    }

    /**
     * Checks whether the pods can be held and dumped. Throws with the cause and the remedy. Touches no process.
     *
     * @param foreign finds the addresses that belong to no pod of the job
     */
    public void look(BooleanSupplier calledOff, ForeignAddresses foreign)
            throws IOException, CheckpointException, RequestException, InterruptedException {
        Preparation preparation = new Preparation(calledOff);
        images.requireSafe();
        originals.awaitFilled(preparation);
        originals.requireMovable(job, service.settings(), preparation);
        // What cannot be in a manifest is refused before a pod is held.
        noteFiles(originals.trees());
        requireClosed(originals.connections(), foreign);
        long neededBytes = OriginalRanks.imageBytes(originals.trees()) + IMAGE_MARGIN_BYTES;
        long freeBytes = images.freeBytes();
        if (freeBytes < neededBytes) {
            throw new RequestException("the pods have " + neededBytes + " bytes of memory, and " + order.directory()
                    + " has room for " + freeBytes + ". Remedy: make room there, or keep fewer sets");
        }
        for (PodFacts pod : job.pods().values()) {
            images.begin(order.set(), pod.specification().name());
        }
        originals.findStoppedByJob();
    }

    /** A connection that leaves the job has an end that is in no image, so it would break at a restart. */
    private static void requireClosed(List<RankSurroundings.OutgoingConnection> connections, ForeignAddresses foreign)
            throws IOException, RequestException, InterruptedException {
        if (connections.isEmpty()) {
            return;
        }
        Set<String> outside = foreign.of(connections.stream()
                .map(RankSurroundings.OutgoingConnection::address)
                .collect(Collectors.toUnmodifiableSet()));
        Optional<RankSurroundings.OutgoingConnection> leaving = connections.stream()
                .filter(connection -> outside.contains(connection.address()))
                .findFirst();
        if (leaving.isPresent()) {
            RankSurroundings.OutgoingConnection one = leaving.get();
            throw new RequestException("pod " + one.pod() + ": PID " + one.pid()
                    + " has a connection out of the job, to "
                    + (one.address().contains(":") ? "[" + one.address() + "]" : one.address()) + ":" + one.port()
                    + ". Remedy: have it closed, or its other end in a pod of the job");
        }
    }

    /**
     * Holds all pods with their cables out, and starts their dumps. All that needs no held pod is done before: the
     * note and the pods' records are on the disk, and the tools wait for their start.
     */
    public void hold() throws IOException, CheckpointException {
        trees = originals.trees();
        Map<Integer, CheckpointNote.HeldMember> pods = new LinkedHashMap<>();
        job.pods()
                .forEach((rank, pod) -> pods.put(
                        rank,
                        new CheckpointNote.HeldMember(
                                pod.specification().name(),
                                trees.get(rank),
                                List.copyOf(originals.stoppedByJob(rank)))));
        note = Optional.of(new CheckpointNote(
                id,
                order.set(),
                new CheckpointNote.ImagePlace(order.directory().toString(), images.uid(), images.job()),
                pods));
        note.get().write(service.settings().journal());
        isRunning = false;
        originals.leave(job, Optional.empty());
        prepareDumps(originals.enclosures(job));
        times.heldNs = System.nanoTime();
        Map<Integer, RankCommand> started = new ConcurrentHashMap<>();
        try {
            // Each pod is dumped as soon as its own cable is out. This does not wait for the cables of the others.
            ParallelWork.forEach("ppmr-job-hold", job.pods().keySet(), rank -> {
                originals.detach(rank);
                started.put(rank, start(rank));
            });
        } finally {
            started.forEach(dumps::add);
        }
        times.outNs = System.nanoTime();
    }

    private void prepareDumps(Map<Integer, Enclosure> enclosures) throws IOException {
        Command.inheritNoJars();
        for (int rank : job.pods().keySet()) {
            WorkDirectories.create(workRoot, rank);
        }
        ParallelWork.forEach("ppmr-job-dump", job.pods().keySet(), rank -> {
            try {
                prepared.put(rank, job.checkpointer().prepare(task(rank, enclosures.get(rank))));
            } catch (CheckpointException e) {
                throw new IOException(e.getMessage(), e);
            }
        });
        for (PreparedCheckpoint one : prepared.values()) {
            OrphanedCommand.note(workRoot, one.started());
        }
    }

    private RankCommand start(int rank) throws IOException {
        try (LogContext.Scope about = LogContext.rank(rank)) {
            return prepared.get(rank).start();
        } catch (CheckpointException e) {
            throw new IOException(e.getMessage(), e);
        }
    }

    private CheckpointTask task(int rank, Enclosure enclosure) throws IOException {
        Path image = images.partial(
                        order.set(), job.pods().get(rank).specification().name())
                .resolve("rank-0");
        Files.createDirectory(image);
        return new CheckpointTask(
                rank,
                trees.get(rank),
                job.user(),
                image,
                workRoot.resolve("rank-" + rank),
                service.settings().limits().checkpointDeadline(),
                originals.stoppedByJob(rank),
                Optional.of(enclosure));
    }

    /** Returns true if all pods are dumped, and were held all the time. Waits a moment. Throws if a dump failed. */
    public boolean isDumped() throws CheckpointException, InterruptedException {
        Optional<HeldRank> next = dumps.next(POLL);
        if (next.isPresent()) {
            HeldRank held = next.get();
            originals.held(held);
            if (!held.stoppedByJob().isEmpty()) {
                stopped.put(held.rank(), StoppedProcesses.of(held));
            }
            if (dumps.isEmpty()) {
                times.dumpedNs = System.nanoTime();
                originals.startHeldChecks(job, unused -> Optional.empty());
                noteFiles(originals.processes());
                String why = originals.whyNotHeld();
                if (why != null) {
                    throw new CheckpointException(why);
                }
                times.checkedNs = System.nanoTime();
            }
        }
        return dumps.isEmpty();
    }

    /** Notes the node's files that the pods write: a restart requires the same sizes. */
    private void noteFiles(Map<Integer, List<ProcessIdentity>> processes) throws CheckpointException {
        for (Map.Entry<Integer, List<ProcessIdentity>> rank : processes.entrySet()) {
            PodFacts pod = job.pods().get(rank.getKey());
            String name = pod.specification().name();
            files.put(name, WrittenFiles.of(name, rank.getValue(), pod.mounts()));
        }
    }

    /**
     * Puts the cables in, and continues all pods, except for processes that the job itself had stopped. A dump that
     * still runs is ended before. Tries again until it succeeds: a pod never stays held.
     */
    public void resume() {
        if (isRunning) {
            return;
        }
        // The end of the service interrupts this thread, and the pods must run before it ends.
        boolean isInterrupted = Thread.interrupted();
        try {
            times.orderedNs = System.nanoTime();
            dumps.endAll(END_DEADLINE).forEach(originals::held);
            prepared.values().forEach(PreparedCheckpoint::close);
            long endNs = System.nanoTime() + RESUME_AT_THE_END.toNanos();
            isRunning = originals.release();
            while (!isRunning && (!isInterrupted || System.nanoTime() - endNs < 0)) {
                // The images may have filled the disk that the pods' records need. Without them there is no set.
                try {
                    removeImages();
                } catch (IOException e) {
                    LOG.warn("images of a checkpoint of job {} stay for now: {}", images.job(), e.getMessage());
                }
                LockSupport.parkNanos(AGAIN_NS);
                isInterrupted |= Thread.interrupted();
                isRunning = originals.release();
            }
            times.resumedNs = originals.continuedNs();
        } finally {
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /**
     * Notes that the pods run. The next run of the service would continue them once more by the note, though a
     * migration may hold them by then. Call it after {@link #resume}, and before a migration may begin.
     */
    public void noteResumed() throws IOException {
        CheckpointNote resumed = note.orElseThrow().continued();
        resumed.write(service.settings().journal());
        note = Optional.of(resumed);
    }

    /**
     * Syncs the images, writes their manifests, and gives them their names. The pods run by now.
     *
     * @param calledOff checked repeatedly; returns true if the images are not needed, which is an error
     */
    public ImagesWritten write(BooleanSupplier calledOff) throws IOException {
        LOG.info("job {}: its pods here were held for {} ms: {}", images.job(), times.heldMs(), times);
        awaitLaterMembers(calledOff);
        Map<String, String> digests = new TreeMap<>();
        long bytes = 0;
        long startNs = System.nanoTime();
        for (Map.Entry<Integer, PodFacts> pod : new TreeMap<>(job.pods()).entrySet()) {
            String name = pod.getValue().specification().name();
            SetDirectory.WrittenImage written = images.end(
                    order.set(),
                    name,
                    manifest(pod.getKey(), pod.getValue(), name),
                    service.settings().authenticator(),
                    calledOff);
            digests.put(name, written.digest());
            bytes += written.bytes();
        }
        isWritten = true;
        // Before its caller reports the images: the next run of the service removes those of a checkpoint with a note.
        forgetNote();
        return new ImagesWritten(
                digests,
                bytes,
                times.heldMs(),
                times.dumpMs(),
                TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startNs));
    }

    /**
     * Waits for as long as the dumps took. Other nodes were held later, and may write to the same disk or server: this
     * sync would lengthen their pause.
     */
    private void awaitLaterMembers(BooleanSupplier calledOff) throws IOException {
        long waitNs = Math.min(times.dumpedNs - times.heldNs, MOST_WAIT_NS);
        while (System.nanoTime() - times.resumedNs < waitNs) {
            if (calledOff.getAsBoolean()) {
                throw new IOException("the images are no longer needed");
            }
            LockSupport.parkNanos(POLL.toNanos());
        }
    }

    private ImageManifest manifest(int rank, PodFacts pod, String name) throws IOException {
        return new ImageManifest(
                "3",
                images.job(),
                job.checkpointer().name(),
                job.user(),
                id,
                1,
                System.currentTimeMillis(),
                Files.readString(Path.of("/proc/sys/kernel/hostname")).strip(),
                Map.of(0, trees.get(rank)),
                List.of(),
                Optional.of(new MemberImage(
                        order.set(),
                        order.incarnation(),
                        pod,
                        files.getOrDefault(name, new ArrayList<>()),
                        Optional.ofNullable(stopped.get(rank)))));
    }

    /** Removes the images of this set. */
    private void removeImages() throws IOException {
        for (PodFacts pod : job.pods().values()) {
            images.remove(order.set(), pod.specification().name());
        }
    }

    /** Removes the rest: of a checkpoint that became void, its images, too. The pods must run. */
    @Override
    public void close() {
        resume();
        if (!isRunning) {
            return;
        }
        WorkDirectories.removeOrWarn(workRoot);
        try {
            if (!isWritten) {
                removeImages();
            }
            forgetNote();
        } catch (IOException e) {
            LOG.warn(
                    "the rest of a checkpoint of job {} is removed when the service starts: {}",
                    images.job(),
                    e.getMessage());
            noteContinued();
        }
    }

    /** The next run of the service must not continue pods that a migration may hold by then. */
    private void noteContinued() {
        try {
            if (note.isPresent()) {
                note.get().continued().write(service.settings().journal());
            }
        } catch (IOException e) {
            LOG.error("a checkpoint of job {}: its note cannot be changed: {}", images.job(), e.getMessage());
        }
    }

    private void forgetNote() throws IOException {
        if (note.isPresent()) {
            note.get().forget(service.settings().journal());
        }
    }

    /**
     * Returns the jobs whose pods are held for a checkpoint, or were when their service ended. Changes nothing.
     *
     * @param journal the directory of a source's journal
     */
    public static List<String> heldIn(Path journal) throws IOException {
        return CheckpointNote.in(journal).stream()
                .filter(note -> !note.isContinued())
                .map(note -> note.images().job())
                .distinct()
                .toList();
    }

    /**
     * Continues the pods that an earlier run of the service has left held, and removes their incomplete images.
     *
     * @param notes the notes that were there when this run began
     * @return those that must be tried again
     */
    static List<CheckpointNote> recover(SourceContext service, List<CheckpointNote> notes) {
        List<CheckpointNote> again = new ArrayList<>();
        for (CheckpointNote left : notes) {
            CheckpointNote now = left;
            try {
                if (!now.isContinued() && resume(service, now)) {
                    // They are continued once: later, a migration may hold them.
                    now = now.continued();
                    now.write(service.settings().journal());
                }
                if (now.isContinued()) {
                    removeRest(service, now);
                } else {
                    again.add(now);
                }
            } catch (IOException e) {
                LOG.error("job {}: {}", now.images().job(), e.getMessage());
                again.add(now);
            }
        }
        return again;
    }

    private static boolean resume(SourceContext service, CheckpointNote left) {
        LOG.warn(
                "job {}: the checkpoint {} is void, since the service ended in it; its pods continue",
                left.images().job(),
                left.set());
        OriginalRanks originals = OriginalRanks.noted(
                left.id(),
                service.processes(),
                service.surroundings(),
                service.names(left.id()),
                service.settings().node().workDirectory(),
                left.pods());
        return originals.endOrphanedCheckpoints() && originals.release();
    }

    private static void removeRest(SourceContext service, CheckpointNote left) throws IOException {
        SetDirectory images = new SetDirectory(
                Path.of(left.images().directory()),
                left.images().uid(),
                left.images().job());
        for (CheckpointNote.HeldMember pod : left.pods().values()) {
            images.remove(left.set(), pod.name());
        }
        left.forget(service.settings().journal());
    }
}
