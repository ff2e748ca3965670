package io.ppmr.cluster.job;

import io.ppmr.cluster.job.JobRecord.RoundOutcome;
import io.ppmr.daemon.jobs.JobName;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * A model of migrations of a job with two members on three nodes, which controllers have noted or not, with nodes that
 * do not answer, nodes that are off and boot again, pods that their user ends, and restarts. A restart asks the nodes
 * as the plan of a restart does, and is ordered later. It is one step then: its own schedules are in
 * {@link RestartModel}.
 */
final class MoveModel {
    private static final List<String> HOSTS = List.of("n1", "n2", "n3");
    private static final JobName JOB = new JobName(1000, "ring");
    private static final String SET = "1-1-00000000";

    /** The defects that the search must find. */
    enum Variant {
        RIGHT,
        /** A restart is not refused when a source answers that pods were moved, not recorded. */
        MOVED_ANSWER_IGNORED,
        /** A restart believes that a node that is off has moved nothing. */
        OFF_NODE_TRUSTED,
        /** A source does not note a migration before it begins. */
        MOVED_WITHOUT_A_NOTE,
        /** A source removes its note before a controller has taken the outcome. */
        NOTE_REMOVED_EARLY,
        /** The record takes an outcome while it has the pods on a third node. */
        OUT_OF_ORDER,
        /** A source registers its pods while a migration is open. */
        REGISTERED_WHILE_OPEN,
        /** A restart is planned while a migration is open, and ordered when it ended. */
        PLANNED_WHILE_OPEN,
        /** A plan counts a node as off that was not when the plan was begun. */
        OFF_BEFORE_THE_ANSWER,
        /** A plan is carried out after the record was changed, if the pods are placed as before. */
        PLAN_OF_AN_OLDER_RECORD
    }

    /**
     * The events that may still happen.
     *
     * @param unrecorded migrations that no controller has noted
     * @param recorded migrations that a controller has noted
     * @param silences nodes whose services lose their sessions
     * @param offs nodes that an operator ends
     * @param kills nodes whose pods their user ends
     * @param restarts orders of a restart
     */
    record Faults(int unrecorded, int recorded, int silences, int offs, int kills, int restarts) {
        private Faults without(Faults used) {
            return new Faults(
                    unrecorded - used.unrecorded,
                    recorded - used.recorded,
                    silences - used.silences,
                    offs - used.offs,
                    kills - used.kills,
                    restarts - used.restarts);
        }
    }

    /**
     * A node.
     *
     * @param note its note of a migration that no controller has noted
     * @param openTo the target of its migration that a controller has noted
     */
    private record Node(
            Set<String> running, Optional<MoveNote> note, Optional<String> openTo, boolean isSilent, boolean isOff) {
        private boolean isThere() {
            return !isSilent && !isOff;
        }

        private Node with(Set<String> pods) {
            return new Node(pods, note, openTo, isSilent, isOff);
        }

        private Node noting(Optional<MoveNote> next) {
            return new Node(running, next, openTo, isSilent, isOff);
        }

        private Node moving(Optional<String> to) {
            return new Node(running, note, to, isSilent, isOff);
        }

        private Node silent(boolean isNow) {
            return new Node(running, note, openTo, isNow, isOff);
        }

        private Node off(boolean isNow) {
            return new Node(Set.of(), note, Optional.empty(), isSilent, isNow);
        }
    }

    /**
     * A plan that is made.
     *
     * @param version the version of the record that it was made from
     * @param offs the nodes that were off when it was begun
     * @param uncertain whether each node must answer
     * @param isSilent whether a node did not answer that the record does not name
     * @param next the node that is asked next
     */
    private record Planning(
            JobEvent.PlanBasis basis, int version, Set<String> offs, boolean uncertain, boolean isSilent, int next) {
        private Planning asked(boolean isUncertainNow, boolean isSilentNow) {
            return new Planning(basis, version, offs, uncertain || isUncertainNow, isSilent || isSilentNow, next + 1);
        }
    }

