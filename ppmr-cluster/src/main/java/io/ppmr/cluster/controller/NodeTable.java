package io.ppmr.cluster.controller;

import io.ppmr.cluster.controller.FenceRules.DueFences;
import io.ppmr.cluster.controller.FenceRules.FenceCandidate;
import io.ppmr.cluster.controller.FenceRules.FenceLimits;
import io.ppmr.cluster.record.NodeRecord;
import io.ppmr.cluster.record.NodeStatus;
import io.ppmr.cluster.record.NodeView;
import io.ppmr.cluster.record.ServiceName;
import io.ppmr.cluster.record.ServiceRecord;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.random.RandomGenerator;
import java.util.stream.Collectors;

/**
 * The nodes of a cluster and the rules of their states, as the active controller applies them. It does no work of its
 * own: events and the time come in, and {@link NodeAct}s go out. So tests can run any schedule. The controller's thread
 * owns it.
 *
 * <p>A node without a session is probed. Only a node that neither this controller nor two other nodes can reach becomes
 * SUSPECT. After a pause of this process, or of its connection to the ensemble, the end of a session proves nothing:
 * for some time no node leaves its state for that reason.
 *
 * <p>A node that stays SUSPECT is fenced, if the site has a command for that, by {@link FenceRules}. It is probed once
 * more before.
 */
final class NodeTable {
    /** Interval of the probes of a node that is not UP. */
    static final Duration PROBE_AGAIN = Duration.ofSeconds(5);
    /** The time after which a probe of many nodes counts as lost. */
    static final Duration LOST_PROBE = Duration.ofSeconds(60);
    /** The longest time in SILENT. */
    static final Duration SILENT_LIMIT = Duration.ofSeconds(5);
    /** The time for the answers of witnesses. */
    static final Duration WITNESS_LIMIT = Duration.ofSeconds(2);
    /** A fence without a result counts as lost so long after the deadline of its command. */
    static final Duration LOST_FENCE = Duration.ofSeconds(15);
    /** A node becomes SUSPECT only if so many other nodes got no answer from it. */
    static final int WITNESSES = 2;

    /** Names of nodes stay until an operator forgets them, so their number has a limit. */
    static final int MOST_NODES = 32_768;

    private static final int ASKED_WITNESSES = 4;
    /** A witness answers so many within its time. */
    private static final int ADDRESSES_A_QUESTION = 200;

    /** Of more addresses of a node, the first ones are kept, and the last one. */
    private static final int MOST_ADDRESSES = 4;

    private static final double HUNDREDTHS = 100;
    private static final String TARGET = "target";

    /** A change of a node's state. */
    record Change(String host, NodeStatus to) {}

    /** The service of a node; the record is empty if it cannot be read. */
    private record Service(Optional<ServiceRecord> record) {}

    /** A node. The table's thread owns it. */
    private static final class Node {
        private final String host;
        private final Map<String, Service> services = new TreeMap<>();
        private final Set<String> roles = new TreeSet<>();
        private String bootId = "";
        private String offBoot = "";
        private String questions = "";
        /** The addresses of its services in this boot: a single wrong one must not make it silent. */
        private final Set<String> addresses = new LinkedHashSet<>();

        private String zone = "";
        private NodeStatus state = NodeStatus.UP;
        private long sinceMs;
        private long silentNs;
        private String probedAddress = "";
        private boolean unprobed;
        private long round;
        private boolean probing;
        private long nextProbeNs;
        /** The time at which the last probe was begun. */
        private long probedNs;

        private NodeRecord written;
        /** The beginning of its delay before it is fenced. */
        private long suspectNs;
        /** True while it is probed once more before it is fenced. */
        private boolean isConfirmed;
        /** The number of the fence that is under way; 0 if none is. */
        private long fence;

        private long fenceNs;
        /** True if an earlier command may run already. */
        private boolean isRepeated;
        /** True if the command has proved it off while a service of it has a session. */
        private boolean isProved;

