package io.ppmr.cluster.job;

import io.ppmr.cluster.job.JobRecord.JobNumbers;
import io.ppmr.cluster.job.JobRecord.JobSchedule;
import io.ppmr.cluster.job.JobRecord.LastRound;
import io.ppmr.cluster.job.JobRecord.OpenMove;
import io.ppmr.cluster.job.JobRecord.RoundOutcome;
import io.ppmr.cluster.job.JobState.RoundReports;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * The rules of a job over several nodes, as pure functions. A controller applies them to each event, and writes the new
 * state by the version that it has read.
 *
 * <p>A set is whole by this rule: no cable goes in unless GO was read, or the source has noted before that this round
 * is
 * void for it. A void source never reports images. GO is written when all sources have reported their cables out. So a
 * set in which all have reported images has a moment at which all cables were out.
 */
final class JobRules {
    /** The most pods of a job on one node: their names fit one record. */
    static final int MOST_PODS_OF_A_NODE = 20;
    /** The most open migrations of a job at a time. */
    static final int MOST_MOVES = 3;

    private static final int DIGEST_BYTES = 12;

    private JobRules() {}

    /**
     * The result of an event.
     *
     * @param next the new state; the same object if nothing changes
     * @param refusal why the event has no effect, for its sender; empty if it was accepted, or was known
     */
    record JobTransition(JobState next, Optional<String> refusal) {}

    /**
     * Applies an event.
     *
     * @param keep how many sets are kept
     */
    static JobTransition apply(JobState state, JobEvent event, int keep) {
        if (event instanceof JobEvent.Registered registered) {
            return register(state, registered);
        }
        if (event instanceof JobEvent.CheckpointOrdered order) {
            return beginCheckpoint(state, order);
        }
        if (event instanceof JobEvent.Out out) {
            return noteOut(state, out);
        }
        if (event instanceof JobEvent.Imaged imaged) {
            return noteImages(state, imaged, keep);
        }
        if (event instanceof JobEvent.Voided voided) {
            return isPresent(state, voided.incarnation(), voided.round())
                            && state.places().containsKey(voided.host())
                    ? to(state.with(ended(state, voided.outcome(), voided.host() + ": " + voided.reason())))
                    : none(state);
        }
        if (event instanceof JobEvent.RestartOrdered order) {
            return beginRestart(state, order);
        }
        if (event instanceof JobEvent.PodsEnded ended) {
            return noteEnded(state, ended);
        }
        if (event instanceof JobEvent.PodsRestored restored) {
            return noteRestored(state, restored);
        }
        if (event instanceof JobEvent.RestoreFailed failed) {
            return state.record().phase() == JobPhase.RESTARTING
                            && state.record().numbers().restart() == failed.restart()
                    ? to(failedRestart(state, failed.host() + ": " + failed.reason()))
                    : none(state);
        }
        if (event instanceof JobEvent.Released released) {
            return noteReleased(state, released);
        }
        if (event instanceof JobEvent.MoveBegun move) {
            return beginMove(state, move);
        }
        if (event instanceof JobEvent.MoveEnded move) {
            return endMove(state, move);
        }
        if (event instanceof JobEvent.SetCopied copied) {
            return withSets(state, SetRules.copied(state.sets(), copied.set(), keep));
        }
        if (event instanceof JobEvent.CopyStuck stuck) {
            return withSets(state, SetRules.ended(state.sets(), stuck.set(), keep));
        }
        if (event instanceof JobEvent.NodeOff off) {
            return dropNode(state, off);
        }
        return failStep(state, (JobEvent.StepFailed) event);
    }

    private static JobTransition withSets(JobState state, List<JobSet> sets) {
        // A restart of the set may be under way, which must find all that it had.
        return state.record().phase().isRestart() || sets.equals(state.sets()) ? none(state) : to(state.withSets(sets));
    }

