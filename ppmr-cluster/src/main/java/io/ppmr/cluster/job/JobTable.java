package io.ppmr.cluster.job;

import io.ppmr.cluster.job.JobQuestion.Answer;
import io.ppmr.cluster.job.JobRecord.RoundOutcome;
import io.ppmr.cluster.job.JobRecords.JobChange;
import io.ppmr.cluster.job.JobRecords.StoredJob;
import io.ppmr.cluster.job.JobRecords.Written;
import io.ppmr.cluster.job.JobState.RoundReports;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.linux.RareLog;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import java.util.random.RandomGenerator;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The jobs of a cluster, as the active controller manages them. It applies {@link JobRules} to each event, and has the
 * change written before the next event of that job. The controller's thread owns it; writes run on workers.
 */
public final class JobTable {
    private static final Logger LOG = LoggerFactory.getLogger(JobTable.class);
    /** The most pods of a job on one node. */
    public static final int MOST_PODS_OF_A_NODE = JobRules.MOST_PODS_OF_A_NODE;
    /** The number of times that an event is applied after another controller has changed the job. */
    private static final int TRIES = 3;
    /** The most jobs of a cluster. A user has a share of them. */
    private static final int MOST_JOBS = 4096;

    /** The time between the end of the last pod and the release of the first one, in a recovery. */
    private static final Duration QUIET = Duration.ofSeconds(1);
    /** A target may begin a new session in this time, such as after a loss of the ensemble, and continues its step. */
    private static final Duration NEW_SESSION = Duration.ofSeconds(10);
    /** A recovery that waits longer for a node needs an operator. */
    private static final Duration STANDS_STILL = Duration.ofSeconds(30);

    private static final int MOST_JOBS_OF_A_USER = 256;
    /** The most restarts of a node at a time: their names fit one record. */
    private static final int MOST_ORDERS = 16;
    /** The numbers of restarts are this far from each other at most. */
    private static final long MOST_STEP = 1L << 31;
    /** The longest reason for which a node cannot copy. */
    private static final int MOST_FAILURE = 1000;
    /** The most questions that wait for one job. */
    private static final int MOST_WAITING = 2 * JobRecord.MOST_MEMBERS;

    /**
     * The limits of checkpoints.
     *
     * @param keep how many sets of a job are kept
     * @param hold how long a source holds its pods without GO
     * @param step how long the images of a checkpoint, or a restart, may take
     * @param budget the limits of regular checkpoints
     * @param copiesAtOnce how many nodes copy their images to the second place at a time
     * @param copyRate the bytes that a node copies in a second
     */
    public record JobLimits(
            int keep, Duration hold, Duration step, CheckpointBudget budget, int copiesAtOnce, long copyRate) {}

    /** The services of its controller that the table uses. */
    public interface Surroundings {
        /** Runs a write; never on the caller's thread. */
        Executor workers();

        /** Passes a result to the controller's thread. */
        void onThread(Runnable result);

        /** Returns true if the services of a node have sessions. */
        boolean isUp(String host);

        /** Returns true if the target of a node has a session. */
        boolean hasTarget(String host);

        /**
         * Checks whether nodes see all images of a set at its second place.
         *
         * @param hosts the nodes of the job
         * @param why receives why they do not, or empty, on the controller's thread
         */
        void checkCopies(JobName job, JobSet set, Set<String> hosts, Consumer<Optional<String>> why);

        /** Returns true if an operator has reported that the node is off. */
        boolean isTurnedOff(String host);

        /** Returns the node whose target sources reach at this address, HOST:PORT; empty if none has a session. */
        Optional<String> hostAt(String address);

        /** Returns the time since the boot, in nanoseconds. */
        long nowNs();
    }

    private record Waiting(JobEvent event, Consumer<Answer> answer, int tries) {}

    /** A job. The controller's thread owns it. */
    private static final class Entry {
        private JobState state;
        private int version;
        private boolean isWriting;
        /** True if the job could not be read: it is tried again. */
        private boolean isUnread;

        private final RestartTimes restart = new RestartTimes();
        private long sinceNs;
        /** The last time at which no node of the present step was lost. */
        private long allThereNs;

        private final Deque<Waiting> waiting = new ArrayDeque<>();

        private Entry(JobState state, int version, long sinceNs) {
            this.state = state;
            this.version = version;
            this.sinceNs = sinceNs;
            this.allThereNs = sinceNs;
        }
    }

    private final JobLimits limits;
    private final Surroundings surroundings;
    private final RandomGenerator random;
    private final RareLog log = new RareLog(LOG::warn);
    private final NavigableMap<String, Entry> jobs = new TreeMap<>();
    private final Map<String, Set<String>> orders = new HashMap<>();
    private final Map<RoundOutcome, Long> outcomes = new ConcurrentHashMap<>();
    private final RegularCheckpoints regular;
    private final SetCopies copies;
    private Set<JobName> recovering = new HashSet<>();
    private volatile int standing;
    private JobRecords store;

    public JobTable(JobLimits limits, Surroundings surroundings, RandomGenerator random) {
        this.limits = limits;
        this.surroundings = surroundings;
        this.random = random;
        this.regular = new RegularCheckpoints(limits.budget(), limits.hold());
        this.copies = new SetCopies(new SetCopies.CopyLimits(limits.copiesAtOnce(), limits.copyRate()));
    }

