package io.ppmr.cluster.job;

/**
 * The note of a service about a job, which is on its disk before it acts. Immutable.
 *
 * @param id the job's random name; empty before the first record
 * @param incarnation the newest incarnation that it acted by
 * @param version the newest version of the record that it acted by
 * @param round the last checkpoint in which it took part, or 0
 * @param step its step in that checkpoint
 * @param restart the last restart in which it took part, or 0
 * @param restartStep its step in that restart
 */
public record MemberNote(
        String id,
        long incarnation,
        long version,
        long round,
        CheckpointStep step,
        long restart,
        RestartStep restartStep) {
    /** Nothing is noted yet. */
    static final MemberNote NONE = new MemberNote("", 0, -1, 0, CheckpointStep.NONE, 0, RestartStep.NONE);

    /** The steps of a source in a checkpoint. */
    public enum CheckpointStep {
        /** It takes part in none. */
        NONE,
        /** Its pods are held, or are about to be. */
        HOLDING,
        /** The round is void for it: its pods run, or are about to, and it reports no images. */
        VOID,
        /** Its images are whole, and its pods run. */
        IMAGED
    }

    /** The steps of a target in a restart. */
    public enum RestartStep {
        /** It takes part in none. */
        NONE,
        /** Its pods are restored and held. */
        HELD,
        /** Its pods run, or are about to. They are never restored again in this incarnation. */
        RELEASED
    }

    private MemberNote by(JobRecord record, long read) {
        return new MemberNote(record.id(), record.numbers().incarnation(), read, round, step, restart, restartStep);
    }

    MemberNote checkpoint(JobRecord record, long read, CheckpointStep next) {
        MemberNote seen = by(record, read);
        return new MemberNote(
                seen.id, seen.incarnation, seen.version, record.numbers().round(), next, restart, restartStep);
    }

    MemberNote to(CheckpointStep next) {
        return new MemberNote(id, incarnation, version, round, next, restart, restartStep);
    }

    MemberNote to(RestartStep next) {
        return new MemberNote(id, incarnation, version, round, step, restart, next);
    }

    MemberNote restart(JobRecord record, long read, RestartStep next) {
        MemberNote seen = by(record, read);
        return new MemberNote(
                seen.id,
                seen.incarnation,
                seen.version,
                round,
                step,
                record.numbers().restart(),
                next);
    }

    /** Returns whether a record is older than one that it acted by. */
    boolean isNewerThan(JobRecord record, long read) {
        return id.equals(record.id())
                && (record.numbers().incarnation() < incarnation
                        || (record.numbers().incarnation() == incarnation && read < version));
    }
}
