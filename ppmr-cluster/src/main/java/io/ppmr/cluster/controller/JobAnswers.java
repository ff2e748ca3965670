package io.ppmr.cluster.controller;

import io.ppmr.cluster.job.JobKey;
import io.ppmr.cluster.job.JobQuestion;
import io.ppmr.cluster.job.JobSet;
import io.ppmr.cluster.job.JobTable;
import io.ppmr.cluster.message.ClusterMessage;
import io.ppmr.cluster.record.NodeStatus;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.linux.BootClock;
import io.ppmr.linux.HostPort;
import io.ppmr.migration.RequestException;
import io.ppmr.protocol.data.Message;
import io.ppmr.transport.auth.PeerAuthenticator;
import io.ppmr.transport.tcp.Connector;
import java.io.IOException;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The answers of a controller to questions about jobs over several nodes. The controller's thread owns the table of
 * jobs, and services are asked on workers.
 */
final class JobAnswers {
    private static final Logger LOG = LoggerFactory.getLogger(JobAnswers.class);
    /** The time for a change of a job, which the ensemble must take. */
    private static final Duration JOB_LIMIT = Duration.ofSeconds(6);
    /** The time for a service's answer about pods and images. */
    private static final Duration SERVICE_LIMIT = Duration.ofSeconds(5);
    /** The time for the plan of a restart, for which services are asked. */
    private static final Duration RESTART_LIMIT = Duration.ofSeconds(30);

    /** The interval of alarms. */
    private static final Duration ALARM = Duration.ofSeconds(30);
    /** The most spare nodes that are asked for images. */
    private static final int MOST_SPARES = 8;

    private final JobSurroundings surroundings = new JobSurroundings();
    private final NodeTable table;
    private final ControllerTasks tasks;
    private final Executor workers;
    private final PeerAuthenticator key;
    private final BooleanSupplier isActive;
    private final JobTable jobs;
    private final JobAddresses addresses;
    private final Recoveries recoveries;
    private long standingNs = BootClock.nowNs();

    /**
     * @param table the nodes, which the controller's thread owns
     * @param isActive whether the controller is the active one
     */
    JobAnswers(
            Controller.ControllerSettings settings,
            NodeTable table,
            ControllerTasks tasks,
            Executor workers,
            SplittableRandom random,
            BooleanSupplier isActive) {
        this.table = table;
        this.tasks = tasks;
        this.workers = workers;
        this.key = settings.key();
        this.isActive = isActive;
        this.jobs = new JobTable(settings.jobs(), surroundings, random);
        this.recoveries = new Recoveries(this::orderRestart, (job, answer) -> tasks.add(() -> recovered(job, answer)));
        this.addresses = new JobAddresses(jobs::nodesInCheckpoint, surroundings, workers);
    }

    /** Returns the table of jobs. Only its figures are for any thread. */
    JobTable jobs() {
        return jobs;
    }

    /** Forgets all jobs, because this controller is no longer the active one. The controller's thread calls it. */
    void end() {
        jobs.end();
        addresses.clear();
        recoveries.end();
    }

    /** Advances the time. The controller's thread calls it. */
    void tick() {
        jobs.tick();
        List<Recoveries.StandingJob> failed = jobs.stopped().stream()
                .map(one -> new Recoveries.StandingJob(one.job(), one.number(), one.failed(), one.olderSet()))
                .toList();
        long nowNs = BootClock.nowNs();
        if (nowNs - standingNs >= ALARM.toNanos()) {
            standingNs = nowNs;
            jobs.standing().forEach(line -> LOG.error("{}", line));
        }
        jobs.recovering(recoveries.tick(failed, jobs.inRecovery(), BootClock.nowNs()));
    }

    private void recovered(JobName job, JobQuestion.Answer answer) {
        if (isActive.getAsBoolean()) {
            recoveries.answered(job, answer, BootClock.nowNs());
        }
    }