    private record World(
            JobState stored, int version, Map<String, Node> nodes, Optional<Planning> planning, Faults left) {
        private World node(String host, Node next) {
            Map<String, Node> all = new TreeMap<>(nodes);
            all.put(host, next);
            return new World(stored, version, all, planning, left);
        }

        private World stored(JobState next) {
            return new World(next, isSame(stored, next) ? version : version + 1, nodes, planning, left);
        }

        private World using(Faults used) {
            return new World(stored, version, nodes, planning, left.without(used));
        }

        private World planning(Optional<Planning> next) {
            return new World(stored, version, nodes, next, left);
        }
    }

    private final Variant variant;
    private final Faults faults;
    private int states;

    MoveModel(Variant variant, Faults faults) {
        this.variant = variant;
        this.faults = faults;
    }

    /** Returns the number of states that the search has visited. */
    int states() {
        return states;
    }

    private World start() {
        Map<String, Set<String>> places = Map.of("n1", Set.of("p1"), "n2", Set.of("p2"));
        Map<String, Node> nodes = new TreeMap<>();
        for (String host : HOSTS) {
            nodes.put(
                    host,
                    new Node(places.getOrDefault(host, Set.of()), Optional.empty(), Optional.empty(), false, false));
        }
        JobState state = JobState.of(JobRecord.of("0a", JOB, 2, JobRecord.JobSchedule.NONE))
                .placed(places)
                .withSets(List.of(new JobSet(SET, 1, 1, "d", 1, 1, 1, 1, 1, JobSet.SetState.LOCAL)));
        return new World(state, 0, nodes, Optional.empty(), faults);
    }

    private static Optional<World> apply(World world, JobEvent event) {
        JobRules.JobTransition step = JobRules.apply(world.stored(), event, 2);
        return step.refusal().isPresent() ? Optional.empty() : Optional.of(world.stored(step.next()));
    }

    private List<World> next(World world) {
        List<World> all = new ArrayList<>();
        for (String host : HOSTS) {
            Node node = world.nodes().get(host);
            if (node.isOff()) {
                apply(world, new JobEvent.NodeOff(host)).ifPresent(all::add);
                all.add(world.node(host, node.off(false)));
                continue;
            }
            all.addAll(moves(world, host));
            all.addAll(faults(world, host));
            if (node.isSilent()) {
                all.add(world.node(host, node.silent(false)));
                continue;
            }
            all.addAll(reports(world, host));
            boolean isOpen = node.note().isPresent()
                    || node.openTo().isPresent()
                    || world.stored().record().moves().stream()
                            .anyMatch(move -> move.from().equals(host));
            if (!isOpen || variant == Variant.REGISTERED_WHILE_OPEN) {
                apply(world, new JobEvent.Registered(host, 2, node.running(), JobRecord.JobSchedule.NONE))
                        .ifPresent(all::add);
            }
        }
        if (world.left().restarts() > 0) {
            if (world.stored().record().moves().isEmpty() || variant == Variant.PLANNED_WHILE_OPEN) {
                Set<String> offs = new TreeSet<>(HOSTS);
                offs.removeIf(host -> !world.nodes().get(host).isOff());
                JobEvent.PlanBasis basis = new JobEvent.PlanBasis(
                        world.stored().record().numbers().restart(),
                        world.stored().places());
                all.add(world.planning(Optional.of(new Planning(
                        basis, world.version(), offs, world.stored().record().uncertain(), false, 0))));
            }
            world.planning()
                    .flatMap(planning -> planning.next() < HOSTS.size()
                            ? ask(world, planning).map(next -> world.planning(Optional.of(next)))
                            : restart(world, planning))
                    .ifPresent(all::add);
        }
        return all;
    }

    private List<World> moves(World world, String host) {
        List<World> all = new ArrayList<>();
        Node node = world.nodes().get(host);
        JobRecord record = world.stored().record();
        if (node.note().isPresent() || node.openTo().isPresent()) {
            return all;
        }
        for (String pod : node.running()) {
            for (String to : HOSTS) {
                Node target = world.nodes().get(to);
                if (to.equals(host) || target.isOff()) {
                    continue;
                }
                Set<String> rest = new TreeSet<>(node.running());
                rest.remove(pod);
                Set<String> there = new TreeSet<>(target.running());
                there.add(pod);
                World moved = world.node(host, node.with(rest)).node(to, target.with(there));
                if (world.left().unrecorded() > 0) {
                    MoveNote note = new MoveNote(
                            "u-" + host, record.id(), record.numbers().incarnation(), to, Set.of(pod));
                    all.add(moved.node(
                                    host,
                                    moved.nodes()
                                            .get(host)
                                            .noting(Optional.of(note)
                                                    .filter(one -> variant != Variant.MOVED_WITHOUT_A_NOTE)))
                            .using(new Faults(1, 0, 0, 0, 0, 0)));
                }
                if (world.left().recorded() > 0 && node.isThere()) {
                    apply(world, new JobEvent.MoveBegun("r-" + host, host, node.running()))
                            .map(begun -> moved.stored(begun.stored())
                                    .node(host, moved.nodes().get(host).moving(Optional.of(to)))
                                    .using(new Faults(0, 1, 0, 0, 0, 0)))
                            .ifPresent(all::add);
                }
            }
        }
        return all;
    }