    /** Begins a term with the records of the ensemble. Reports of the former term are repeated by members. */
    public void begin(JobRecords ensemble, Map<String, StoredJob> stored, Map<String, Set<String>> storedOrders) {
        end();
        store = ensemble;
        orders.putAll(storedOrders);
        stored.forEach((key, job) -> stateOrRemoval(key, job).ifPresent(state -> {
            jobs.put(key, new Entry(state, job.version(), surroundings.nowNs()));
            regular.begin(key, state, surroundings.nowNs(), System.currentTimeMillis());
        }));
    }

    /** Returns how many checkpoints and restarts ended so while this controller was active. Any thread. */
    public long count(RoundOutcome outcome) {
        return outcomes.getOrDefault(outcome, 0L);
    }

    /** Returns the number of jobs. Any thread. */
    public int size() {
        return regular.figures().jobs();
    }

    /** Returns how many jobs have missed two regular checkpoints. Any thread. */
    public int overdue() {
        return regular.figures().overdue();
    }

    /** Returns the age of the oldest newest set of a job with regular checkpoints, in seconds. Any thread. */
    public double oldestSetSeconds() {
        return regular.figures().oldestSeconds();
    }

    /** Returns for how many seconds checkpoints have held jobs while this controller was active. Any thread. */
    public double heldSeconds() {
        return regular.figures().heldSeconds();
    }

    /** Ends a term. What waits gets no answer here, and is asked again at the next active controller. */
    public void end() {
        jobs.clear();
        orders.clear();
        regular.end();
        copies.end();
    }

    /** A record without content is one whose removal was not finished. */
    private Optional<JobState> stateOrRemoval(String key, StoredJob job) {
        if (job.record().isEmpty()) {
            JobRecords ensemble = store;
            surroundings.workers().execute(() -> ensemble.remove(key, job.version()));
            return Optional.empty();
        }
        return stateOf(key, job);
    }

    private static Optional<JobState> stateOf(String key, StoredJob job) {
        Optional<JobRecord> record = JobRecord.decode(job.record().getBytes(StandardCharsets.UTF_8));
        if (record.isEmpty()) {
            LOG.warn(
                    "the record of job {} cannot be read: it has {} characters",
                    key,
                    job.record().length());
            return Optional.empty();
        }
        JobRecord.JobNumbers numbers = record.get().numbers();
        boolean isRestart = record.get().phase().isRestart();
        return Optional.of(new JobState(
                record.get(),
                job.places().getOrDefault(numbers.layout(), Map.of()),
                isRestart ? job.places().getOrDefault(numbers.restart(), Map.of()) : Map.of(),
                job.sets().values().stream()
                        .map(JobSet::decode)
                        .flatMap(Optional::stream)
                        .toList(),
                RoundReports.NONE));
    }

    // ---- questions ----------------------------------------------------------------------------------------------

    /** Answers a question of a service or a command. The answer is passed on this thread, perhaps later. */
    public void ask(JobQuestion question, Consumer<Answer> answer) {
        if (question instanceof JobQuestion.Show show) {
            answer.accept(page(show));
            return;
        }
        JobName job = question.job();
        if (job == null || !JobKey.isName(job.name())) {
            answer.accept(Answer.refused("the name of the job is invalid"));
            return;
        }
        String key = JobKey.of(job);
        if (question instanceof JobQuestion.Register register) {
            register(key, register, answer);
        } else if (!jobs.containsKey(key)) {
            answer.accept(Answer.unknownJob(job));
        } else if (question instanceof JobQuestion.Forget) {
            forget(key, answer);
        } else if (question instanceof JobQuestion.OrderCheckpoint) {
            orderCheckpoint(key, answer);
        } else if (question instanceof JobQuestion.AskCopy ask) {
            answer.accept(answer(key, ask));
        } else if (question instanceof JobQuestion.Move move && move.isOver()) {
            endMove(key, move, answer);
        } else {
            eventOf(question)
                    .ifPresentOrElse(
                            event -> offer(key, event, answer),
                            () -> answer.accept(Answer.refused("a controller does not answer this question")));
        }
    }

    private Answer answer(String key, JobQuestion.AskCopy ask) {
        boolean isSound = JobKey.isHost(ask.host())
                && (ask.digests() == null
                        || (ask.digests().size() <= JobRules.MOST_PODS_OF_A_NODE
                                && ask.digests().keySet().stream().allMatch(JobKey::isName)
                                && ask.digests().values().stream().allMatch(JobSet::isDigest)))
                && (ask.failure() == null || ask.failure().length() <= MOST_FAILURE);
        if (!isSound) {
            return Answer.refused("a question about copies has an invalid form");
        }
        return copies.answer(key, ask, jobs.get(key).state, surroundings.nowNs(), set -> checkCopies(key, set));
    }

    /** All nodes have copied their images. The set is safe if one node sees them all. */
    private void checkCopies(String key, JobSet set) {
        JobState state = jobs.get(key).state;
        surroundings.checkCopies(state.record().name(), set, state.places().keySet(), why -> {
            if (!jobs.containsKey(key)) {
                return;
            }
            copies.checked(key, set.id(), why.isEmpty(), surroundings.nowNs());
            if (why.isEmpty()) {
                offer(key, new JobEvent.SetCopied(set.id()), answer -> {});
            } else {
                log.write("copies", "job " + state.record().name() + ": " + why.get());
            }
        });
    }

