package io.ppmr.migration.node;

import io.ppmr.checkpoint.files.CarryPolicy;
import io.ppmr.checkpoint.files.PathPatterns;
import io.ppmr.linux.config.Key;
import io.ppmr.linux.config.Section;
import java.util.List;

/**
 * The expectations about a job's files of which each node has its own. Immutable.
 *
 * @param equivalent files that may have other content at the target, if they are only read
 * @param carry files that move with the job
 */
@Section(
        name = "files",
        doc = "The files that jobs have open and that exist on each node separately"
                + " ([CRIU](../internals/criu.md#files)).")
public record JobFiles(
        @Key(
                value = "[\"" + JobFiles.SSSD + "\", \"" + JobFiles.NSCD + "\", \"" + JobFiles.NSCD_CACHE + "\", \""
                        + JobFiles.NSCD_DB + "\"]",
                doc = "the files that may differ at the target, if a job only reads them",
                example = "[\"/opt/licenses/*\"]")
        PathPatterns equivalent,

        CarryPolicy carry) {
    // The files that name services map into each client process. Each node's files have the same names.
    private static final String SSSD = "/var/lib/sss/mc/*";
    private static final String NSCD = "/run/nscd/*";
    private static final String NSCD_CACHE = "/var/cache/nscd/*";
    private static final String NSCD_DB = "/var/db/nscd/*";

    /** The default expectations. */
    public static final JobFiles USUAL =
            new JobFiles(new PathPatterns(List.of(SSSD, NSCD, NSCD_CACHE, NSCD_DB)), CarryPolicy.NONE);

    /** Returns the expectations without moved files, for a checkpointer that could not find them in time. */
    public JobFiles withoutCarried() {
        return new JobFiles(equivalent, CarryPolicy.NONE);
    }
}
