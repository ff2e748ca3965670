package io.ppmr.daemon.jobs;

import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.MigrationReport;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Optional;

/**
 * Finds jobs that no configuration names and that users bring while the service runs. It is told what becomes of the
 * users' jobs, those of other sources too. Safe for any thread; everything is read again at each call.
 */
public interface JobSource {
    /** Lists the jobs that can be moved. Users take turns, so no user's many jobs come before another user's first. */
    List<JobName> names();

    /** Lists the jobs of one user. */
    List<JobName> names(String user);

    /** Returns true if a user has a job by that name, the short or the full one. */
    boolean isOwnedBy(String name, String user);

    /**
     * Finds the jobs that are meant.
     *
     * @param wanted the short name, or the full one
     * @param onlyOf the user whose jobs alone are meant; empty for all users' jobs
     */
    List<JobName> named(String wanted, Optional<String> onlyOf);

    /**
     * Gives a job as it is now; empty if this source has none of that name.
     *
     * @throws RequestException if the job cannot be moved as its user describes it
     */
    Optional<ConfiguredJob> find(JobName job) throws RequestException;

    /** Makes what it needs on the disk, before the service takes requests. */
    default void prepare() throws IOException {}

    /** A migration of a user's job begins: nothing has been done to its processes yet. */
    default void begins(JobName job) {}

    /**
     * A migration of a user's job has ended.
     *
     * @param report how it ended; empty if no report could be made
     * @param targets where it was to go; empty where the configuration's targets were asked
     */
    default void ended(JobName job, Optional<MigrationReport> report, List<InetSocketAddress> targets) {}
}