    /**
     * Answers a question of a service while this controller is the active one. Any thread.
     *
     * @param peer the address of the service; empty for this controller's own control socket
     */
    ClusterMessage answer(ClusterMessage.AskJobs ask, String peer) throws IOException, InterruptedException {
        Optional<JobQuestion> question = JobQuestion.parse(ask.kind(), ask.text());
        if (question.isEmpty()) {
            return new ClusterMessage.QuestionRefused("a question about jobs has an invalid form");
        }
        CompletableFuture<JobQuestion.Answer> result = new CompletableFuture<>();
        tasks.add(() -> {
            if (!isActive.getAsBoolean()) {
                result.complete(JobQuestion.Answer.refused("this controller is no longer the active one: try again"));
            } else if (question.get() instanceof JobQuestion.OrderRestart order) {
                if (order.isRecovery() && !hasPodsOf(order.job(), peer)) {
                    result.complete(JobQuestion.Answer.refused("the node at " + peer + " has no pods of the job, and a"
                            + " recovery ends pods. Remedy: order it on a node that ppmr job show names, or with"
                            + " --config of the active controller on its node"));
                } else {
                    orderRestart(order, result);
                }
            } else if (question.get() instanceof JobQuestion.FindForeign find) {
                addresses.find(find, result::complete);
            } else {
                jobs.ask(question.get(), result::complete);
            }
        });
        try {
            Duration limit = question.get() instanceof JobQuestion.OrderRestart ? RESTART_LIMIT : JOB_LIMIT;
            return new ClusterMessage.JobsAnswer(
                    result.get(limit.toNanos(), TimeUnit.NANOSECONDS).text());
        } catch (TimeoutException e) {
            result.complete(JobQuestion.Answer.refused("the time is over"));
            throw new IOException("the ensemble, or a service, is slow: try again", e);
        } catch (ExecutionException e) {
            throw new IOException("a defect in the controller: " + e.getCause(), e);
        }
    }

    /**
     * Returns true if a question comes from a node of the job. Root there can end its pods without a question; a
     * service of another node must not, although it has the key.
     */
    private boolean hasPodsOf(JobName job, String peer) {
        Set<String> hosts = job == null
                ? Set.of()
                : jobs.facts(JobKey.of(job), "")
                        .map(facts -> facts.places().keySet())
                        .orElse(Set.of());
        String from = JobAddresses.hostOf(peer);
        return peer.isEmpty()
                || hosts.isEmpty()
                || hosts.stream()
                        .flatMap(host ->
                                Stream.of("source", "target").flatMap(role -> table.questions(host, role).stream()))
                        .anyMatch(address -> JobAddresses.hostOf(address).equals(from));
    }

    /** A controller's node may have no pods, and sees no images. */
    private static boolean isFromController(JobQuestion.OrderRestart order) {
        return order.isRecovery() && order.here() != null && order.here().isEmpty();
    }

    /** Makes the plan on a worker, since services are asked for it. */
    private void orderRestart(JobQuestion.OrderRestart order, CompletableFuture<JobQuestion.Answer> result) {
        boolean isSound = order.job() != null
                && JobKey.isName(order.job().name())
                && order.hosts() != null
                && order.hosts().stream().allMatch(JobKey::isHost)
                && (JobKey.isHost(order.here()) || isFromController(order))
                && Set.copyOf(order.hosts()).size() == order.hosts().size()
                && order.awayOff() != null
                && order.awayOff().stream().allMatch(Objects::nonNull)
                && order.awayOff().size() <= NodeTable.MOST_NODES;
        String set = order.set() == null ? "" : order.set();
        List<JobTable.RestartFacts> sets =
                isSound ? jobs.facts(JobKey.of(order.job()), set, order.isRecovery()) : List.of();
        if (sets.isEmpty()) {
            result.complete(JobQuestion.Answer.refused(
                    "there is no such job over several nodes, or a node is named twice or wrongly. Remedy: ppmr job"
                            + " list shows the jobs"));
            return;
        }
        workers.execute(() -> {
            try {
                PlannedSet planned = planOf(order, sets);
                tasks.add(() -> {
                    // A plan whose user no longer waits is not carried out.
                    if (!result.isDone()) {
                        jobs.restart(
                                JobKey.of(order.job()),
                                planned.facts(),
                                planned.plan(),
                                order.isRecovery(),
                                result::complete);
                    }
                });
            } catch (RequestException | IOException e) {
                result.complete(JobQuestion.Answer.refused(String.valueOf(e.getMessage())));
            } catch (RuntimeException e) {
                LOG.error("a defect in the plan of a restart", e);
                result.complete(JobQuestion.Answer.refused("a defect in the controller: " + e));
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                result.complete(JobQuestion.Answer.refused("this controller ends: try again"));
            }
        });
    }