    private static JobTransition none(JobState state) {
        return new JobTransition(state, Optional.empty());
    }

    private static JobTransition to(JobState next) {
        return new JobTransition(next, Optional.empty());
    }

    private static JobTransition refused(JobState state, String reason) {
        return new JobTransition(state, Optional.of(reason));
    }

    // ---- members ------------------------------------------------------------------------------------------------

    private static JobTransition register(JobState state, JobEvent.Registered event) {
        JobRecord record = state.record();
        Set<String> known = state.places().getOrDefault(event.host(), Set.of());
        if (known.equals(event.pods())
                && (event.pods().isEmpty()
                        || record.phase() != JobPhase.RUNNING
                        || event.schedule().equals(record.schedule()))) {
            return none(state);
        }
        if (event.members() != record.members() && !event.pods().isEmpty()) {
            return refused(
                    state,
                    "the job has " + record.members() + " members, and this pod was ordered as one of "
                            + event.members() + ". Remedy: run all pods of the job with the same --members");
        }
        Map<String, Set<String>> places = new TreeMap<>(state.places());
        places.remove(event.host());
        if (!event.pods().isEmpty()
                && !places.isEmpty()
                && !event.schedule().interval().equals(record.schedule().interval())) {
            return refused(
                    state,
                    "the job is checkpointed at the interval '"
                            + record.schedule().interval()
                            + "', and this pod was run with '"
                            + event.schedule().interval()
                            + "'. Remedy: run all pods of the job with the same --checkpoint-every");
        }
        if (record.phase().isRestart()) {
            return refused(state, "the job is being restarted. Remedy: wait for its end");
        }
        if (state.places().isEmpty() && !state.sets().isEmpty()) {
            return refused(
                    state,
                    "the job has sets of an earlier run. Remedy: continue it (ppmr job restart), or remove them (ppmr"
                            + " job forget), or give the new job another name");
        }
        for (Map.Entry<String, Set<String>> other : places.entrySet()) {
            Optional<String> twice =
                    other.getValue().stream().filter(event.pods()::contains).findFirst();
            // A pod that moves is on two nodes for some time. Its migration's report removes it from the first.
            if (twice.isPresent() && record.moves().isEmpty()) {
                return refused(
                        state,
                        "pod " + twice.get() + " of the job is recorded on node " + other.getKey()
                                + ". Remedy: stop one of the two; if that node is lost, ppmr job forget");
            }
        }
        // The members of a round are fixed. The source registers again, since both changes would not fit one request.
        if (record.phase() == JobPhase.CHECKPOINT) {
            return new JobTransition(
                    state.with(ended(state, RoundOutcome.VOID, "the pods on node " + event.host() + " changed")),
                    Optional.of("a checkpoint was under way. Remedy: register again"));
        }
        int others = places.values().stream().mapToInt(Set::size).sum();
        if (others + event.pods().size() > record.members() && record.moves().isEmpty()) {
            return refused(
                    state,
                    "the job has " + record.members() + " members, and "
                            + (others + event.pods().size())
                            + " pods would be registered. Remedy: run each pod once, with the same --members");
        }
        if (event.pods().isEmpty()) {
            return to(state.placed(places));
        }
        places.put(event.host(), event.pods());
        // Nodes with a remote directory share it, whatever one node among them has mounted.
        String store = event.schedule().store().isEmpty()
                ? record.schedule().store()
                : event.schedule().store();
        JobSchedule schedule = new JobSchedule(
                event.schedule().interval(),
                store,
                event.schedule().recovers(),
                event.schedule().hasCopies());
        JobState next = state.placed(places);
        boolean isCertain =
                next.registered() == record.members() && record.moves().isEmpty();
        JobRecord changed = record.scheduled(schedule).uncertain(record.uncertain() && !isCertain);
        return to(changed.equals(record) ? next : next.with(changed));
    }

    // ---- checkpoints --------------------------------------------------------------------------------------------

