package io.ppmr.cluster.job;

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

/**
 * A model of restarts of a job with two members on two targets: the rules of controllers and of targets, with reports
 * that arrive late and twice, a record that targets read late, crashes of a target's service, failed restores, pods
 * that their user ends, and further restarts in which the pods change places.
 */
final class RestartModel {
    private static final List<String> HOSTS = List.of("n1", "n2");
    private static final JobName JOB = new JobName(1000, "ring");

    /** The defects that the search must find. */
    enum Variant {
        RIGHT,
        /** A target reports HELD before it has noted that. */
        HELD_BEFORE_ITS_NOTE,
        /** A target restores once more what it has released. */
        RESTORED_AFTER_RELEASED,
        /** A target releases its pods when they are restored. */
        RELEASED_BEFORE_ALL_ARE_HELD,
        /** A restart is ordered without asking if pods run. */
        ORDERED_WITHOUT_A_QUESTION,
        /** A target takes the copies of an earlier restart for those of a later one. */
        COPIES_OF_ANOTHER_RESTART
    }

    /**
     * The faults that may still happen.
     *
     * @param crashes crashes of a target's service
     * @param failures failed restores, and limits of a controller's step
     * @param restarts orders of a restart
     * @param kills pods that their user ends
     */
    record Faults(int crashes, int failures, int restarts, int kills) {}

    /**
     * A target.
     *
     * @param held the pods that it holds
     * @param running the pods that run here
     * @param read the newest version that it has read
     */
    private record Target(MemberNote note, Set<String> held, Set<String> running, int read) {}

    private record Sent(String host, JobQuestion.MemberStep step, long restart) {}

    /**
     * The state of the world.
     *
     * @param history all states of the record that were written, the newest last
     * @param reported the restarts whose pods were all reported as held
     */
    private record World(
            List<JobState> history, Map<String, Target> targets, Set<Sent> sent, Set<Long> reported, Faults left) {
        private JobState stored() {
            return history.get(history.size() - 1);
        }
    }

    private final Variant variant;
    private final Faults faults;
    private int states;

    RestartModel(Variant variant, Faults faults) {
        this.variant = variant;
        this.faults = faults;
    }

    /** Returns the number of states that the search has visited. */
    int states() {
        return states;
    }

    private World start() {
        Map<String, Set<String>> places = new TreeMap<>();
        Map<String, Target> targets = new TreeMap<>();
        for (String host : HOSTS) {
            places.put(host, Set.of("pod-" + host));
            targets.put(host, new Target(MemberNote.NONE, Set.of(), Set.of(), 0));
        }
        JobSet set = new JobSet("1-1-00000000", 1, 1, "d", 1, 1, 1, 1, 1, JobSet.SetState.LOCAL);
        JobState state = JobState.of(JobRecord.of("0a", JOB, HOSTS.size(), JobRecord.JobSchedule.NONE))
                .placed(places)
                .withSets(List.of(set));
        return new World(List.of(state), targets, Set.of(), Set.of(), faults);
    }

    private static Optional<World> apply(World world, JobEvent event) {
        JobState next = JobRules.apply(world.stored(), event, 2).next();
        if (next.equals(world.stored())) {
            return Optional.empty();
        }
        List<JobState> history = new ArrayList<>(world.history());
        if (next.record().equals(world.stored().record())) {
            history.remove(history.size() - 1);
        }
        history.add(next);
        Set<Long> reported = new HashSet<>(world.reported());
        if (next.record().phase() == JobPhase.RELEASING) {
            reported.add(next.record().numbers().restart());
        }
        return Optional.of(new World(history, world.targets(), world.sent(), reported, world.left()));
    }

    private static World with(World world, String host, Target next, Sent... reports) {
        Map<String, Target> targets = new TreeMap<>(world.targets());
        targets.put(host, next);
        Set<Sent> sent = new HashSet<>(world.sent());
        sent.addAll(List.of(reports));
        return new World(world.history(), targets, sent, world.reported(), world.left());
    }

    private static World left(World world, Faults left) {
        return new World(world.history(), world.targets(), world.sent(), world.reported(), left);
    }

