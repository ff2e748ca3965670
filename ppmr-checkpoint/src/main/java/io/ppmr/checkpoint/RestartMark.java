package io.ppmr.checkpoint;

import io.ppmr.checkpoint.Checkpointer.RestartTask;
import io.ppmr.os.ProcessIdentity;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * The mark that every restart has in its environment, and with it whatever it starts: the restart's work directory.
 * What has left the restart's session and lost its parent is still known by it; proc_pid_environ(5). Immutable.
 */
final class RestartMark {
    private static final String VARIABLE = "PPMR_RESTART=";

    private final String name;
    private final boolean whole;

    private RestartMark(String name, boolean whole) {
        this.name = name;
        this.whole = whole;
    }

    /** Returns the mark of one restart. */
    static RestartMark of(RestartTask task) {
        return new RestartMark(variable(task), true);
    }

    /** Those of all restarts with work directories under this one. */
    static RestartMark under(Path directory) {
        return new RestartMark(VARIABLE + directory + "/", false);
    }

    /** Returns it as a variable of the environment, with its value. */
    static String variable(RestartTask task) {
        return VARIABLE + task.workDirectory();
    }

    /** Ends every process that has it; looks again until none is left, since one may fork as it is killed. */
    void endAll(ProcessTable table, SignalSender signals, Duration limit) throws CheckpointException {
        if (!signals.killAll(limit, () -> find(table))) {
            throw new CheckpointException("the processes with " + name + " in their environment do not end. Remedy: a"
                    + " process in state D waits for its filesystem; abort that mount");
        }
    }

    private List<ProcessIdentity> find(ProcessTable table) {
        Map<String, List<ProcessIdentity>> marked = table.marked();
        return whole
                ? marked.getOrDefault(name, List.of())
                : marked.entrySet().stream()
                        .filter(mark -> mark.getKey().startsWith(name))
                        .flatMap(mark -> mark.getValue().stream())
                        .toList();
    }

    /** The marks that a process has in its environment, which is its own to change: none, one, or several. */
    static List<String> of(int pid) {
        String environment = ProcessTable.environment(pid);
        List<String> marks = new ArrayList<>();
        int at = environment.indexOf("\0" + VARIABLE);
        while (at >= 0) {
            int end = environment.indexOf('\0', at + 1);
            marks.add(environment.substring(at + 1, end));
            at = environment.indexOf("\0" + VARIABLE, end);
        }
        return marks;
    }
}
