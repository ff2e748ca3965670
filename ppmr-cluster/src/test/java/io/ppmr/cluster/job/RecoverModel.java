package io.ppmr.cluster.job;

import io.ppmr.cluster.job.EndNote.EndAct;
import io.ppmr.cluster.job.JobRecord.OpenMove;
import io.ppmr.cluster.job.JobRecord.RoundOutcome;
import io.ppmr.cluster.job.MemberNote.RestartStep;
import io.ppmr.cluster.job.MemberRules.TargetAct;
import io.ppmr.daemon.jobs.JobName;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * A model of recoveries of a job with members on some nodes, and a spare: the rules of controllers, sources and
 * targets, with lost nodes, reports that arrive late and twice, a record that services read late, crashes of targets,
 * failed restores, and an open migration.
 */
final class RecoverModel {
    private static final JobName JOB = new JobName(1000, "ring");
    private static final String SET = "1-1-00000000";
    private static final String SPARE = "s1";
    private static final String OTHER_SPARE = "s2";
    /** A service reads a record that is at most so many versions old. */
    private static final int KNOWN = 2;

    /** The defects that the search must find. */
    enum Variant {
        RIGHT,
        /** Nodes restore when the first one ended its pods. */
        RESTORED_BEFORE_ALL_ENDED,
        /** Cables go in when the first node holds its copies. */
        RELEASED_BEFORE_ALL_ARE_HELD,
        /** A source reports ENDED, and its pods run. */
        OLDER_INCARNATION_LEFT_RUNNING,
        /** A report counts whatever recovery it is of. */
        REPORT_WITHOUT_ITS_NUMBER,
        /** The target of an open migration is not asked. */
        MIGRATION_NOT_ASKED,
        /** A frozen controller writes what it has decided, whatever the record is by now. */
        WRITE_WITHOUT_VERSION,
        /** A node counts as off that runs: the fence lied. */
        FENCE_THAT_LIES
    }

    /**
     * The faults that may still happen.
     *
     * @param losses lost nodes
     * @param crashes crashes of a target's service
     * @param failures failed restores
     * @param orders orders of a recovery
     */
    record Faults(int losses, int crashes, int failures, int orders) {}

    /**
     * A node.
     *
     * @param isAlive whether it runs
     * @param running the pods that run here, each with the layout in which it was started
     * @param held the pods that its target holds, restored by a recovery
     * @param moved the pods that a migration brings, and holds
     * @param read the newest version that it has read
     */
    private record Node(
            boolean isAlive,
            Map<String, Long> running,
            Set<String> held,
            Set<String> moved,
            MemberNote note,
            EndNote end,
            int read) {
        private Node at(int version) {
            return new Node(isAlive, running, held, moved, note, end, Math.max(read, version));
        }
    }

    private record Sent(String host, JobQuestion.MemberStep step, long restart) {}

    /**
     * The state of the world.
     *
     * @param history the last states of the record that were written, the newest last: a service reads no older ones
     * @param newest the version of the newest one
     * @param off the nodes that count as off
     */
    private record World(
            List<JobState> history, int newest, Map<String, Node> nodes, Set<Sent> sent, Set<String> off, Faults left) {
        private JobState stored() {
            return history.get(history.size() - 1);
        }

        private int oldest() {
            return newest - history.size() + 1;
        }

        private JobState at(int version) {
            return history.get(version - oldest());
        }
    }

    private final Variant variant;
    private final Faults faults;
    private final List<String> members;
    private final boolean hasMove;
    private int states;

    /** @param hasMove whether a migration of the last member's pod to the spare is open at first */
    RecoverModel(Variant variant, Faults faults, int members, boolean hasMove) {
        this.variant = variant;
        this.faults = faults;
        this.hasMove = hasMove;
        this.members = List.of("n1", "n2", "n3").subList(0, members);
    }

    /** Returns the number of states that the search has visited. */
    int states() {
        return states;
    }

    private World start() {
        Map<String, Set<String>> places = new TreeMap<>();
        Map<String, Node> nodes = new TreeMap<>();
        for (String host : members) {
            places.put(host, Set.of("pod-" + host));
            nodes.put(host, node(Map.of("pod-" + host, 0L), Set.of()));
        }
        String last = members.get(members.size() - 1);
        if (hasMove) {
            nodes.put(SPARE, node(Map.of(), Set.of("pod-" + last)));
        }
        nodes.put(OTHER_SPARE, node(Map.of(), Set.of()));
        JobRecord record = JobRecord.of("0a", JOB, members.size(), JobRecord.JobSchedule.NONE)
                .moving(hasMove ? List.of(new OpenMove("m", last)) : List.of());
        JobState state = JobState.of(record)
                .placed(places)
                .withSets(List.of(new JobSet(SET, 1, 1, "d", 1, 1, 1, 1, 1, JobSet.SetState.LOCAL)));
        return new World(List.of(state), 0, nodes, Set.of(), Set.of(), faults);
    }