        private long provedNs;
        private List<Long> fencesMs = List.of();
        private long untilMs;

        private Node(String host) {
            this.host = host;
        }

        private Optional<ServiceRecord> anyRecord() {
            return services.values().stream()
                    .map(Service::record)
                    .flatMap(Optional::stream)
                    .findFirst();
        }

        private void noteAddress(String address) {
            if (address.isEmpty() || addresses.contains(address)) {
                return;
            }
            if (addresses.size() == MOST_ADDRESSES) {
                addresses.remove(List.copyOf(addresses).get(MOST_ADDRESSES - 1));
            }
            addresses.add(address);
        }

        private NodeRecord record() {
            return new NodeRecord(
                    state == NodeStatus.OFF ? offBoot : bootId,
                    questions,
                    zone,
                    List.copyOf(roles),
                    state,
                    sinceMs,
                    unprobed,
                    state == NodeStatus.FENCING ? untilMs : 0,
                    fencesMs);
        }
    }

    /** The nodes about which witnesses are asked, and their answers so far. */
    private static final class Batch {
        private final Map<Node, Long> rounds = new LinkedHashMap<>();
        private final Map<Node, Integer> unreached = new HashMap<>();
        private final Set<Node> reached = new HashSet<>();
        private final Set<String> pending = new HashSet<>();
        private long deadlineNs;
    }

    private final TreeMap<String, Node> nodes = new TreeMap<>();
    /** The records of the targets that have a session, kept so that a question for one needs no search. */
    private final Map<String, ServiceRecord> targets = new HashMap<>();

    private final Map<Long, Batch> batches = new HashMap<>();
    private final Set<Node> unanswered = new LinkedHashSet<>();
    private final List<NodeAct> acts = new ArrayList<>();
    private final List<Change> changes = new ArrayList<>();
    private final RandomGenerator random;
    private final Duration graceTime;
    private final Optional<FenceLimits> fences;
    private Optional<String> heldBack = Optional.empty();
    private long graceEndNs;
    private long lastBatch;
    /** Of all terms, so that no result of an earlier one counts. */
    private long lastRound;

    private long nowMs;
    private long timeNs;

    /**
     * @param graceTime how long the end of a session proves nothing after a pause: a session's time-out and some more
     * @param fences the limits of fences; empty if the site has no command for them
     */
    NodeTable(RandomGenerator random, Duration graceTime, Optional<FenceLimits> fences) {
        this.random = random;
        this.graceTime = graceTime;
        this.fences = fences;
    }

    /** Begins with the records of an earlier active controller. */
    void begin(Map<String, NodeRecord> records, long nowNs, long epochMs) {
        nowMs = epochMs;
        nodes.clear();
        targets.clear();
        batches.clear();
        unanswered.clear();
        // What an earlier term left undone must not be done in this one.
        acts.clear();
        changes.clear();
        records.forEach((host, record) -> {
            Node node = new Node(host);
            node.bootId = record.bootId();
            node.offBoot = record.state() == NodeStatus.OFF ? record.bootId() : "";
            node.questions = record.questions();
            node.zone = record.zone();
            node.roles.addAll(record.roles());
            // SILENT never lasts: its cause is found out again.
            node.state = record.state() == NodeStatus.SILENT ? NodeStatus.UP : record.state();
            node.sinceMs = record.sinceMs();
            node.unprobed = record.unprobed();
            node.fencesMs = record.fencesMs();
            node.untilMs = record.untilMs();
            node.probedAddress = record.questions();
            node.noteAddress(record.questions());
            node.written = record;
            node.nextProbeNs = nowNs;
            nodes.put(host, node);
        });
        paused(nowNs);
    }

    /** Notes that this process, or its connection to the ensemble, was paused. */
    void paused(long nowNs) {
        timeNs = nowNs;
        graceEndNs = nowNs + graceTime.toNanos();
        // What this controller has not observed without a gap proves nothing.
        nodes.values().forEach(node -> {
            node.suspectNs = nowNs;
            node.isConfirmed = false;
        });
    }

