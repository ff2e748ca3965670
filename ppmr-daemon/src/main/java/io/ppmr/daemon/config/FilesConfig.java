package io.ppmr.daemon.config;

import io.ppmr.checkpoint.files.CarryPolicy;
import io.ppmr.checkpoint.files.PathPatterns;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.config.file.ConfigSection;
import io.ppmr.daemon.config.file.ConfigSection.ConfigKey;
import io.ppmr.daemon.config.file.ValueType;
import io.ppmr.migration.node.JobFiles;
import java.util.List;

/** The keys of the files that each node has for itself, in both roles' files, and how they are read. */
final class FilesConfig {
    /** The keys at a source. */
    static final ConfigSection OF_SOURCE = ConfigSection.once(
            "files", "The files that jobs have open and that each node has for itself ([CRIU](criu.md#files)).");

    private static final ConfigKey<PathPatterns> EQUIVALENT = OF_SOURCE.withDefault(
            "equivalent",
            ValueType.PATHS,
            JobFiles.USUALLY_EQUIVALENT,
            "those that may have other content at the target, where a job only reads them");
    private static final ConfigKey<PathPatterns> COPY = OF_SOURCE.withDefault(
            "copy",
            ValueType.PATHS,
            List.of(),
            "those that travel with a job that has them open or mapped, such as [\"/local/scratch/**\"]; the target's"
                    + " configuration has to name them, too ([CRIU](criu.md#files-that-travel-with-the-job))");
    private static final ConfigKey<Long> COPY_LIMIT = OF_SOURCE.withDefault(
            "copy_limit", ValueType.SIZE, "1g", "how much of them a migration carries, without the holes of the files");
    private static final ConfigKey<Boolean> REPLACE = OF_SOURCE.withDefault(
            "replace",
            ValueType.FLAG,
            false,
            "whether they may take the place of files of the job's user at the target, if its configuration says so,"
                    + " too");

    /** The keys at a target. */
    static final ConfigSection OF_TARGET =
            ConfigSection.once("files", "The files of jobs that may be put at their places on this node.");

    private static final ConfigKey<PathPatterns> COPY_HERE = OF_TARGET.withDefault(
            "copy",
            ValueType.PATHS,
            List.of(),
            "those that may come with a job, such as [\"/local/scratch/**\"]; they are written as the job's user");
    private static final ConfigKey<Long> COPY_LIMIT_HERE = OF_TARGET.withDefault(
            "copy_limit", ValueType.SIZE, "1g", "how much of them may come with a migration, without their holes");
    private static final ConfigKey<Boolean> REPLACE_HERE = OF_TARGET.withDefault(
            "replace",
            ValueType.FLAG,
            false,
            "whether they may take the place of files of the job's user; those are put back if the migration is rolled"
                    + " back");

    private FilesConfig() {}

    /** Reads them in a source's file. */
    static JobFiles ofSource(ConfigFile file) {
        ConfigFile.Section section = file.section(OF_SOURCE);
        return new JobFiles(section.get(EQUIVALENT), policy(section, COPY, COPY_LIMIT, REPLACE));
    }

    /** Reads them in a target's file. */
    static CarryPolicy ofTarget(ConfigFile file) {
        return policy(file.section(OF_TARGET), COPY_HERE, COPY_LIMIT_HERE, REPLACE_HERE);
    }

    private static CarryPolicy policy(
            ConfigFile.Section section,
            ConfigKey<PathPatterns> copy,
            ConfigKey<Long> limit,
            ConfigKey<Boolean> replace) {
        PathPatterns copied = section.get(copy);
        Long limitBytes = section.get(limit);
        Boolean replaces = section.get(replace);
        // What is wrong in the file is told with its other mistakes.
        return copied == null || limitBytes == null || replaces == null
                ? CarryPolicy.NONE
                : new CarryPolicy(copied, limitBytes, replaces);
    }
}
