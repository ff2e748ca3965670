package io.ppmr.daemon.part;

import io.ppmr.daemon.control.ControlRequest;
import io.ppmr.daemon.jobs.JobSource;
import io.ppmr.daemon.jobs.JobSources;
import io.ppmr.migration.RankSurroundings;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * All parts of one service. It is safe for any thread.
 *
 * @param parts the parts, in the order of their names
 * @param takesJobs whether a trigger that names no job moves their jobs
 */
public record RunningParts(List<ServicePart.Running> parts, boolean takesJobs) {
    public RunningParts {
        parts = List.copyOf(parts);
    }

    /** Creates the directories of each part. */
    public void prepare() throws IOException {
        for (ServicePart.Running part : parts) {
            part.prepare();
        }
    }

    /** Starts the work of each part: the service is ready. */
    public void serve(ServicePart.Ready service) throws IOException {
        for (ServicePart.Running part : parts) {
            part.serve(service);
        }
    }

    /** Passes on the end of a migration at this node, see {@link ServicePart.Running#ended}. */
    public void ended(String migrationId) {
        parts.forEach(part -> part.ended(migrationId));
    }

    /** Ends the work of each part. */
    public void end() {
        parts.forEach(ServicePart.Running::end);
    }

    /** Returns the requests that they answer, by their names. */
    public Map<String, ControlRequest<?>> requests() {
        Map<String, ControlRequest<?>> all = new HashMap<>();
        parts.forEach(part -> all.putAll(part.requests()));
        return all;
    }

    /** Returns the source of the users' jobs of all parts. */
    public JobSources jobs() {
        List<JobSource> sources = parts.stream()
                .map(ServicePart.Running::jobs)
                .flatMap(Optional::stream)
                .toList();
        return new JobSources(sources, takesJobs);
    }

    /** Returns the jobs over several nodes, of the first part that has some. */
    public MemberJobs members() {
        return parts.stream()
                .map(ServicePart.Running::members)
                .flatMap(Optional::stream)
                .findFirst()
                .orElse(MemberJobs.NONE);
    }

    /** Returns the surroundings of ranks, of the first part that has some. */
    public RankSurroundings surroundings() {
        return parts.stream()
                .map(ServicePart.Running::surroundings)
                .flatMap(Optional::stream)
                .findFirst()
                .orElse(RankSurroundings.NONE);
    }
}
