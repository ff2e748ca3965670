package io.ppmr.cluster.job;

import io.ppmr.cluster.job.MemberNote.CheckpointStep;
import io.ppmr.cluster.job.MemberNote.RestartStep;

/**
 * The rules of a service with pods of a job, as pure functions: what a record that it has read lets it do. Messages
 * only report. A service acts because of the record that it has read.
 */
final class MemberRules {
    private MemberRules() {}

    /** The next act of a source in a checkpoint. */
    enum SourceAct {
        /** Nothing, until the record changes. */
        WAIT,
        /** The record is older than one that this service acted by. */
        IGNORE,
        /** Note HOLDING, hold all pods with their cables out, and report OUT. */
        HOLD,
        /** All members were held at the same time: cables may go in when the dumps ended. */
        RESUME,
        /** Note VOID, then put the cables in. */
        GIVE_UP
    }

    /** Returns what a source does by a record. */
    static SourceAct source(MemberNote note, JobRecord record, long version) {
        if (note.isNewerThan(record, version)) {
            return SourceAct.IGNORE;
        }
        boolean isCheckpoint = record.phase() == JobPhase.CHECKPOINT;
        boolean isSameJob = note.id().equals(record.id());
        boolean isMine = isSameJob && note.round() == record.numbers().round();
        if (isSameJob && note.step() == CheckpointStep.HOLDING) {
            if (!isCheckpoint || !isMine) {
                return SourceAct.GIVE_UP;
            }
            return record.isGo() ? SourceAct.RESUME : SourceAct.WAIT;
        }
        // A source is OUT once in a round.
        return isCheckpoint && !record.isGo() && !(isMine && note.step() != CheckpointStep.NONE)
                ? SourceAct.HOLD
                : SourceAct.WAIT;
    }

    /** The next act of a target in a restart. */
    enum TargetAct {
        /** Nothing, until the record changes. */
        WAIT,
        /** The record is older than one that this service acted by. */
        IGNORE,
        /** Restore all pods held, note HELD, and report it. */
        RESTORE,
        /** The pods are held here: report it again. */
        REPORT_HELD,
        /** Note RELEASED, then put the cables in, continue the pods, and report it. */
        RELEASE,
        /** The pods were released: repeat it where needed, and report it. */
        REPORT_RELEASED,
        /** End the copies, which never ran. */
        END_COPIES
    }

    /**
     * Returns what a target does by a record.
     *
     * @param isNamed whether the plan of this restart names this node
     * @param hasCopies whether the pods are restored here now. After a restart of the service they are not, and are
     *     restored once more, for they never ran
     */
    static TargetAct target(MemberNote note, JobRecord record, long version, boolean isNamed, boolean hasCopies) {
        if (note.isNewerThan(record, version)) {
            return TargetAct.IGNORE;
        }
        boolean isMine = note.id().equals(record.id())
                && note.restart() == record.numbers().restart();
        RestartStep step = isMine ? note.restartStep() : RestartStep.NONE;
        if (note.restartStep() == RestartStep.HELD && !isMine) {
            return TargetAct.END_COPIES;
        }
        return switch (record.phase()) {
            case RESTARTING -> {
                if (!isNamed || step == RestartStep.RELEASED) {
                    yield TargetAct.WAIT;
                }
                yield hasCopies ? TargetAct.REPORT_HELD : TargetAct.RESTORE;
            }
            case RELEASING -> {
                if (step == RestartStep.NONE) {
                    yield TargetAct.WAIT;
                }
                if (step == RestartStep.RELEASED) {
                    yield TargetAct.REPORT_RELEASED;
                }
                yield hasCopies ? TargetAct.RELEASE : TargetAct.RESTORE;
            }
            case RUNNING, CHECKPOINT, ENDING -> step == RestartStep.HELD ? TargetAct.END_COPIES : TargetAct.WAIT;
        };
    }
}