    private List<World> faults(World world, String host) {
        List<World> all = new ArrayList<>();
        Node node = world.nodes().get(host);
        if (world.left().silences() > 0 && !node.isSilent()) {
            all.add(world.node(host, node.silent(true)).using(new Faults(0, 0, 1, 0, 0, 0)));
        }
        if (world.left().offs() > 0) {
            all.add(world.node(host, node.off(true)).using(new Faults(0, 0, 0, 1, 0, 0)));
        }
        if (world.left().kills() > 0 && !node.running().isEmpty()) {
            all.add(world.node(host, node.with(Set.of())).using(new Faults(0, 0, 0, 0, 1, 0)));
        }
        return all;
    }

    /** A source reports the ends of its migrations. */
    private List<World> reports(World world, String host) {
        List<World> all = new ArrayList<>();
        Node node = world.nodes().get(host);
        if (node.note().isPresent()) {
            MoveNote note = node.note().get();
            Set<String> gone = note.gone(node.running());
            World removed = world.node(host, node.noting(Optional.empty()));
            if (note.isOlderThan(world.stored().record()) || gone.isEmpty() || variant == Variant.NOTE_REMOVED_EARLY) {
                all.add(removed);
            } else if (world.nodes().get(note.to()).isThere()) {
                JobEvent.MoveEnded ended = new JobEvent.MoveEnded(note.id(), host, note.to(), gone);
                // A migration that the record has open is not checked for its order.
                Optional<World> reported =
                        variant == Variant.OUT_OF_ORDER ? apply(opened(removed, ended), ended) : apply(removed, ended);
                reported.ifPresent(all::add);
            }
            return all;
        }
        for (JobRecord.OpenMove move : world.stored().record().moves()) {
            if (move.from().equals(host)) {
                // A source that was restarted knows no target.
                Optional<String> to =
                        node.openTo().filter(one -> world.nodes().get(one).isThere());
                Set<String> gone = new TreeSet<>(world.stored().places().getOrDefault(host, Set.of()));
                gone.removeAll(node.running());
                apply(
                                world.node(host, node.moving(Optional.empty())),
                                new JobEvent.MoveEnded(move.id(), host, to.orElse(""), gone))
                        .ifPresent(all::add);
            }
        }
        return all;
    }

    private static World opened(World world, JobEvent.MoveEnded ended) {
        JobRecord record = world.stored().record();
        List<JobRecord.OpenMove> moves = new ArrayList<>(record.moves());
        moves.add(new JobRecord.OpenMove(ended.id(), ended.host()));
        return world.stored(world.stored().with(record.moving(moves)));
    }

    /** The next question of a restart's plan, without an operator who confirms anything. Empty if it is refused. */
    private Optional<Planning> ask(World world, Planning planning) {
        String host = HOSTS.get(planning.next());
        Node node = world.nodes().get(host);
        boolean isRecorded = planning.basis().places().containsKey(host);
        boolean isOff = variant == Variant.OFF_BEFORE_THE_ANSWER
                ? node.isOff()
                : planning.offs().contains(host);
        if (isOff) {
            return Optional.of(planning.asked(isRecorded, false));
        }
        if (!node.isThere()) {
            return isRecorded ? Optional.empty() : Optional.of(planning.asked(false, true));
        }
        boolean isMoved =
                node.note().filter(note -> !note.gone(node.running()).isEmpty()).isPresent();
        boolean isRefused = !node.running().isEmpty() || (isMoved && variant != Variant.MOVED_ANSWER_IGNORED);
        return isRefused ? Optional.empty() : Optional.of(planning.asked(false, false));
    }

