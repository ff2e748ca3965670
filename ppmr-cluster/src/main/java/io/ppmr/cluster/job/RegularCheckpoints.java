package io.ppmr.cluster.job;

import io.ppmr.cluster.job.JobRecord.RoundOutcome;
import io.ppmr.cluster.job.JobView.ScheduleView;
import io.ppmr.protocol.control.CheckpointInterval;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The times of the regular checkpoints of all jobs: which are due, which wait for others at their directory, and which
 * were missed. The controller's thread owns it; {@link #figures} is for any thread.
 */
final class RegularCheckpoints {
    private static final Logger LOG = LoggerFactory.getLogger(RegularCheckpoints.class);
    /** After a checkpoint that could not begin it is ordered again this much later. */
    private static final Duration AGAIN = Duration.ofMinutes(1);

    private static final Duration LONGEST = Duration.ofDays(100);
    private static final int MISSED = 2;

    /**
     * The figures of all regular checkpoints.
     *
     * @param jobs number of all jobs over several nodes
     * @param overdue number of jobs that have missed two intervals
     * @param oldestSeconds the age of the oldest newest set of a job with regular checkpoints, in seconds
     * @param heldSeconds the sum of the times for which checkpoints have held jobs, in seconds
     */
    record CheckpointFigures(int jobs, int overdue, double oldestSeconds, double heldSeconds) {
        static final CheckpointFigures NONE = new CheckpointFigures(0, 0, 0, 0);
    }

    /** The times of a job, of this computer's clock since its start. */
    private static final class Times {
        /** The start of the last checkpoint. */
        private long fromNs;
        /** The last set, or the start of the job's incarnation. */
        private long setNs;
        /** No checkpoint is ordered earlier. */
        private long notBeforeNs;

        /** The number of its last checkpoint among those of all jobs: the lowest has the next turn. */
        private long turn;

        private boolean isBeginning;
        private boolean isOverdue;

        private Times(long nowNs) {
            fromNs = nowNs;
            setNs = nowNs;
            notBeforeNs = nowNs;
        }
    }

    private final CheckpointBudget budget;
    private final Duration hold;
    private final Map<String, Times> jobs = new HashMap<>();
    private double heldSeconds;
    private long turns;
    private volatile CheckpointFigures figures = CheckpointFigures.NONE;

    /**
     * Makes the times of no job.
     *
     * @param hold how long a source holds its pods without GO
     */
    RegularCheckpoints(CheckpointBudget budget, Duration hold) {
        this.budget = budget;
        this.hold = hold;
    }

    /**
     * Begins to watch a job.
     *
     * @param nowMs the time of day, in milliseconds since 1970: sets are dated by it
     */
    void begin(String key, JobState state, long nowNs, long nowMs) {
        Times times = new Times(nowNs);
        newest(state).ifPresent(set -> {
            long ageMs = Math.min(LONGEST.toMillis(), Math.max(0, nowMs - set.takenAtMs()));
            times.fromNs = nowNs - TimeUnit.MILLISECONDS.toNanos(ageMs);
            times.setNs = times.fromNs;
        });
        jobs.put(key, times);
    }

    void forget(String key) {
        jobs.remove(key);
    }

    /** Ends the term of this controller. */
    void end() {
        jobs.clear();
        figures = new CheckpointFigures(0, 0, 0, heldSeconds);
    }

    private Times of(String key, long nowNs) {
        return jobs.computeIfAbsent(key, unused -> new Times(nowNs));
    }

    private static Optional<JobSet> newest(JobState state) {
        return state.sets().isEmpty()
                ? Optional.empty()
                : Optional.of(state.sets().get(state.sets().size() - 1));
    }

    /** Notes a change of a job that was written. */
    void changed(String key, JobState before, JobState next, long nowNs) {
        Times times = of(key, nowNs);
        boolean isNew = next.record().phase() != before.record().phase();
        if (isNew && next.record().phase() == JobPhase.CHECKPOINT) {
            times.fromNs = nowNs;
            turns++;
            times.turn = turns;
        }
        if (!isNew || next.record().phase() != JobPhase.RUNNING) {
            return;
        }
        RoundOutcome outcome = next.record().last().outcome();
        if (outcome == RoundOutcome.CHECKPOINTED) {
            times.setNs = times.fromNs;
            heldSeconds += newest(next).map(set -> set.heldMs() / 1000.0).orElse(0.0);
        }
        if (outcome == RoundOutcome.RESTARTED) {
            times.fromNs = nowNs;
            times.setNs = nowNs;
        }
    }

    /** A checkpoint of the job is being ordered. {@link #began} follows. */
    void ordering(String key, long nowNs) {
        of(key, nowNs).isBeginning = true;
    }

    /** The order was accepted or refused. */
    void began(String key, boolean isRefused, long nowNs) {
        Times times = of(key, nowNs);
        times.isBeginning = false;
        if (isRefused) {
            times.notBeforeNs = nowNs + AGAIN.toNanos();
        }
    }

