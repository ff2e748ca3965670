package io.ppmr.checkpoint;

import io.ppmr.linux.Command;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Keeps the versions and abilities of tools. Each migration's start queries the target for them, and each run of a tool
 * delays the job. Therefore a program whose file is unchanged is not run again. For any thread.
 */
final class ToolVersions {
    private static final Duration PROBE_LIMIT = Duration.ofSeconds(10);

    private record Known(String file, long lengthBytes, FileTime modified, String words) {}

    /** Versions by the whole command. */
    private final Map<List<String>, Known> known = new ConcurrentHashMap<>();

    /** Runs a command to its end. */
    @FunctionalInterface
    private interface Runner {
        Command.CommandResult run(List<String> whole) throws IOException, CheckpointException;
    }

    /** Returns the first line that a command prints for its version, or empty if it does not run or fails. */
    Optional<String> of(List<String> command) {
        try {
            return Optional.of(words(
                    command, List.of("--version"), whole -> Command.of(whole).runUninterruptibly(PROBE_LIMIT)));
        } catch (IOException | CheckpointException e) {
            // The program was just removed, or cannot be run.
            return Optional.empty();
        }
    }

    /**
     * Returns the reason why a command fails with these arguments, or empty if it succeeds. It runs where checkpoints
     * run, because this service's unit may deny what it tries. CRIU also keeps what it finds in a file for later runs.
     */
    Optional<String> failure(List<String> command, List<String> arguments, CommandStarter starter) {
        try {
            words(command, arguments, whole -> starter.run(whole, PROBE_LIMIT));
            return Optional.empty();
        } catch (IOException | CheckpointException e) {
            return Optional.of(String.valueOf(e.getMessage()));
        }
    }

    private String words(List<String> command, List<String> arguments, Runner runner)
            throws IOException, CheckpointException {
        List<String> whole = new ArrayList<>(command);
        whole.addAll(arguments);
        Path program = ToolKit.find(command.get(0)).orElseThrow(() -> new IOException(command.get(0) + " is missing"));
        BasicFileAttributes now = Files.readAttributes(program, BasicFileAttributes.class);
        Known before = known.get(whole);
        if (before != null
                && before.lengthBytes == now.size()
                && before.modified.equals(now.lastModifiedTime())
                && before.file.equals(String.valueOf(now.fileKey()))) {
            return before.words;
        }
        Command.CommandResult result = runner.run(whole);
        List<String> lines = result.output().lines().toList();
        if (!result.succeeded()) {
            throw new IOException(
                    lines.isEmpty() ? "it ends with exit status " + result.exitCode() : lines.get(lines.size() - 1));
        }
        String first = lines.isEmpty() ? "nothing" : lines.get(0);
        known.put(
                List.copyOf(whole),
                new Known(String.valueOf(now.fileKey()), now.size(), now.lastModifiedTime(), first));
        return first;
    }
}