    /**
     * A service's record is there, or has changed. It is empty if it cannot be read.
     *
     * @return false if it is the record of a new node, and the table is full
     */
    boolean appeared(ServiceName name, Optional<ServiceRecord> record, long nowNs, long epochMs) {
        nowMs = epochMs;
        timeNs = nowNs;
        if (nodes.size() >= MOST_NODES && !nodes.containsKey(name.host())) {
            return false;
        }
        Node node = nodes.computeIfAbsent(name.host(), host -> {
            Node made = new Node(host);
            made.sinceMs = epochMs;
            changes.add(new Change(host, NodeStatus.UP));
            return made;
        });
        boolean isNewBoot = record.isPresent() && !record.get().bootId().equals(node.bootId);
        if (isNewBoot) {
            if (node.state == NodeStatus.FENCING) {
                // What is fenced is another boot, which ended by that.
                node.fence = 0;
                become(node, NodeStatus.SERVICE_DOWN);
            }
            node.roles.retainAll(node.services.keySet());
            node.probedAddress = "";
        }
        if (node.services.isEmpty()) {
            if (isNewBoot) {
                node.addresses.clear();
            }
            // The result of a probe that began without a service proves nothing for the node with one.
            forgetProbe(node);
        }
        node.services.put(name.role(), new Service(record));
        if (name.role().equals(TARGET)) {
            record.ifPresentOrElse(known -> targets.put(name.host(), known), () -> targets.remove(name.host()));
        }
        node.roles.add(name.role());
        record.ifPresent(known -> {
            node.bootId = known.bootId();
            node.questions = known.questions();
            node.noteAddress(known.questions());
            node.zone = known.zone();
        });
        if (node.questions.isEmpty()) {
            node.unprobed = true;
        } else if (!node.probedAddress.equals(node.questions)) {
            node.probedAddress = node.questions;
            probe(node, nowNs);
        }
        judge(node, nowNs);
        noteRecord(node);
        return true;
    }

    /** A service's session ended. */
    void vanished(ServiceName name, long nowNs, long epochMs) {
        nowMs = epochMs;
        timeNs = nowNs;
        Node node = nodes.get(name.host());
        if (name.role().equals(TARGET)) {
            targets.remove(name.host());
        }
        if (node != null && node.services.remove(name.role()) != null) {
            judge(node, nowNs);
            noteRecord(node);
        }
    }

    /** Returns true if a service of this role on the node has a session. */
    boolean isServed(String host, String role) {
        Node node = nodes.get(host);
        return node != null && node.services.containsKey(role);
    }

    /** Returns the state of a node, or empty if the cluster has none of this name. */
    Optional<NodeStatus> status(String host) {
        return Optional.ofNullable(nodes.get(host)).map(node -> node.state);
    }

    /** Returns where a service answers questions, if it has a session. */
    Optional<String> questions(String host, String role) {
        return Optional.ofNullable(nodes.get(host))
                .map(node -> node.services.get(role))
                .flatMap(Service::record)
                .map(ServiceRecord::questions)
                .filter(address -> !address.isEmpty());
    }

    /** The result of this controller's own probe. */
    void probed(String host, long round, boolean answered, long nowNs, long epochMs) {
        nowMs = epochMs;
        timeNs = nowNs;
        Node node = nodes.get(host);
        if (node == null || node.round != round || !node.probing) {
            return;
        }
        node.probing = false;
        if (!node.services.isEmpty()) {
            node.unprobed = !answered;
        } else if (answered) {
            become(node, NodeStatus.SERVICE_DOWN);
        } else if (node.unprobed) {
            become(node, NodeStatus.UNKNOWN);
        } else {
            unanswered.add(node);
        }
        noteRecord(node);
    }

