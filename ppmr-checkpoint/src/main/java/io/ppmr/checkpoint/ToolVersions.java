package io.ppmr.checkpoint;

import io.ppmr.os.Command;
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
 * Remembers what tools say of their version and abilities. A target is asked for it at the start of every
 * migration, when each run of a tool holds the job up: a program whose file is the same as before is not run again. For
 * any thread.
 */
final class ToolVersions {
    private static final Duration PROBE_LIMIT = Duration.ofSeconds(10);

    private record Known(String file, long lengthBytes, FileTime modified, String words) {}

    /** By the whole command. */
    private final Map<List<String>, Known> known = new ConcurrentHashMap<>();

    /** The first line that a command prints when it is asked for its version; empty if it does not run. */
    Optional<String> of(List<String> command) {
        return says(command, List.of("--version"));
    }

    /** The first line that a command prints when it is run with these arguments; empty if it does not run or fails. */
    Optional<String> says(List<String> command, List<String> arguments) {
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
            Optional<String> words = ask(whole);
            words.ifPresent(line -> known.put(
                    List.copyOf(whole),
                    new Known(String.valueOf(now.fileKey()), now.size(), now.lastModifiedTime(), line)));
            return words;
        } catch (IOException e) {
            // It has just been taken away, or cannot be run.
            return Optional.empty();
        }
    }

    private static Optional<String> ask(List<String> whole) throws IOException {
        Command.CommandResult result = Command.of(whole).runUninterruptibly(PROBE_LIMIT);
        return result.succeeded()
                ? Optional.of(result.output().lines().findFirst().orElse("nothing"))
                : Optional.empty();
    }
}
