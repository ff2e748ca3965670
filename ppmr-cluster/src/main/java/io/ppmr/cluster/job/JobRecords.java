package io.ppmr.cluster.job;

import java.io.IOException;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;

/**
 * The records of jobs over several nodes in the ensemble, for a controller. Each change is one transaction that
 * requires
 * the version of the job's record that was read. Safe for any thread.
 */
public interface JobRecords {
    /**
     * A job as it was read.
     *
     * @param version the version of its record
     * @param record the record
     * @param places the pods of each node, by layout
     * @param sets its sets, by their names
     */
    record StoredJob(
            int version, String record, Map<Long, Map<String, Set<String>>> places, Map<String, byte[]> sets) {}

    /** The result of a change. */
    enum Written {
        /** It was made. */
        DONE,
        /** Another controller has changed the job since it was read. */
        CHANGED,
        /** It is unknown whether it was made: read the job again. */
        UNKNOWN
    }

    /**
     * A change of a job.
     *
     * @param record the new record, or empty if it stays as it is
     * @param layout the layout of the changed places
     * @param places the new pods of nodes; without pods a place is removed
     * @param known the nodes that have a place in that layout now
     * @param newSets new sets, by their names
     * @param changedSets sets whose state has changed
     * @param oldSets sets that are removed
     */
    record JobChange(
            Optional<byte[]> record,
            long layout,
            Map<String, Set<String>> places,
            Set<String> known,
            Map<String, byte[]> newSets,
            Map<String, byte[]> changedSets,
            Set<String> oldSets) {}

    /** Reads all jobs, by the names of their records. */
    Map<String, StoredJob> read() throws IOException;

    /** Reads a job. Returns empty if there is none. */
    Optional<StoredJob> read(String key) throws IOException;

    /** Makes the record of a new job. Returns CHANGED if there is one. */
    Written create(String key, byte[] record);

    /**
     * Writes the plan of a restart: the pods of each node in a layout that is not in force yet. No transaction, since
     * no service accepts it before the job's record names it.
     */
    Written plan(String key, long layout, Map<String, Set<String>> places);

    /** Makes a change if the job's record has this version. Blocks for some seconds at most. */
    Written write(String key, int version, JobChange change);

    /** Removes the layouts that are no longer in force. Their nodes read that in the job's record. */
    void removeLayouts(String key, Consumer<Map<Long, Map<String, Set<String>>>> keep);

    /** Removes a job with all its records, if its record has this version. */
    Written remove(String key, int version);

    /** Names the restarts that a node takes part in: the records of their jobs. */
    Written order(String host, Set<String> keys);

    /** Reads the restarts that each node takes part in. */
    Map<String, Set<String>> orders() throws IOException;
}
