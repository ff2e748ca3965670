package io.ppmr.cluster.job;

import io.ppmr.checkpoint.Polling;
import io.ppmr.cluster.job.JobQuestion.Answer;
import io.ppmr.cluster.job.JobReader.ReadRecord;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.daemon.part.MemberJobs;
import io.ppmr.daemon.part.MemberJobs.MemberJob;
import io.ppmr.daemon.part.NodeJobs;
import io.ppmr.linux.RareLog;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.keep.SetDirectory;
import io.ppmr.protocol.control.CheckpointInterval;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ThreadLocalRandom;
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
    private static final Duration VOID_LIMIT = Duration.ofSeconds(40);

    private static final long MASK = 0xffffffffL;
    /** The characters of an answer around each image. */
    private static final int IMAGE_MARKS = 6;

    /** No layout: what was registered before counts for nothing. */
    private static final long NOT_REGISTERED = -1;

    /** The pods that a controller has taken, in a layout. */
    private record Registered(MemberJob job, long layout) {}

    private final String host;
    private final NodeJobs jobs;
    private final ActiveController controllers;
    private final MemberNotes notes;
    private final RareLog log = new RareLog(LOG::warn);
    private final Map<JobName, SourceMember> sources = new ConcurrentHashMap<>();
    private final Map<JobName, TargetMember> targets = new ConcurrentHashMap<>();
    private final Map<JobName, Registered> registered = new ConcurrentSkipListMap<>(BY_KEY);
    private final Map<JobName, String> moves = new ConcurrentHashMap<>();
    /** The refusals of controllers to register pods of this node. */
    private final Map<JobName, String> refusals = new ConcurrentHashMap<>();

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
        this.notes = new MemberNotes(journal);
    }

    /** Has all pods registered again: the session is a new one. */
    public void joined() {
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
            refreshTarget(reader);
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
        for (String key : reader.orders(host)) {
            JobKey.parse(key)
                    .ifPresent(name -> here.putIfAbsent(
                            name, new MemberJob(name, 1, Set.of(), Optional.empty(), CheckpointInterval.NONE, false)));
        }
        refusals.keySet().retainAll(here.keySet());
        for (MemberJob job : here.values()) {
            // One job must not keep the others from their records.
            try {
                isDone &= refresh(reader, job, checkpoints);
            } catch (IOException | RuntimeException e) {
                log.write("job", "job " + job.name() + ": " + e.getMessage());
                isDone = false;
            }
        }
        return isDone;
    }

    private boolean refresh(JobReader reader, MemberJob job, NodeJobs.Checkpoints checkpoints)
            throws IOException, InterruptedException {
        Optional<ReadRecord> read = reader.read(job.name());
        if (read.isPresent() && !isEnding) {
            if (!sources.containsKey(job.name())) {
                sources.put(job.name(), new SourceMember(job.name(), host, checkpoints, controllers, notes));
            }
            sources.get(job.name()).onRecord(read.get(), job);
        }
        boolean isDone = register(job, read);
        if (read.isPresent()) {
            isDone &= endMoves(job, read.get().record());
            clean(reader, job, read.get().record());
        }
        return isDone;
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
                        : "");
    }

    // ---- migrations ---------------------------------------------------------------------------------------------

    /**
     * Has the controllers note that a migration of the job's pods begins, and waits until no checkpoint of
     * them is under way. A job without a set is moved even if no controller answers.
     */
    public void beginMove(JobName job) throws IOException, RequestException {
        Optional<MemberJob> member = jobs.members().here().stream()
                .filter(one -> one.name().equals(job))
                .findFirst();
        if (member.isEmpty()) {
            return;
        }
        String id = "move-" + Long.toHexString(ThreadLocalRandom.current().nextInt() & MASK);
        try {
            Answer answer = controllers.ask(new JobQuestion.Move(job, id, host, false, "", Set.of()));
            if (answer.refusal() != null && registered.containsKey(job)) {
                throw new RequestException(answer.refusal());
            }
            moves.put(job, id);
        } catch (IOException e) {
            SourceMember known = sources.get(job);
            if (known == null || known.hasSet()) {
                throw new RequestException(
                        "job " + job + " has sets of checkpoints, or may have some, and no controller answers that it"
                                + " is moved: " + e.getMessage() + ". Remedy: start a controller",
                        e);
            }
            LOG.warn("job {} is moved without a word to a controller: {}", job, e.getMessage());
        }
        SourceMember source = sources.get(job);
        if (source != null && !Polling.until(VOID_LIMIT, () -> !source.isBusy())) {
            throw new RequestException("a checkpoint of job " + job + " does not end within " + VOID_LIMIT.toSeconds()
                    + " s. Remedy: migrate it again");
        }
    }

    /** Notes that a migration of the job's pods is over. The controllers learn it with the next refresh. */
    public void endMove(JobName job) {
        moves.remove(job);
    }

    /** Reports the ends of migrations, also of those that an earlier run of the service has begun. */
    private boolean endMoves(MemberJob job, JobRecord record) {
        boolean isDone = true;
        for (JobRecord.OpenMove move : record.moves()) {
            boolean isOver = move.from().equals(host) && !move.id().equals(moves.get(job.name())) && !job.isMoving();
            if (isOver) {
                try {
                    controllers.ask(new JobQuestion.Move(job.name(), move.id(), host, true, "", Set.of()));
                } catch (IOException | RequestException e) {
                    log.write(
                            "move",
                            "the end of a migration of job " + job.name() + " is reported later: " + e.getMessage());
                    isDone = false;
                }
            }
        }
        return isDone;
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
            cleaned.put(job.name(), seen);
            Set<String> sets = reader.sets(job.name());
            new SetDirectory(
                            job.checkpoints().get(),
                            job.name().uid(),
                            job.name().name())
                    .keepOnly(sets, job.pods());
        }
    }

    private void refreshTarget(JobReader reader) throws IOException, InterruptedException {
        Set<JobName> named = new HashSet<>(targets.keySet());
        reader.orders(host).forEach(key -> JobKey.parse(key).ifPresent(named::add));
        notes.keys().forEach(key -> JobKey.parse(key).ifPresent(named::add));
        for (JobName job : named) {
            try {
                refreshTarget(reader, job);
            } catch (IOException | RuntimeException e) {
                log.write("restart", "job " + job + ": " + e.getMessage());
            }
        }
    }

    private void refreshTarget(JobReader reader, JobName job) throws IOException, InterruptedException {
        Optional<ReadRecord> read = reader.read(job);
        if (read.isPresent() && !isEnding) {
            JobRecord record = read.get().record();
            Set<String> pods = reader.pods(job, record.numbers().restart(), host);
            if (!targets.containsKey(job)) {
                targets.put(job, new TargetMember(job, host, jobs.restarts().orElseThrow(), controllers, notes));
            }
            targets.get(job).onRecord(read.get(), new TargetMember.PodsHere(pods, directoryOf(job, record.set())));
        }
    }

    /** Returns the directory of checkpoints that has images of a set. */
    private Optional<Path> directoryOf(JobName job, String set) throws IOException {
        for (Path directory : JobKey.isSet(set) ? jobs.members().directories() : List.<Path>of()) {
            if (!new SetDirectory(directory, job.uid(), job.name()).pods(set).isEmpty()) {
                return Optional.of(directory);
            }
        }
        return Optional.empty();
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
                members.addresses(job).forEach((pod, addresses) -> pods.put(pod, String.join(" ", addresses)));
                // Copies that are held, or were when the service ended, may be released yet.
                boolean isHeld = notes.read(job).restartStep() == MemberNote.RestartStep.HELD;
                if (jobs.restarts().isPresent()
                        && (isHeld
                                || (targets.containsKey(job) && targets.get(job).isBusy()))) {
                    pods.put("(held copies)", "");
                }
                return Answer.ofPods(pods);
            }
            if (question instanceof JobQuestion.FindImages find && JobKey.isSet(find.set())) {
                Optional<Path> directory = directoryOf(job, find.set());
                return directory.isEmpty()
                        ? Answer.ofPods(Map.of())
                        : images(
                                new SetDirectory(directory.get(), job.uid(), job.name()),
                                find.set(),
                                Optional.ofNullable(find.after()).orElse(""));
            }
            return Answer.refused("a service does not answer this question");
        } catch (IOException e) {
            return Answer.refused(String.valueOf(e.getMessage()));
        }
    }

    /** Returns a page of images. Only their manifests are read. */
    private static Answer images(SetDirectory directory, String set, String after) throws IOException {
        Map<String, String> images = new TreeMap<>();
        int characters = 0;
        String last = after;
        for (String pod : directory.pods(set).tailSet(after, false)) {
            String image = directory.digest(set, pod) + " " + directory.nodeOf(set, pod);
            characters += pod.length() + image.length() + IMAGE_MARKS;
            if (characters > JobPages.MOST_BYTES && !images.isEmpty()) {
                return Answer.ofImages(images, Optional.of(last));
            }
            images.put(pod, image);
            last = pod;
        }
        return Answer.ofImages(images, Optional.empty());
    }

    /** Gives checkpoints up, and ends copies that are not released. The service ends. */
    public void end() throws InterruptedException {
        isEnding = true;
        for (SourceMember member : sources.values()) {
            member.end();
        }
        for (TargetMember member : targets.values()) {
            member.end();
        }
    }

    /** Returns true while a checkpoint or a restart is under way here. */
    public boolean isBusy() {
        return sources.values().stream().anyMatch(SourceMember::isBusy)
                || targets.values().stream().anyMatch(TargetMember::isBusy);
    }
}