    private static JobTransition beginCheckpoint(JobState state, JobEvent.CheckpointOrdered order) {
        JobRecord record = state.record();
        if (record.phase() != JobPhase.RUNNING) {
            return refused(state, "the job is in phase " + record.phase().word() + ". Remedy: wait for its end");
        }
        if (!record.moves().isEmpty()) {
            return refused(
                    state,
                    "pods of the job are being moved from node "
                            + record.moves().get(0).from() + " (migration "
                            + record.moves().get(0).id() + "). Remedy: wait for its end");
        }
        if (state.registered() != record.members()) {
            return refused(
                    state,
                    "the job has " + record.members() + " members, and " + state.registered()
                            + " are registered. Remedy: start the others, or wait until all are registered");
        }
        return to(state.with(record.in(JobPhase.CHECKPOINT, record.numbers().nextRound(), false, order.set())
                .holding(order.holdSeconds())));
    }

    private static boolean isPresent(JobState state, long incarnation, long round) {
        JobRecord record = state.record();
        return record.phase() == JobPhase.CHECKPOINT
                && record.numbers().incarnation() == incarnation
                && record.numbers().round() == round;
    }

    private static JobTransition noteOut(JobState state, JobEvent.Out event) {
        if (!isPresent(state, event.incarnation(), event.round())
                || state.record().isGo()
                || !state.places().containsKey(event.host())) {
            return none(state);
        }
        RoundReports reports = state.reports().withDone(event.host());
        if (!reports.done().equals(state.places().keySet())) {
            return to(state.withReports(reports));
        }
        JobRecord record = state.record();
        return to(state.with(record.in(JobPhase.CHECKPOINT, record.numbers(), true, record.set())));
    }

    private static JobTransition noteImages(JobState state, JobEvent.Imaged event, int keep) {
        Set<String> pods = state.places().get(event.host());
        if (!isPresent(state, event.incarnation(), event.round())
                || !state.record().isGo()
                || pods == null) {
            return none(state);
        }
        if (!event.images().digests().keySet().equals(pods)) {
            return to(state.with(ended(
                    state, RoundOutcome.VOID, event.host() + " has images of other pods than it has registered")));
        }
        RoundReports reports = state.reports().withImages(event.host(), event.images());
        if (!reports.images().keySet().equals(state.places().keySet())) {
            return to(state.withReports(reports));
        }
        List<JobSet> kept = SetRules.withNew(
                state.sets(),
                setOf(state.record(), reports.images(), event.nowMs()),
                state.record().schedule().hasCopies(),
                keep);
        return to(state.withSets(kept).with(ended(state, RoundOutcome.CHECKPOINTED, "")));
    }

    private static JobSet setOf(JobRecord record, Map<String, NodeImages> images, long nowMs) {
        Map<String, String> digests = new TreeMap<>();
        images.values().forEach(node -> digests.putAll(node.digests()));
        return new JobSet(
                record.set(),
                record.numbers().incarnation(),
                record.numbers().round(),
                digestOf(digests),
                images.values().stream().mapToLong(NodeImages::bytes).sum(),
                images.values().stream().mapToLong(NodeImages::heldMs).max().orElse(0),
                images.values().stream().mapToLong(NodeImages::dumpMs).max().orElse(0),
                images.values().stream().mapToLong(NodeImages::syncMs).max().orElse(0),
                nowMs,
                JobSet.SetState.LOCAL);
    }

    /** Returns the digest of a set from those of its images, by the pods' names. */
    static String digestOf(Map<String, String> digests) {
        try {
            MessageDigest sha = MessageDigest.getInstance("SHA-256");
            new TreeMap<>(digests)
                    .forEach((pod, digest) -> sha.update((pod + " " + digest + "\n").getBytes(StandardCharsets.UTF_8)));
            return HexFormat.of().formatHex(sha.digest(), 0, DIGEST_BYTES);
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("SHA-256 is missing in this JDK, though every JDK must have it", e);
        }
    }

