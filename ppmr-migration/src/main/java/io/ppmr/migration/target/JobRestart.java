package io.ppmr.migration.target;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Checkpointer.RestartTask;
import io.ppmr.checkpoint.HeldRank;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.OrphanedCommand;
import io.ppmr.checkpoint.RankCommand;
import io.ppmr.checkpoint.RankCommands;
import io.ppmr.checkpoint.StoppedProcesses;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.keep.ImageManifest;
import io.ppmr.migration.keep.KeptImages;
import io.ppmr.migration.keep.MemberImage;
import io.ppmr.migration.keep.SetDirectory;
import io.ppmr.protocol.control.Finding;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The restart of some pods of a job over several nodes, out of a set. All are restored and held. Its caller decides
 * whether they are released, once those of all nodes are held, or ended. One thread owns it.
 */
public final class JobRestart {
    private static final Logger LOG = LoggerFactory.getLogger(JobRestart.class);
    private static final String MOVE = "restart-";
    private static final Duration END_DEADLINE = Duration.ofSeconds(20);
    private static final Duration POLL = Duration.ofMillis(50);

    /**
     * The order.
     *
     * @param uid the job's user
     * @param job the job's name
     * @param set the set
     * @param number the number of the restart
     * @param pods the pods that this node restores
     * @param directories the directories that may have the images, the nearest first
     */
    public record RestartOrder(int uid, String job, String set, long number, Set<String> pods, List<Path> directories) {
        public RestartOrder {
            pods = Set.copyOf(pods);
            directories = List.copyOf(directories);
        }

        private String move() {
            return moveOf(uid, job, number);
        }
    }

    /** Returns the name of the move that brings the pods of a restart. */
    public static String moveOf(int uid, String job, long number) {
        return MOVE + Integer.toUnsignedString(uid) + "-" + job + "." + number;
    }

    /** Returns true if a move of this name brings the pods of a restart. */
    public static boolean isMove(String move) {
        return move.startsWith(MOVE);
    }

    /** A pod with its image. */
    private record MemberToRestore(KeptImages images, MemberImage image, Checkpointer checkpointer) {}

    private final TargetContext service;
    private final RestartOrder order;
    private final Path workRoot;
    private final RankCommands restarts = new RankCommands("restart");
    private final Map<Integer, MemberToRestore> pods = new TreeMap<>();
    private final List<HeldRank> held = new ArrayList<>();
    private boolean isReleased;
    /** True from before the note of a release: from then on nothing of this service ends the pods. */
    private boolean mayBeReleased;

    JobRestart(TargetContext service, RestartOrder order) {
        this.service = service;
        this.order = order;
        this.workRoot = service.settings().node().workDirectory().resolve(order.move());
    }

    /** Checks whether the pods can be restored here. Throws with the cause and the remedy. Makes nothing. */
    public void judge() throws RequestException, IOException {
        long memoryBytes = open(true);
        requireFit(memoryBytes);
        requireSameFiles();
    }

    /**
     * Checks the same before a recovery, without reading the images. Makes nothing.
     *
     * @param isSpare whether none of the pods runs here now; else they end before the restore, so that their memory and
     *     their addresses become free
     */
    public void look(boolean isSpare) throws RequestException, IOException {
        long memoryBytes = open(false);
        if (isSpare) {
            requireFit(memoryBytes);
        }
        requireSameFiles();
    }

    /** Opens the images, and returns their size. */
    private long open(boolean isRead) throws RequestException, IOException {
        pods.clear();
        long memoryBytes = 0;
        for (String name : new TreeSet<>(order.pods())) {
            MemberToRestore pod = open(name, isRead);
            pods.put(pods.size(), pod);
            memoryBytes += pod.images().manifest().totalBytes();
        }
        return memoryBytes;
    }

