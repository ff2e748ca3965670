package io.ppmr.cluster.job;

import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.annotation.JsonNaming;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * A job over several nodes, as {@code ppmr job show} shows it. Immutable.
 *
 * @param job its user and its name
 * @param phase its phase; recovering while a recovery that failed is ordered again
 * @param incarnation how often it was started
 * @param members number of its pods
 * @param registered number of pods that are registered
 * @param places the pods of each node
 * @param round the number of its last checkpoint
 * @param restart the number of its last restart
 * @param last the end of the last checkpoint or restart
 * @param moves its open migrations, each with the node that is left
 * @param sets its sets, the oldest first
 * @param schedule its regular checkpoints
 */
@JsonNaming(PropertyNamingStrategies.SnakeCaseStrategy.class)
public record JobView(
        String job,
        String phase,
        long incarnation,
        int members,
        int registered,
        Map<String, Set<String>> places,
        long round,
        long restart,
        LastView last,
        Map<String, String> moves,
        List<SetView> sets,
        ScheduleView schedule) {
    /**
     * The end of a checkpoint or restart.
     *
     * @param kind checkpoint, restart, or empty before the first
     * @param number its number
     * @param outcome its outcome
     * @param reason its cause; empty if it was successful
     * @param waitsFor the nodes that the present checkpoint, restart or recovery waits for; empty if none is under way
     * @param restart nodes and times of the last restart or recovery
     */
    @JsonNaming(PropertyNamingStrategies.SnakeCaseStrategy.class)
    public record LastView(
            String kind, long number, String outcome, String reason, Set<String> waitsFor, RestartView restart) {}

    /**
     * The nodes and the times of a restart or recovery, as the controller knows them that has carried it out.
     *
     * @param number its number; 0 if this controller has carried out none
     * @param set the set
     * @param lostWorkS the age of the set when it began, in seconds
     * @param lost the nodes that were off, with pods of the job
     * @param spares the nodes that had no pods of the job before
     * @param endMs how long pods of living nodes took to end
     * @param restoreMs how long all pods took until they were restored and held
     * @param releaseMs how long all nodes took to let them run
     */
    @JsonNaming(PropertyNamingStrategies.SnakeCaseStrategy.class)
    public record RestartView(
            long number,
            String set,
            long lostWorkS,
            List<String> lost,
            List<String> spares,
            long endMs,
            long restoreMs,
            long releaseMs) {
        /** None is known. */
        static final RestartView NONE = new RestartView(0, "", 0, List.of(), List.of(), 0, 0, 0);

        RestartView ended(long ms) {
            return new RestartView(number, set, lostWorkS, lost, spares, ms, 0, 0);
        }

        RestartView restored(long ms) {
            return new RestartView(number, set, lostWorkS, lost, spares, endMs, ms, 0);
        }

        RestartView released(long ms) {
            return new RestartView(number, set, lostWorkS, lost, spares, endMs, restoreMs, ms);
        }
    }

    /**
     * A set.
     *
     * @param set its name
     * @param incarnation the incarnation that it is of
     * @param round its checkpoint
     * @param bytes the size of its images
     * @param heldMs the longest time for which a member was held
     * @param dumpMs the longest time of a dump
     * @param syncMs the longest time until images were on the disk
     * @param takenAtMs its time, in milliseconds since 1970
     * @param state local; copying, while it is copied to the second place; safe, if all of it is there
     */
    @JsonNaming(PropertyNamingStrategies.SnakeCaseStrategy.class)
    public record SetView(
            String set,
            long incarnation,
            long round,
            long bytes,
            long heldMs,
            long dumpMs,
            long syncMs,
            long takenAtMs,
            String state) {}

    /** Returns the same job with these pods of each node. */
    JobView at(Map<String, Set<String>> nodes) {
        return new JobView(
                job, phase, incarnation, members, registered, nodes, round, restart, last, moves, sets, schedule);
    }

    /** Returns the same job, whose recovery failed and is ordered again. */
    JobView recovering() {
        return new JobView(
                job,
                "recovering",
                incarnation,
                members,
                registered,
                places,
                round,
                restart,
                last,
                moves,
                sets,
                schedule);
    }

    /** Returns this page of the job and the next one as one. If they differ, the next one counts. */
    JobView joined(JobView next) {
        Map<String, Set<String>> all = new TreeMap<>(places);
        all.putAll(next.places);
        return next.at(all);
    }

    /**
     * The regular checkpoints of a job.
     *
     * @param every the interval that its user ordered: auto, or a time; empty for none
     * @param intervalS the present interval in seconds; 0 for none
     * @param isOverdue whether two intervals were missed
     * @param survivesLoss whether its sets can be read without the node that has written them, as far as the
     *     directories show
     */
    @JsonNaming(PropertyNamingStrategies.SnakeCaseStrategy.class)
    public record ScheduleView(String every, long intervalS, boolean isOverdue, boolean survivesLoss) {}

    /** Returns the nodes that the present checkpoint, restart or recovery waits for. */
    static Set<String> waitsFor(JobState state) {
        JobPhase phase = state.record().phase();
        if (phase == JobPhase.RUNNING) {
            return Set.of();
        }
        boolean isOfPlaces = phase == JobPhase.CHECKPOINT || phase == JobPhase.ENDING;
        Set<String> waited = new TreeSet<>((isOfPlaces ? state.places() : state.plan()).keySet());
        waited.removeAll(
                state.record().isGo()
                        ? state.reports().images().keySet()
                        : state.reports().done());
        return waited;
    }

    static JobView of(JobState state, ScheduleView schedule, RestartView restart) {
        JobRecord record = state.record();
        Map<String, Set<String>> places = new TreeMap<>();
        state.places().forEach((host, pods) -> places.put(host, new TreeSet<>(pods)));
        Map<String, String> moves = new TreeMap<>();
        record.moves().forEach(move -> moves.put(move.id(), move.from()));
        JobRecord.LastRound last = record.last();
        return new JobView(
                record.name().toString(),
                record.phase().word(),
                record.numbers().incarnation(),
                record.members(),
                state.registered(),
                places,
                record.numbers().round(),
                record.numbers().restart(),
                new LastView(
                        last.number() == 0 ? "" : last.isRestart() ? "restart" : "checkpoint",
                        last.number(),
                        last.outcome().word(),
                        last.reason(),
                        waitsFor(state),
                        restart),
                moves,
                state.sets().stream()
                        .map(set -> new SetView(
                                set.id(),
                                set.incarnation(),
                                set.round(),
                                set.bytes(),
                                set.heldMs(),
                                set.dumpMs(),
                                set.syncMs(),
                                set.takenAtMs(),
                                set.state().word()))
                        .toList(),
                schedule);
    }
}