    private static JobRecord ended(JobState state, RoundOutcome outcome, String reason) {
        JobRecord record = state.record();
        return record.ended(new LastRound(record.numbers().round(), false, outcome, reason));
    }

    // ---- restarts -----------------------------------------------------------------------------------------------

    private static JobTransition beginRestart(JobState state, JobEvent.RestartOrdered order) {
        JobRecord record = state.record();
        if (record.phase() != JobPhase.RUNNING && record.phase() != JobPhase.RELEASING) {
            return refused(state, "the job is in phase " + record.phase().word() + ". Remedy: wait for its end");
        }
        if (!record.moves().isEmpty()) {
            return refused(
                    state,
                    "pods of the job are being moved from node "
                            + record.moves().get(0).from() + " (migration "
                            + record.moves().get(0).id() + "). Remedy: wait for its end");
        }
        if (state.sets().stream().noneMatch(set -> set.id().equals(order.set()))) {
            return refused(state, "the job has no set " + order.set() + ". Remedy: ppmr job show lists its sets");
        }
        if (order.number() <= record.numbers().restart()
                || order.basis().restart() != record.numbers().restart()
                || !order.basis().places().equals(state.places())) {
            return refused(state, "the job was changed while its restart was planned. Remedy: order it again");
        }
        if (order.plan().values().stream().anyMatch(some -> some.size() > MOST_PODS_OF_A_NODE)) {
            return refused(
                    state,
                    "a node would restore more than " + MOST_PODS_OF_A_NODE + " pods. Remedy: name more nodes (--on)");
        }
        Set<String> pods = new TreeSet<>();
        int planned = 0;
        for (Set<String> some : order.plan().values()) {
            planned += some.size();
            pods.addAll(some);
        }
        if (pods.size() != record.members() || planned != pods.size()) {
            return refused(state, "the plan of the restart does not have each member once");
        }
        if (!order.isRecovery()) {
            return to(
                    restarting(state.planned(order.plan()), record.numbers().nextRestart(order.number()), order.set()));
        }
        JobNumbers numbers = record.numbers().nextRecovery(order.number());
        JobState ending = state.planned(order.plan());
        // Without a node of the record there is no pod to end.
        return to(
                state.places().isEmpty()
                        ? restarting(ending, numbers, order.set())
                        : ending.with(record.in(JobPhase.ENDING, numbers, false, order.set())));
    }

    private static JobState restarting(JobState state, JobNumbers numbers, String set) {
        return state.with(state.record().in(JobPhase.RESTARTING, numbers, false, set));
    }

    // ---- recoveries ---------------------------------------------------------------------------------------------

    private static JobTransition noteEnded(JobState state, JobEvent.PodsEnded event) {
        JobRecord record = state.record();
        if (record.phase() != JobPhase.ENDING
                || record.numbers().restart() != event.restart()
                || !state.places().containsKey(event.host())) {
            return none(state);
        }
        return to(endedAt(state.withReports(state.reports().withDone(event.host()))));
    }

    /** Nothing is restored before the pods of all nodes of the record ended, or their nodes are off. */
    private static JobState endedAt(JobState state) {
        return state.reports().done().containsAll(state.places().keySet())
                ? restarting(state, state.record().numbers(), state.record().set())
                : state;
    }

    /** A node that is off has no pods. One that had to restore some leaves a plan that cannot be carried out. */
    private static JobTransition dropEnding(JobState state, JobEvent.NodeOff off) {
        if (state.plan().containsKey(off.host())) {
            return to(failedRestart(state, "node " + off.host() + ", which had to restore pods, is off"));
        }
        if (!state.places().containsKey(off.host())) {
            return none(state);
        }
        Map<String, Set<String>> places = new HashMap<>(state.places());
        places.remove(off.host());
        RoundReports reports = state.reports();
        JobState left =
                state.placed(places).with(state.record().uncertain(true)).withReports(reports);
        return to(endedAt(left));
    }