    /** Opens a pod's image in the first directory that has a whole one. */
    private MemberToRestore open(String name, boolean isRead) throws RequestException, IOException {
        if (order.directories().isEmpty()) {
            throw new RequestException("this node sees no image of set " + order.set() + " of pod " + name
                    + ". Remedy: name nodes that see the directory of checkpoints (--on)");
        }
        Exception first = null;
        for (Path directory : order.directories()) {
            try {
                return open(name, directory, isRead);
            } catch (RequestException | IOException e) {
                if (first == null) {
                    first = e;
                } else {
                    first.addSuppressed(e);
                }
                LOG.warn(
                        "job {}: the image of pod {} in {} cannot be used, and the next directory is tried: {}",
                        order.job(),
                        name,
                        directory,
                        e.getMessage());
            }
        }
        throw first instanceof RequestException refused
                ? refused
                : new RequestException("the image of pod " + name + " cannot be read: " + first, first);
    }

    private MemberToRestore open(String name, Path from, boolean isRead) throws RequestException, IOException {
        SetDirectory directory = new SetDirectory(from, order.uid(), order.job());
        directory.requireSafe();
        KeptImages images = KeptImages.open(directory.image(order.set(), name));
        images.requireSealed(service.settings().authenticator(), false);
        images.requireOwners(JobUser.ofService());
        if (isRead) {
            images.requireWhole();
        } else {
            images.requireSizes();
        }
        return of(name, images);
    }

    private void requireFit(long memoryBytes) throws RequestException, IOException {
        long freeBytes = service.admission().availableBytes();
        if (memoryBytes > freeBytes) {
            throw new RequestException("the images of the pods have " + memoryBytes + " bytes, and this node has "
                    + freeBytes + " bytes of memory. Remedy: name other nodes (--on)");
        }
        List<Finding> findings = service.surroundings()
                .findings(pods.values().stream().map(pod -> pod.image().pod()).toList());
        Optional<Finding> against = findings.stream()
                .filter(finding -> finding.level() == Finding.Level.FAIL)
                .findFirst();
        if (against.isPresent()) {
            throw new RequestException(against.get().text());
        }
    }

    private void requireSameFiles() throws RequestException {
        for (MemberToRestore pod : pods.values()) {
            requireSameFiles(pod.image());
        }
    }

    private MemberToRestore of(String name, KeptImages images) throws RequestException {
        ImageManifest manifest = images.manifest();
        MemberImage image = manifest.pod()
                .orElseThrow(
                        () -> new RequestException("the image of pod " + name + " is of no pod: it was exchanged"));
        boolean isMeant = image.set().equals(order.set())
                && image.pod().uid() == order.uid()
                && image.pod().specification().job().equals(order.job())
                && image.pod().specification().name().equals(name);
        if (!isMeant) {
            throw new RequestException("the image of pod " + name + " is of pod "
                    + image.pod().specification().name() + " of job "
                    + image.pod().specification().job() + ", set " + image.set()
                    + ". Remedy: restart from another set (--set)");
        }
        Checkpointer checkpointer = service.settings().tools().checkpointers().stream()
                .filter(tool -> tool.name().equals(manifest.checkpointer()))
                .findFirst()
                .orElseThrow(() -> new RequestException("this target has no [checkpointers." + manifest.checkpointer()
                        + "], which has written the images. Remedy: write the same section on all nodes"));
        if (!service.settings().tools().trusts(manifest.user(), checkpointer)) {
            throw new RequestException("this target does not trust user " + order.uid() + " with [checkpointers."
                    + checkpointer.name() + "]. Remedy: add the user to trusted_users there");
        }
        return new MemberToRestore(images, image, checkpointer);
    }

    /**
     * CRIU restores a file that was written only with the size that it had. The path is one that the job's user may
     * have
     * exchanged since, so no link is followed, and its size is not shown.
     */
    private static void requireSameFiles(MemberImage image) throws RequestException {
        for (MemberImage.WrittenFile file : image.files()) {
            Path path = Path.of(file.path());
            boolean isSame;
            try {
                Path real = path.toRealPath();
                isSame = image.pod().mounts().stream().anyMatch(mount -> real.startsWith(Path.of(mount)))
                        && Files.isRegularFile(path, LinkOption.NOFOLLOW_LINKS)
                        && Files.size(path) == file.sizeBytes();
            } catch (IOException e) {
                LOG.debug("{} cannot be read", path, e);
                isSame = false;
            }
            if (!isSame) {
                throw new RequestException("file " + path + ", which pod "
                        + image.pod().specification().name() + " had open for writing, is not here with the "
                        + file.sizeBytes() + " bytes that it had. Remedy: turn it back (truncate -s "
                        + file.sizeBytes() + " FILE), restore it, or name nodes that have it (--on)");
            }
        }
    }