    private static Optional<JobEvent> eventOf(JobQuestion question) {
        if (question instanceof JobQuestion.Move move) {
            boolean isSound = JobKey.isHost(move.host()) && JobKey.isName(move.id());
            Set<String> pods = move.pods() == null ? Set.of() : move.pods();
            return isSound ? Optional.of(new JobEvent.MoveBegun(move.id(), move.host(), pods)) : Optional.empty();
        }
        if (!(question instanceof JobQuestion.StepReport report)
                || report.step() == null
                || !JobKey.isHost(report.host())) {
            return Optional.empty();
        }
        String reason = report.reason() == null ? "" : report.reason();
        return switch (report.step()) {
            case OUT -> Optional.of(new JobEvent.Out(report.host(), report.incarnation(), report.number()));
            case IMAGE ->
                Optional.ofNullable(report.images())
                        .map(images -> new JobEvent.Imaged(
                                report.host(),
                                report.incarnation(),
                                report.number(),
                                images,
                                System.currentTimeMillis()));
            case VOID ->
                Optional.of(new JobEvent.Voided(
                        report.host(),
                        report.incarnation(),
                        report.number(),
                        report.outcome() == RoundOutcome.REFUSED ? RoundOutcome.REFUSED : RoundOutcome.VOID,
                        reason));
            case ENDED -> Optional.of(new JobEvent.PodsEnded(report.host(), report.number()));
            case HELD -> Optional.of(new JobEvent.PodsRestored(report.host(), report.number()));
            case FAILED -> Optional.of(new JobEvent.RestoreFailed(report.host(), report.number(), reason));
            case RELEASED -> Optional.of(new JobEvent.Released(report.host(), report.number()));
        };
    }

    /** A source reports a migration's end with the address of its target, whose node has the pods from now on. */
    private void endMove(String key, JobQuestion.Move move, Consumer<Answer> answer) {
        Set<String> pods = move.pods() == null ? Set.of() : move.pods();
        String address = move.to() == null ? "" : move.to();
        boolean isSound = JobKey.isHost(move.host())
                && JobKey.isName(move.id())
                && pods.size() <= JobRules.MOST_PODS_OF_A_NODE
                && pods.stream().allMatch(JobKey::isName);
        if (!isSound) {
            answer.accept(Answer.refused("the report of a migration has an invalid form"));
            return;
        }
        String to = address.isEmpty() ? "" : surroundings.hostAt(address).orElse("");
        boolean isOpen = jobs.get(key).state.record().moves().stream()
                .anyMatch(open -> open.id().equals(move.id()));
        if (!isOpen && to.isEmpty() && !pods.isEmpty()) {
            answer.accept(Answer.refused("no target at '" + address + "', to which pods of the job were moved, has a"
                    + " session in the cluster. Remedy: start the services of that node"));
            return;
        }
        offer(key, new JobEvent.MoveEnded(move.id(), move.host(), to, pods), answer);
    }

    private void register(String key, JobQuestion.Register register, Consumer<Answer> answer) {
        Optional<String> why = whyInvalid(register)
                .or(() -> register.pods().isEmpty()
                        ? Optional.empty()
                        : regular.whyNot(register.schedule().ordered()));
        if (why.isPresent()) {
            answer.accept(Answer.refused(why.get()));
            return;
        }
        JobEvent event =
                new JobEvent.Registered(register.host(), register.members(), register.pods(), register.schedule());
        if (jobs.containsKey(key)) {
            offer(key, event, answer);
            return;
        }
        if (register.pods().isEmpty()) {
            answer.accept(Answer.OK);
            return;
        }
        long ofUser = jobs.values().stream()
                .filter(one -> one.state.record().name().uid() == register.job().uid())
                .count();
        if (jobs.size() >= MOST_JOBS || ofUser >= MOST_JOBS_OF_A_USER) {
            answer.accept(Answer.refused("there are too many jobs over several nodes: " + ofUser + " of this user, "
                    + jobs.size() + " in all. Remedy: ppmr job forget JOB for those that are no more"));
            return;
        }
        byte[] bytes = new byte[4];
        random.nextBytes(bytes);
        JobRecord record =
                JobRecord.of(HexFormat.of().formatHex(bytes), register.job(), register.members(), register.schedule());
        Entry entry = new Entry(JobState.of(record), 0, surroundings.nowNs());
        entry.isWriting = true;
        jobs.put(key, entry);
        entry.waiting.add(new Waiting(event, answer, 0));
        JobRecords ensemble = store;
        surroundings.workers().execute(() -> {
            Written written = ensemble.create(key, record.encode());
            surroundings.onThread(() -> {
                if (written == Written.DONE) {
                    entry.isWriting = false;
                    advance(key, entry);
                } else {
                    reload(key, entry);
                }
            });
        });
    }

