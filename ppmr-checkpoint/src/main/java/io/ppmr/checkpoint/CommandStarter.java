package io.ppmr.checkpoint;

import io.ppmr.linux.Command;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.SecretWords;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/**
 * Starts checkpoint and restart commands. Both they and the restored processes must outlive the service. If the service
 * was started from a terminal, a session of their own is enough. A service manager ends a service's whole group, so it
 * starts them in units of their own. Implementations are immutable, for any thread.
 */
public interface CommandStarter {
    /**
     * The environment variable for the choice, {@code direct} or {@code transient}. The service units set the latter.
     */
    String VARIABLE = "PPMR_COMMANDS";

    /**
     * A command that was started.
     *
     * @param client this service's child: the command itself, or the program that requested it. It ends with the
     *     command, with its exit status.
     * @param pid the command's PID
     */
    record StartedCommand(Process client, int pid) {}

    /**
     * Starts a command that begins with {@code ppmr-launch}, with {@code /dev/null} as its input.
     *
     * @param name name for messages and for the unit
     * @param workDirectory its working directory
     * @param output file for its output, in a directory of the service; links are followed; replaced
     */
    StartedCommand start(String name, List<String> command, Path workDirectory, Path output) throws CheckpointException;

    /** Limits the kept output of a command, and decides about the rest. */
    @FunctionalInterface
    interface OutputLimit {
        /** The limit of {@link Command} itself, for tools that print little. */
        OutputLimit USUAL = command -> command;

        /** Returns the command with its limit. */
        Command on(Command command);
    }

    /**
     * Starts a helper program that reads queries from its standard input and ends with it. The caller owns the returned
     * process, and kills it. The program then ends, too, as soon as the kernel permits.
     */
    default Process converse(List<String> command) throws CheckpointException {
        return piped(command);
    }

    /** Runs a short command whose descendants may stay, and returns its output. */
    default Command.CommandResult run(List<String> command, Duration limit) throws CheckpointException {
        return run(command, limit, OutputLimit.USUAL);
    }

    /** Runs a short command whose descendants may stay, and returns its output up to the limit. */
    Command.CommandResult run(List<String> command, Duration limit, OutputLimit output) throws CheckpointException;

    /** Runs a short command as a child of this process. An interrupt does not stop it, and the flag stays set. */
    static Command.CommandResult call(List<String> command, Duration limit) throws CheckpointException {
        return call(command, limit, OutputLimit.USUAL);
    }

    /** Runs a short command with another limit of its output. */
    static Command.CommandResult call(List<String> command, Duration limit, OutputLimit output)
            throws CheckpointException {
        Command.CommandResult result;
        try {
            result = output.on(Command.of(command)).runUninterruptibly(limit);
        } catch (IOException e) {
            throw new CheckpointException(command.get(0) + " cannot be run: " + e.getMessage(), e);
        }
        if (result.timedOut()) {
            throw new CheckpointException(SecretWords.hidden(command) + " has not ended within " + limit);
        }
        return result;
    }

    /** Starts a child of this process whose standard input and output are pipes. Its error output is discarded. */
    static Process piped(List<String> command) throws CheckpointException {
        try {
            return new ProcessBuilder(command)
                    .redirectError(ProcessBuilder.Redirect.DISCARD)
                    .start();
        } catch (IOException e) {
            throw new CheckpointException(
                    command.get(0) + " cannot be started: " + e.getMessage() + ". Remedy: make sure that it exists, and"
                            + " that the node has room for another process",
                    e);
        }
    }

    /** Returns true if started commands have a capability in effect, by its number in capabilities(7). */
    boolean givesCapability(int number);

    /** Returns the starter that the environment selects. The default is direct. */
    static CommandStarter of(Map<String, String> environment) {
        String word = environment.getOrDefault(VARIABLE, "direct");
        return switch (word) {
            case "direct" -> new Direct();
            case "transient" -> new TransientServices(environment, "systemd-run", Path.of("/run/ppmr"));
            default ->
                throw new IllegalStateException(
                        VARIABLE + " is '" + word + "'. Remedy: set it to direct or transient, or unset it");
        };
    }

    /** Starts commands as children of this process. */
    final class Direct implements CommandStarter {
        @Override
        public StartedCommand start(String name, List<String> command, Path workDirectory, Path output)
                throws CheckpointException {
            try {
                Process process = new ProcessBuilder(command)
                        .directory(workDirectory.toFile())
                        .redirectInput(ToolProcess.NULL)
                        .redirectErrorStream(true)
                        .redirectOutput(output.toFile())
                        .start();
                return new StartedCommand(process, (int) process.pid());
            } catch (IOException e) {
                throw new CheckpointException(
                        name + " cannot be started: " + e.getMessage()
                                + ". Remedy: check the program's path and the work directory " + workDirectory,
                        e);
            }
        }

        @Override
        public Command.CommandResult run(List<String> command, Duration limit, OutputLimit output)
                throws CheckpointException {
            return CommandStarter.call(command, limit, output);
        }

        @Override
        public boolean givesCapability(int number) {
            return ProcStat.hasCapability("self", number);
        }
    }
}
