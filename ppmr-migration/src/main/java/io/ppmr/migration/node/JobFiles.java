package io.ppmr.migration.node;

import io.ppmr.checkpoint.files.CarryPolicy;
import io.ppmr.checkpoint.files.PathPatterns;
import io.ppmr.os.config.Key;
import io.ppmr.os.config.Section;
import java.util.List;

/**
 * Says what is expected of a job's files that both nodes have for themselves. Immutable.
 *
 * @param equivalent those that may have other content there, where they are only read
 * @param carry those that travel with the job
 */
@Section(
        name = "files",
        doc = "The files that jobs have open and that each node has for itself ([CRIU](../internals/criu.md#files)).")
public record JobFiles(
        @Key(
                value = "[\"" + JobFiles.SSSD + "\", \"" + JobFiles.NSCD + "\", \"" + JobFiles.NSCD_CACHE + "\", \""
                        + JobFiles.NSCD_DB + "\"]",
                doc = "those that may have other content at the target, where a job only reads them",
                example = "[\"/opt/licenses/*\"]")
        PathPatterns equivalent,

        CarryPolicy carry) {
    // The files that name services map into each process that has asked them: each node's own has the same names.
    private static final String SSSD = "/var/lib/sss/mc/*";
    private static final String NSCD = "/run/nscd/*";
    private static final String NSCD_CACHE = "/var/cache/nscd/*";
    private static final String NSCD_DB = "/var/db/nscd/*";

    /** The usual ones. */
    public static final JobFiles USUAL =
            new JobFiles(new PathPatterns(List.of(SSSD, NSCD, NSCD_CACHE, NSCD_DB)), CarryPolicy.NONE);

    /** Returns the same where no file travels with a job: by a checkpointer that could not find it in time. */
    public JobFiles withoutCarried() {
        return new JobFiles(equivalent, CarryPolicy.NONE);
    }
}
