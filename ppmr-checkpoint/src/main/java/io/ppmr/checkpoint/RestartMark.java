package io.ppmr.checkpoint;

import io.ppmr.checkpoint.SignalSender.Signal;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;

/**
 * The mark that every restart has in its environment, and with it whatever it starts: the restart's work directory.
 * What has left the restart's session and lost its parent is still known by it; proc_pid_environ(5). Immutable.
 */
final class RestartMark {
    private static final String VARIABLE = "PPMR_RESTART=";
    private static final Path PROC = Path.of("/proc");

    private final String name;
    private final Predicate<String> marks;

    private RestartMark(String name, Predicate<String> marks) {
        this.name = name;
        this.marks = marks;
    }

    /** That of one restart. */
    static RestartMark of(RestartTask task) {
        String mark = variable(task);
        return new RestartMark(mark, mark::equals);
    }

    /** Those of all restarts with work directories under this one. */
    static RestartMark under(Path directory) {
        String mark = VARIABLE + directory + "/";
        return new RestartMark(mark, variable -> variable.startsWith(mark));
    }

    /** How it stands in the environment. */
    static String variable(RestartTask task) {
        return VARIABLE + task.workDirectory();
    }

    /** Ends every process that has it; looks again until none is left, since one may fork as it is killed. */
    void endAll(ToolKit kit) throws CheckpointException {
        boolean gone = Patience.until(kit.timing().rollback(), () -> {
            List<ProcessIdentity> left = find(kit.table());
            kit.signals().sendAll(Signal.KILL, left);
            return left.isEmpty();
        });
        if (!gone) {
            throw new CheckpointException("the processes with " + name + " in their environment do not end. Remedy: a"
                    + " process in state D waits for its filesystem; abort that mount");
        }
    }

    private List<ProcessIdentity> find(ProcessTable table) throws CheckpointException {
        List<ProcessIdentity> marked = new ArrayList<>();
        try (DirectoryStream<Path> processes = Files.newDirectoryStream(PROC, "[0-9]*")) {
            for (Path process : processes) {
                if (environment(process).stream().anyMatch(marks)) {
                    table.find(Integer.parseInt(process.getFileName().toString()))
                            .ifPresent(marked::add);
                }
            }
            return marked;
        } catch (IOException e) {
            throw new CheckpointException("cannot list " + PROC, e);
        }
    }

    /** Of a process that has ended meanwhile, or may not be looked at, nothing. */
    private static List<String> environment(Path process) {
        try {
            String all = Files.readString(process.resolve("environ"), StandardCharsets.ISO_8859_1);
            return List.of(all.split("\0", -1));
        } catch (IOException e) {
            return List.of();
        }
    }
}