    /** A set with the pods that each node restores out of it. */
    private record PlannedSet(JobTable.RestartFacts facts, Map<String, Set<String>> plan) {}

    /** Plans with the first of these sets whose images can be read. */
    private PlannedSet planOf(JobQuestion.OrderRestart order, List<JobTable.RestartFacts> sets)
            throws RequestException, IOException, InterruptedException {
        RestartPlan.UnreadableSetException failure = null;
        for (JobTable.RestartFacts facts : sets) {
            RestartPlan planner = new RestartPlan(
                    order.job(), facts, surroundings, new HashSet<>(order.awayOff()), order.isRecovery());
            try {
                return new PlannedSet(
                        facts,
                        order.isRecovery()
                                ? planner.recover(order.here(), new HashSet<>(order.hosts()))
                                : planner.make(order.hosts(), order.here()));
            } catch (RestartPlan.UnreadableSetException e) {
                LOG.warn("job {}: a set cannot be used: {}", order.job(), e.getMessage());
                failure = failure == null ? e : failure;
            }
        }
        throw failure;
    }

    /** The nodes and their services, for the table of jobs. */
    private final class JobSurroundings implements JobTable.Surroundings, QueriedCluster {
        @Override
        public Executor workers() {
            return workers;
        }

        @Override
        public void onThread(Runnable result) {
            tasks.add(result);
        }

        @Override
        public boolean isUp(String host) {
            return table.isServed(host, "source") || table.status(host).equals(Optional.of(NodeStatus.UP));
        }

        @Override
        public boolean hasTarget(String host) {
            return table.isServed(host, "target");
        }

        @Override
        public void checkCopies(JobName job, JobSet set, Set<String> hosts, Consumer<Optional<String>> why) {
            workers.execute(() -> {
                Optional<String> found;
                try {
                    found = new CopyCheck(this).whyNotSafe(job, set, hosts);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    found = Optional.of("this controller ends");
                } catch (RuntimeException e) {
                    LOG.error("a defect in the check of copies", e);
                    found = Optional.of("a defect in the controller: " + e);
                }
                Optional<String> result = found;
                tasks.add(() -> why.accept(result));
            });
        }

        @Override
        public boolean isTurnedOff(String host) {
            return table.status(host).equals(Optional.of(NodeStatus.OFF));
        }

        @Override
        public Optional<String> hostAt(String address) {
            return table.hostAt(address);
        }

        @Override
        public Optional<String> findHostAt(String address) throws IOException, InterruptedException {
            return tasks.call(() -> hostAt(address));
        }

        @Override
        public Map<String, Set<String>> present() throws IOException, InterruptedException {
            return tasks.call(table::present);
        }

        @Override
        public List<String> spares(Set<String> without) throws IOException, InterruptedException {
            return tasks.call(() -> table.spares(without, MOST_SPARES));
        }

        @Override
        public long nowNs() {
            return BootClock.nowNs();
        }

        @Override
        public boolean isOff(String host) throws IOException, InterruptedException {
            return tasks.call(() -> isTurnedOff(host));
        }

        @Override
        public JobQuestion.Answer ask(String host, String role, JobQuestion question)
                throws IOException, InterruptedException {
            Optional<HostPort> address =
                    tasks.call(() -> table.questions(host, role)).flatMap(HostPort::parse);
            if (address.isEmpty()) {
                throw new IOException("its " + role + " has no session in the cluster");
            }
            Message answer = new Connector(address.get().lookUp(), key, SERVICE_LIMIT)
                    .request(
                            () -> new ClusterMessage.AskJobs(question.kind(), question.text()),
                            ClusterMessage::read,
                            SERVICE_LIMIT);
            if (answer instanceof ClusterMessage.QuestionRefused refused) {
                return JobQuestion.Answer.refused(refused.reason());
            }
            return Optional.of(answer)
                    .filter(ClusterMessage.JobsAnswer.class::isInstance)
                    .flatMap(found -> JobQuestion.Answer.parse(((ClusterMessage.JobsAnswer) found).text()))
                    .orElseThrow(() -> new IOException("its " + role + " gave an answer of another form"));
        }
    }
}
