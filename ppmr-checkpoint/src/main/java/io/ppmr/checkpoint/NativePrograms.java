package io.ppmr.checkpoint;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * Finds the small native helpers: {@code ppmr-launch}, {@code ppmr-look}, {@code ppmr-place}, {@code ppmr-rank-init},
 * {@code ppmr-pages}; one library, {@code ppmr-criu-limits.so}; and the programs of optional parts. Each one's source
 * says what it does and what its exit status means.
 *
 * @param directory the directory that holds them
 */
public record NativePrograms(Path directory) {
    /** The system property that the launcher sets to the directory. */
    public static final String DIRECTORY_PROPERTY = "ppmr.native.dir";

    public NativePrograms {
        directory = directory.toAbsolutePath();
    }

    /** The directory that the launcher named. */
    public static NativePrograms fromSystemProperty() {
        String directory = System.getProperty(DIRECTORY_PROPERTY);
        if (directory == null) {
            throw new IllegalStateException("the system property " + DIRECTORY_PROPERTY
                    + " is not set, so the native helpers cannot be found. Remedy: start through the launcher");
        }
        return new NativePrograms(Path.of(directory));
    }

    /** Starts a command in a session of its own, as the job's user. */
    public Path launch() {
        return directory.resolve("ppmr-launch");
    }

    /** Looks at files as a job's user. */
    public Path look() {
        return directory.resolve("ppmr-look");
    }

    /** Puts files of a job at their places as its user. */
    public Path place() {
        return directory.resolve("ppmr-place");
    }

    /** Makes a PID and mount namespace for one restored rank. */
    public Path rankInit() {
        return directory.resolve("ppmr-rank-init");
    }

    /** Passes CRIU's memory pages through an image directory while they are restored. */
    public Path pages() {
        return directory.resolve("ppmr-pages");
    }

    /** Returns a program of an optional part, which lies beside the others. */
    public Path of(String program) {
        return directory.resolve(program);
    }

    /** Is preloaded into CRIU where root lacks CAP_SYS_RESOURCE. */
    public Path criuLimits() {
        return directory.resolve("ppmr-criu-limits.so");
    }

    /** Returns which helper is missing, if one is. */
    public Optional<String> missing() {
        return Stream.of(launch(), look(), place(), rankInit(), pages())
                .filter(program -> !Files.isExecutable(program))
                .map(program -> "the native helper " + program + " is missing")
                .findFirst();
    }
}