    /** A witness's results: the addresses that answered it, of those in the batch. Empty if it did not answer. */
    void witnessed(long number, String witness, Optional<Set<String>> answered, long nowNs, long epochMs) {
        nowMs = epochMs;
        timeNs = nowNs;
        Batch batch = batches.get(number);
        if (batch == null || !batch.pending.remove(witness)) {
            return;
        }
        answered.ifPresent(addresses -> batch.rounds.keySet().forEach(node -> {
            if (node.addresses.stream().anyMatch(addresses::contains)) {
                batch.reached.add(node);
            } else {
                batch.unreached.merge(node, 1, Integer::sum);
            }
        }));
        if (batch.pending.isEmpty()) {
            conclude(number, batch);
        }
    }

    private void conclude(long number, Batch batch) {
        batches.remove(number);
        for (Node node : batch.rounds.keySet()) {
            if (!node.services.isEmpty()
                    || node.round != batch.rounds.get(node)
                    || node.state == NodeStatus.OFF
                    || node.state == NodeStatus.FENCING) {
                continue;
            }
            if (batch.reached.contains(node)) {
                become(node, NodeStatus.SERVICE_DOWN);
            } else {
                become(
                        node,
                        batch.unreached.getOrDefault(node, 0) >= WITNESSES ? NodeStatus.SUSPECT : NodeStatus.UNKNOWN);
            }
            noteRecord(node);
        }
        batch.rounds.forEach((node, round) -> {
            boolean isSilent = node.round == round && node.services.isEmpty() && node.state == NodeStatus.SUSPECT;
            // Much may have been lost since the probe, so the limits are evaluated once more for each fence.
            if (node.isConfirmed
                    && isSilent
                    && due(fences.orElseThrow()).hosts().contains(node.host)) {
                beginFence(node, node.probedNs, false);
            }
        });
    }

    /**
     * Advances the time: begins probes that are due, queries witnesses, and ends what takes too long.
     *
     * @param isKnown whether all sessions are known: before that no node is fenced, since it may have one
     */
    void tick(long nowNs, long epochMs, boolean isKnown) {
        nowMs = epochMs;
        timeNs = nowNs;
        List.copyOf(batches.keySet()).stream()
                .filter(number -> nowNs - batches.get(number).deadlineNs >= 0)
                .forEach(number -> conclude(number, batches.get(number)));
        for (Node node : nodes.values()) {
            NodeStatus before = node.state;
            judge(node, nowNs);
            if (node.state == NodeStatus.SILENT && nowNs - node.silentNs >= SILENT_LIMIT.toNanos()) {
                become(node, NodeStatus.UNKNOWN);
            }
            boolean isDown = node.state == NodeStatus.SERVICE_DOWN
                    || node.state == NodeStatus.SUSPECT
                    || node.state == NodeStatus.UNKNOWN;
            // A probe without a result is repeated, too, once it counts as lost.
            long sinceNs = nowNs - node.nextProbeNs;
            boolean isFree = !node.probing || sinceNs >= LOST_PROBE.toNanos();
            if (isDown
                    && node.services.isEmpty()
                    && !node.questions.isEmpty()
                    && isFree
                    && sinceNs >= 0
                    && !unanswered.contains(node)) {
                probe(node, nowNs);
            }
            if (node.state != before || node.written == null) {
                noteRecord(node);
            }
        }
        if (fences.isEmpty()) {
            endLateFences();
        } else if (isKnown) {
            fence(fences.get(), nowNs);
        }
        askWitnesses(nowNs);
    }

    // ---- fences -------------------------------------------------------------------------------------------------

    private DueFences due(FenceLimits limits) {
        List<FenceCandidate> candidates = nodes.values().stream()
                .map(node -> new FenceCandidate(
                        node.host, node.state, node.suspectNs, node.fencesMs, !node.bootId.isEmpty()))
                .toList();
        return FenceRules.due(candidates, limits, timeNs, nowMs);
    }

