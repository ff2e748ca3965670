package io.ppmr.checkpoint;

import io.ppmr.os.Command;
import io.ppmr.os.ProcStat;
import io.ppmr.os.SecretWords;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/**
 * Starts checkpoint and restart commands. They, and what they restore, must outlive the service: out of a terminal a
 * session of their own is enough for that; a service manager ends a service's whole group, so under it they are started
 * by the manager, in units of their own. Implementations are immutable, for any thread.
 */
public interface CommandStarter {
    /** The environment's word for it: {@code direct} or {@code transient}; the service units say the latter. */
    String VARIABLE = "PPMR_COMMANDS";

    /**
     * A command that has been started.
     *
     * @param client our child: the command itself, or who asked for it; ends when it ends, with its exit status
     * @param pid the command's
     */
    record StartedCommand(Process client, int pid) {}

    /**
     * Starts a command that begins with {@code ppmr-launch}, with {@code /dev/null} as its input.
     *
     * @param name for messages and for the name of the unit
     * @param workDirectory its working directory
     * @param output where its output goes, in a directory of the service's own: links are followed; replaced
     */
    StartedCommand start(String name, List<String> command, Path workDirectory, Path output) throws CheckpointException;

    /** Limits how much of a command's output is kept, and decides what is done with more. */
    @FunctionalInterface
    interface OutputLimit {
        /** The limit of {@link Command} itself, for tools that print little. */
        OutputLimit USUAL = command -> command;

        /** Gives the command with its limit. */
        Command on(Command command);
    }

    /**
     * Starts a program of our own that reads questions from its standard input and ends with it. The caller owns what
     * is returned, and kills it; the program ends then, too, or as soon as the kernel lets go of it.
     */
    default Process converse(List<String> command) throws CheckpointException {
        return piped(command);
    }

    /** Runs a short command whose descendants may stay, and gives its output. */
    default Command.CommandResult run(List<String> command, Duration limit) throws CheckpointException {
        return run(command, limit, OutputLimit.USUAL);
    }

    /** Runs a short command whose descendants may stay, and gives its output as far as its limit allows. */
    Command.CommandResult run(List<String> command, Duration limit, OutputLimit output) throws CheckpointException;

    /** Runs a short command as a child of this process; an interrupt does not stop it, the flag stays set. */
    static Command.CommandResult call(List<String> command, Duration limit) throws CheckpointException {
        return call(command, limit, OutputLimit.USUAL);
    }

    /** The same with another limit of its output. */
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

    /** Starts a child of this process whose standard input and output are pipes; what it says of errors is not kept. */
    static Process piped(List<String> command) throws CheckpointException {
        try {
            return new ProcessBuilder(command)
                    .redirectError(ProcessBuilder.Redirect.DISCARD)
                    .start();
        } catch (IOException e) {
            throw new CheckpointException(
                    command.get(0) + " cannot be started: " + e.getMessage() + ". Remedy: see that it is there, and"
                            + " that the node has room for another process",
                    e);
        }
    }

    /** Returns true if what is started has a capability in effect, by its number in capabilities(7). */
    boolean givesCapability(int number);

    /** The one that the environment names; the usual, without one, is direct. */
    static CommandStarter of(Map<String, String> environment) {
        String word = environment.getOrDefault(VARIABLE, "direct");
        return switch (word) {
            case "direct" -> new Direct();
            case "transient" -> new TransientServices(environment, "systemd-run", Path.of("/run/ppmr"));
            default ->
                throw new IllegalStateException(
                        VARIABLE + " is '" + word + "'. Remedy: set it to direct or transient, or take it away");
        };
    }

    /** Commands as children of this process. */
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
