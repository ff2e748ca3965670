package io.ppmr.cluster.job;

import com.fasterxml.jackson.core.JacksonException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.protocol.control.CheckpointInterval;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Optional;

/**
 * The record of a job over several nodes, in the ensemble. Only a controller writes it, by the version that it has
 * read.
 * All members watch it, so it stays short. Immutable.
 *
 * @param id a random name, so that a later job of the same name is another one
 * @param name its user and its name
 * @param members number of its pods, on all nodes
 * @param phase its phase
 * @param numbers its counters
 * @param isGo in CHECKPOINT: all members were held at the same time
 * @param set in CHECKPOINT the set that is written, else the set that is restored; empty in RUNNING
 * @param holdSeconds in CHECKPOINT how long a source holds its pods without GO
 * @param last the end of the last checkpoint or restart
 * @param moves the open migrations of its pods
 * @param uncertain whether pods may run on a node that the places do not name: one that is off had some, or their
 *     migration's target is unknown
 * @param schedule its regular checkpoints
 */
public record JobRecord(
        String id,
        JobName name,
        int members,
        JobPhase phase,
        JobNumbers numbers,
        boolean isGo,
        String set,
        long holdSeconds,
        LastRound last,
        List<OpenMove> moves,
        boolean uncertain,
        JobSchedule schedule) {
    /** The most pods that a job over several nodes can have. */
    public static final int MOST_MEMBERS = 4096;
    /** The longest record. It fits a request to the ensemble with the paths around it. */
    static final int MOST_BYTES = 860;

    private static final ObjectMapper JSON = JsonMapper.builder()
            .enable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
            .build();

    /**
     * The counters of a job. None of them ever becomes smaller.
     *
     * @param incarnation how often it was started: 1, and one more with each release of a restart
     * @param round the number of its last checkpoint
     * @param restart the number of its last restart. Numbers are drawn, and only grow: a plan that was written and not
     *     adopted never counts for another restart
     * @param layout the restart that has placed its pods, or 0 before the first
     * @param recovery the last restart that was a recovery, before which living nodes end their pods; 0 before the
     *     first
     */
    public record JobNumbers(long incarnation, long round, long restart, long layout, long recovery) {
        /** The counters of a new job. */
        static final JobNumbers FIRST = new JobNumbers(1, 0, 0, 0, 0);

        JobNumbers nextRound() {
            return new JobNumbers(incarnation, round + 1, restart, layout, recovery);
        }

        JobNumbers nextRestart(long number) {
            return new JobNumbers(incarnation, round, number, layout, recovery);
        }

        JobNumbers nextRecovery(long number) {
            return new JobNumbers(incarnation, round, number, layout, number);
        }

        /** Returns true if the last restart is a recovery. */
        boolean isRecovery() {
            return recovery > 0 && recovery == restart;
        }

        /** Returns the counters of the incarnation that the last restart has placed. */
        JobNumbers released() {
            return new JobNumbers(incarnation + 1, round, restart, restart, recovery);
        }
    }

    /**
     * The end of a checkpoint or of a restart.
     *
     * @param number the round or the restart; 0 before the first
     * @param isRestart whether it is a restart
     * @param outcome its outcome
     * @param reason its cause; empty if it was successful
     */
    public record LastRound(long number, boolean isRestart, RoundOutcome outcome, String reason) {
        private static final int MOST_REASON = 180;
        /** No checkpoint and no restart ended yet. */
        static final LastRound NONE = new LastRound(0, false, RoundOutcome.NONE, "");

        public LastRound {
            reason = reason.length() <= MOST_REASON ? reason : reason.substring(0, MOST_REASON - 3) + "...";
        }
    }

    /** The outcomes of a checkpoint and of a restart. */
    public enum RoundOutcome {
        /** There was none. */
        NONE,
        /** A set was written. */
        CHECKPOINTED,
        /** The checkpoint became void. All members continue. */
        VOID,
        /** The checkpoint was refused before any member was held. */
        REFUSED,
        /** All members were restored, and run. */
        RESTARTED,
        /** The members that ran were ended, and all members were restored, and run. */
        RECOVERED,
        /** The restart became void. Nothing of the job runs. */
        FAILED;

        /** Returns the outcome as people read it. */
        public String word() {
            return name().toLowerCase(java.util.Locale.ROOT);
        }
    }

    /**
     * An open migration of pods of the job.
     *
     * @param id the migration
     * @param from the node that they leave
     */
    public record OpenMove(String id, String from) {}

    /**
     * The regular checkpoints of a job.
     *
     * @param interval the interval that its user ordered, in the form of {@link CheckpointInterval}; empty for none
     * @param store a digest that names the remote file system of its checkpoints; empty if they are on local disks
     * @param recovers whether the controllers bring it back by themselves after the loss of a node
     * @param hasCopies whether its sets are copied to a second place
     */
    public record JobSchedule(String interval, String store, boolean recovers, boolean hasCopies) {
        /** By order only, on local disks. */
        static final JobSchedule NONE = new JobSchedule("", "", false, false);

        private static final int MOST_CHARACTERS = 16;

        /** Returns true if both texts have a valid form. */
        boolean isSound() {
            return interval != null
                    && CheckpointInterval.parse(interval).isPresent()
                    && store != null
                    && store.length() <= MOST_CHARACTERS
                    && store.matches("[0-9a-f]*");
        }

        /** Returns the interval. */
        CheckpointInterval ordered() {
            return CheckpointInterval.parse(interval).orElse(CheckpointInterval.NONE);
        }
    }

    public JobRecord {
        moves = moves == null ? List.of() : List.copyOf(moves);
        schedule = schedule == null ? JobSchedule.NONE : schedule;
    }

    /** Returns the record of a new job. */
    static JobRecord of(String id, JobName name, int members, JobSchedule schedule) {
        return new JobRecord(
                id,
                name,
                members,
                JobPhase.RUNNING,
                JobNumbers.FIRST,
                false,
                "",
                0,
                LastRound.NONE,
                List.of(),
                false,
                schedule);
    }

    /** Returns the same job in another phase. */
    JobRecord in(JobPhase next, JobNumbers counters, boolean go, String named) {
        return new JobRecord(
                id, name, members, next, counters, go, named, holdSeconds, last, moves, uncertain, schedule);
    }

    /** Returns the same job with this limit for a hold without GO. */
    JobRecord holding(long seconds) {
        return new JobRecord(id, name, members, phase, numbers, isGo, set, seconds, last, moves, uncertain, schedule);
    }

    /** Returns the same job after the end of a checkpoint or of a restart. */
    JobRecord ended(LastRound outcome) {
        return new JobRecord(
                id, name, members, JobPhase.RUNNING, numbers, false, "", 0, outcome, moves, uncertain, schedule);
    }

    /** Returns the same job with these migrations. */
    JobRecord moving(List<OpenMove> open) {
        return new JobRecord(
                id, name, members, phase, numbers, isGo, set, holdSeconds, last, open, uncertain, schedule);
    }

    /** Returns the same job with these regular checkpoints. */
    JobRecord scheduled(JobSchedule ordered) {
        return new JobRecord(
                id, name, members, phase, numbers, isGo, set, holdSeconds, last, moves, uncertain, ordered);
    }

    /** Returns the same job whose pods may run on a node that the places do not name, or not. */
    JobRecord uncertain(boolean isSo) {
        return new JobRecord(id, name, members, phase, numbers, isGo, set, holdSeconds, last, moves, isSo, schedule);
    }

    /** Returns the record as JSON. Reasons are cut until it fits. */
    public byte[] encode() {
        byte[] bytes = json();
        if (bytes.length <= MOST_BYTES) {
            return bytes;
        }
        LastRound brief = new LastRound(last.number(), last.isRestart(), last.outcome(), "");
        return new JobRecord(
                        id, name, members, phase, numbers, isGo, set, holdSeconds, brief, moves, uncertain, schedule)
                .json();
    }

    private byte[] json() {
        try {
            return JSON.writeValueAsBytes(this);
        } catch (JacksonException e) {
            throw new IllegalStateException("a record of plain values cannot be written", e);
        }
    }

    /** Reads a record. Returns empty if it has another form. */
    public static Optional<JobRecord> decode(byte[] bytes) {
        try {
            JobRecord record = JSON.readValue(new String(bytes, StandardCharsets.UTF_8), JobRecord.class);
            boolean sound = record != null
                    && record.id != null
                    && record.name != null
                    && record.name.name() != null
                    && record.phase != null
                    && record.numbers != null
                    && record.set != null
                    && record.last != null
                    && record.last.outcome() != null
                    && record.schedule.isSound()
                    && record.members > 0
                    && record.members <= MOST_MEMBERS
                    && record.moves.stream().allMatch(move -> move.id() != null && move.from() != null);
            return sound ? Optional.of(record) : Optional.empty();
        } catch (JacksonException e) {
            return Optional.empty();
        } catch (RuntimeException e) {
            // A reason that is missing. Jackson wraps others.
            return Optional.empty();
        }
    }
}
