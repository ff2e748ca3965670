package io.ppmr.checkpoint;

import io.ppmr.os.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;

/**
 * A note in an attempt's work directory of the processes that a service has started for it, so that a service that
 * finds this one dead can end them by {@link AbandonedCommand}. A line that a crash has torn is not counted.
 */
public final class StartedCommands {
    private static final String FILE = "started";
    private static final int WORDS = 4;

    private StartedCommands() {}

    /** Whether a work directory has such a note. */
    public static boolean isNoted(Path workDirectory) {
        return Files.exists(workDirectory.resolve(FILE));
    }

    /** Adds to the note. */
    public static void note(Path workDirectory, List<ProcessIdentity> started) throws IOException {
        List<String> lines = started.stream()
                .map(process -> process.bootId() + " " + process.pidNamespace() + " " + process.pid() + " "
                        + process.startTimeTicks())
                .toList();
        Files.write(workDirectory.resolve(FILE), lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    /** What is noted; nothing where there is no note. */
    public static List<ProcessIdentity> read(Path workDirectory) throws IOException {
        List<ProcessIdentity> started = new ArrayList<>();
        if (!isNoted(workDirectory)) {
            return started;
        }
        String text = Files.readString(workDirectory.resolve(FILE));
        for (String line : text.substring(0, text.lastIndexOf('\n') + 1).lines().toList()) {
            String[] words = line.split(" ", -1);
            if (words.length != WORDS) {
                throw new IOException(workDirectory.resolve(FILE) + " has a line that names no process: '" + line
                        + "'. Remedy: see by hand that nothing of this attempt runs, and take the folder away");
            }
            started.add(new ProcessIdentity(
                    words[0], Long.parseLong(words[1]), Integer.parseInt(words[2]), Long.parseLong(words[3])));
        }
        return started;
    }

    /** Takes the note away. */
    public static void forget(Path workDirectory) throws IOException {
        Files.deleteIfExists(workDirectory.resolve(FILE));
    }
}
