package io.ppmr.daemon.jobs;

import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.MigrationReport;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * Several sources of users' jobs as one. Where two of them have a job of one name, the first one's is meant. Immutable.
 *
 * @param sources in the order in which they are asked
 * @param taken whether a trigger that names no job moves these jobs
 */
public record JobSources(List<JobSource> sources, boolean taken) {
    /** A service to which users bring no jobs. */
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

    /** Returns true if a user has a job by that name, the short or the full one. */
    public boolean isOwnedBy(String name, String user) {
        return name != null && sources.stream().anyMatch(source -> source.isOwnedBy(name, user));
    }

    /**
     * Finds the full name of the job that is meant; empty if there is none.
     *
     * @param wanted what it is called, with or without its user
     * @param onlyOf the user whose jobs alone are meant; empty for all users' jobs
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
     * Gives a job as it is now; empty if there is none of that name.
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

    /** Has each make what it needs on the disk. */
    public void prepare() throws IOException {
        for (JobSource source : sources) {
            source.prepare();
        }
    }

    /** A migration of a user's job begins. */
    public void begins(JobName job) {
        sources.forEach(source -> source.begins(job));
    }

    /** A migration of a user's job has ended; the arguments are those of {@link JobSource#ended}. */
    public void ended(JobName job, Optional<MigrationReport> report, List<InetSocketAddress> targets) {
        sources.forEach(source -> source.ended(job, report, targets));
    }
}
