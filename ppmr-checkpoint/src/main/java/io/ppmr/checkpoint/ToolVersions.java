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
 * What tools say of their version. A target is asked for it at the start of every migration, when each run of a tool
 * holds the job up: a program whose file is the same as before is not run again. For any thread.
 */
final class ToolVersions {
    private static final Duration PROBE_LIMIT = Duration.ofSeconds(10);

    private record Known(String file, long lengthBytes, FileTime modified, String version) {}

    private final Map<List<String>, Known> known = new ConcurrentHashMap<>();

    /** The first line that a command prints when it is asked for its version; empty if it does not run. */
    Optional<String> of(List<String> command) {
        Optional<Path> program = ToolKit.find(command.get(0));
        if (program.isEmpty()) {
            return Optional.empty();
        }
        try {
            BasicFileAttributes now = Files.readAttributes(program.get(), BasicFileAttributes.class);
            Known before = known.get(command);
            if (before != null
                    && before.lengthBytes == now.size()
                    && before.modified.equals(now.lastModifiedTime())
                    && before.file.equals(String.valueOf(now.fileKey()))) {
                return Optional.of(before.version);
            }
            Optional<String> version = ask(command);
            version.ifPresent(line -> known.put(
                    List.copyOf(command),
                    new Known(String.valueOf(now.fileKey()), now.size(), now.lastModifiedTime(), line)));
            return version;
        } catch (IOException e) {
            // It has just been taken away, or cannot be run.
            return Optional.empty();
        }
    }

    private static Optional<String> ask(List<String> command) throws IOException {
        List<String> whole = new ArrayList<>(command);
        whole.add("--version");
        Command.Result result = Command.of(whole).runUninterruptibly(PROBE_LIMIT);
        return result.succeeded()
                ? Optional.of(result.output().lines().findFirst().orElse("no version"))
                : Optional.empty();
    }
}
