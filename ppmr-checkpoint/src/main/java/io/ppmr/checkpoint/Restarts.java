package io.ppmr.checkpoint;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** Starts restart commands: whatever goes wrong before they are watched, no namespace is left behind. */
final class Restarts {
    private Restarts() {}

    /** @param user as whom the command runs; empty for the service's own */
    static RankCommand start(
            String name,
            List<String> command,
            Optional<JobUser> user,
            RestartTask task,
            ToolKit kit,
            Optional<RankNamespace> namespace,
            RestartSteps steps)
            throws CheckpointException {
        ToolProcess tool;
        try {
            tool = ToolProcess.start(name, marked(command, task), task.workDirectory(), user, kit);
        } catch (CheckpointException e) {
            if (namespace.isPresent()) {
                namespace.get().end(kit.table(), kit.signals(), kit.timing().rollback());
            }
            throw e;
        }
        return RunningCommand.watch(
                "restart of rank " + task.rank(),
                tool,
                namespace.map(RankNamespace::init),
                steps,
                task.deadline(),
                kit);
    }

    /** Whatever the command starts, in whatever session, can be found again by its environment. */
    private static List<String> marked(List<String> command, RestartTask task) {
        List<String> marked = new ArrayList<>(command);
        marked.addAll(command.indexOf("--"), List.of("--env", RestartMark.variable(task)));
        return marked;
    }
}