    private static JobTransition noteRestored(JobState state, JobEvent.PodsRestored event) {
        JobRecord record = state.record();
        if (record.phase() != JobPhase.RESTARTING
                || record.numbers().restart() != event.restart()
                || !state.plan().containsKey(event.host())) {
            return none(state);
        }
        RoundReports reports = state.reports().withDone(event.host());
        if (!reports.done().equals(state.plan().keySet())) {
            return to(state.withReports(reports));
        }
        return to(state.placed(state.plan())
                .with(record.in(JobPhase.RELEASING, record.numbers().released(), false, record.set())
                        .uncertain(false)));
    }

    private static JobTransition noteReleased(JobState state, JobEvent.Released event) {
        JobRecord record = state.record();
        if (record.phase() != JobPhase.RELEASING
                || record.numbers().restart() != event.restart()
                || !state.plan().containsKey(event.host())) {
            return none(state);
        }
        RoundReports reports = state.reports().withDone(event.host());
        if (!reports.done().equals(state.plan().keySet())) {
            return to(state.withReports(reports));
        }
        RoundOutcome outcome = record.numbers().isRecovery() ? RoundOutcome.RECOVERED : RoundOutcome.RESTARTED;
        return to(state.planned(Map.of())
                .with(record.ended(new LastRound(record.numbers().restart(), true, outcome, ""))));
    }

    private static JobState failedRestart(JobState state, String reason) {
        JobRecord record = state.record();
        return state.planned(Map.of())
                .with(record.ended(new LastRound(record.numbers().restart(), true, RoundOutcome.FAILED, reason)));
    }

    // ---- migrations ---------------------------------------------------------------------------------------------

    private static JobTransition beginMove(JobState state, JobEvent.MoveBegun event) {
        JobRecord record = state.record();
        if (record.moves().stream().anyMatch(move -> move.id().equals(event.id()))) {
            return none(state);
        }
        if (record.phase().isRestart()) {
            return refused(state, "the job is being restarted. Remedy: wait for its end");
        }
        // Another migration brought them, whose end would place them on this node after they have left it.
        Optional<String> early = state.places().entrySet().stream()
                .filter(place -> !place.getKey().equals(event.host())
                        && place.getValue().stream().anyMatch(event.pods()::contains))
                .map(place -> "pods of node " + event.host() + " are recorded on node " + place.getKey()
                        + ". Remedy: wait until its source has reported the migration that moved them")
                .sorted()
                .findFirst();
        if (early.isPresent()) {
            return new JobTransition(state, early);
        }
        if (record.moves().size() >= MOST_MOVES) {
            return refused(
                    state, "pods of the job are being moved by " + MOST_MOVES + " migrations. Remedy: try again later");
        }
        List<OpenMove> moves = new ArrayList<>(record.moves());
        moves.add(new OpenMove(event.id(), event.host()));
        // A node that is about to fail does not wait for a checkpoint.
        JobRecord next = record.phase() == JobPhase.CHECKPOINT
                ? ended(state, RoundOutcome.VOID, "pods are moved from node " + event.host())
                : record;
        return to(state.with(next.moving(moves)));
    }