    private static Optional<String> whyInvalid(JobQuestion.Register register) {
        if (register.members() < 1 || register.members() > JobRecord.MOST_MEMBERS) {
            return Optional.of("a job over several nodes has 1 to " + JobRecord.MOST_MEMBERS + " members");
        }
        if (register.pods() == null || !JobKey.isHost(register.host())) {
            return Optional.of("the name of the node is invalid, or longer than 64 characters");
        }
        if (register.pods().size() > JobRules.MOST_PODS_OF_A_NODE) {
            return Optional.of(
                    "a job over several nodes has at most " + JobRules.MOST_PODS_OF_A_NODE + " pods on a node, and "
                            + register.host() + " has " + register.pods().size()
                            + ". Remedy: run several ranks in one pod");
        }
        if (register.schedule() == null || !register.schedule().isSound()) {
            return Optional.of("the interval of checkpoints is invalid");
        }
        return register.pods().stream().allMatch(JobKey::isName)
                ? Optional.empty()
                : Optional.of("the name of a pod is invalid");
    }

    private void orderCheckpoint(String key, Consumer<Answer> answer) {
        if (!regular.isFree(jobs.get(key).state, regular.writing(states()))) {
            answer.accept(Answer.refused(regular.atOnce()
                    + " other checkpoints write to the same directory now (checkpoints_at_once). Remedy: order it"
                    + " again later"));
            return;
        }
        JobState state = jobs.get(key).state;
        Optional<String> lost = state.places().keySet().stream()
                .filter(host -> !surroundings.isUp(host))
                .sorted()
                .findFirst();
        if (lost.isPresent()) {
            answer.accept(Answer.refused(
                    "node " + lost.get() + " of the job is not up. Remedy: ppmr nodes shows why; start its services"));
            return;
        }
        byte[] bytes = new byte[4];
        random.nextBytes(bytes);
        String set = state.record().numbers().incarnation() + "-"
                + (state.record().numbers().round() + 1) + "-"
                + HexFormat.of().formatHex(bytes);
        regular.ordering(key, surroundings.nowNs());
        offer(key, new JobEvent.CheckpointOrdered(set, limits.hold().toSeconds()), result -> {
            regular.began(key, result.refusal() != null, surroundings.nowNs());
            Entry entry = jobs.get(key);
            answer.accept(
                    result.refusal() == null && entry != null
                            ? Answer.numbered(entry.state.record().numbers().round())
                            : result);
        });
    }

    /**
     * Orders a restart, whose plan was made from the answers of services.
     *
     * @param isRecovery whether pods of the job may run, which are ended first
     */
    public void restart(
            String key,
            RestartFacts facts,
            Map<String, Set<String>> plan,
            boolean isRecovery,
            Consumer<Answer> answer) {
        Entry planned = jobs.get(key);
        if (planned == null || facts.set().isEmpty()) {
            answer.accept(Answer.refused("the job is no more"));
            return;
        }
        // Pods may have left a node and returned after another node was asked.
        if (planned.version != facts.version() || planned.isWriting || !planned.waiting.isEmpty()) {
            answer.accept(Answer.refused("the job was changed while its restart was planned. Remedy: order it again"));
            return;
        }
        Optional<String> full = plan.keySet().stream()
                .filter(host -> orders.getOrDefault(host, Set.of()).stream()
                                .filter(this::isRestarting)
                                .count()
                        >= MOST_ORDERS)
                .findFirst();
        if (full.isPresent()) {
            answer.accept(Answer.refused("node " + full.get() + " restores pods of " + MOST_ORDERS
                    + " other jobs now. Remedy: order the restart again later"));
            return;
        }
        long number = facts.restart() + 1 + random.nextLong(MOST_STEP);
        String set = facts.set().get().id();
        JobEvent.PlanBasis basis = new JobEvent.PlanBasis(facts.restart(), facts.places());
        offer(key, new JobEvent.RestartOrdered(set, plan, number, basis, isRecovery), result -> {
            Entry entry = jobs.get(key);
            answer.accept(
                    result.refusal() == null && entry != null
                            ? Answer.numbered(entry.state.record().numbers().restart())
                            : result);
        });
    }

    private void forget(String key, Consumer<Answer> answer) {
        Entry entry = jobs.get(key);
        JobRecord record = entry.state.record();
        if (entry.isWriting
                || record.phase() != JobPhase.RUNNING
                || !record.moves().isEmpty()) {
            answer.accept(Answer.refused("the job is in phase " + record.phase().word()
                    + ", or is being changed. Remedy: wait for its end"));
            return;
        }
        Optional<String> up = entry.state.places().keySet().stream()
                .filter(surroundings::isUp)
                .sorted()
                .findFirst();
        if (up.isPresent()) {
            answer.accept(Answer.refused("node " + up.get() + " has pods of the job: "
                    + String.join(", ", new TreeSet<>(entry.state.places().get(up.get())))
                    + ". Remedy: stop them first, on each of these nodes: ppmr pod stop --job "
                    + record.name().name()));
            return;
        }
        entry.isWriting = true;
        JobRecords ensemble = store;
        int version = entry.version;
        surroundings.workers().execute(() -> {
            Written written = ensemble.remove(key, version);
            surroundings.onThread(() -> {
                if (written == Written.DONE) {
                    jobs.remove(key);
                    regular.forget(key);
                    LOG.info("job {} is forgotten", record.name());
                    answer.accept(Answer.OK);
                } else {
                    reload(key, entry);
                    answer.accept(Answer.refused("the ensemble did not remove the record: try again"));
                }
            });
        });
    }

