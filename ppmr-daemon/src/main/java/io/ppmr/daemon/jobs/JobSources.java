package io.ppmr.daemon.jobs;

import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.MigrationReport;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * Several sources of users' jobs as one. If two of them have a job of the same name, the first source wins. It is
 * immutable.
 *
 * @param sources the sources, in the order of queries
 * @param taken whether a trigger that names no job moves these jobs
 */
public record JobSources(List<JobSource> sources, boolean taken) {
    /** The sources of a service without announced jobs. */
    public static final JobSources NONE = new JobSources(List.of(), false);

    public JobSources {
        sources = List.copyOf(sources);
    }

    /** Lists the jobs that can be moved. */
    public List<JobName> names() {
        return sources.stream().flatMap(source -> source.names().stream()).toList();
    }

    /** Lists the jobs of one user. */
    public List<JobName> names(String user) {
        return sources.stream().flatMap(source -> source.names(user).stream()).toList();
    }

    /** Returns true if a user has a job by that short or full name. */
    public boolean isOwnedBy(String name, String user) {
        return name != null && sources.stream().anyMatch(source -> source.isOwnedBy(name, user));
    }

    /**
     * Finds the full name of a job, or empty if there is none.
     *
     * @param wanted its name, with or without its user
     * @param onlyOf restricts the search to this user's jobs, or empty for the jobs of all users
     * @throws RequestException if several users' jobs have that name
     */
    public Optional<JobName> named(String wanted, Optional<String> onlyOf) throws RequestException {
        List<JobName> meant = sources.stream()
                .flatMap(source -> source.named(wanted, onlyOf).stream())
                .distinct()
                .toList();
        if (meant.size() > 1) {
            throw new RequestException("several users have announced a job " + wanted + ": name one of "
                    + meant.stream().map(JobName::toString).collect(Collectors.joining(", ")));
        }
        return meant.stream().findFirst();
    }

    /**
     * Returns the current state of a job, or empty if no job has that name.
     *
     * @throws RequestException if the job cannot be moved as its user describes it
     */
    public Optional<ConfiguredJob> find(JobName job) throws RequestException {
        for (JobSource source : sources) {
            Optional<ConfiguredJob> found = source.find(job);
            if (found.isPresent()) {
                return found;
            }
        }
        return Optional.empty();
    }

    /** Creates the directories of each source. */
    public void prepare() throws IOException {
        for (JobSource source : sources) {
            source.prepare();
        }
    }

    /** Passes on the begin of a migration of a user's job, see {@link JobSource#begins}. */
    public void begins(JobName job, List<InetSocketAddress> targets, boolean withoutCluster) throws RequestException {
        for (JobSource source : sources) {
            source.begins(job, targets, withoutCluster);
        }
    }

    /** Passes on the end of a migration of a user's job, see {@link JobSource#ended}. */
    public void ended(JobName job, Optional<MigrationReport> report, List<InetSocketAddress> targets) {
        sources.forEach(source -> source.ended(job, report, targets));
    }
}