    private void fence(FenceLimits limits, long nowNs) {
        DueFences due = due(limits);
        heldBack = due.heldBack();
        Set<String> dueHosts = Set.copyOf(due.hosts());
        long lostNs = limits.deadline().plus(LOST_FENCE).toNanos();
        for (Node node : nodes.values()) {
            node.isConfirmed &= dueHosts.contains(node.host);
            boolean isLost = node.fence != 0 && !node.isProved && nowNs - node.fenceNs > lostNs;
            if (node.state == NodeStatus.FENCING && isLost) {
                // Its act or its thread ended without a result.
                endUnproved(node, nowNs);
                noteRecord(node);
            }
        }
        for (String host : due.hosts()) {
            Node node = nodes.get(host);
            if (!node.isConfirmed) {
                node.isConfirmed = true;
                unanswered.remove(node);
                probe(node, nowNs);
            }
        }
        // The command of an earlier active controller may run, or never have been started: it is run again.
        nodes.values().stream()
                .filter(node -> node.state == NodeStatus.FENCING && node.fence == 0)
                .forEach(node -> beginFence(node, nowNs, true));
    }

    /** An earlier active controller has begun fences, and this one has no command. */
    private void endLateFences() {
        nodes.values().stream()
                .filter(node -> node.state == NodeStatus.FENCING && nowMs > node.untilMs)
                .forEach(node -> {
                    become(node, NodeStatus.SUSPECT);
                    noteRecord(node);
                });
    }

    private void beginFence(Node node, long provedNs, boolean isRepeated) {
        lastRound++;
        node.isConfirmed = false;
        node.fence = lastRound;
        node.fenceNs = timeNs;
        node.isRepeated = isRepeated;
        node.isProved = false;
        node.fencesMs = NodeRecord.withFence(node.fencesMs, nowMs);
        node.untilMs = nowMs + fences.orElseThrow().deadline().toMillis();
        forgetProbe(node);
        become(node, NodeStatus.FENCING);
        // The worker that carries the act out writes this record, by the version of the one before.
        node.written = node.record();
        acts.add(new NodeAct.FenceNode(node.host, node.bootId, node.fence, provedNs));
    }

    /**
     * Returns true if the command of a fence may start now: it is under way, and no service has begun a session since.
     * An earlier command may have begun to switch the node off, so its repeat does not depend on sessions.
     */
    boolean isFenceWanted(String host, long number) {
        Node node = nodes.get(host);
        return node != null
                && node.fence == number
                && node.state == NodeStatus.FENCING
                && (node.isRepeated || node.services.isEmpty());
    }

    /** The result of a fence: whether the boot of the node was proved off. */
    void fenced(String host, long number, boolean isProved, long nowNs, long epochMs) {
        nowMs = epochMs;
        timeNs = nowNs;
        Node node = nodes.get(host);
        if (node == null || node.fence != number || node.state != NodeStatus.FENCING) {
            return;
        }
        if (isProved) {
            node.isProved = true;
            node.provedNs = nowNs;
            judge(node, nowNs);
        } else {
            endUnproved(node, nowNs);
        }
        noteRecord(node);
    }

    private void endUnproved(Node node, long nowNs) {
        node.fence = 0;
        if (node.services.isEmpty()) {
            // Its delay begins again.
            become(node, NodeStatus.SUSPECT);
        } else {
            judgeSessions(node, nowNs);
        }
    }

    /**
     * Derives the state of a node whose fence is under way. Sessions of a node that was switched off end by their
     * time-out.
     *
     * @return false if it is fenced no longer
     */
    private boolean judgeFence(Node node, long nowNs) {
        if (!node.isProved) {
            return true;
        }
        if (node.services.isEmpty()) {
            node.fence = 0;
            node.offBoot = node.bootId;
            become(node, NodeStatus.OFF);
            return true;
        }
        if (nowNs - node.provedNs < graceTime.toNanos()) {
            return true;
        }
        // The command lied: the node lives.
        node.fence = 0;
        node.offBoot = node.bootId;
        return false;
    }

