package io.ppmr.checkpoint;

import io.ppmr.linux.ProcessIdentity;
import io.ppmr.linux.SecretWords;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A command of the site, such as a job's hook or a fence. It runs without a shell, in its own session, to a deadline.
 * It is started in the same way as checkpoint and restart commands, so under systemd it has none of the service's
 * restrictions. Its output goes to a file of the service and, line by line, to the log. Of a long output, only the end
 * is kept. Its working directory is a scratch folder of its user. Immutable, for any thread.
 *
 * @param name name for messages and its output's file
 * @param words the program and its arguments
 * @param user the user that it runs as; empty for the service's own user
 * @param deadline time after which it is killed with all its descendants
 */
public record SiteCommand(String name, List<String> words, Optional<JobUser> user, Duration deadline) {
    private static final Logger LOG = LoggerFactory.getLogger(SiteCommand.class);
    private static final Duration KILL_LIMIT = Duration.ofSeconds(5);

    public SiteCommand {
        words = List.copyOf(words);
    }

    /**
     * Runs the command and waits for its end. An interrupt does not end it, and the flag stays set.
     *
     * @param environment variables in addition to the service's own
     * @param workDirectory the service's directory for its output and its scratch folder, see
     *     {@link WorkDirectories}; made if missing
     * @throws CheckpointException if it cannot be started, fails, or has not ended by its deadline, with its output
     */
    public void run(Map<String, String> environment, Path workDirectory, NativePrograms programs)
            throws CheckpointException {
        run(environment, workDirectory, programs, process -> LOG.debug("{} runs as PID {}", name, process.pid()));
    }

    /**
     * Runs the command for a caller that needs the process while it runs.
     *
     * @param started receives it once, on the caller's thread, before this waits for its end
     */
    public void run(
            Map<String, String> environment,
            Path workDirectory,
            NativePrograms programs,
            Consumer<ProcessIdentity> started)
            throws CheckpointException {
        ToolKit kit = ToolKit.of(programs, RankCommand.Timing.defaults());
        List<String> command = new ArrayList<>(kit.launch(user));
        command.add("env");
        environment.forEach((variable, value) -> command.add(variable + "=" + value));
        command.addAll(words);
        ToolProcess process = ToolProcess.start(name, command, workDirectory, user, kit);
        process.identity().ifPresent(started);
        boolean ended = Polling.until(deadline, () -> process.exitCode().isPresent());
        if (!ended) {
            process.kill(KILL_LIMIT, kit.signals());
        }
        // A hole in the file reads as zeros. Other control characters would be interpreted by a terminal.
        process.output()
                .replace("\0", "")
                .lines()
                .map(line -> line.replaceAll("\\p{Cntrl}", "?"))
                .forEach(line -> LOG.info("{}: {}", name, line));
        if (!ended) {
            throw new CheckpointException(
                    name + " has not ended within " + deadline + " and was ended: " + SecretWords.hidden(words));
        }
        if (process.exitCode().orElseThrow() != 0) {
            throw new CheckpointException(
                    process.describeEnd(Path.of("/nonexistent"), Map.of(), ToolProcess.LogWords.UNKNOWN));
        }
    }
}
