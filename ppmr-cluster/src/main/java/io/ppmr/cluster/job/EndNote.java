package io.ppmr.cluster.job;

import java.util.Collections;
import java.util.Set;

/**
 * The note of a source that it ended the pods of a job for a recovery, and of the pods that it has registered. It
 * is on its disk before the source reports that. Immutable.
 *
 * @param id the job's random name; empty before the first note
 * @param restart the number of the last recovery for which pods were ended; 0 before the first
 * @param layout the layout in which the pods were registered
 * @param pods the pods that were registered from here
 */
record EndNote(String id, long restart, long layout, Set<String> pods) {
    /** Nothing is noted yet. */
    static final EndNote NONE = new EndNote("", 0, 0, Set.of());

    EndNote {
        pods = pods == null ? Set.of() : Set.copyOf(pods);
    }

    /** Returns the note that the pods were ended as a record wants it. */
    EndNote ended(JobRecord record) {
        return new EndNote(record.id(), record.numbers().restart(), layout, Set.of());
    }

    /** Returns the note that these pods were registered. */
    EndNote registered(JobRecord record, Set<String> here) {
        long last = id.equals(record.id()) ? restart : 0;
        return new EndNote(record.id(), last, record.numbers().layout(), here);
    }

    /**
     * Returns true if the pods here are of an older incarnation than those that the record places elsewhere. So it is
     * if this node counted as off, and was not. Pods that came by a migration since are not among those noted.
     *
     * @param here the pods that run here
     * @param placed the pods that the record places here
     */
    boolean isStale(JobRecord record, Set<String> here, Set<String> placed) {
        return id.equals(record.id())
                && record.phase() != JobPhase.ENDING
                && record.numbers().layout() > layout
                && !here.isEmpty()
                && pods.containsAll(here)
                && Collections.disjoint(here, placed);
    }

    /** The next act of a source in a recovery. */
    enum EndAct {
        /** Nothing: no pod must be ended. */
        WAIT,
        /** End all pods of the job, note that, and report it. */
        END,
        /** They were ended: report it again. */
        REPORT
    }

    /** Returns what a source does by a record that it has read after a sync. */
    EndAct next(JobRecord record) {
        if (record.phase() != JobPhase.ENDING) {
            return EndAct.WAIT;
        }
        if (!id.equals(record.id()) || record.numbers().restart() > restart) {
            return EndAct.END;
        }
        // A record that is older than the note is one that was read late.
        return record.numbers().restart() == restart ? EndAct.REPORT : EndAct.WAIT;
    }
}