    private List<World> next(World world) {
        List<World> all = new ArrayList<>();
        Faults left = world.left();
        JobState state = world.stored();
        for (Sent sent : world.sent()) {
            apply(world, eventOf(sent)).ifPresent(all::add);
        }
        boolean isQuiet = world.targets().values().stream()
                .allMatch(one -> one.running().isEmpty()
                        // A target that has noted HELD may restore its pods once more, and release them.
                        && (state.record().phase() != JobPhase.RELEASING
                                || (one.held().isEmpty() && one.note().restartStep() != RestartStep.HELD)));
        if (left.restarts() > 0 && (isQuiet || variant == Variant.ORDERED_WITHOUT_A_QUESTION)) {
            // The pods change places with each restart.
            boolean isSwapped = left.restarts() % 2 == 0;
            Map<String, Set<String>> plan = Map.of(
                    "n1", Set.of(isSwapped ? "pod-n2" : "pod-n1"), "n2", Set.of(isSwapped ? "pod-n1" : "pod-n2"));
            apply(
                            world,
                            new JobEvent.RestartOrdered(
                                    "1-1-00000000",
                                    plan,
                                    state.record().numbers().restart() + 1,
                                    new JobEvent.PlanBasis(
                                            state.record().numbers().restart(), state.places()),
                                    false))
                    .map(ordered -> left(
                            ordered, new Faults(left.crashes(), left.failures(), left.restarts() - 1, left.kills())))
                    .ifPresent(all::add);
        }
        if (left.failures() > 0) {
            apply(world, new JobEvent.StepFailed("limit"))
                    .map(failed -> left(
                            failed, new Faults(left.crashes(), left.failures() - 1, left.restarts(), left.kills())))
                    .ifPresent(all::add);
        }
        HOSTS.forEach(host -> all.addAll(acts(world, host)));
        return all;
    }

    private static JobEvent eventOf(Sent sent) {
        return switch (sent.step()) {
            case HELD -> new JobEvent.PodsRestored(sent.host(), sent.restart());
            case RELEASED -> new JobEvent.Released(sent.host(), sent.restart());
            default -> new JobEvent.RestoreFailed(sent.host(), sent.restart(), "");
        };
    }

    private List<World> acts(World world, String host) {
        List<World> all = new ArrayList<>();
        Target target = world.targets().get(host);
        MemberNote note = target.note();
        Faults left = world.left();
        for (int version = target.read(); version < world.history().size(); version++) {
            all.addAll(acts(world, host, version));
        }
        if (left.crashes() > 0 && !target.held().isEmpty()) {
            // The next run of the service ends what was held, and keeps its note.
            all.add(left(
                    with(world, host, new Target(note, Set.of(), target.running(), target.read())),
                    new Faults(left.crashes() - 1, left.failures(), left.restarts(), left.kills())));
        }
        if (left.kills() > 0 && !target.running().isEmpty()) {
            all.add(left(
                    with(world, host, new Target(note, target.held(), Set.of(), target.read())),
                    new Faults(left.crashes(), left.failures(), left.restarts(), left.kills() - 1)));
        }
        return all;
    }

    private List<World> acts(World world, String host, int version) {
        Target target = world.targets().get(host);
        MemberNote note = target.note();
        JobState state = world.history().get(version);
        JobRecord record = state.record();
        long restart = record.numbers().restart();
        Set<String> pods = state.plan().getOrDefault(host, Set.of());
        TargetAct act = MemberRules.target(
                note, record, version, !pods.isEmpty(), !target.held().isEmpty());
        if (variant == Variant.RESTORED_AFTER_RELEASED && act == TargetAct.REPORT_RELEASED) {
            act = TargetAct.RESTORE;
        }
        boolean hasOldCopies = act == TargetAct.END_COPIES && record.phase() == JobPhase.RESTARTING;
        if (variant == Variant.COPIES_OF_ANOTHER_RESTART
                && hasOldCopies
                && !target.held().isEmpty()) {
            act = TargetAct.REPORT_HELD;
        }
        return switch (act) {
            case RESTORE -> restore(world, host, version, pods);
            case REPORT_HELD ->
                variant == Variant.RELEASED_BEFORE_ALL_ARE_HELD
                        ? List.of(release(world, host, record, version))
                        : List.of(with(
                                world,
                                host,
                                new Target(
                                        note.restart(record, version, RestartStep.HELD),
                                        target.held(),
                                        target.running(),
                                        version),
                                new Sent(host, JobQuestion.MemberStep.HELD, restart)));
            case RELEASE -> List.of(release(world, host, record, version));
            case END_COPIES ->
                List.of(with(world, host, new Target(note.to(RestartStep.NONE), Set.of(), target.running(), version)));
            // What it has read stays read.
            default -> List.of(with(world, host, new Target(note, target.held(), target.running(), version)));
        };
    }