    /** Returns true while a node is probed once more before it is fenced. */
    boolean isConfirming(String host) {
        return nodes.containsKey(host) && nodes.get(host).isConfirmed;
    }

    /** Returns why nodes are not fenced though their delay is over; empty if none is. */
    Optional<String> heldBack() {
        return heldBack;
    }

    /** Returns those of some boots that ended, as the fence command has proved or an operator has reported. */
    Set<String> endedBoots(Set<String> boots) {
        return nodes.values().stream()
                .filter(node -> node.state == NodeStatus.OFF && boots.contains(node.offBoot))
                .map(node -> node.offBoot)
                .collect(Collectors.toSet());
    }

    private void askWitnesses(long nowNs) {
        unanswered.removeIf(
                node -> !node.services.isEmpty() || node.state == NodeStatus.OFF || node.state == NodeStatus.FENCING);
        if (unanswered.isEmpty()) {
            return;
        }
        List<Node> up = new ArrayList<>();
        for (Node node : nodes.values()) {
            if (node.state == NodeStatus.UP && !node.services.isEmpty() && !node.questions.isEmpty()) {
                up.add(node);
            }
        }
        Random order = new Random(random.nextLong());
        // A witness answers few questions at once. The other nodes wait for the next tick.
        int most = Math.max(1, up.size() / ASKED_WITNESSES);
        while (!unanswered.isEmpty() && batches.size() < most) {
            Collections.shuffle(up, order);
            List<Node> silent = new ArrayList<>();
            int asked = 0;
            for (Node node : unanswered) {
                asked += node.addresses.size();
                if (asked > ADDRESSES_A_QUESTION) {
                    break;
                }
                silent.add(node);
            }
            silent.forEach(unanswered::remove);
            ask(silent, up, nowNs);
        }
    }

    private void ask(List<Node> silent, List<Node> up, long nowNs) {
        List<NodeAct.Witness> witnesses = up.stream()
                .limit(ASKED_WITNESSES)
                .map(node -> new NodeAct.Witness(node.host, node.questions))
                .toList();
        Batch batch = new Batch();
        batch.deadlineNs = nowNs + WITNESS_LIMIT.toNanos();
        silent.forEach(node -> batch.rounds.put(node, node.round));
        lastBatch++;
        if (witnesses.size() < WITNESSES) {
            conclude(lastBatch, batch);
            return;
        }
        witnesses.forEach(witness -> batch.pending.add(witness.host()));
        batches.put(lastBatch, batch);
        List<String> addresses = silent.stream()
                .flatMap(node -> node.addresses.stream())
                .distinct()
                .toList();
        acts.add(new NodeAct.AskWitnesses(lastBatch, addresses, witnesses));
    }

    /** Derives the state from the sessions, as far as they decide it. */
    private void judge(Node node, long nowNs) {
        if (node.state != NodeStatus.FENCING || !judgeFence(node, nowNs)) {
            judgeSessions(node, nowNs);
        }
    }

    private void judgeSessions(Node node, long nowNs) {
        if (!node.services.isEmpty()) {
            boolean isWhole = node.services.keySet().containsAll(node.roles);
            if (isWhole) {
                become(node, NodeStatus.UP);
            } else if (nowNs - graceEndNs >= 0) {
                become(node, NodeStatus.SERVICE_DOWN);
            }
        } else if (node.state == NodeStatus.UP && nowNs - graceEndNs >= 0) {
            if (node.questions.isEmpty()) {
                become(node, NodeStatus.UNKNOWN);
                return;
            }
            become(node, NodeStatus.SILENT);
            node.silentNs = nowNs;
            probe(node, nowNs);
        }
    }

    /** Makes the result of a probe that is on its way count for nothing. */
    private void forgetProbe(Node node) {
        lastRound++;
        node.round = lastRound;
        node.probing = false;
    }

