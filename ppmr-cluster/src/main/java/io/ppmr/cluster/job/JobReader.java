package io.ppmr.cluster.job;

import io.ppmr.daemon.jobs.JobName;
import java.io.IOException;
import java.util.Optional;
import java.util.Set;

/** Reads the records of jobs over several nodes for a service, and watches what it has read. Safe for any thread. */
public interface JobReader {
    /**
     * A record as it was read.
     *
     * @param record the record
     * @param version its version
     */
    record ReadRecord(JobRecord record, long version) {}

    /**
     * Reads a job's record again, and watches it. The server first gets all changes that the ensemble has taken.
     *
     * @return empty if there is none, or if it has another form
     */
    Optional<ReadRecord> read(JobName job) throws IOException, InterruptedException;

    /** Lists the names of a job's sets. */
    Set<String> sets(JobName job) throws IOException, InterruptedException;

    /** Lists the pods of a node in a layout. */
    Set<String> pods(JobName job, long layout, String host) throws IOException, InterruptedException;

    /** Lists the records of the jobs whose restarts a node takes part in, and watches the list. */
    Set<String> orders(String host) throws IOException, InterruptedException;
}