    /** Restores all pods, and returns when each is held. Throws if one fails; {@link #end} follows. */
    public void restore(BooleanSupplier calledOff) throws IOException, CheckpointException, InterruptedException {
        restarts.start(pods.keySet(), rank -> {
            MemberToRestore pod = pods.get(rank);
            Path work = WorkDirectories.create(workRoot, rank);
            RankCommand restart = pod.checkpointer()
                    .restart(new RestartTask(
                            rank,
                            pod.images().manifest().user(),
                            pod.images().rank(0),
                            work,
                            service.settings().rules().restartDeadline(),
                            // Peers get no notice: they are held, too.
                            Optional.of(service.surroundings()
                                    .prepare(
                                            order.move(),
                                            Optional.empty(),
                                            pod.image().pod(),
                                            true))));
            OrphanedCommand.note(workRoot, restart.started());
            return restart;
        });
        while (!restarts.isEmpty()) {
            if (calledOff.getAsBoolean()) {
                throw new CheckpointException("the restart was called off");
            }
            Optional<HeldRank> next = restarts.next(POLL);
            if (next.isPresent()) {
                HeldRank rank = next.get();
                held.add(rank);
                OrphanedCommand.note(workRoot, rank.processes());
                Optional<StoppedProcesses> stopped =
                        pods.get(rank.rank()).image().stopped();
                if (stopped.isPresent()) {
                    // Found now, while nothing of it runs. An error ends the copies.
                    held.set(
                            held.size() - 1, rank.withStoppedByJob(stopped.get().among(rank)));
                }
                service.surroundings()
                        .restored(
                                order.move(),
                                pods.get(rank.rank()).image().pod(),
                                rank.processes().get(0));
            }
        }
    }

    private List<ProcessIdentity> processes() {
        return held.stream().flatMap(rank -> rank.processes().stream()).toList();
    }

    private List<ProcessIdentity> stopped() {
        return held.stream().flatMap(rank -> rank.stoppedByJob().stream()).toList();
    }

    /** Returns true if the pods may run: they are never ended, and a release is repeated until it succeeds. */
    public boolean mayBeReleased() {
        return mayBeReleased;
    }

    /** Proves that all pods are held. Throws with the first that is not. */
    public void requireHeld() throws CheckpointException {
        for (HeldRank rank : held) {
            rank.requireHeld();
        }
    }

    /** Notes that the pods are released, then puts the cables in and continues all pods. */
    public void release() throws IOException {
        mayBeReleased = true;
        if (!isReleased) {
            new RestartNote(order.move(), processes(), stopped())
                    .write(service.settings().journal());
            OrphanedCommand.forget(workRoot);
            isReleased = true;
        }
        service.surroundings().attach(order.move());
        service.surroundings().settle(order.move());
        OrphanedCommand.resumeAll(held)
                .forEach((rank, why) -> LOG.error("job {}: a pod was not continued: {}", order.job(), why));
        close();
    }

    /** Ends all pods that were restored, which never ran, and removes their surroundings. */
    public void end() throws IOException {
        if (mayBeReleased) {
            throw new IllegalStateException("pods that may run are not ended");
        }
        held.addAll(restarts.endAll(END_DEADLINE));
        Map<Integer, String> left = HeldRank.endAll(held, END_DEADLINE);
        held.clear();
        service.surroundings().discard(order.move());
        if (!left.isEmpty()) {
            throw new IOException(String.join("; ", left.values()));
        }
        close();
    }

    private void close() {
        WorkDirectories.removeOrWarn(workRoot);
    }
}
