package io.ppmr.cluster.job;

import io.ppmr.cluster.job.JobRecord.RoundOutcome;
import io.ppmr.cluster.job.MemberNote.CheckpointStep;
import io.ppmr.cluster.job.MemberRules.SourceAct;
import io.ppmr.daemon.jobs.JobName;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Supplier;
import java.util.stream.Stream;

/**
 * A model of two checkpoints of a job with three members: the rules of controllers ({@link JobRules}) and of
 * sources ({@link MemberRules}) with a record that is written by its version, reports that arrive late and twice, a
 * controller that freezes while another one is active, one crash, one lost node, and hold limits at any time.
 */
final class CheckpointModel {
    private static final List<String> HOSTS = List.of("n1", "n2", "n3");
    private static final JobName JOB = new JobName(1000, "ring");
    private static final int KEEP = 2;

    /** The defects that the search must find. */
    enum Variant {
        RIGHT,
        /** A source plugs its cables in when its dumps have ended, without GO. */
        CABLE_IN_BEFORE_GO,
        /** A void source reports its images all the same. */
        IMAGE_AFTER_VOID,
        /** A source that was void holds its pods once more in the same round. */
        OUT_TWICE,
        /** A set is written when some of the images are there. */
        SET_WITHOUT_ALL,
        /** A controller writes without the version that it has read. */
        WRITE_WITHOUT_VERSION,
        /** GO is written when some members are out. */
        GO_WITHOUT_ALL,
        /** A source believes a record that is older than one that it acted by. */
        OLD_RECORD_BELIEVED,
        /** A move does not void the checkpoint. */
        MOVE_WITHOUT_VOID
    }

    /** A member: its note, whether its cables are out, and the newest record that it has read. */
    private record Member(MemberNote note, boolean isOut, boolean isDumped, int read, boolean isLost) {}

    /** A report on its way. It may be delivered any number of times. */
    private record Sent(String host, JobQuestion.MemberStep step, long round) {}

    /**
     * The state of the world.
     *
     * @param history all states of the record that were written, the newest last
     * @param views the version that each controller has read, with the reports that it has received
     * @param cuts the rounds in which all cables were out at one moment
     */
    private record World(
            List<JobState> history,
            List<JobState> views,
            List<Integer> versions,
            Map<String, Member> members,
            Set<Sent> sent,
            Set<Long> cuts,
            Faults left) {
        private JobState stored() {
            return history.get(history.size() - 1);
        }
    }

    /**
     * The faults that may still happen.
     *
     * @param crashes crashes of a member's service
     * @param losses losses of a node
     * @param moves migrations
     * @param limits time limits: of a hold, of a dump, and of a controller's step
     * @param takeOvers times that another controller becomes active, while the first one continues
     */
    record Faults(int crashes, int losses, int moves, int limits, int takeOvers) {}

    private final Variant variant;
    private final Faults faults;
    private final int rounds;
    private int states;

    CheckpointModel(Variant variant, int rounds, Faults faults) {
        this.variant = variant;
        this.rounds = rounds;
        this.faults = faults;
    }

    /** Returns the number of states that the search has visited. */
    int states() {
        return states;
    }

    private World start() {
        Map<String, Set<String>> places = new TreeMap<>();
        Map<String, Member> members = new TreeMap<>();
        for (String host : HOSTS) {
            places.put(host, Set.of("pod-" + host));
            members.put(host, new Member(MemberNote.NONE, false, false, 0, false));
        }
        JobState state = JobState.of(JobRecord.of("0a", JOB, HOSTS.size(), JobRecord.JobSchedule.NONE))
                .placed(places);
        return new World(List.of(state), List.of(state, state), List.of(0, 0), members, Set.of(), Set.of(), faults);
    }

    // ---- controllers --------------------------------------------------------------------------------------------