    private List<World> restore(World world, String host, int version, Set<String> pods) {
        Target target = world.targets().get(host);
        MemberNote note = target.note();
        JobRecord record = world.history().get(version).record();
        long restart = record.numbers().restart();
        Faults left = world.left();
        List<World> all = new ArrayList<>();
        boolean isNoted = variant != Variant.HELD_BEFORE_ITS_NOTE;
        MemberNote held = isNoted ? note.restart(record, version, RestartStep.HELD) : note;
        all.add(with(
                world,
                host,
                new Target(held, pods, target.running(), version),
                new Sent(host, JobQuestion.MemberStep.HELD, restart)));
        // After RELEASE a failed restore is tried again.
        if (left.failures() > 0 && record.phase() == JobPhase.RESTARTING) {
            all.add(left(
                    with(
                            world,
                            host,
                            new Target(note, Set.of(), target.running(), version),
                            new Sent(host, JobQuestion.MemberStep.FAILED, restart)),
                    new Faults(left.crashes(), left.failures() - 1, left.restarts(), left.kills())));
        }
        return all;
    }

    private static World release(World world, String host, JobRecord record, int version) {
        Target target = world.targets().get(host);
        Set<String> running = new HashSet<>(target.running());
        running.addAll(target.held());
        return with(
                world,
                host,
                new Target(target.note().restart(record, version, RestartStep.RELEASED), Set.of(), running, version),
                new Sent(host, JobQuestion.MemberStep.RELEASED, record.numbers().restart()));
    }

    private static Optional<String> whyWrong(World world) {
        Set<String> running = new HashSet<>();
        for (Target target : world.targets().values()) {
            for (String pod : target.running()) {
                if (!running.add(pod)) {
                    return Optional.of(pod + " runs twice");
                }
            }
            if (target.held().stream().anyMatch(target.running()::contains)) {
                return Optional.of("a pod is restored where it runs");
            }
            MemberNote note = target.note();
            if (note.restartStep() == RestartStep.RELEASED && !world.reported().contains(note.restart())) {
                return Optional.of("pods run before all were held");
            }
        }
        return Optional.empty();
    }

    /** At the end of a schedule in which no user ends pods, all of them run, or none. */
    private Optional<String> whyWrongAtTheEnd(World world) {
        long running = world.targets().values().stream()
                .filter(one -> !one.running().isEmpty())
                .count();
        boolean isPartial = running > 0 && running < HOSTS.size();
        return isPartial && faults.kills() == 0
                ? Optional.of("only some of the pods run at the end")
                : Optional.empty();
    }

    /**
     * Searches all schedules, and returns the first defect.
     *
     * @param outcomes receives all outcomes of restarts
     */
    Optional<String> search(Set<RoundOutcome> outcomes) {
        Deque<World> open = new ArrayDeque<>(List.of(start()));
        Set<World> seen = new HashSet<>(open);
        while (!open.isEmpty()) {
            World world = open.pollLast();
            boolean isEnd = true;
            for (World next : next(world)) {
                isEnd &= next.equals(world);
                Optional<String> wrong = whyWrong(next);
                if (wrong.isPresent()) {
                    return wrong;
                }
                if (seen.add(next)) {
                    states++;
                    outcomes.add(next.stored().record().last().outcome());
                    open.addLast(next);
                }
            }
            Optional<String> wrong = isEnd ? whyWrongAtTheEnd(world) : Optional.empty();
            if (wrong.isPresent()) {
                return wrong;
            }
        }
        return Optional.empty();
    }
}
