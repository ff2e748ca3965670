package io.ppmr.checkpoint;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * Finds the small native helpers: {@code ppmr-launch}, {@code ppmr-look}, {@code ppmr-place}, {@code ppmr-rank-init}
 * and {@code ppmr-pages}. It also finds one library, {@code ppmr-criu-limits.so}, and the programs of optional parts.
 * Each one's source describes its work and its exit status.
 *
 * @param directory directory of the helpers
 */
public record NativePrograms(Path directory) {
    /** The system property that the launcher sets to the directory. */
    public static final String DIRECTORY_PROPERTY = "ppmr.native.dir";

    public NativePrograms {
        directory = directory.toAbsolutePath();
    }

    /** Returns the helpers in the launcher's directory. */
    public static NativePrograms fromSystemProperty() {
        String directory = System.getProperty(DIRECTORY_PROPERTY);
        if (directory == null) {
            throw new IllegalStateException("the system property " + DIRECTORY_PROPERTY
                    + " is not set, so the native helpers cannot be found. Remedy: start through the launcher");
        }
        return new NativePrograms(Path.of(directory));
    }

    /** Returns the program that starts a command in its own session, as the job's user. */
    public Path launch() {
        return directory.resolve("ppmr-launch");
    }

    /** Returns the program that inspects files as a job's user. */
    public Path look() {
        return directory.resolve("ppmr-look");
    }

    /** Returns the program that places files of a job as its user. */
    public Path place() {
        return directory.resolve("ppmr-place");
    }

    /** Returns the program that makes a PID and mount namespace for one restored rank. */
    public Path rankInit() {
        return directory.resolve("ppmr-rank-init");
    }

    /** Returns the program that passes CRIU's memory pages through an image directory during a restore. */
    public Path pages() {
        return directory.resolve("ppmr-pages");
    }

    /** Returns a program of an optional part, which is in the same directory. */
    public Path of(String program) {
        return directory.resolve(program);
    }

    /** Returns the library that is preloaded into CRIU if root lacks CAP_SYS_RESOURCE. */
    public Path criuLimits() {
        return directory.resolve("ppmr-criu-limits.so");
    }

    /** Returns a missing helper, if there is one. */
    public Optional<String> missing() {
        return Stream.of(launch(), look(), place(), rankInit(), pages())
                .filter(program -> !Files.isExecutable(program))
                .map(program -> "the native helper " + program + " is missing")
                .findFirst();
    }
}