    private Answer page(JobQuestion.Show show) {
        JobPages.PageEnd after = JobPages.PageEnd.parse(show.after());
        JobPages page = new JobPages(after);
        boolean isSplit = !after.host().isEmpty();
        for (Map.Entry<String, Entry> job : jobs.tailMap(after.key(), isSplit).entrySet()) {
            JobState state = job.getValue().state;
            JobName name = state.record().name();
            if (page.isFull()) {
                break;
            }
            if ((show.job() == null || show.job().equals(name)) && (show.uid() == null || show.uid() == name.uid())) {
                JobView view = JobView.of(
                        state,
                        regular.view(job.getKey(), state, surroundings.nowNs()),
                        job.getValue().restart.view());
                page.add(job.getKey(), recovering.contains(name) ? view.recovering() : view);
            }
        }
        return page.answer();
    }

    /** Returns the nodes with pods of a job that is in this checkpoint; empty if it is in none, or in another. */
    public Optional<Set<String>> nodesInCheckpoint(JobName job, long round) {
        return Optional.ofNullable(jobs.get(JobKey.of(job)))
                .map(entry -> entry.state)
                .filter(state -> state.record().phase() == JobPhase.CHECKPOINT
                        && state.record().numbers().round() == round)
                .map(state -> state.places().keySet());
    }

    /**
     * Returns the jobs that controllers bring back: those whose last recovery failed, and those that have lost a node
     * and must be recovered without an operator.
     */
    public List<StoppedJob> stopped() {
        return jobs.values().stream()
                .map(entry -> entry.state)
                .filter(state ->
                        hasFailed(state.record()) || (state.record().schedule().recovers() && isLost(state)))
                .map(state -> new StoppedJob(
                        state.record().name(),
                        hasFailed(state.record())
                                ? state.record().last().number()
                                : -1 - state.record().numbers().restart(),
                        failedAt(state.record().last().reason()),
                        olderSet(state.sets())))
                .toList();
    }

    /** Returns the set to go back to if the newest one cannot be restored: a safe one, if there is one. */
    private static Optional<String> olderSet(List<JobSet> sets) {
        List<JobSet> older = sets.subList(0, Math.max(0, sets.size() - 1));
        return older.stream()
                .filter(set -> set.state() == JobSet.SetState.SAFE)
                .reduce((earlier, later) -> later)
                .or(() -> older.stream().reduce((earlier, later) -> later))
                .map(JobSet::id);
    }

    /** Returns the node whose report ended a restart: the reason begins with its name. */
    private static Optional<String> failedAt(String reason) {
        int end = reason.indexOf(": ");
        return Optional.of(reason.substring(0, Math.max(0, end))).filter(JobKey::isHost);
    }

    private static boolean hasFailed(JobRecord record) {
        return record.phase() == JobPhase.RUNNING
                && record.numbers().isRecovery()
                && record.last().isRestart()
                && record.last().outcome() == RoundOutcome.FAILED;
    }

    /** Returns why jobs are stopped, with the remedy of each: a line for a job. */
    public List<String> standing() {
        List<String> lines = new ArrayList<>();
        long nowNs = surroundings.nowNs();
        jobs.forEach((key, entry) -> {
            JobRecord record = entry.state.record();
            boolean isLate = nowNs - entry.sinceNs > STANDS_STILL.toNanos();
            if (record.phase() == JobPhase.ENDING && isLate) {
                lines.add("job " + record.name() + " is stopped: its recovery waits for "
                        + String.join(", ", JobView.waitsFor(entry.state))
                        + ". Remedy: start the services of these nodes; or end such a node, then type on this node:"
                        + " ppmr nodes off NODE");
            } else if (isLost(entry.state) && !recovering.contains(record.name())) {
                lines.add("job " + record.name() + " is stopped: a node that is off had pods of it. Remedy: ppmr job"
                        + " recover " + record.name());
            }
        });
        standing = lines.size();
        return lines;
    }

    /** Returns how many jobs were stopped when they were last listed. Any thread. */
    public int standingStill() {
        return standing;
    }

    /** Returns true if a node that is off had pods of a job that runs on others, and nothing is under way. */
    private static boolean isLost(JobState state) {
        JobRecord record = state.record();
        return record.phase() == JobPhase.RUNNING
                && record.uncertain()
                && record.moves().isEmpty()
                && !state.places().isEmpty()
                && !state.sets().isEmpty()
                && state.registered() < record.members();
    }

    /** Returns the jobs of which a recovery is under way. */
    public Set<JobName> inRecovery() {
        return jobs.values().stream()
                .map(entry -> entry.state.record())
                .filter(record -> record.phase().isRestart() && record.numbers().isRecovery())
                .map(JobRecord::name)
                .collect(Collectors.toSet());
    }

    /**
     * A job that is stopped, and of which nothing is under way.
     *
     * @param number the number of the recovery that failed, or a negative one if none did
     * @param failed the node at which it failed; empty if none is known
     * @param olderSet the set to go back to if the newest one cannot be restored; empty if there is none
     */
    public record StoppedJob(JobName job, long number, Optional<String> failed, Optional<String> olderSet) {}