    private static Node node(Map<String, Long> running, Set<String> moved) {
        return new Node(true, running, Set.of(), moved, MemberNote.NONE, EndNote.NONE, 0);
    }

    private static World apply(World world, JobState base, JobEvent event) {
        JobState next = JobRules.apply(base, event, 2).next();
        if (next.equals(base)) {
            return world;
        }
        List<JobState> history = new ArrayList<>(world.history());
        boolean isNew = !next.record().equals(world.stored().record());
        if (!isNew) {
            history.remove(history.size() - 1);
        } else if (history.size() == KNOWN) {
            history.remove(0);
        }
        history.add(next);
        int newest = world.newest() + (isNew ? 1 : 0);
        return new World(history, newest, world.nodes(), world.sent(), world.off(), world.left());
    }

    private static World apply(World world, JobEvent event) {
        return apply(world, world.stored(), event);
    }

    private static World with(World world, String host, Node next, Sent... reports) {
        Map<String, Node> nodes = new TreeMap<>(world.nodes());
        nodes.put(host, next);
        Set<Sent> sent = new HashSet<>(world.sent());
        sent.addAll(List.of(reports));
        return new World(world.history(), world.newest(), nodes, sent, world.off(), world.left());
    }

    private static World left(World world, Faults left) {
        return new World(world.history(), world.newest(), world.nodes(), world.sent(), world.off(), left);
    }

    private List<World> next(World world) {
        List<World> all = new ArrayList<>();
        for (Sent sent : world.sent()) {
            all.add(receive(world, sent));
            if (variant == Variant.WRITE_WITHOUT_VERSION && world.history().size() > 1) {
                // The controller was frozen at the state before.
                JobState before = world.history().get(world.history().size() - 2);
                all.add(apply(world, before, eventOf(sent, sent.restart())));
            }
        }
        Faults left = world.left();
        if (left.orders() > 0) {
            order(world)
                    .map(ordered -> left(
                            ordered, new Faults(left.losses(), left.crashes(), left.failures(), left.orders() - 1)))
                    .ifPresent(all::add);
        }
        for (String host : world.nodes().keySet()) {
            all.addAll(happen(world, host));
            if (world.nodes().get(host).isAlive()) {
                int first = Math.max(world.nodes().get(host).read(), world.oldest());
                for (int version = first; version <= world.newest(); version++) {
                    all.addAll(act(world, host, version));
                }
            }
        }
        for (String host : world.off()) {
            all.add(apply(world, new JobEvent.NodeOff(host)));
        }
        return all;
    }

    private World receive(World world, Sent sent) {
        JobState state = world.stored();
        boolean isAny = variant == Variant.REPORT_WITHOUT_ITS_NUMBER;
        long number = isAny ? state.record().numbers().restart() : sent.restart();
        World next = apply(world, eventOf(sent, number));
        boolean isForAll = (variant == Variant.RESTORED_BEFORE_ALL_ENDED && sent.step() == JobQuestion.MemberStep.ENDED)
                || (variant == Variant.RELEASED_BEFORE_ALL_ARE_HELD && sent.step() == JobQuestion.MemberStep.HELD);
        if (isForAll) {
            for (String host : world.nodes().keySet()) {
                next = apply(next, eventOf(new Sent(host, sent.step(), sent.restart()), sent.restart()));
            }
        }
        return next;
    }

    private static JobEvent eventOf(Sent sent, long number) {
        return switch (sent.step()) {
            case ENDED -> new JobEvent.PodsEnded(sent.host(), number);
            case HELD -> new JobEvent.PodsRestored(sent.host(), number);
            case RELEASED -> new JobEvent.Released(sent.host(), number);
            default -> new JobEvent.RestoreFailed(sent.host(), number, "");
        };
    }

