package io.ppmr.daemon.control;

import java.io.IOException;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;

/**
 * The package that is installed, compared with the one that a service runs in. An upgrade does not
 * restart a service that moves or holds a job, which continues in a copy of its own files. Any thread.
 */
public final class InstalledVersion {
    private static final Path COMMAND = Path.of("/usr/bin/ppmr");
    private static final String FACTS = "package.properties";

    private InstalledVersion() {}

    /** Returns the installed version if that is not the one of this process, and otherwise null. */
    public static String waiting(Map<String, String> environment) {
        String home = environment.get("PPMR_HOME");
        return home == null ? null : waiting(Path.of(home), COMMAND).orElse(null);
    }

    /**
     * Compares two trees.
     *
     * @param home the tree of this process
     * @param command the link of the package to its launcher
     */
    static Optional<String> waiting(Path home, Path command) {
        try {
            Path own = home.resolve(FACTS);
            // A service that was not started out of a package has no version that could wait.
            if (!Files.exists(own) || !Files.exists(command)) {
                return Optional.empty();
            }
            Path installed = command.toRealPath().resolveSibling(FACTS);
            return !Files.exists(installed) || Files.mismatch(own, installed) < 0
                    ? Optional.empty()
                    : Optional.of(version(installed));
        } catch (IOException e) {
            // In the middle of an upgrade the files come and go.
            return Optional.empty();
        }
    }

    private static String version(Path facts) throws IOException {
        Properties read = new Properties();
        try (Reader in = Files.newBufferedReader(facts, StandardCharsets.UTF_8)) {
            read.load(in);
        }
        return read.getProperty("version", "unknown");
    }
}