    /** Notes the jobs whose recovery is ordered again, now or later. */
    public void recovering(Set<JobName> all) {
        recovering = new HashSet<>(all);
    }

    /**
     * Returns the states of a job for the plan of a restart, the newest set first.
     *
     * @param set the set; empty for the newest
     * @param orOlder whether older sets follow the newest one
     */
    public List<RestartFacts> facts(String key, String set, boolean orOlder) {
        Entry entry = jobs.get(key);
        if (entry == null || !set.isEmpty() || !orOlder || entry.state.sets().isEmpty()) {
            return facts(key, set).stream().toList();
        }
        List<RestartFacts> all = new ArrayList<>();
        entry.state.sets().forEach(one -> facts(key, one.id()).ifPresent(facts -> all.add(0, facts)));
        return all;
    }

    /** Returns the state of a job for the plan of a restart: its newest set and its places. */
    public Optional<RestartFacts> facts(String key, String set) {
        return Optional.ofNullable(jobs.get(key)).map(entry -> {
            Optional<JobSet> found = entry.state.sets().stream()
                    .filter(one -> set.isEmpty() || one.id().equals(set))
                    .reduce((earlier, later) -> later);
            return new RestartFacts(
                    entry.state.record().members(),
                    entry.state.record().numbers().restart(),
                    found,
                    entry.state.places(),
                    entry.state.plan(),
                    entry.state.record().uncertain(),
                    entry.state.record().moves().stream()
                            .map(JobRecord.OpenMove::from)
                            .toList(),
                    entry.version);
        });
    }

    /**
     * The facts that the plan of a restart needs.
     *
     * @param members number of pods
     * @param restart the number of the last restart
     * @param set the set; empty if there is none
     * @param places the pods of each node
     * @param plan the pods of each node in a restart that is not over
     * @param uncertain whether pods may run on nodes that the places do not name
     * @param moves the nodes that open migrations leave
     * @param version the version of the record
     */
    public record RestartFacts(
            int members,
            long restart,
            Optional<JobSet> set,
            Map<String, Set<String>> places,
            Map<String, Set<String>> plan,
            boolean uncertain,
            List<String> moves,
            int version) {}

    // ---- time ---------------------------------------------------------------------------------------------------

    /** Advances the time: ends steps that take too long, and those of nodes that are lost. */
    public void tick() {
        long nowNs = surroundings.nowNs();
        List.copyOf(jobs.entrySet()).forEach(job -> {
            Entry entry = job.getValue();
            JobRecord record = entry.state.record();
            if (entry.isUnread) {
                entry.isUnread = false;
                reload(job.getKey(), entry);
            }
            advance(job.getKey(), entry);
            if (!entry.isWriting && (record.phase() == JobPhase.RUNNING || record.phase() == JobPhase.ENDING)) {
                dropNodesThatAreOff(job.getKey(), entry);
            }
            if (entry.isWriting || (record.phase() != JobPhase.CHECKPOINT && record.phase() != JobPhase.RESTARTING)) {
                return;
            }
            boolean isHold = record.phase() == JobPhase.CHECKPOINT && !record.isGo();
            // A source looks at its pods before it holds them, which takes time, too.
            Duration limit = isHold ? limits.hold().multipliedBy(2) : limits.step();
            boolean isCheckpoint = record.phase() == JobPhase.CHECKPOINT;
            Collection<String> nodes = isCheckpoint
                    ? entry.state.places().keySet()
                    : entry.state.plan().keySet();
            // Sources checkpoint, and targets restore.
            Optional<String> lost = nodes.stream()
                    .filter(host -> isCheckpoint ? !surroundings.isUp(host) : !surroundings.hasTarget(host))
                    .sorted()
                    .findFirst();
            if (lost.isEmpty()) {
                entry.allThereNs = nowNs;
            }
            if (lost.isPresent() && (isCheckpoint || nowNs - entry.allThereNs > NEW_SESSION.toNanos())) {
                String service = isCheckpoint ? "source" : "target";
                offer(
                        job.getKey(),
                        new JobEvent.StepFailed("the " + service + " of node " + lost.get() + " has no session"),
                        answer -> {});
            } else if (nowNs - entry.sinceNs > limit.toNanos()) {
                Set<String> missing = new TreeSet<>(nodes);
                missing.removeAll(
                        record.isGo()
                                ? entry.state.reports().images().keySet()
                                : entry.state.reports().done());
                offer(
                        job.getKey(),
                        new JobEvent.StepFailed(
                                "no report of " + String.join(", ", missing) + " within " + limit.toSeconds() + " s"),
                        answer -> {});
            }
        });
        Map<String, JobState> all = states();
        copies.stuck(all, nowNs).forEach((key, set) -> offer(key, new JobEvent.CopyStuck(set), answer -> {}));
        beginDue(all, nowNs);
    }

    /** Orders the regular checkpoints that are due. */
    private void beginDue(Map<String, JobState> all, long nowNs) {
        regular.watch(all, nowNs);
        List<JobState> writing = regular.writing(all);
        for (String key : regular.due(all, nowNs)) {
            Entry entry = jobs.get(key);
            if (!entry.isWriting && entry.waiting.isEmpty() && regular.isFree(entry.state, writing)) {
                writing.add(entry.state);
                orderCheckpoint(key, answer -> {
                    if (answer.refusal() != null) {
                        regular.began(key, true, surroundings.nowNs());
                        log.write(
                                "regular",
                                "the regular checkpoint of job "
                                        + entry.state.record().name() + " waits: " + answer.refusal());
                    }
                });
            }
        }
    }