    /** The look, as {@code RestartPlan} makes it: nodes that are not off answer. */
    private Optional<World> order(World world) {
        JobState state = world.stored();
        Map<String, Set<String>> plan = new TreeMap<>();
        Set<String> lost = new TreeSet<>();
        members.forEach(host -> lost.add("pod-" + host));
        for (Map.Entry<String, Node> one : world.nodes().entrySet()) {
            Node node = one.getValue();
            if (world.off().contains(one.getKey())) {
                continue;
            }
            boolean isRecorded = state.places().containsKey(one.getKey());
            boolean mayRelease = !node.held().isEmpty() || node.note().restartStep() == RestartStep.HELD;
            boolean isMovedTo = !node.moved().isEmpty() && variant != Variant.MIGRATION_NOT_ASKED;
            if (!node.isAlive() || mayRelease || isMovedTo || (!node.running().isEmpty() && !isRecorded)) {
                return Optional.empty();
            }
            if (isRecorded) {
                Set<String> pods = state.places().get(one.getKey());
                plan.put(one.getKey(), pods);
                lost.removeAll(pods);
            }
        }
        if (!lost.isEmpty()) {
            List<String> spares = List.of(OTHER_SPARE, SPARE).stream()
                    .filter(host -> world.nodes().containsKey(host))
                    .filter(host -> !world.off().contains(host) && !plan.containsKey(host))
                    .toList();
            if (spares.isEmpty()) {
                return Optional.empty();
            }
            plan.put(spares.get(0), lost);
        }
        long number = state.record().numbers().restart() + 1;
        JobEvent.PlanBasis basis =
                new JobEvent.PlanBasis(state.record().numbers().restart(), state.places());
        World next = apply(world, new JobEvent.RestartOrdered(SET, plan, number, basis, true));
        return next.equals(world) ? Optional.empty() : Optional.of(next);
    }

    /** Lets things happen to a node without its services. */
    private List<World> happen(World world, String host) {
        List<World> all = new ArrayList<>();
        Node node = world.nodes().get(host);
        Faults left = world.left();
        if (left.losses() > 0 && node.isAlive() && world.off().isEmpty()) {
            boolean lies = variant == Variant.FENCE_THAT_LIES;
            World lost = lies
                    ? world
                    : with(
                            world,
                            host,
                            new Node(false, Map.of(), Set.of(), Set.of(), node.note(), node.end(), node.read()));
            all.add(left(lost, new Faults(left.losses() - 1, left.crashes(), left.failures(), left.orders())));
            if (lies) {
                all.add(off(all.remove(0), host));
            }
        }
        if (!node.isAlive() && !world.off().contains(host)) {
            all.add(off(world, host));
        }
        if (left.crashes() > 0 && !node.held().isEmpty()) {
            // The next run of the service ends what was held, and keeps its note.
            all.add(left(
                    with(
                            world,
                            host,
                            new Node(
                                    true,
                                    node.running(),
                                    Set.of(),
                                    node.moved(),
                                    node.note(),
                                    node.end(),
                                    node.read())),
                    new Faults(left.losses(), left.crashes() - 1, left.failures(), left.orders())));
        }
        String source = members.get(members.size() - 1);
        if (!node.moved().isEmpty() && world.off().contains(source)) {
            // The migration's source is off, so its target takes over.
            Map<String, Long> running = new TreeMap<>(node.running());
            node.moved().forEach(pod -> running.put(pod, 0L));
            all.add(with(
                    world, host, new Node(true, running, node.held(), Set.of(), node.note(), node.end(), node.read())));
        }
        if (node.isAlive()
                && !world.off().contains(host)
                && !node.running().isEmpty()
                && world.stored().record().phase() == JobPhase.RUNNING) {
            all.add(apply(
                    world,
                    new JobEvent.Registered(
                            host, members.size(), node.running().keySet(), JobRecord.JobSchedule.NONE)));
        }
        return all;
    }

    private static World off(World world, String host) {
        Set<String> off = new TreeSet<>(world.off());
        off.add(host);
        return new World(world.history(), world.newest(), world.nodes(), world.sent(), off, world.left());
    }

