package io.ppmr.checkpoint;

import io.ppmr.os.ProcessIdentity;
import io.ppmr.os.SecretWords;
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
 * A command of the site's own: a hook of a job, a fence. Run without a shell, in a session of its own, to a deadline;
 * it is started as checkpoint and restart commands are, so under systemd it has none of the service's restrictions. Its
 * output goes to a file of the service's own and, line by line, to the log; of much output, the end. Its working
 * directory is a scratch folder of the user that it runs as. Immutable, for any thread.
 *
 * @param name for messages and for its output's file
 * @param words the program and its arguments
 * @param user the user that it runs as; empty for the service's own user
 * @param deadline after which it is ended, with all that it started
 */
public record SiteCommand(String name, List<String> words, Optional<JobUser> user, Duration deadline) {
    private static final Logger LOG = LoggerFactory.getLogger(SiteCommand.class);
    private static final Duration KILL_LIMIT = Duration.ofSeconds(5);

    public SiteCommand {
        words = List.copyOf(words);
    }

    /**
     * Runs it and waits for its end. An interrupt does not end it; the flag stays set.
     *
     * @param environment added to the service's own
     * @param workDirectory the service's, for its output and its scratch folder, see {@link WorkDirectories}; made if
     *     missing
     * @throws CheckpointException if it cannot be started, fails, or has not ended by its deadline; says what it
     * printed
     */
    public void run(Map<String, String> environment, Path workDirectory, NativePrograms programs)
            throws CheckpointException {
        run(environment, workDirectory, programs, process -> LOG.debug("{} runs as PID {}", name, process.pid()));
    }

    /**
     * The same for a caller that wants to know the process while it runs.
     *
     * @param started told of it once, on the caller's thread, before this waits for its end
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
        // A hole in the file reads as zeros; what else is no text would be obeyed by a terminal.
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
