package io.ppmr.cluster.job;

import java.util.Set;
import java.util.TreeSet;

/**
 * The note of a source about a migration that no controller has noted. It is on the disk before the migration begins,
 * and until a controller has taken its outcome. Immutable.
 *
 * @param id the migration's name in the job's record
 * @param job the job's random name; empty if the source has not read its record
 * @param incarnation the job's incarnation, or 0 if the source has not read its record
 * @param to the address of the target, HOST:PORT
 * @param pods the job's pods here when it began
 */
public record MoveNote(String id, String job, long incarnation, String to, Set<String> pods) {
    public MoveNote {
        pods = Set.copyOf(pods);
    }

    /** Returns true if the job was started again since, so that what this migration moved no longer runs. */
    boolean isOlderThan(JobRecord record) {
        return !job.isEmpty()
                && (!job.equals(record.id()) || incarnation < record.numbers().incarnation());
    }

    /** Returns the same note with the record that the source has read first. */
    MoveNote of(JobRecord record) {
        return new MoveNote(id, record.id(), record.numbers().incarnation(), to, pods);
    }

    /** Returns the pods that are no longer here. */
    Set<String> gone(Set<String> here) {
        Set<String> gone = new TreeSet<>(pods);
        gone.removeAll(here);
        return gone;
    }
}