    /** A controller applies an event to what it has read, and writes by that version. */
    private Optional<World> apply(World world, int controller, JobEvent event) {
        JobState view = world.views().get(controller);
        JobState next = changed(view, event);
        if (next.equals(view)) {
            return Optional.empty();
        }
        boolean isWritten = !next.record().equals(view.record())
                || !next.sets().equals(view.sets())
                || !next.places().equals(view.places());
        List<JobState> views = new ArrayList<>(world.views());
        List<Integer> versions = new ArrayList<>(world.versions());
        List<JobState> history = new ArrayList<>(world.history());
        if (isWritten) {
            boolean isCurrent = world.versions().get(controller) == history.size() - 1;
            if (!isCurrent && variant != Variant.WRITE_WITHOUT_VERSION) {
                // The write fails. The controller reads the record again, and has no reports.
                views.set(controller, world.stored().withReports(JobState.RoundReports.NONE));
                versions.set(controller, history.size() - 1);
                return Optional.of(with(world, history, views, versions));
            }
            history.add(next.withReports(JobState.RoundReports.NONE));
            versions.set(controller, history.size() - 1);
        }
        views.set(controller, next);
        return Optional.of(with(world, history, views, versions));
    }

    private JobState changed(JobState view, JobEvent event) {
        JobRecord record = view.record();
        if (variant == Variant.GO_WITHOUT_ALL
                && event instanceof JobEvent.Out
                && record.phase() == JobPhase.CHECKPOINT
                && view.reports().done().size() == 1) {
            return view.with(record.in(JobPhase.CHECKPOINT, record.numbers(), true, record.set()));
        }
        if (variant == Variant.SET_WITHOUT_ALL
                && event instanceof JobEvent.Imaged imaged
                && record.isGo()
                && imaged.round() == record.numbers().round()) {
            Map<String, Set<String>> alone = Map.of(imaged.host(), view.places().get(imaged.host()));
            JobState less = JobRules.apply(view.placed(alone), event, KEEP).next();
            return less.placed(view.places());
        }
        JobState next = JobRules.apply(view, event, KEEP).next();
        if (variant == Variant.MOVE_WITHOUT_VOID && event instanceof JobEvent.MoveBegun) {
            return view.with(record.moving(next.record().moves())).withReports(view.reports());
        }
        return next;
    }

    private static World with(World world, List<JobState> history, List<JobState> views, List<Integer> versions) {
        return new World(history, views, versions, world.members(), world.sent(), world.cuts(), world.left());
    }

    // ---- members ------------------------------------------------------------------------------------------------

    private static World member(World world, String host, Member next, Sent... reports) {
        Map<String, Member> members = new TreeMap<>(world.members());
        members.put(host, next);
        Set<Sent> sent = new HashSet<>(world.sent());
        sent.addAll(List.of(reports));
        Set<Long> cuts = new TreeSet<>(world.cuts());
        if (members.values().stream().allMatch(Member::isOut)) {
            Set<Long> rounds = new HashSet<>();
            members.values().forEach(one -> rounds.add(one.note().round()));
            if (rounds.size() == 1) {
                cuts.addAll(rounds);
            }
        }
        return new World(world.history(), world.views(), world.versions(), members, sent, cuts, world.left());
    }

    private static Sent report(String host, JobQuestion.MemberStep step, MemberNote note) {
        return new Sent(host, step, note.round());
    }