    /** The record is written if it changes, or if a pod passes from one node to another. */
    private static boolean isSame(JobState before, JobState next) {
        if (next.equals(before)) {
            return true;
        }
        for (Map.Entry<String, Set<String>> place : next.places().entrySet()) {
            for (String host : HOSTS) {
                boolean isOther = !host.equals(place.getKey());
                Set<String> pods = before.places().getOrDefault(host, Set.of());
                if (isOther && pods.stream().anyMatch(place.getValue()::contains)) {
                    return false;
                }
            }
        }
        return next.record().equals(before.record());
    }

    private Optional<World> restart(World world, Planning planning) {
        boolean isRefused = planning.uncertain() && planning.isSilent() && variant != Variant.OFF_NODE_TRUSTED;
        boolean isOlder = planning.version() != world.version()
                && variant != Variant.PLAN_OF_AN_OLDER_RECORD
                && variant != Variant.PLANNED_WHILE_OPEN;
        if (isRefused || isOlder) {
            return Optional.empty();
        }
        List<String> hosts =
                HOSTS.stream().filter(host -> world.nodes().get(host).isThere()).toList();
        if (hosts.isEmpty()) {
            return Optional.empty();
        }
        Map<String, Set<String>> plan = hosts.size() == 1
                ? Map.of(hosts.get(0), Set.of("p1", "p2"))
                : Map.of(hosts.get(0), Set.of("p1"), hosts.get(1), Set.of("p2"));
        long number = world.stored().record().numbers().restart() + 1;
        Optional<World> next = apply(world, new JobEvent.RestartOrdered(SET, plan, number, planning.basis(), false));
        for (String host : plan.keySet()) {
            next = next.flatMap(one -> apply(one, new JobEvent.PodsRestored(host, number)));
        }
        for (String host : plan.keySet()) {
            next = next.flatMap(one -> apply(one, new JobEvent.Released(host, number)));
        }
        return next.map(released -> {
            World running = released;
            for (Map.Entry<String, Set<String>> place : plan.entrySet()) {
                Node node = running.nodes().get(place.getKey());
                // What ran here runs twice now: both are found as a pod on this node and elsewhere, or as two here.
                Set<String> pods = new TreeSet<>(node.running());
                place.getValue().forEach(pod -> pods.add(pods.contains(pod) ? pod + " twice" : pod));
                running = running.node(place.getKey(), node.with(pods));
            }
            return running.planning(Optional.empty()).using(new Faults(0, 0, 0, 0, 0, 1));
        });
    }

    private static Optional<String> whyWrong(World world) {
        Set<String> running = new HashSet<>();
        for (Node node : world.nodes().values()) {
            for (String pod : node.running()) {
                if (!running.add(pod) || pod.endsWith("twice")) {
                    return Optional.of(pod + " runs twice");
                }
            }
        }
        return Optional.empty();
    }

    /**
     * Searches all schedules, and returns the first defect.
     *
     * @param outcomes receives all outcomes of restarts
     */
    Optional<String> search(Set<RoundOutcome> outcomes) {
        World first = start();
        Deque<World> open = new ArrayDeque<>(List.of(first));
        Map<World, World> before = new HashMap<>(Map.of(first, first));
        while (!open.isEmpty()) {
            World world = open.pollLast();
            for (World next : next(world)) {
                if (before.putIfAbsent(next, world) == null) {
                    states++;
                    Optional<String> wrong = whyWrong(next);
                    if (wrong.isPresent()) {
                        return wrong.map(why -> why + schedule(before, first, next));
                    }
                    outcomes.add(next.stored().record().last().outcome());
                    open.addLast(next);
                }
            }
        }
        return Optional.empty();
    }

    /** Returns the states that lead to one, for people. */
    private static String schedule(Map<World, World> before, World first, World last) {
        Deque<String> lines = new ArrayDeque<>();
        for (World world = last; !world.equals(first); world = before.get(world)) {
            JobState stored = world.stored();
            lines.addFirst("\n  places " + new TreeMap<>(stored.places()) + " moves "
                    + stored.record().moves() + " uncertain " + stored.record().uncertain() + " planning "
                    + world.planning().map(Planning::next) + " nodes " + world.nodes());
        }
        return String.join("", lines);
    }
}