    private Map<String, JobState> states() {
        Map<String, JobState> states = new HashMap<>();
        jobs.forEach((key, entry) -> states.put(key, entry.state));
        return states;
    }

    private void dropNodesThatAreOff(String key, Entry entry) {
        Set<String> hosts = new TreeSet<>(entry.state.places().keySet());
        hosts.addAll(entry.state.plan().keySet());
        entry.state.record().moves().forEach(move -> hosts.add(move.from()));
        hosts.stream()
                .filter(surroundings::isTurnedOff)
                .forEach(host -> offer(key, new JobEvent.NodeOff(host), answer -> {}));
    }

    // ---- changes ------------------------------------------------------------------------------------------------

    private void offer(String key, JobEvent event, Consumer<Answer> answer) {
        Entry entry = jobs.get(key);
        if (entry.waiting.size() >= MOST_WAITING) {
            answer.accept(Answer.refused("too many questions about this job wait: try again"));
            return;
        }
        entry.waiting.add(new Waiting(event, answer, 0));
        advance(key, entry);
    }

    private void advance(String key, Entry entry) {
        while (!entry.isWriting && !entry.waiting.isEmpty() && jobs.get(key) == entry) {
            Waiting next = entry.waiting.poll();
            JobRules.JobTransition step = JobRules.apply(entry.state, next.event(), limits.keep());
            if (isTooEarly(entry, step.next().record())) {
                // The next tick tries again.
                entry.waiting.addFirst(next);
                return;
            }
            if (step.refusal().isPresent() && !step.next().equals(entry.state)) {
                Consumer<Answer> answer = next.answer();
                String reason = step.refusal().get();
                write(
                        key,
                        entry,
                        new Waiting(next.event(), unused -> answer.accept(Answer.refused(reason)), next.tries()),
                        step.next());
            } else if (step.refusal().isPresent()) {
                next.answer().accept(Answer.refused(step.refusal().get()));
            } else if (step.next().equals(entry.state)) {
                next.answer().accept(Answer.OK);
            } else if (isOnlyReports(entry.state, step.next())) {
                entry.state = step.next();
                next.answer().accept(Answer.OK);
            } else {
                write(key, entry, next, step.next());
            }
        }
    }

    /** A segment of a pod that was ended for a recovery must never meet a connection of a pod that was restored. */
    private boolean isTooEarly(Entry entry, JobRecord next) {
        return entry.state.record().phase() == JobPhase.RESTARTING
                && next.phase() == JobPhase.RELEASING
                && next.numbers().isRecovery()
                && surroundings.nowNs() - entry.sinceNs < QUIET.toNanos();
    }

    private static boolean isOnlyReports(JobState before, JobState after) {
        return before.record().equals(after.record())
                && before.places().equals(after.places())
                && before.plan().equals(after.plan())
                && before.sets().equals(after.sets());
    }

    private void write(String key, Entry entry, Waiting cause, JobState next) {
        entry.isWriting = true;
        JobState before = entry.state;
        int version = entry.version;
        JobRecords ensemble = store;
        JobChange change = changeOf(before, next);
        boolean isPlan = cause.event() instanceof JobEvent.RestartOrdered;
        Map<String, Set<String>> notified = isPlan ? orderPlan(key, next) : Map.of();
        surroundings.workers().execute(() -> {
            Written written = Written.DONE;
            if (isPlan) {
                written = ensemble.plan(key, next.record().numbers().restart(), next.plan());
                for (Map.Entry<String, Set<String>> order : notified.entrySet()) {
                    written = written == Written.DONE ? ensemble.order(order.getKey(), order.getValue()) : written;
                }
            }
            Written result = written == Written.DONE ? ensemble.write(key, version, change) : written;
            surroundings.onThread(() -> written(key, entry, cause, next, change, result));
        });
    }

    /** Notes the nodes of a plan, and returns all orders of each. */
    private Map<String, Set<String>> orderPlan(String key, JobState next) {
        Map<String, Set<String>> notified = new TreeMap<>();
        for (String host : next.plan().keySet()) {
            Set<String> keys = new TreeSet<>(orders.getOrDefault(host, Set.of()));
            keys.removeIf(other -> !other.equals(key) && !isRestarting(other));
            keys.add(key);
            orders.put(host, keys);
            notified.put(host, keys);
        }
        return notified;
    }

    private boolean isRestarting(String key) {
        Entry entry = jobs.get(key);
        return entry != null && (entry.isWriting || entry.state.record().phase().isRestart());
    }

