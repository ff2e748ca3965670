package io.ppmr.migration.node;

import io.ppmr.checkpoint.files.CarryPolicy;
import io.ppmr.checkpoint.files.PathPatterns;
import java.util.List;

/**
 * Says what is expected of a job's files that both nodes have for themselves. Immutable.
 *
 * @param equivalent those that may have other content there, where they are only read
 * @param carry those that travel with the job
 */
public record JobFiles(PathPatterns equivalent, CarryPolicy carry) {
    /** The files that name services map into each process that has asked them: each node's own has the same names. */
    public static final List<String> USUALLY_EQUIVALENT =
            List.of("/var/lib/sss/mc/*", "/run/nscd/*", "/var/cache/nscd/*", "/var/db/nscd/*");

    /** The usual ones. */
    public static final JobFiles USUAL = new JobFiles(new PathPatterns(USUALLY_EQUIVALENT), CarryPolicy.NONE);

    /** Returns the same where no file travels with a job: by a checkpointer that could not find it in time. */
    public JobFiles withoutCarried() {
        return new JobFiles(equivalent, CarryPolicy.NONE);
    }
}