    private Stream<World> acts(World world, String host) {
        Member member = world.members().get(host);
        if (member.isLost()) {
            return Stream.empty();
        }
        List<World> next = new ArrayList<>();
        MemberNote note = member.note();
        // It reads any version from its last one on: its server may lag behind.
        int oldest = variant == Variant.OLD_RECORD_BELIEVED ? 0 : member.read();
        for (int version = oldest; version < world.history().size(); version++) {
            int read = version;
            JobRecord record = world.history().get(read).record();
            MemberNote believed = variant == Variant.OLD_RECORD_BELIEVED
                    ? new MemberNote(note.id(), 0, -1, note.round(), note.step(), 0, MemberNote.RestartStep.NONE)
                    : note;
            SourceAct act = MemberRules.source(believed, record, read);
            if (variant == Variant.OUT_TWICE
                    && record.phase() == JobPhase.CHECKPOINT
                    && !record.isGo()
                    && note.step() == CheckpointStep.VOID) {
                act = SourceAct.HOLD;
            }
            if (act == SourceAct.HOLD && !member.isOut()) {
                MemberNote holding = note.checkpoint(record, read, CheckpointStep.HOLDING);
                next.add(member(
                        world,
                        host,
                        new Member(holding, true, false, read, false),
                        report(host, JobQuestion.MemberStep.OUT, holding)));
            } else if (act == SourceAct.GIVE_UP && member.isOut()) {
                next.add(giveUp(world, host, read));
            } else if (act == SourceAct.RESUME && member.isOut() && member.isDumped()) {
                MemberNote imaged = note.to(CheckpointStep.IMAGED);
                next.add(member(
                        world,
                        host,
                        new Member(imaged, false, false, read, false),
                        report(host, JobQuestion.MemberStep.IMAGE, imaged)));
            } else if (act == SourceAct.WAIT && member.isOut()) {
                if (variant == Variant.CABLE_IN_BEFORE_GO && member.isDumped()) {
                    MemberNote imaged = note.to(CheckpointStep.IMAGED);
                    next.add(member(
                            world,
                            host,
                            new Member(imaged, false, false, read, false),
                            report(host, JobQuestion.MemberStep.IMAGE, imaged)));
                }
                // The hold limit, before GO was read.
                limited(world, () -> giveUp(world, host, read)).ifPresent(next::add);
            }
        }
        if (member.isOut() && !member.isDumped()) {
            next.add(member(world, host, new Member(note, true, true, member.read(), false)));
            // A dump that fails, whatever was read.
            limited(world, () -> giveUp(world, host, member.read())).ifPresent(next::add);
        }
        Faults left = world.left();
        if (left.crashes() > 0 && member.isOut()) {
            next.add(after(
                    giveUp(world, host, member.read()),
                    new Faults(left.crashes() - 1, left.losses(), left.moves(), left.limits(), left.takeOvers())));
        }
        if (left.losses() > 0) {
            next.add(after(
                    member(world, host, new Member(note, false, false, member.read(), true)),
                    new Faults(left.crashes(), left.losses() - 1, left.moves(), left.limits(), left.takeOvers())));
        }
        return next.stream();
    }

    private static World after(World world, Faults left) {
        return new World(
                world.history(), world.views(), world.versions(), world.members(), world.sent(), world.cuts(), left);
    }

    private static Optional<World> limited(World world, Supplier<World> next) {
        Faults left = world.left();
        return left.limits() == 0
                ? Optional.empty()
                : Optional.of(after(
                        next.get(),
                        new Faults(left.crashes(), left.losses(), left.moves(), left.limits() - 1, left.takeOvers())));
    }

    private World giveUp(World world, String host, int read) {
        Member member = world.members().get(host);
        MemberNote gone = member.note().to(CheckpointStep.VOID);
        List<Sent> reports = new ArrayList<>(List.of(report(host, JobQuestion.MemberStep.VOID, gone)));
        if (variant == Variant.IMAGE_AFTER_VOID) {
            reports.add(report(host, JobQuestion.MemberStep.IMAGE, gone));
        }
        return member(world, host, new Member(gone, false, false, read, false), reports.toArray(Sent[]::new));
    }

    // ---- the search ---------------------------------------------------------------------------------------------