    private static JobChange changeOf(JobState before, JobState next) {
        boolean isLayout =
                before.record().numbers().layout() != next.record().numbers().layout();
        Map<String, Set<String>> places = new TreeMap<>();
        if (!isLayout) {
            Set<String> hosts = new TreeSet<>(before.places().keySet());
            hosts.addAll(next.places().keySet());
            for (String host : hosts) {
                Set<String> pods = next.places().getOrDefault(host, Set.of());
                if (!pods.equals(before.places().getOrDefault(host, Set.of()))) {
                    places.put(host, pods);
                }
            }
        }
        Map<String, byte[]> newSets = new TreeMap<>();
        Map<String, byte[]> changedSets = new TreeMap<>();
        Set<String> oldSets = new TreeSet<>();
        before.sets().forEach(set -> oldSets.add(set.id()));
        next.sets().stream()
                .filter(set -> !before.sets().contains(set))
                .forEach(set -> (oldSets.contains(set.id()) ? changedSets : newSets).put(set.id(), set.encode()));
        next.sets().forEach(set -> oldSets.remove(set.id()));
        // A plan of a restart is of one version: pods may have passed from one node to another between its questions.
        boolean isSame = before.record().equals(next.record()) && !havePodsMoved(before, next);
        return new JobChange(
                isSame ? Optional.empty() : Optional.of(next.record().encode()),
                next.record().numbers().layout(),
                places,
                before.places().keySet(),
                newSets,
                changedSets,
                oldSets);
    }

    private static boolean havePodsMoved(JobState before, JobState next) {
        return next.places().entrySet().stream().anyMatch(place -> before.places().entrySet().stream()
                .anyMatch(old -> !old.getKey().equals(place.getKey())
                        && old.getValue().stream().anyMatch(place.getValue()::contains)));
    }

    private void written(String key, Entry entry, Waiting cause, JobState next, JobChange change, Written result) {
        if (jobs.get(key) != entry) {
            return;
        }
        if (result != Written.DONE) {
            if (cause.tries() + 1 < TRIES) {
                entry.waiting.addFirst(new Waiting(cause.event(), cause.answer(), cause.tries() + 1));
            } else {
                cause.answer().accept(Answer.refused("the ensemble did not take the change: try again"));
            }
            reload(key, entry);
            return;
        }
        boolean isNewStep = next.record().phase() != entry.state.record().phase()
                || next.record().isGo() != entry.state.record().isGo();
        logChange(entry.state.record(), next.record());
        regular.changed(key, entry.state, next, surroundings.nowNs());
        entry.restart.changed(entry.state, next, surroundings.nowNs(), System.currentTimeMillis());
        entry.version += change.record().isPresent() ? 1 : 0;
        entry.state = next;
        entry.isWriting = false;
        if (isNewStep) {
            entry.sinceNs = surroundings.nowNs();
            entry.allThereNs = entry.sinceNs;
        }
        if (isNewStep && hasFailed(next.record())) {
            // Until the next tick it is unknown whether it is ordered again.
            recovering.add(next.record().name());
        }
        cause.answer().accept(Answer.OK);
        if (isNewStep && next.record().phase() == JobPhase.RUNNING) {
            outcomes.merge(next.record().last().outcome(), 1L, Long::sum);
        }
        if (isNewStep
                && next.record().phase() == JobPhase.RUNNING
                && next.record().last().isRestart()) {
            JobRecords ensemble = store;
            long layout = next.record().numbers().layout();
            surroundings
                    .workers()
                    .execute(() ->
                            ensemble.removeLayouts(key, old -> old.keySet().removeIf(number -> number >= layout)));
        }
        advance(key, entry);
    }

    private static void logChange(JobRecord before, JobRecord next) {
        if (next.phase() != before.phase() || next.isGo() != before.isGo()) {
            LOG.info(
                    "job {}: {}{}{}",
                    next.name(),
                    next.phase().word(),
                    next.isGo() ? ", all members are held" : "",
                    next.phase() == JobPhase.RUNNING && next.last().number() > 0
                            ? "; " + next.last().outcome().word() + " "
                                    + next.last().reason()
                            : "");
        }
    }

    /** Reads a job again, since another controller has changed it, or since a result is unknown. */
    private void reload(String key, Entry entry) {
        entry.isWriting = true;
        JobRecords ensemble = store;
        surroundings.workers().execute(() -> {
            Optional<StoredJob> read;
            try {
                read = ensemble.read(key);
            } catch (IOException e) {
                LOG.info("job {} is read again: {}", key, e.getMessage());
                surroundings.onThread(() -> {
                    fail(entry, "the ensemble does not answer: try again");
                    entry.isUnread = true;
                });
                return;
            }
            surroundings.onThread(() -> reloaded(key, entry, read));
        });
    }

    private void reloaded(String key, Entry entry, Optional<StoredJob> read) {
        if (jobs.get(key) != entry) {
            return;
        }
        Optional<JobState> state = read.flatMap(job -> stateOrRemoval(key, job));
        if (state.isEmpty()) {
            fail(entry, "the job is no more");
            jobs.remove(key);
            regular.forget(key);
            return;
        }
        regular.changed(key, entry.state, state.get(), surroundings.nowNs());
        entry.state = state.get();
        entry.version = read.get().version();
        entry.sinceNs = surroundings.nowNs();
        entry.isWriting = false;
        advance(key, entry);
    }

    private static void fail(Entry entry, String reason) {
        List<Waiting> all = List.copyOf(entry.waiting);
        entry.waiting.clear();
        all.forEach(one -> one.answer().accept(Answer.refused(reason)));
    }
}