    /** Lets the services of a node act by a record. */
    private List<World> act(World world, String host, int version) {
        List<World> all = new ArrayList<>();
        Node node = world.nodes().get(host);
        JobState state = world.at(version);
        JobRecord record = state.record();
        long restart = record.numbers().restart();
        EndAct end = node.end().next(record);
        boolean isFree = node.held().isEmpty() && node.moved().isEmpty();
        if (end == EndAct.END && isFree && state.places().containsKey(host)) {
            boolean isLeft = variant == Variant.OLDER_INCARNATION_LEFT_RUNNING;
            Node ended = new Node(
                    true,
                    isLeft ? node.running() : Map.of(),
                    Set.of(),
                    Set.of(),
                    node.note(),
                    node.end().ended(record),
                    version);
            all.add(with(world, host, ended, new Sent(host, JobQuestion.MemberStep.ENDED, restart)));
        }
        Set<String> pods = state.plan().getOrDefault(host, Set.of());
        TargetAct act = MemberRules.target(
                node.note(), record, version, !pods.isEmpty(), !node.held().isEmpty());
        switch (act) {
            case RESTORE -> {
                // A pod of that name that still runs here keeps the target from restoring it.
                boolean isTaken = pods.stream().anyMatch(node.running()::containsKey);
                if (!isTaken || variant == Variant.OLDER_INCARNATION_LEFT_RUNNING) {
                    all.add(held(world, host, pods, record, version));
                }
                if (world.left().failures() > 0 && record.phase() == JobPhase.RESTARTING) {
                    Faults left = world.left();
                    all.add(left(
                            with(world, host, node.at(version), new Sent(host, JobQuestion.MemberStep.FAILED, restart)),
                            new Faults(left.losses(), left.crashes(), left.failures() - 1, left.orders())));
                }
            }
            case REPORT_HELD -> all.add(held(world, host, node.held(), record, version));
            case RELEASE -> all.add(release(world, host, record, version));
            case END_COPIES ->
                all.add(with(
                        world,
                        host,
                        new Node(
                                true,
                                node.running(),
                                Set.of(),
                                node.moved(),
                                node.note().to(RestartStep.NONE),
                                node.end(),
                                version)));
            // A read without an act changes nothing.
            default -> {}
        }
        return all;
    }

    private static World held(World world, String host, Set<String> pods, JobRecord record, int version) {
        Node node = world.nodes().get(host);
        return with(
                world,
                host,
                new Node(
                        true,
                        node.running(),
                        pods,
                        node.moved(),
                        node.note().restart(record, version, RestartStep.HELD),
                        node.end(),
                        version),
                new Sent(host, JobQuestion.MemberStep.HELD, record.numbers().restart()));
    }

    private static World release(World world, String host, JobRecord record, int version) {
        Node node = world.nodes().get(host);
        Map<String, Long> running = new TreeMap<>(node.running());
        node.held().forEach(pod -> running.put(pod, record.numbers().restart()));
        return with(
                world,
                host,
                new Node(
                        true,
                        running,
                        Set.of(),
                        node.moved(),
                        node.note().restart(record, version, RestartStep.RELEASED),
                        node.end(),
                        version),
                new Sent(host, JobQuestion.MemberStep.RELEASED, record.numbers().restart()));
    }

    private Optional<String> whyWrong(World world) {
        Set<String> running = new HashSet<>();
        Set<Long> layouts = new TreeSet<>();
        for (Map.Entry<String, Node> one : world.nodes().entrySet()) {
            Node node = one.getValue();
            for (Map.Entry<String, Long> pod : node.running().entrySet()) {
                if (!running.add(pod.getKey())) {
                    return Optional.of(pod.getKey() + " runs twice");
                }
                layouts.add(pod.getValue());
            }
            if (node.held().stream().anyMatch(node.running()::containsKey)) {
                return Optional.of("a pod is restored where it runs");
            }
        }
        if (layouts.size() > 1) {
            return Optional.of("pods of two incarnations run: " + layouts);
        }
        long restart = world.stored().record().numbers().restart();
        boolean isRestored = world.nodes().values().stream()
                .anyMatch(node -> !node.held().isEmpty() && node.note().restart() == restart);
        if (isRestored && layouts.stream().anyMatch(layout -> layout < restart)) {
            return Optional.of("pods are restored while an older incarnation runs");
        }
        // A node that never held its pods, or has ended them, is missing in what the others released.
        boolean isReleased = world.nodes().values().stream()
                .anyMatch(node -> node.note().restartStep() == RestartStep.RELEASED
                        && node.note().restart() == restart);
        boolean isMissing = isReleased
                && world.stored().plan().keySet().stream()
                        .map(world.nodes()::get)
                        .anyMatch(node -> node.isAlive()
                                && (node.note().restart() != restart
                                        || node.note().restartStep() == RestartStep.NONE));
        return isMissing ? Optional.of("pods run before all were held") : Optional.empty();
    }

    /**
     * Searches all schedules, and returns the first defect.
     *
     * @param outcomes receives all outcomes of recoveries
     */
    Optional<String> search(Set<RoundOutcome> outcomes) {
        Deque<World> open = new ArrayDeque<>(List.of(start()));
        Set<World> seen = new HashSet<>(open);
        while (!open.isEmpty()) {
            World world = open.pollLast();
            for (World next : next(world)) {
                if (seen.add(next)) {
                    Optional<String> wrong = whyWrong(next);
                    if (wrong.isPresent()) {
                        return wrong;
                    }
                    states++;
                    outcomes.add(next.stored().record().last().outcome());
                    open.addLast(next);
                }
            }
        }
        return Optional.empty();
    }
}