    private void probe(Node node, long nowNs) {
        forgetProbe(node);
        node.probing = true;
        node.probedNs = nowNs;
        node.nextProbeNs = nowNs + PROBE_AGAIN.toNanos();
        acts.add(new NodeAct.Probe(node.host, List.copyOf(node.addresses), node.round));
    }

    private void become(Node node, NodeStatus state) {
        if (node.state != state) {
            changes.add(new Change(node.host, state));
            node.state = state;
            node.sinceMs = nowMs;
            node.suspectNs = timeNs;
            node.isConfirmed &= state == NodeStatus.SUSPECT;
        }
    }

    private void noteRecord(Node node) {
        NodeRecord record = node.record();
        if (node.state != NodeStatus.SILENT && !record.equals(node.written)) {
            node.written = record;
            acts.add(new NodeAct.Write(node.host, record));
        }
    }

    /**
     * Notes an operator's report that this boot of a node ended.
     *
     * @return why it cannot be so; empty if it was noted
     */
    Optional<String> turnOff(String host, long epochMs) {
        nowMs = epochMs;
        Node node = nodes.get(host);
        if (node == null) {
            return Optional.of("the cluster has no node " + host + ". Remedy: ppmr nodes shows their names");
        }
        if (!node.services.isEmpty()) {
            return Optional.of("services of node " + host + " have a session now, so it is not off. Remedy: end the"
                    + " node first");
        }
        node.offBoot = node.bootId;
        node.fence = 0;
        forgetProbe(node);
        become(node, NodeStatus.OFF);
        noteRecord(node);
        return Optional.empty();
    }

    /**
     * Forgets the services of a node that have no session, and the node if none has one.
     *
     * @return why it cannot be so; empty if they are forgotten
     */
    Optional<String> forget(String host, long nowNs, long epochMs) {
        nowMs = epochMs;
        Node node = nodes.get(host);
        if (node == null) {
            // Its record may have stayed when it was forgotten before.
            acts.add(new NodeAct.Remove(host));
            return Optional.empty();
        }
        if (node.services.isEmpty() && FenceRules.fencesWithinTheHour(node.fencesMs, epochMs) > 0) {
            // Else its name could be fenced again and again.
            return Optional.of("node " + host + " was fenced within the hour, and counts for most_an_hour. Remedy:"
                    + " wait until the hour is over");
        }
        if (node.services.keySet().containsAll(node.roles)) {
            return Optional.of("all services of node " + host + " have a session now. Remedy: stop the services"
                    + " that the cluster must forget");
        }
        node.roles.retainAll(node.services.keySet());
        if (node.services.isEmpty()) {
            forgetProbe(node);
            unanswered.remove(node);
            nodes.remove(host);
            acts.add(new NodeAct.Remove(host));
        } else {
            judge(node, nowNs);
            noteRecord(node);
        }
        return Optional.empty();
    }

    /** Returns the boot that counted as ended, if a service of it has a session nevertheless. */
    Optional<String> returnedFromOff(String host) {
        Node node = nodes.get(host);
        boolean isBack =
                node != null && !node.services.isEmpty() && !node.offBoot.isEmpty() && node.offBoot.equals(node.bootId);
        return isBack ? Optional.of(node.offBoot) : Optional.empty();
    }

    /** Returns what must be done since the last call. */
    List<NodeAct> takeActs() {
        List<NodeAct> taken = List.copyOf(acts);
        acts.clear();
        return taken;
    }

    /** Returns the changes of states since the last call. */
    List<Change> takeChanges() {
        List<Change> taken = List.copyOf(changes);
        changes.clear();
        return taken;
    }

    /** Notes that a node's record was not written. The next tick writes it. */
    void notWritten(String host) {
        Optional.ofNullable(nodes.get(host)).ifPresent(node -> node.written = null);
    }