    private List<World> next(World world) {
        List<World> all = new ArrayList<>();
        // The second controller does nothing before it takes over.
        int controllers = world.left().takeOvers() < faults.takeOvers() ? 2 : 1;
        for (int controller = 0; controller < controllers; controller++) {
            JobState view = world.views().get(controller);
            if (view.record().numbers().round() < rounds) {
                String set = "1-" + (view.record().numbers().round() + 1) + "-00000000";
                apply(world, controller, new JobEvent.CheckpointOrdered(set, 60))
                        .ifPresent(all::add);
            }
            for (Sent sent : world.sent()) {
                apply(world, controller, eventOf(sent)).ifPresent(all::add);
            }
            int active = controller;
            apply(world, controller, new JobEvent.StepFailed("limit"))
                    .flatMap(failed -> limited(failed, () -> failed))
                    .ifPresent(all::add);
            Faults left = world.left();
            if (left.moves() > 0 && view.record().phase() == JobPhase.CHECKPOINT) {
                apply(world, active, new JobEvent.MoveBegun("m", "n1", Set.of()))
                        .map(moved -> after(
                                moved,
                                new Faults(
                                        left.crashes(),
                                        left.losses(),
                                        left.moves() - 1,
                                        left.limits(),
                                        left.takeOvers())))
                        .ifPresent(all::add);
            }
        }
        // The other controller takes over: it reads the record, and has no reports.
        Faults left = world.left();
        if (left.takeOvers() > 0) {
            List<JobState> views = List.of(world.views().get(0), world.stored());
            List<Integer> versions =
                    List.of(world.versions().get(0), world.history().size() - 1);
            all.add(after(
                    with(world, world.history(), views, versions),
                    new Faults(left.crashes(), left.losses(), left.moves(), left.limits(), left.takeOvers() - 1)));
        }
        HOSTS.forEach(host -> acts(world, host).forEach(all::add));
        return all;
    }

    private static JobEvent eventOf(Sent sent) {
        return switch (sent.step()) {
            case OUT -> new JobEvent.Out(sent.host(), 1, sent.round());
            case IMAGE ->
                new JobEvent.Imaged(
                        sent.host(), 1, sent.round(), new NodeImages(Map.of("pod-" + sent.host(), "d"), 1, 1, 1, 1), 0);
            default -> new JobEvent.Voided(sent.host(), 1, sent.round(), RoundOutcome.VOID, "");
        };
    }

    /** Returns what is wrong with a state, if something is. */
    private static Optional<String> whyWrong(World world) {
        for (JobSet set : world.stored().sets()) {
            if (!world.cuts().contains(set.round())) {
                return Optional.of("set " + set.id() + " has no moment at which all cables were out");
            }
        }
        JobRecord record = world.stored().record();
        if (record.phase() == JobPhase.CHECKPOINT && !record.moves().isEmpty()) {
            return Optional.of("a pod is moved while its job is checkpointed");
        }
        return Optional.empty();
    }

    /**
     * Searches all schedules, and returns the first defect.
     *
     * @param outcomes receives all outcomes of checkpoints
     */
    Optional<String> search(Set<RoundOutcome> outcomes) {
        return search(outcomes, Optional.empty(), Integer.MAX_VALUE);
    }

    /** Searches deep schedules in random orders, since a defect is rare among all. Returns the first defect. */
    Optional<String> searchDeep(int tries, int mostStates) {
        for (int seed = 1; seed <= tries; seed++) {
            Optional<String> found = search(new HashSet<>(), Optional.of(new Random(seed)), mostStates);
            if (found.isPresent()) {
                return found;
            }
        }
        return Optional.empty();
    }

    private Optional<String> search(Set<RoundOutcome> outcomes, Optional<Random> order, int mostStates) {
        Deque<World> open = new ArrayDeque<>(List.of(start()));
        Set<World> seen = new HashSet<>(open);
        while (!open.isEmpty() && seen.size() < mostStates) {
            List<World> following = next(open.pollLast());
            order.ifPresent(random -> Collections.shuffle(following, random));
            for (World next : following) {
                if (seen.add(next)) {
                    states++;
                    Optional<String> wrong = whyWrong(next);
                    if (wrong.isPresent()) {
                        return wrong;
                    }
                    outcomes.add(next.stored().record().last().outcome());
                    open.addLast(next);
                }
            }
        }
        return Optional.empty();
    }
}
