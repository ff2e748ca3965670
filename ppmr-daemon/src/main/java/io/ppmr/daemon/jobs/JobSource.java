package io.ppmr.daemon.jobs;

import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.MigrationReport;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Optional;

/**
 * Finds jobs outside of the configuration. Users announce them while the service runs. Receives the ends of users'
 * jobs, also of other sources. It is safe for any thread. Each call reads everything again.
 */
public interface JobSource {
    /** Lists the jobs that can be moved. Users alternate, so one user's many jobs do not delay another's first. */
    List<JobName> names();

    /** Lists the jobs of one user. */
    List<JobName> names(String user);

    /** Returns true if a user has a job by that short or full name. */
    boolean isOwnedBy(String name, String user);

    /**
     * Finds the jobs by a name.
     *
     * @param wanted the short or the full name
     * @param onlyOf restricts the search to this user's jobs, or empty for the jobs of all users
     */
    List<JobName> named(String wanted, Optional<String> onlyOf);

    /**
     * Returns the current state of a job, or empty if this source has no job of that name.
     *
     * @throws RequestException if the job cannot be moved as its user describes it
     */
    Optional<ConfiguredJob> find(JobName job) throws RequestException;

    /** Creates its directories, before the service accepts requests. */
    default void prepare() throws IOException {}

    /**
     * Receives the begin of a migration of a user's job, before the migration touches its processes. May block for some
     * seconds.
     *
     * @param targets the targets of the order, or empty for the configured targets
     * @param withoutCluster whether the job is moved even if no controller can note it
     * @throws RequestException if the job cannot be moved now
     */
    default void begins(JobName job, List<InetSocketAddress> targets, boolean withoutCluster) throws RequestException {}

    /**
     * Receives the end of a migration of a user's job.
     *
     * @param report its report, or empty if there is none
     * @param targets the targets of the order, or empty for the configured targets
     */
    default void ended(JobName job, Optional<MigrationReport> report, List<InetSocketAddress> targets) {}
}