    /** Lists the jobs whose checkpoint is under way, or is being ordered. */
    List<JobState> writing(Map<String, JobState> all) {
        List<JobState> writing = new ArrayList<>();
        all.forEach((key, state) -> {
            if (state.record().phase() == JobPhase.CHECKPOINT || (jobs.containsKey(key) && jobs.get(key).isBeginning)) {
                writing.add(state);
            }
        });
        return writing;
    }

    /**
     * Returns true if fewer checkpoints than the operator's limit write to the directory of this job.
     *
     * @param writing the jobs whose checkpoint is under way, this one not among them
     */
    boolean isFree(JobState state, List<JobState> writing) {
        return writing.stream().filter(other -> shareDirectory(state, other)).count() < budget.atOnce();
    }

    int atOnce() {
        return budget.atOnce();
    }

    /** Local disks are shared by jobs with a node in common, and remote file systems by their names. */
    private static boolean shareDirectory(JobState one, JobState other) {
        String store = one.record().schedule().store();
        if (!store.equals(other.record().schedule().store())) {
            return false;
        }
        return !store.isEmpty()
                || !Collections.disjoint(one.places().keySet(), other.places().keySet());
    }

    /** Lists the jobs whose checkpoint is due, the one whose last checkpoint began first at the head. */
    List<String> due(Map<String, JobState> all, long nowNs) {
        return all.entrySet().stream()
                .filter(job -> isDue(job.getKey(), job.getValue(), nowNs))
                .map(Map.Entry::getKey)
                .sorted(Comparator.comparingLong(key -> jobs.get(key).turn))
                .toList();
    }

    private boolean isDue(String key, JobState state, long nowNs) {
        Times times = of(key, nowNs);
        return state.record().phase() == JobPhase.RUNNING
                && state.record().moves().isEmpty()
                && state.registered() == state.record().members()
                && !times.isBeginning
                && nowNs - times.notBeforeNs >= 0
                && interval(state)
                        .filter(length -> nowNs - times.fromNs >= length.toNanos())
                        .isPresent();
    }

    /** Returns the present interval of a job. */
    Optional<Duration> interval(JobState state) {
        return budget.interval(
                state.record().schedule().ordered(),
                newest(state).map(set -> Duration.ofMillis(set.heldMs())),
                state.places().size());
    }

    /** Returns why a job with this interval cannot be checkpointed regularly. */
    Optional<String> whyNot(CheckpointInterval ordered) {
        return budget.whyNot(ordered);
    }

    /** Looks for jobs that have missed two intervals, logs each once, and counts them. */
    void watch(Map<String, JobState> all, long nowNs) {
        int overdue = 0;
        long oldestNs = 0;
        for (Map.Entry<String, JobState> job : all.entrySet()) {
            JobState state = job.getValue();
            Optional<Duration> interval = interval(state);
            if (interval.isEmpty() || state.places().isEmpty()) {
                continue;
            }
            Times times = of(job.getKey(), nowNs);
            long ageNs = nowNs - times.setNs;
            oldestNs = Math.max(oldestNs, ageNs);
            boolean isOverdue =
                    ageNs > interval.get().multipliedBy(MISSED).plus(hold).toNanos();
            if (isOverdue && !times.isOverdue) {
                LOG.error(
                        "job {} has missed {} checkpoints: its last set is {} s old, and its interval is {} s; {}."
                                + " Remedy: ppmr job show {} names the cause",
                        state.record().name(),
                        MISSED,
                        TimeUnit.NANOSECONDS.toSeconds(ageNs),
                        interval.get().toSeconds(),
                        causeOf(state),
                        state.record().name());
            } else if (!isOverdue && times.isOverdue) {
                LOG.info(
                        "job {} is checkpointed at its interval again",
                        state.record().name());
            }
            times.isOverdue = isOverdue;
            overdue += isOverdue ? 1 : 0;
        }
        figures = new CheckpointFigures(all.size(), overdue, oldestNs / 1e9, heldSeconds);
    }

    private static String causeOf(JobState state) {
        JobRecord record = state.record();
        if (state.registered() != record.members()) {
            return state.registered() + " of its " + record.members() + " pods are registered";
        }
        return record.last().reason().isEmpty()
                ? "checkpoints of other jobs are under way at its directory, or take too long"
                : record.last().reason();
    }

    /** Describes the regular checkpoints of a job. */
    ScheduleView view(String key, JobState state, long nowNs) {
        return new ScheduleView(
                state.record().schedule().interval(),
                interval(state).map(Duration::toSeconds).orElse(0L),
                of(key, nowNs).isOverdue,
                !state.record().schedule().store().isEmpty()
                        || state.sets().stream().anyMatch(set -> set.state() == JobSet.SetState.SAFE));
    }

    /** Returns the figures as of the last {@link #watch}. Any thread. */
    CheckpointFigures figures() {
        return figures;
    }
}