    /** Returns the number of nodes in each state. */
    Map<NodeStatus, Integer> counts() {
        Map<NodeStatus, Integer> counts = new TreeMap<>();
        nodes.values().forEach(node -> counts.merge(node.state, 1, Integer::sum));
        return counts;
    }

    /** Returns the state of a node. */
    Optional<NodeStatus> state(String host) {
        return Optional.ofNullable(nodes.get(host)).map(node -> node.state);
    }

    /** Returns the records of all targets that have a session, by their hosts. */
    Map<String, ServiceRecord> targets() {
        return Collections.unmodifiableMap(targets);
    }

    /** Returns the nodes that are UP and whose targets have a session, without some: the least loaded first. */
    List<String> spares(Set<String> without, int limit) {
        return targets.entrySet().stream()
                .filter(target -> !without.contains(target.getKey()))
                .filter(target -> status(target.getKey()).equals(Optional.of(NodeStatus.UP)))
                .sorted(Comparator.<Map.Entry<String, ServiceRecord>>comparingInt(
                                target -> target.getValue().load())
                        .thenComparing(Map.Entry::getKey))
                .limit(limit)
                .map(Map.Entry::getKey)
                .toList();
    }

    /**
     * Returns all nodes that may run pods: those that are not off by an operator's report. Their values are the roles
     * of the services that have a session.
     */
    Map<String, Set<String>> present() {
        Map<String, Set<String>> present = new TreeMap<>();
        nodes.values().stream()
                .filter(node -> node.state != NodeStatus.OFF)
                .forEach(node -> present.put(node.host, Set.copyOf(node.services.keySet())));
        return present;
    }

    /** Returns the node whose target has an address, or has the only target at its host. */
    Optional<String> hostAt(String address) {
        Optional<String> exact = targets.entrySet().stream()
                .filter(target -> target.getValue().address().equals(address))
                .map(Map.Entry::getKey)
                .findFirst();
        if (exact.isPresent()) {
            return exact;
        }
        int colon = address.lastIndexOf(':') + 1;
        List<String> there = targets.entrySet().stream()
                .filter(target -> colon > 0 && target.getValue().address().startsWith(address.substring(0, colon)))
                .map(Map.Entry::getKey)
                .toList();
        return there.size() == 1 ? Optional.of(there.get(0)) : Optional.empty();
    }

    /**
     * Returns some nodes, in the order of their names.
     *
     * @param after the name behind which they begin; empty for the first
     * @param zone their zone, or empty for any
     * @param state their state, or empty for any
     * @param limit how many at most
     */
    List<NodeView> views(String after, Optional<String> zone, Optional<NodeStatus> state, int limit) {
        Collection<Node> behind = nodes.tailMap(after, false).values();
        return behind.stream()
                .filter(node -> zone.isEmpty() || zone.get().equals(node.zone))
                .filter(node -> state.isEmpty() || state.get() == node.state)
                .limit(limit)
                .map(NodeTable::view)
                .toList();
    }

    private static NodeView view(Node node) {
        Optional<ServiceRecord> record = Optional.ofNullable(node.services.get(TARGET))
                .flatMap(Service::record)
                .or(node::anyRecord);
        boolean isUnreadable = node.services.values().stream()
                .anyMatch(service -> service.record().isEmpty());
        return new NodeView(
                node.host,
                node.zone,
                List.copyOf(node.services.isEmpty() ? node.roles : node.services.keySet()),
                node.state.word(),
                Instant.ofEpochMilli(node.sinceMs)
                        .truncatedTo(ChronoUnit.SECONDS)
                        .toString(),
                record.map(ServiceRecord::memoryBytes).orElse(0L),
                record.map(ServiceRecord::stagingBytes).orElse(0L),
                record.map(ServiceRecord::places).orElse(0),
                record.map(ServiceRecord::load).orElse(0) / HUNDREDTHS,
                isUnreadable ? "?" : record.map(ServiceRecord::release).orElse(""),
                record.map(ServiceRecord::findings).orElse(0),
                node.unprobed);
    }
}
