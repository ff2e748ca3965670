package io.ppmr.cluster.job;

import io.ppmr.checkpoint.Polling;
import io.ppmr.cluster.job.JobQuestion.Answer;
import io.ppmr.cluster.job.JobReader.ReadRecord;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.daemon.part.MemberJobs;
import io.ppmr.daemon.part.MemberJobs.MemberJob;
import io.ppmr.daemon.part.NodeJobs;
import io.ppmr.linux.HostPort;
import io.ppmr.linux.RareLog;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.keep.SetDirectory;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.target.JobRestart;
import io.ppmr.protocol.control.CheckpointInterval;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The jobs over several nodes, as a service takes part in them: it registers its pods, follows the records, and answers
 * controllers. {@link #refresh} belongs to the thread of the service's membership; the rest is for any thread.
 */
public final class JobMembers {
    private static final Logger LOG = LoggerFactory.getLogger(JobMembers.class);
    private static final Comparator<JobName> BY_KEY = Comparator.comparing(JobKey::of);
    /** A checkpoint that is void ends within the time that its dumps need to end. */
    /** The time for an answer of a directory of checkpoints. A controller waits a little longer for this node's. */
    private static final Duration READ_LIMIT = Duration.ofSeconds(4);

    private static final Duration VOID_LIMIT = Duration.ofSeconds(40);

    private static final Duration COPY_END = Duration.ofSeconds(5);
    private static final long MASK = 0xffffffffL;
    /** The characters of an answer around each image. */
    private static final int IMAGE_MARKS = 6;

    /** No layout: what was registered before counts for nothing. */
    private static final long NOT_REGISTERED = -1;

    /** The pods that a controller has taken, in a layout. */
    private record Registered(MemberJob job, long layout) {}

    /** A migration of a job, by its name in the job's record. */
    private record MoveKey(JobName job, String id) {}

    /**
     * The end of a migration.
     *
     * @param hasMoved whether the originals are gone
     * @param to the address of the target; empty if it is unknown, or if there were several
     */
    private record MoveEnd(boolean hasMoved, String to) {
        private static final MoveEnd UNKNOWN = new MoveEnd(true, "");
    }

    private final DirectoryCalls reads = new DirectoryCalls("ppmr-job-images");
    private final DirectoryCalls removals = new DirectoryCalls("ppmr-job-old-images");
    private final String host;
    private final NodeJobs jobs;
    private final ActiveController controllers;
    private final MemberNotes notes;
    private final RareLog log = new RareLog(LOG::warn);
    private final Map<JobName, SourceMember> sources = new ConcurrentHashMap<>();
    private final Map<JobName, TargetMember> targets = new ConcurrentHashMap<>();
    private final Map<JobName, EndingMember> endings = new ConcurrentHashMap<>();
    private final Map<JobName, SetCopier> copiers = new ConcurrentHashMap<>();
    private final Map<JobName, Registered> registered = new ConcurrentSkipListMap<>(BY_KEY);
    /** The migrations that run here, by their names in the jobs' records. */
    private final Map<JobName, String> moves = new ConcurrentHashMap<>();
    /** The jobs that are read again soon, whether pods of them are here or not. */
    private final Set<JobName> unfinished = new HashSet<>();
    /** The refusals of controllers to register pods of this node. */
    private final Map<JobName, String> refusals = new ConcurrentHashMap<>();
    /** The number of migrations that have begun here. */
    private final AtomicLong begun = new AtomicLong();
    /** Guards a job's note of a migration against the begin of its next one. */
    private final Object noteLock = new Object();

    /** The ends of migrations that this run of the service has seen, until they are recorded. */
    private final Map<MoveKey, MoveEnd> ends = new ConcurrentHashMap<>();

    private final Path journal;
    /** True until the jobs of an earlier run of this service were read in this session. */
    private volatile boolean isNew = true;

    private volatile boolean isEnding;
    private final Map<JobName, String> cleaned = new ConcurrentHashMap<>();

    /**
     * Makes the jobs of a service.
     *
     * @param host the name of the node in the cluster
     * @param journal the directory of the service's journal
     * @param controllers sends questions to the active controller
     */
    public JobMembers(String host, NodeJobs jobs, Path journal, ActiveController controllers) {
        this.host = host;
        this.jobs = jobs;
        this.controllers = controllers;
        this.journal = journal;
        this.notes = new MemberNotes(journal);
    }

    /** Has all pods registered again: the session is a new one. */
    public void joined() {
        isNew = true;
        registered.replaceAll((job, known) -> new Registered(known.job(), NOT_REGISTERED));
    }

    /**
     * Returns true if the pods of this node are not those that were registered. Sends nothing: a job that runs costs no
     * message.
     */
    public boolean isDue() throws IOException {
        if (jobs.checkpoints().isEmpty()) {
            return false;
        }
        Map<JobName, MemberJob> here = new TreeMap<>(BY_KEY);
        for (MemberJob job : jobs.members().here()) {
            here.put(job.name(), job.still());
        }
        Map<JobName, MemberJob> known = new TreeMap<>(BY_KEY);
        registered.forEach((name, one) -> {
            if (!one.job().pods().isEmpty()) {
                known.put(name, one.job());
            }
        });
        return !here.equals(known);
    }

    /**
     * Registers pods that have changed, and reads the records of all jobs with a part in them.
     *
     * @return false if something must be tried again soon
     */
    public boolean refresh(JobReader reader) throws IOException, InterruptedException {
        boolean isDone = true;
        if (jobs.checkpoints().isPresent()) {
            isDone = refreshSource(reader, jobs.checkpoints().get());
        }
        if (jobs.restarts().isPresent()) {
            isDone &= refreshTarget(reader);
        }
        return isDone;
    }

    private boolean refreshSource(JobReader reader, NodeJobs.Checkpoints checkpoints)
            throws IOException, InterruptedException {
        boolean isDone = true;
        Map<JobName, MemberJob> here = new TreeMap<>(BY_KEY);
        for (MemberJob job : jobs.members().here()) {
            here.put(job.name(), job);
        }
        // A pod that ended is no longer a member. The record may name some that were restarted here.
        registered
                .values()
                .forEach(known ->
                        here.putIfAbsent(known.job().name(), known.job().without()));
        Set<String> named = new TreeSet<>(reader.orders(host));
        // All pods of such a job may be gone, by a migration whose end is not recorded.
        boolean isFirst = isNew;
        named.addAll(isFirst ? notes.keys() : List.of());
        unfinished.forEach(job -> named.add(JobKey.of(job)));
        for (String key : named) {
            JobKey.parse(key)
                    .ifPresent(name -> here.putIfAbsent(
                            name,
                            new MemberJob(
                                    name,
                                    1,
                                    Set.of(),
                                    Optional.empty(),
                                    Optional.empty(),
                                    CheckpointInterval.NONE,
                                    false,
                                    false)));
        }
        refusals.keySet().retainAll(here.keySet());
        boolean isRead = true;
        for (MemberJob job : here.values()) {
            // One job must not keep the others from their records.
            try {
                if (refresh(reader, job, checkpoints)) {
                    unfinished.remove(job.name());
                } else {
                    unfinished.add(job.name());
                    isDone = false;
                }
            } catch (IOException | RuntimeException e) {
                log.write("job", "job " + job.name() + ": " + e.getMessage());
                unfinished.add(job.name());
                isDone = false;
                isRead = false;
            }
        }
        // A refusal of one job must not have the records of all earlier jobs read again and again.
        if (isFirst && isRead) {
            isNew = false;
        }
        return isDone;
    }

    private boolean refresh(JobReader reader, MemberJob job, NodeJobs.Checkpoints checkpoints)
            throws IOException, InterruptedException {
        long begunBefore = begun.get();
        Optional<ReadRecord> read = reader.read(job.name());
        if (read.isPresent() && !isEnding) {
            if (!sources.containsKey(job.name())) {
                sources.put(job.name(), new SourceMember(job.name(), host, checkpoints, controllers, notes));
            }
            sources.get(job.name()).onRecord(read.get(), job);
            if (!endings.containsKey(job.name())) {
                endings.put(job.name(), new EndingMember(job.name(), host, jobs.members(), controllers, notes));
            }
            endings.get(job.name()).onRecord(read.get());
            if (job.checkpoints().isPresent() && job.copies().isPresent()) {
                copiers.computeIfAbsent(job.name(), name -> new SetCopier(name, host, controllers))
                        .onRecord(
                                read.get().record(),
                                new SetCopier.CopyPlaces(
                                        job.checkpoints().get(), job.copies().get()));
            }
        }
        if (read.isEmpty()) {
            // A job without a record and without pods is none. Its note may be of long ago.
            if (job.pods().isEmpty()) {
                registered.remove(job.name());
                ends.keySet().removeIf(end -> end.job().equals(job.name()));
                return true;
            }
            return register(job, read);
        }
        // Its end changes the record, and pods are registered by that.
        if (read.get().record().phase() == JobPhase.ENDING) {
            return true;
        }
        if (endStale(reader, job, read.get().record())) {
            return false;
        }
        // The record follows a migration by its report, so pods that leave are not registered as gone before.
        if (moves.containsKey(job.name())) {
            return true;
        }
        // A migration that ended since the jobs were listed has taken pods of that list with it.
        MemberJob now = present(job);
        if (now.isMoving()) {
            return true;
        }
        // Record and pods are of one moment only if no migration began between them.
        if (begun.get() != begunBefore || moves.containsKey(job.name())) {
            return false;
        }
        boolean isDone = endMoves(reader, now, read.get().record()) && register(now, read);
        if (isDone && endings.containsKey(job.name())) {
            endings.get(job.name()).registered(read.get().record(), now.pods());
        }
        clean(reader, now, read.get().record());
        return isDone;
    }

    /** Ends pods here that the record has elsewhere since this node counted as off. Returns true if there were some. */
    private boolean endStale(JobReader reader, MemberJob job, JobRecord record)
            throws IOException, InterruptedException {
        EndingMember ending = endings.get(job.name());
        if (ending == null || job.pods().isEmpty() || job.isMoving() || moves.containsKey(job.name())) {
            return false;
        }
        Set<String> placed = reader.pods(job.name(), record.numbers().layout(), host);
        return ending.endStale(record, job.pods(), placed);
    }

    /** Returns the job with its pods of this moment. */
    private MemberJob present(MemberJob listed) throws IOException {
        return jobs.members().here().stream()
                .filter(one -> one.name().equals(listed.name()))
                .findFirst()
                .orElse(listed.without());
    }

    private boolean register(MemberJob job, Optional<ReadRecord> read) {
        long layout = read.map(one -> one.record().numbers().layout()).orElse(0L);
        Registered wanted = new Registered(job.still(), layout);
        if (wanted.equals(registered.get(job.name()))) {
            return true;
        }
        try {
            Answer answer = controllers.ask(new JobQuestion.Register(
                    job.name(), host, job.members(), new TreeSet<>(job.pods()), scheduleOf(job)));
            if (answer.refusal() != null) {
                refusals.put(job.name(), answer.refusal());
                log.write(
                        "register",
                        "the pods of job " + job.name() + " are not registered, so it is not checkpointed: "
                                + answer.refusal());
                return false;
            }
            LOG.info(
                    "job {}: {} pods are registered from this node",
                    job.name(),
                    job.pods().size());
            refusals.remove(job.name());
            notes.keep(job.name());
            registered.put(job.name(), wanted);
            return true;
        } catch (IOException | RequestException e) {
            log.write(
                    "no controller",
                    "the pods of job " + job.name() + " are not registered yet, so it is not checkpointed: "
                            + e.getMessage());
            return false;
        }
    }

    private static JobRecord.JobSchedule scheduleOf(MemberJob job) throws IOException {
        return new JobRecord.JobSchedule(
                job.interval().text(),
                job.checkpoints().isPresent()
                        ? CheckpointStore.nameOf(job.checkpoints().get())
                        : "",
                job.recovers(),
                job.copies().isPresent());
    }

    // ---- migrations ---------------------------------------------------------------------------------------------

    /**
     * Has the controllers note that a migration of the job's pods begins, and waits until no checkpoint of
     * them is under way. A job without a set is moved even if no controller answers.
     *
     * @param targets the targets of the order, or empty for the configured targets
     * @param withoutCluster whether a job with a set is moved even if no controller answers
     */
    public void beginMove(JobName job, List<InetSocketAddress> targets, boolean withoutCluster)
            throws IOException, RequestException {
        Optional<MemberJob> member = jobs.members().here().stream()
                .filter(one -> one.name().equals(job))
                .findFirst();
        if (member.isEmpty()) {
            return;
        }
        String id = "move-" + Long.toHexString(ThreadLocalRandom.current().nextInt() & MASK);
        synchronized (noteLock) {
            Optional<MoveNote> earlier = notes.move(job);
            if (earlier.isPresent()
                    && (member.get().isMoving()
                            || !earlier.get().gone(member.get().pods()).isEmpty())) {
                throw new RequestException("pods of job " + job + " were moved to "
                        + earlier.get().to() + ", not recorded. Remedy: start a controller, and migrate the others"
                        + " when ppmr job show names the node of the moved pods");
            }
            if (earlier.isPresent()) {
                notes.removeMove(job);
            }
            // From now on its end is not reported, and its pods are not registered as gone.
            moves.put(job, id);
            begun.incrementAndGet();
        }
        boolean isBegun = false;
        try {
            noteBegin(member.get(), id, targets, withoutCluster);
            isBegun = id.equals(moves.get(job));
        } finally {
            if (!isBegun) {
                moves.remove(job, id);
            }
        }
        if (!isBegun) {
            throw new RequestException(
                    "the migration of job " + job + " ended before it began. Remedy: migrate it" + " again");
        }
    }

    private void noteBegin(MemberJob member, String id, List<InetSocketAddress> targets, boolean withoutCluster)
            throws IOException, RequestException {
        JobName job = member.name();
        try {
            Answer answer =
                    controllers.ask(new JobQuestion.Move(job, id, host, false, "", new TreeSet<>(member.pods())));
            // A job that no controller knows has no set, and no restart.
            if (answer.refusal() != null && !answer.isUnknownJob()) {
                throw new RequestException(answer.refusal());
            }
        } catch (IOException e) {
            SourceMember known = sources.get(job);
            if ((known == null || known.hasSet()) && !withoutCluster) {
                throw new RequestException(
                        "job " + job + " has sets of checkpoints, or may have some, and no controller answers that it"
                                + " is moved: " + e.getMessage() + ". Remedy: start a controller, or migrate it with"
                                + " --without-cluster --to NODE",
                        e);
            }
            if (known == null || known.hasSet()) {
                noteMove(member, id, targets, Optional.ofNullable(known));
            }
            LOG.warn("job {} is moved without a word to a controller: {}", job, e.getMessage());
        }
        SourceMember source = sources.get(job);
        // A checkpoint that only writes its images does not keep a node that is about to fail from being left.
        if (source != null && !Polling.until(VOID_LIMIT, () -> !source.isHolding())) {
            throw new RequestException("a checkpoint of job " + job + " does not end within " + VOID_LIMIT.toSeconds()
                    + " s. Remedy: migrate it again");
        }
    }

    /** Notes a migration that no controller has noted, before it begins. */
    private void noteMove(MemberJob job, String id, List<InetSocketAddress> targets, Optional<SourceMember> source)
            throws IOException, RequestException {
        if (targets.size() != 1) {
            throw new RequestException("job " + job.name() + " is moved without the cluster to one node only, since"
                    + " the place of each pod must be known afterwards. Remedy: name one node (--to)");
        }
        MoveNote note = new MoveNote(id, "", 0, addressOf(targets.get(0)), job.pods());
        notes.writeMove(
                job.name(), source.flatMap(SourceMember::newest).map(note::of).orElse(note));
        LOG.warn(
                "job {}: its pods are moved to {}, which no controller has noted. It is not checkpointed and not"
                        + " restarted until one has",
                job.name(),
                note.to());
    }

    /** Returns an address as targets show it in their records. */
    private static String addressOf(InetSocketAddress target) {
        String address = target.isUnresolved()
                ? target.getHostString()
                : target.getAddress().getHostAddress();
        return (address.contains(":") ? "[" + address + "]" : address) + ":" + target.getPort();
    }

    /**
     * Notes that a migration of the job's pods is over. The controllers learn it with the next refresh.
     *
     * @param report its report, or empty if it failed without one
     */
    public void endMove(JobName job, Optional<MigrationReport> report) {
        String id = moves.get(job);
        if (id == null) {
            return;
        }
        report.ifPresent(ended -> ends.put(
                new MoveKey(job, id), new MoveEnd(ended.moved(), ended.moved() ? target(ended.migrationId()) : "")));
        moves.remove(job);
    }

    /** Returns the address of a migration's only target, by the service's journal; empty if there were several. */
    private String target(String migration) {
        Set<String> targets = new TreeSet<>();
        try {
            MappedJournal.forEach(journal.resolve(MappedJournal.FILE_NAME), entry -> {
                if (entry.record() instanceof TransactionRecord.Begun begun
                        && begun.migrationId().equals(migration)) {
                    targets.clear();
                    targets.addAll(begun.participants());
                }
            });
        } catch (IOException e) {
            LOG.warn("migration {}: the journal does not show its target: {}", migration, e.getMessage());
        }
        return targets.size() == 1
                ? addressOf(HostPort.ofParticipant(targets.iterator().next()).lookUp())
                : "";
    }

    /**
     * Reports the ends of migrations, also of those that an earlier run of the service has begun.
     *
     * @return false if a controller must be asked again
     */
    private boolean endMoves(JobReader reader, MemberJob job, JobRecord record)
            throws IOException, InterruptedException {
        if (!endUnrecordedMove(job, record)) {
            return false;
        }
        for (JobRecord.OpenMove move : record.moves()) {
            if (move.from().equals(host)) {
                MoveEnd end = ends.getOrDefault(new MoveKey(job.name(), move.id()), MoveEnd.UNKNOWN);
                Set<String> gone = new TreeSet<>();
                if (end.hasMoved()) {
                    gone.addAll(reader.pods(job.name(), record.numbers().layout(), host));
                    gone.removeAll(job.pods());
                }
                if (!report(new JobQuestion.Move(job.name(), move.id(), host, true, end.to(), gone))) {
                    return false;
                }
            }
        }
        // Nothing of this job is left to report.
        ends.keySet().removeIf(end -> end.job().equals(job.name()));
        return true;
    }

    /** Reports the end of a migration that no controller has noted. Its note goes when a controller has taken it. */
    private boolean endUnrecordedMove(MemberJob job, JobRecord record) throws IOException {
        Optional<MoveNote> read = notes.move(job.name());
        if (read.isEmpty()) {
            return true;
        }
        MoveNote note = read.get();
        if (note.isOlderThan(record)) {
            LOG.info("job {}: it was started again since its migration {}", job.name(), note.id());
            return removeNote(job.name(), note);
        }
        if (note.job().isEmpty()) {
            synchronized (noteLock) {
                if (moves.containsKey(job.name())) {
                    return false;
                }
                note = note.of(record);
                notes.writeMove(job.name(), note);
            }
        }
        boolean hasMoved = ends.getOrDefault(new MoveKey(job.name(), note.id()), MoveEnd.UNKNOWN)
                .hasMoved();
        Set<String> gone = hasMoved ? note.gone(job.pods()) : Set.of();
        // Without pods the controllers need to know it only if they have noted its begin, and their answer was lost.
        boolean isTaken =
                gone.isEmpty() || report(new JobQuestion.Move(job.name(), note.id(), host, true, note.to(), gone));
        if (!isTaken) {
            return false;
        }
        LOG.info("job {}: the record has its migration {} to {}: pods {}", job.name(), note.id(), note.to(), gone);
        return removeNote(job.name(), note);
    }

    /** Removes the note of an ended migration. Returns false if the next one has begun, whose note stays. */
    private boolean removeNote(JobName job, MoveNote note) throws IOException {
        synchronized (noteLock) {
            if (moves.containsKey(job)
                    || !notes.move(job)
                            .filter(now -> now.id().equals(note.id()))
                            .isPresent()) {
                return false;
            }
            notes.removeMove(job);
            return true;
        }
    }

    private boolean report(JobQuestion.Move end) {
        try {
            Answer answer = controllers.ask(end);
            if (answer.refusal() == null) {
                return true;
            }
            log.write(
                    "move", "the end of a migration of job " + end.job() + " is not recorded yet: " + answer.refusal());
        } catch (IOException | RequestException e) {
            log.write("move", "the end of a migration of job " + end.job() + " is reported later: " + e.getMessage());
        }
        return false;
    }

    /** Removes images of sets that the job has no longer. */
    private void clean(JobReader reader, MemberJob job, JobRecord record) throws IOException, InterruptedException {
        String seen = record.id() + " " + record.numbers().round() + " " + record.phase();
        boolean isDue = record.phase() == JobPhase.RUNNING
                && record.last().outcome() == JobRecord.RoundOutcome.CHECKPOINTED
                && job.checkpoints().isPresent()
                && !sources.get(job.name()).isBusy()
                && !seen.equals(cleaned.get(job.name()));
        if (isDue) {
            Set<String> kept = reader.sets(job.name());
            boolean isDone = true;
            for (Optional<Path> directory : List.of(job.checkpoints(), job.copies())) {
                isDone &= directory.isEmpty() || clean(job, directory.get(), kept);
            }
            if (isDone) {
                cleaned.put(job.name(), seen);
            }
        }
    }

    private boolean clean(MemberJob job, Path directory, Set<String> kept) throws InterruptedException {
        SetDirectory images =
                new SetDirectory(directory, job.name().uid(), job.name().name());
        try {
            // The sets of now: a checkpoint may begin while they are removed.
            Set<String> old = reads.call(directory, READ_LIMIT, () -> images.others(kept));
            return old.isEmpty() || removals.start(directory, () -> remove(images, old, job.pods()));
        } catch (IOException e) {
            // Nothing waits for it, so the next change of the job is soon enough.
            log.write("clean", "images of earlier sets of job " + job.name() + " stay: " + e.getMessage());
            return false;
        }
    }

    private void remove(SetDirectory images, Set<String> old, Set<String> pods) {
        try {
            for (String set : old) {
                for (String pod : pods) {
                    images.remove(set, pod);
                }
                // Those of pods that have left this node.
                for (String pod : images.pods(set)) {
                    if (images.nodeOf(set, pod).equals(host)) {
                        images.remove(set, pod);
                    }
                }
            }
        } catch (IOException | RuntimeException e) {
            log.write("clean", "images of earlier sets of job " + images.job() + " stay: " + e.getMessage());
        }
    }

    /** Returns false if a record could not be read: its watch may not be set, so it must be read again. */
    private boolean refreshTarget(JobReader reader) throws IOException, InterruptedException {
        boolean isRead = true;
        Set<JobName> named = new HashSet<>(targets.keySet());
        reader.orders(host).forEach(key -> JobKey.parse(key).ifPresent(named::add));
        notes.keys().forEach(key -> JobKey.parse(key).ifPresent(named::add));
        for (JobName job : named) {
            try {
                refreshTarget(reader, job);
            } catch (IOException | RuntimeException e) {
                log.write("restart", "job " + job + ": " + e.getMessage());
                isRead = false;
            }
        }
        return isRead;
    }

    private void refreshTarget(JobReader reader, JobName job) throws IOException, InterruptedException {
        Optional<ReadRecord> read = reader.read(job);
        if (read.isPresent() && !isEnding) {
            JobRecord record = read.get().record();
            Set<String> pods = reader.pods(job, record.numbers().restart(), host);
            if (!targets.containsKey(job)) {
                targets.put(job, new TargetMember(job, host, jobs.restarts().orElseThrow(), controllers, notes));
            }
            boolean isRestored = record.phase() == JobPhase.RESTARTING || record.phase() == JobPhase.RELEASING;
            List<Path> directories = isRestored && !pods.isEmpty() ? directoriesOf(job, record.set(), pods) : List.of();
            targets.get(job).onRecord(read.get(), new TargetMember.PodsHere(pods, directories));
        }
    }

    /** Returns directories that may have images, those of checkpoints before those of copies. */
    private List<Path> directories(JobQuestion.ImagePlaces places) {
        Set<Path> all = new LinkedHashSet<>();
        if (places != JobQuestion.ImagePlaces.COPIES) {
            all.addAll(jobs.members().directories());
        }
        if (places != JobQuestion.ImagePlaces.NEAR) {
            all.addAll(jobs.members().copyDirectories());
        }
        return List.copyOf(all);
    }

    /**
     * Returns the directories that have images of these pods, the nearest first. As soon as each pod has one, further
     * directories are not accessed; they follow for the case that an image is damaged. Throws if a directory is silent
     * that may have a missing image.
     */
    private List<Path> directoriesOf(JobName job, String set, Set<String> pods)
            throws IOException, InterruptedException {
        Optional<IOException> failure = Optional.empty();
        List<Path> found = new ArrayList<>();
        List<Path> others = new ArrayList<>();
        Set<String> missing = new HashSet<>(pods);
        for (Path directory : JobKey.isSet(set) ? directories(JobQuestion.ImagePlaces.ALL) : List.<Path>of()) {
            SetDirectory images = new SetDirectory(directory, job.uid(), job.name());
            if (missing.isEmpty()) {
                others.add(directory);
                continue;
            }
            try {
                if (missing.removeAll(reads.call(directory, READ_LIMIT, () -> images.pods(set)))) {
                    found.add(directory);
                }
            } catch (IOException e) {
                failure = Optional.of(e);
            }
        }
        if (!missing.isEmpty() && failure.isPresent()) {
            throw failure.get();
        }
        if (!found.isEmpty()) {
            found.addAll(others);
        }
        return found;
    }

    /** Returns why controllers do not register the pods of this node; empty if they do, or if none is here. */
    public Optional<String> refusal(JobName job) {
        return Optional.ofNullable(refusals.get(job));
    }

    /** Answers a controller: which pods run here, or which images this node can read. */
    public Answer answer(JobQuestion question) {
        JobName job = question.job();
        if (job == null || !JobKey.isName(job.name())) {
            return Answer.refused("the name of the job is invalid");
        }
        try {
            MemberJobs members = jobs.members();
            if (question instanceof JobQuestion.FindPods) {
                Map<String, String> pods = new TreeMap<>();
                // In the order in which a pod passes them, so that it is in one of them if it changes between two of
                // them.
                members.arriving(job).forEach(pod -> pods.put(pod, ""));
                members.here().stream().filter(one -> one.name().equals(job)).forEach(one -> one.pods()
                        .forEach(pod -> pods.put(pod, "")));
                notes.move(job).ifPresent(note -> note.pods().forEach(pod -> pods.putIfAbsent(pod, note.to())));
                // Copies that are held, or were when the service ended, may be released yet.
                boolean isHeld = notes.read(job).restartStep() == MemberNote.RestartStep.HELD;
                if (jobs.restarts().isPresent()
                        && (isHeld
                                || (targets.containsKey(job) && targets.get(job).isRestoring()))) {
                    pods.put("(held copies)", "");
                }
                return Answer.ofPods(pods);
            }
            if (question instanceof JobQuestion.FindAddresses) {
                Map<String, String> pods = new TreeMap<>();
                members.addresses(job).forEach((pod, addresses) -> pods.put(pod, String.join(" ", addresses)));
                return Answer.ofPods(pods);
            }
            if (question instanceof JobQuestion.FindFit fit) {
                return fits(fit);
            }
            if (question instanceof JobQuestion.FindImages find && JobKey.isSet(find.set()) && find.places() != null) {
                return images(find);
            }
            return Answer.refused("a service does not answer this question");
        } catch (IOException e) {
            return Answer.refused(String.valueOf(e.getMessage()));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return Answer.refused("the service ends. Remedy: order it again");
        }
    }

    /** Judges pods as a restart does. Nothing is touched. */
    private Answer fits(JobQuestion.FindFit fit) throws IOException, InterruptedException {
        boolean isSound = JobKey.isSet(fit.set())
                && fit.pods() != null
                && fit.pods().size() <= JobRules.MOST_PODS_OF_A_NODE
                && fit.pods().stream().allMatch(JobKey::isName);
        if (!isSound || jobs.restarts().isEmpty()) {
            return Answer.refused("the question has an invalid form, or this is no target");
        }
        List<Path> directories = directoriesOf(fit.job(), fit.set(), fit.pods());
        if (directories.isEmpty()) {
            return Answer.refused("this node sees no image of set " + fit.set());
        }
        JobRestart restart = jobs.restarts()
                .get()
                .of(new JobRestart.RestartOrder(
                        fit.job().uid(), fit.job().name(), fit.set(), 0, fit.pods(), directories));
        return reads.call(directories.get(0), READ_LIMIT, () -> {
            try {
                restart.look(fit.isSpare());
                return Answer.OK;
            } catch (RequestException e) {
                return Answer.refused(e.getMessage());
            }
        });
    }

    /** Returns a page of images, each of the nearest directory that has a whole one. Only manifests are read. */
    private Answer images(JobQuestion.FindImages find) throws IOException, InterruptedException {
        String after = Optional.ofNullable(find.after()).orElse("");
        NavigableMap<String, String> all = new TreeMap<>();
        Optional<IOException> failure = Optional.empty();
        boolean isCopyLate = false;
        for (Path directory : directories(find.places())) {
            SetDirectory images =
                    new SetDirectory(directory, find.job().uid(), find.job().name());
            try {
                Set<String> known = Set.copyOf(all.keySet());
                all.putAll(reads.call(directory, READ_LIMIT, () -> images(images, find.set(), after, known)));
            } catch (IOException e) {
                failure = Optional.of(e);
                isCopyLate |= jobs.members().copyDirectories().contains(directory);
            }
        }
        // Copies that are not seen now must not count as missing: an older set would be taken.
        if (failure.isPresent() && (all.isEmpty() || isCopyLate)) {
            throw failure.get();
        }
        return page(all);
    }

    private static Answer page(NavigableMap<String, String> all) {
        Map<String, String> images = new TreeMap<>();
        int characters = 0;
        String last = "";
        for (Map.Entry<String, String> image : all.entrySet()) {
            characters += image.getKey().length() + image.getValue().length() + IMAGE_MARKS;
            if (characters > JobPages.MOST_BYTES && !images.isEmpty()) {
                return Answer.ofImages(images, Optional.of(last));
            }
            images.put(image.getKey(), image.getValue());
            last = image.getKey();
        }
        return Answer.ofImages(images, Optional.empty());
    }

    /** Returns the images behind a pod's name, as many as can be in a page, without those of known pods. */
    private Map<String, String> images(SetDirectory directory, String set, String after, Set<String> known)
            throws IOException {
        Map<String, String> images = new TreeMap<>();
        int characters = 0;
        for (String pod : directory.pods(set).tailSet(after, false)) {
            if (!known.contains(pod) && characters <= JobPages.MOST_BYTES) {
                try {
                    String image = directory.digest(set, pod) + " " + directory.nodeOf(set, pod);
                    characters += pod.length() + image.length() + IMAGE_MARKS;
                    images.put(pod, image);
                } catch (IOException e) {
                    // A copy in another directory may be whole.
                    log.write("image", "the image of pod " + pod + " in set " + set + ": " + e.getMessage());
                }
            }
        }
        return images;
    }

    /** Gives checkpoints up, and ends copies that are not released. The service ends. */
    public void end() throws InterruptedException {
        isEnding = true;
        for (SourceMember member : sources.values()) {
            member.end();
        }
        for (EndingMember member : endings.values()) {
            member.close();
        }
        copiers.values().forEach(SetCopier::beginEnd);
        long limitNs = System.nanoTime() + COPY_END.toNanos();
        for (SetCopier copier : copiers.values()) {
            copier.awaitEnd(limitNs);
        }
        for (TargetMember member : targets.values()) {
            member.end();
        }
    }

    /** Returns true while a checkpoint or a restart is under way here. */
    public boolean isBusy() {
        return sources.values().stream().anyMatch(SourceMember::isBusy)
                || endings.values().stream().anyMatch(EndingMember::isBusy)
                || targets.values().stream().anyMatch(TargetMember::isBusy);
    }
}
