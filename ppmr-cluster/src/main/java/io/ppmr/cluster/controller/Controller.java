package io.ppmr.cluster.controller;

import com.fasterxml.jackson.core.JacksonException;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.cluster.job.JobRecords;
import io.ppmr.cluster.job.JobTable;
import io.ppmr.cluster.message.ClusterMessage;
import io.ppmr.cluster.message.Prober;
import io.ppmr.cluster.record.NodeRecord;
import io.ppmr.cluster.record.NodeStatus;
import io.ppmr.cluster.record.NodeView;
import io.ppmr.cluster.record.ServiceName;
import io.ppmr.cluster.record.ServiceRecord;
import io.ppmr.cluster.zookeeper.ControllerStore;
import io.ppmr.linux.BootClock;
import io.ppmr.linux.HostPort;
import io.ppmr.linux.LogContext;
import io.ppmr.linux.RareLog;
import io.ppmr.protocol.data.Message;
import io.ppmr.transport.auth.PeerAuthenticator;
import io.ppmr.transport.tcp.Connector;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A controller: while it is the active one it watches all services, determines the states of their nodes, and answers
 * questions about them. Otherwise it names the active one. Its thread owns the {@link NodeTable}; all others pass it
 * tasks. Closed by its owner.
 */
public final class Controller implements ControllerStore.Listener, AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(Controller.class);
    private static final Duration TICK = Duration.ofMillis(500);
    /** A longer gap between two turns of the thread is a pause of this process. */
    private static final Duration PAUSE = Duration.ofSeconds(2);
    /** After a pause services need so much longer than their time-out until they have a session again. */
    private static final Duration GRACE_MARGIN = Duration.ofSeconds(10);

    /** The nodes of one answer; they must fit a frame. */
    private static final int NODES_A_MESSAGE = 100;
    /** More changes at once are one line of the log. */
    private static final int SINGLE_LINES = 3;

    private static final int NAMED_NODES = 10;

    /**
     * The settings of a controller.
     *
     * @param key the key of all services
     * @param session the time-out of the services' sessions
     * @param probeLimit how many nodes are probed at once
     * @param jobs the limits of checkpoints of jobs over several nodes
     * @param fencing switches lost nodes off; empty if the site has no command for that
     */
    public record ControllerSettings(
            PeerAuthenticator key,
            Duration session,
            int probeLimit,
            JobTable.JobLimits jobs,
            Optional<NodeFencing> fencing) {}

    /** The answer to joining services: the cluster's name, the servers, the users of controllers, and TLS. */
    public record Entrance(String clusterId, List<String> servers, List<String> controllers, boolean tls) {}

    private final ControllerTasks tasks = new ControllerTasks();
    private final ExecutorService workers =
            Executors.newCachedThreadPool(task -> LogContext.thread(task, "ppmr-controller-worker"));
    private final List<NodeAct.Probe> dueProbes = new ArrayList<>();
    private final ObjectMapper json = new ObjectMapper();
    private final RareLog log = new RareLog(LOG::warn);
    private final NodeFencing.HeldBackAlarm heldBack = new NodeFencing.HeldBackAlarm();
    private final SplittableRandom random = new SplittableRandom();
    private final SpareChoice spares = new SpareChoice(random);
    private final NodeTable table;
    private final JobTable jobs;
    private final JobAnswers jobAnswers;
    private final ControllerSettings settings;
    private final Prober prober;
    private final Thread thread;
    private ControllerStore store;
    /** True if a node is not in the table because that was full. The controller's thread owns it. */
    private boolean isRefused;

    private volatile Entrance entrance;
    private volatile boolean active;
    private volatile boolean known;
    private volatile boolean ended;
    private volatile Map<NodeStatus, Integer> counts = Map.of();

    public Controller(ControllerSettings settings) {
        this.settings = settings;
        this.prober = new Prober(settings.probeLimit());
        this.table = new NodeTable(
                random,
                settings.session().plus(GRACE_MARGIN),
                settings.fencing().map(NodeFencing::limits));
        this.jobAnswers = new JobAnswers(settings, table, tasks, workers, random, () -> active);
        this.jobs = jobAnswers.jobs();
        this.thread = LogContext.thread(this::run, "ppmr-controller");
    }

    /** Begins to work with an ensemble that is connected. */
    public void start(ControllerStore ensemble, Entrance cluster) throws IOException {
        store = ensemble;
        entrance = cluster;
        thread.start();
        ensemble.begin();
    }

    private void run() {
        long lastNs = BootClock.nowNs();
        long nextTickNs = lastNs;
        while (!ended) {
            try {
                long waitNs = Math.max(0, nextTickNs - BootClock.nowNs());
                Runnable task = tasks.poll(waitNs);
                long nowNs = BootClock.nowNs();
                // Before the task: it may report ends of sessions that this pause caused.
                if (nowNs - lastNs > PAUSE.toNanos()) {
                    LOG.warn(
                            "this controller did not run for {} s: for {} s no node counts as silent",
                            TimeUnit.NANOSECONDS.toSeconds(nowNs - lastNs),
                            settings.session().plus(GRACE_MARGIN).toSeconds());
                    table.paused(nowNs);
                }
                lastNs = nowNs;
                if (task != null) {
                    task.run();
                }
                if (nowNs - nextTickNs >= 0) {
                    nextTickNs = nowNs + TICK.toNanos();
                    if (active) {
                        table.tick(nowNs, System.currentTimeMillis(), known);
                        heldBack.write(table.heldBack(), nowNs);
                        if (known) {
                            jobAnswers.tick();
                        }
                        carryOut(table.takeActs());
                        beginProbes();
                    }
                }
                if (active) {
                    carryOut(table.takeActs());
                    report(table.takeChanges());
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return;
            } catch (RuntimeException e) {
                log.write("defect", "a defect in the controller: " + e);
                LOG.debug("a defect in the controller", e);
            }
        }
    }

    private void carryOut(List<NodeAct> effects) {
        for (NodeAct effect : effects) {
            if (effect instanceof NodeAct.Probe probe) {
                dueProbes.add(probe);
            } else if (effect instanceof NodeAct.AskWitnesses question) {
                question.witnesses().forEach(witness -> workers.execute(() -> ask(question, witness)));
            } else if (effect instanceof NodeAct.Write write) {
                store.writeNode(write.host(), write.record().encode());
            } else if (effect instanceof NodeAct.FenceNode fence) {
                workers.execute(() -> fence(fence));
            } else if (effect instanceof NodeAct.Remove remove) {
                store.removeNode(remove.host());
            }
        }
    }

    private void fence(NodeAct.FenceNode act) {
        Consumer<Boolean> ended = isProved -> tasks.add(
                () -> table.fenced(act.host(), act.number(), isProved, BootClock.nowNs(), System.currentTimeMillis()));
        try {
            settings.fencing().orElseThrow().carryOut(act, store, () -> isWanted(act), ended);
        } catch (RuntimeException | Error e) {
            LOG.error("node {} is not fenced: a defect in the controller", act.host(), e);
            ended.accept(false);
        }
    }

    /** Queries the table right before the command: the node may be back. Without its answer nothing is started. */
    private boolean isWanted(NodeAct.FenceNode act) {
        try {
            return active && tasks.call(() -> active && table.isFenceWanted(act.host(), act.number()));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        } catch (IOException | RuntimeException e) {
            LOG.warn("node {} is not fenced: the controller's thread does not answer: {}", act.host(), e.getMessage());
            return false;
        }
    }

    /** Probes all nodes of a tick by one call, however many sessions ended in it. */
    private void beginProbes() {
        if (!dueProbes.isEmpty()) {
            List<NodeAct.Probe> probes = List.copyOf(dueProbes);
            dueProbes.clear();
            workers.execute(() -> probe(probes));
        }
    }

    private void probe(List<NodeAct.Probe> probes) {
        Set<String> answering;
        try {
            answering = prober.answering(probes.stream()
                    .flatMap(probe -> probe.addresses().stream())
                    .distinct()
                    .toList());
        } catch (IOException | RuntimeException e) {
            // Without a result SILENT ends by its time limit, in UNKNOWN.
            log.write("probe", "nodes cannot be probed: " + e.getMessage());
            return;
        }
        tasks.add(() -> probes.forEach(probe -> table.probed(
                probe.host(),
                probe.round(),
                probe.addresses().stream().anyMatch(answering::contains),
                BootClock.nowNs(),
                System.currentTimeMillis())));
    }

    private void ask(NodeAct.AskWitnesses question, NodeAct.Witness witness) {
        Optional<Set<String>> answered = Optional.empty();
        try {
            Message answer = new Connector(
                            HostPort.parse(witness.address()).orElseThrow().lookUp(),
                            settings.key(),
                            NodeTable.WITNESS_LIMIT)
                    .request(
                            () -> new ClusterMessage.ProbeNodes(question.addresses()),
                            ClusterMessage::read,
                            NodeTable.WITNESS_LIMIT);
            if (answer instanceof ClusterMessage.NodesProbed probed) {
                answered = Optional.of(Set.copyOf(probed.answered()));
            }
        } catch (IOException e) {
            LOG.info("node {} was asked about silent nodes, and does not answer: {}", witness.host(), e.getMessage());
        }
        Optional<Set<String>> result = answered;
        tasks.add(() -> table.witnessed(
                question.batch(), witness.host(), result, BootClock.nowNs(), System.currentTimeMillis()));
    }

    /** Logs each change, and one line where many nodes change in the same way at once. */
    private void report(List<NodeTable.Change> changes) {
        if (changes.isEmpty()) {
            return;
        }
        counts = table.counts();
        Map<NodeStatus, List<String>> byState = new EnumMap<>(NodeStatus.class);
        changes.forEach(change ->
                byState.computeIfAbsent(change.to(), state -> new ArrayList<>()).add(change.host()));
        byState.forEach((state, hosts) -> {
            if (hosts.size() <= SINGLE_LINES) {
                hosts.forEach(host -> line(state, "node " + host + " is " + state));
            } else {
                String named = hosts.stream().limit(NAMED_NODES).collect(Collectors.joining(", "));
                line(
                        state,
                        hosts.size() + " nodes are " + state + ": " + named
                                + (hosts.size() > NAMED_NODES ? ", ..." : ""));
            }
        });
        changes.stream().filter(change -> change.to() == NodeStatus.UP).forEach(change -> table.returnedFromOff(
                        change.host())
                .ifPresent(boot -> LOG.error(
                        "node {} is UP with boot {}, which the fence command has proved off, or an operator reported"
                                + " as off: that was wrong. Remedy: check what was done in the belief that it was off,"
                                + " and the command",
                        change.host(),
                        boot)));
    }

    private static void line(NodeStatus state, String text) {
        switch (state) {
            case UP, SILENT, OFF -> LOG.info("{}", text);
            case SERVICE_DOWN -> LOG.warn("{}: its kernel answers, and a service has no session", text);
            case FENCING -> LOG.warn("{}: the fence command is run", text);
            case SUSPECT -> LOG.error("{}: neither this controller nor two other nodes get an answer", text);
            case UNKNOWN ->
                LOG.error(
                        "{}: this controller gets no answer, and too few other nodes could confirm it. An operator must"
                                + " decide: check the node; if it is off, type on this node: ppmr nodes off NODE",
                        text);
        }
    }

    // ---- the ensemble, on Curator's threads --------------------------------------------------------------------

    @Override
    public void serviceChanged(String name, Optional<byte[]> record) {
        tasks.add(() -> ServiceName.parse(name).filter(service -> active).ifPresent(service -> {
            long nowNs = BootClock.nowNs();
            long nowMs = System.currentTimeMillis();
            if (record.isEmpty()) {
                table.vanished(service, nowNs, nowMs);
                return;
            }
            Optional<ServiceRecord> read = ServiceRecord.decode(record.get());
            if (read.isEmpty()) {
                log.write(
                        "record",
                        "the record of " + name + " cannot be read: it has " + record.get().length
                                + " bytes. Remedy: install the same release of ppmr on that node");
            }
            if (!table.appeared(service, read, nowNs, nowMs)) {
                isRefused = true;
                log.write(
                        "full",
                        "node " + service.host() + " is not shown: the cluster has " + NodeTable.MOST_NODES
                                + " names of nodes, the most that a controller keeps. Remedy: on this node, ppmr"
                                + " nodes forget NODE for those that are no nodes");
            }
        }));
    }

    @Override
    public void servicesKnown() {
        tasks.add(() -> {
            known = true;
            counts = table.counts();
            LOG.info("this controller knows all services: {}", summary());
        });
    }

    @Override
    public void active(boolean isActive) {
        tasks.add(() -> {
            active = isActive;
            known = false;
            if (!isActive) {
                LOG.warn("this controller is no longer the active one");
                store.stopWatching();
                jobAnswers.end();
                return;
            }
            LOG.info("this controller is the active one");
            try {
                Map<String, NodeRecord> records = new HashMap<>();
                store.nodes().forEach((host, bytes) -> NodeRecord.decode(bytes)
                        .ifPresent(record -> records.put(host, record)));
                table.begin(records, BootClock.nowNs(), System.currentTimeMillis());
                JobRecords ensemble = store.jobs();
                jobs.begin(ensemble, ensemble.read(), ensemble.orders());
                store.watchServices();
            } catch (IOException e) {
                // Another controller is elected when this session ends. Until then this one tries again.
                log.write("begin", e.getMessage() + ": trying again");
                CompletableFuture.delayedExecutor(TICK.toMillis(), TimeUnit.MILLISECONDS, workers)
                        .execute(() -> {
                            if (active) {
                                active(true);
                            }
                        });
            }
        });
    }

    @Override
    public void notWritten(String host) {
        tasks.add(() -> table.notWritten(host));
    }

    @Override
    public void connected(boolean isConnected) {
        tasks.add(() -> {
            if (isConnected) {
                table.paused(BootClock.nowNs());
            } else {
                LOG.warn("this controller has no connection to the ensemble");
            }
        });
    }

    // ---- questions, on any thread ------------------------------------------------------------------------------

    /** Answers a question of a service or of another controller. */
    public ClusterMessage answer(ClusterMessage question, String peer) throws InterruptedException {
        try {
            if (question instanceof ClusterMessage.Join join) {
                return new ClusterMessage.JoinAnswer(
                                entrance.clusterId(), entrance.servers(), entrance.controllers(), entrance.tls(), "")
                        .provedBy(settings.key(), join);
            }
            if (question instanceof ClusterMessage.ListNodes list) {
                return whenActive(() -> nodes(list));
            }
            if (question instanceof ClusterMessage.FindSpares find) {
                return whenActive(() ->
                        new ClusterMessage.Spares(spares.choose(find.needs(), table.targets(), BootClock.nowNs())));
            }
            if (question instanceof ClusterMessage.FindOff find) {
                return whenActive(
                        () -> new ClusterMessage.OffBoots(List.copyOf(table.endedBoots(Set.copyOf(find.boots())))));
            }
            if (question instanceof ClusterMessage.AskJobs ask) {
                return isActive() ? jobAnswers.answer(ask, peer) : whenActive(() -> new ClusterMessage.NotActive(""));
            }
            return new ClusterMessage.QuestionRefused(
                    "a controller does not answer " + question.getClass().getSimpleName());
        } catch (IOException e) {
            return new ClusterMessage.QuestionRefused(String.valueOf(e.getMessage()));
        }
    }

    private ClusterMessage whenActive(Supplier<ClusterMessage> answer) throws IOException, InterruptedException {
        if (!active) {
            return new ClusterMessage.NotActive(store.active().orElse(""));
        }
        if (!known) {
            return new ClusterMessage.NotActive("");
        }
        return tasks.call(answer);
    }

    private ClusterMessage nodes(ClusterMessage.ListNodes list) {
        Optional<NodeStatus> state =
                Optional.of(list.state()).filter(word -> !word.isEmpty()).map(NodeStatus::valueOf);
        List<NodeView> views = table.views(
                list.after(), Optional.of(list.zone()).filter(zone -> !zone.isEmpty()), state, NODES_A_MESSAGE);
        return new ClusterMessage.NodeList(views.stream().map(this::text).toList(), views.size() < NODES_A_MESSAGE);
    }

    private String text(NodeView view) {
        try {
            return json.writeValueAsString(view);
        } catch (JacksonException e) {
            throw new IllegalStateException("a record of plain values cannot be written", e);
        }
    }

    /**
     * Notes an operator's report that the present boot of a node ended.
     *
     * @return why it cannot be so; empty if it was noted
     */
    public Optional<String> turnOff(String host, String by) throws IOException, InterruptedException {
        Optional<String> refusal = ifActive(() -> table.turnOff(host, System.currentTimeMillis()));
        if (refusal.isEmpty()) {
            LOG.warn("{} reports that node {} is off", by, host);
        }
        return refusal;
    }

    /**
     * Forgets the services of a node that have no session, and the node if none has one.
     *
     * @return why it cannot be so; empty if they are forgotten
     */
    public Optional<String> forget(String host, String by) throws IOException, InterruptedException {
        Optional<String> refusal = ifActive(() -> {
            Optional<String> why = table.forget(host, BootClock.nowNs(), System.currentTimeMillis());
            counts = table.counts();
            if (why.isEmpty() && isRefused) {
                // Reports all services again, and so those that had no place.
                isRefused = false;
                store.watchServices();
            }
            return why;
        });
        if (refusal.isEmpty()) {
            LOG.warn("{} has the cluster forget what has no session of node {}", by, host);
        }
        return refusal;
    }

    private Optional<String> ifActive(Supplier<Optional<String>> act) throws IOException, InterruptedException {
        if (!isActive()) {
            return Optional.of("this controller is not the active one"
                    + store.active().map(other -> "; " + other + " is").orElse("")
                    + ". Remedy: type the command on its node");
        }
        return tasks.call(() -> isActive()
                ? act.get()
                : Optional.of("this controller is no longer the active one. Remedy: type the command on its node"));
    }

    /** Returns the number of nodes in each state, as of the last change. */
    public Map<NodeStatus, Integer> counts() {
        return new TreeMap<>(counts);
    }

    /** Returns the jobs over several nodes. Only their figures are for any thread. */
    public JobTable jobs() {
        return jobs;
    }

    /** Returns whether it is the active one. */
    public boolean isActive() {
        return active && known;
    }

    /** Describes it in a line, for people. */
    public String summary() {
        if (!active) {
            return "not the active controller";
        }
        String nodes = counts().entrySet().stream()
                .map(entry -> entry.getValue() + " " + entry.getKey())
                .collect(Collectors.joining(", "));
        String several = jobs.size() == 0
                ? ""
                : "; jobs over several nodes: " + jobs.size()
                        + (jobs.overdue() == 0 ? "" : ", " + jobs.overdue() + " without their checkpoints");
        return "the active controller; " + (nodes.isEmpty() ? "no node" : "nodes: " + nodes) + several;
    }

    /** Returns why it cannot work, if so. Any thread; blocks it for the limit at most. */
    public Optional<String> complaint(Duration limit) throws InterruptedException {
        CompletableFuture<Boolean> turn = new CompletableFuture<>();
        tasks.add(() -> turn.complete(true));
        try {
            turn.get(limit.toNanos(), TimeUnit.NANOSECONDS);
            return Optional.empty();
        } catch (TimeoutException | ExecutionException e) {
            return Optional.of("the controller's thread has not run for " + limit);
        }
    }

    @Override
    public void close() {
        ended = true;
        thread.interrupt();
        workers.shutdownNow();
    }
}