    /** Places the moved pods at their target. Pods that their user has moved on stay where that was recorded. */
    private static JobTransition endMove(JobState state, JobEvent.MoveEnded event) {
        JobRecord record = state.record();
        Optional<OpenMove> open = record.moves().stream()
                .filter(move -> move.id().equals(event.id()))
                .findFirst();
        if (open.isEmpty()) {
            Optional<String> early = event.pods().isEmpty() ? Optional.empty() : whyUnrecordedIsEarly(state, event);
            if (early.isPresent() || event.pods().isEmpty()) {
                return new JobTransition(state, early);
            }
            // The members of a round are fixed, and both changes would not fit one request.
            if (record.phase() == JobPhase.CHECKPOINT) {
                return new JobTransition(
                        state.with(ended(state, RoundOutcome.VOID, "pods were moved from node " + event.host())),
                        Optional.of("a checkpoint was under way. Remedy: report it again"));
            }
        }
        String from = open.map(OpenMove::from).orElse(event.host());
        Map<String, Set<String>> places = new HashMap<>();
        state.places().forEach((host, pods) -> places.put(host, new TreeSet<>(pods)));
        boolean isUnknown = false;
        for (String pod : event.pods()) {
            Optional.ofNullable(places.get(from)).ifPresent(pods -> pods.remove(pod));
            boolean isPlaced = places.values().stream().anyMatch(pods -> pods.contains(pod));
            isUnknown |= !isPlaced && event.to().isEmpty();
            if (!isPlaced && !event.to().isEmpty()) {
                places.computeIfAbsent(event.to(), unused -> new TreeSet<>()).add(pod);
            }
        }
        places.values().removeIf(Set::isEmpty);
        if (places.getOrDefault(event.to(), Set.of()).size() > MOST_PODS_OF_A_NODE) {
            return refused(state, "node " + event.to() + " would have more than " + MOST_PODS_OF_A_NODE + " pods");
        }
        List<OpenMove> moves = new ArrayList<>(record.moves());
        open.ifPresent(moves::remove);
        return to(state.placed(places).with(record.moving(moves).uncertain(record.uncertain() || isUnknown)));
    }

    /** Returns why the record cannot follow a migration yet that no controller has noted. */
    private static Optional<String> whyUnrecordedIsEarly(JobState state, JobEvent.MoveEnded event) {
        if (event.to().isEmpty()) {
            return Optional.of("the target of the migration is unknown");
        }
        JobPhase phase = state.record().phase();
        if (phase.isRestart()) {
            return Optional.of("the job is being restarted. Remedy: wait for its end");
        }
        // Another migration that no controller has noted brought them, and is reported first.
        return state.places().entrySet().stream()
                .filter(place -> !place.getKey().equals(event.host())
                        && !place.getKey().equals(event.to())
                        && place.getValue().stream().anyMatch(event.pods()::contains))
                .map(place -> "pods that were moved from node " + event.host() + " are recorded on node "
                        + place.getKey() + ". Remedy: start the source of that node, which reports their migration")
                .sorted()
                .findFirst();
    }

    /** Its pods are gone, or are where a migration has moved them: that node's source registers them. */
    private static JobTransition dropNode(JobState state, JobEvent.NodeOff off) {
        JobRecord record = state.record();
        if (record.phase() == JobPhase.ENDING) {
            return dropEnding(state, off);
        }
        if (record.phase() != JobPhase.RUNNING) {
            return none(state);
        }
        List<OpenMove> moves = record.moves().stream()
                .filter(move -> !move.from().equals(off.host()))
                .toList();
        Map<String, Set<String>> places = new HashMap<>(state.places());
        // It can no longer answer if it has moved pods that no controller noted.
        boolean hadPods = places.remove(off.host()) != null;
        return moves.equals(record.moves()) && places.equals(state.places())
                ? none(state)
                : to(state.placed(places).with(record.moving(moves).uncertain(record.uncertain() || hadPods)));
    }

    // ---- failures -----------------------------------------------------------------------------------------------

    private static JobTransition failStep(JobState state, JobEvent.StepFailed event) {
        if (state.record().phase() == JobPhase.CHECKPOINT) {
            return to(state.with(ended(state, RoundOutcome.VOID, event.reason())));
        }
        // After RELEASE nothing is restored again, so the phase stays until all have released or the job is restarted.
        return state.record().phase() == JobPhase.RESTARTING ? to(failedRestart(state, event.reason())) : none(state);
    }
}
