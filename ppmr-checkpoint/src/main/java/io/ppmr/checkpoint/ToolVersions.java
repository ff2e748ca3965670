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

    /** Returns the first line that a command prints for its version, or empty if it does not run. */
    Optional<String> of(List<String> command) {
        return firstLineOf(command, List.of("--version"));
    }

    /** Returns the first line that a command prints with these arguments, or empty if it does not run or fails. */
    Optional<String> firstLineOf(List<String> command, List<String> arguments) {
        List<String> whole = new ArrayList<>(command);
        whole.addAll(arguments);
        Optional<Path> program = ToolKit.find(command.get(0));
        if (program.isEmpty()) {
            return Optional.empty();
        }
        try {
            BasicFileAttributes now = Files.readAttributes(program.get(), BasicFileAttributes.class);
            Known before = known.get(whole);
            if (before != null
                    && before.lengthBytes == now.size()
                    && before.modified.equals(now.lastModifiedTime())
                    && before.file.equals(String.valueOf(now.fileKey()))) {
                return Optional.of(before.words);
            }
            Optional<String> words = run(whole);
            words.ifPresent(line -> known.put(
                    List.copyOf(whole),
                    new Known(String.valueOf(now.fileKey()), now.size(), now.lastModifiedTime(), line)));
            return words;
        } catch (IOException e) {
            // The program was just removed, or cannot be run.
            return Optional.empty();
        }
    }

    private static Optional<String> run(List<String> whole) throws IOException {
        Command.CommandResult result = Command.of(whole).runUninterruptibly(PROBE_LIMIT);
        return result.succeeded()
                ? Optional.of(result.output().lines().findFirst().orElse("nothing"))
                : Optional.empty();
    }
}
