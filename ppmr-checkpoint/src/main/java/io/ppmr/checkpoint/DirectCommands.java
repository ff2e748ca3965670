package io.ppmr.checkpoint;

import io.ppmr.os.Command;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;

/** Commands as children of this process. */
final class DirectCommands implements CommandStarter {
    @Override
    public Started start(String name, List<String> command, Path workDirectory, Path output)
            throws CheckpointException {
        try {
            Process process = new ProcessBuilder(command)
                    .directory(workDirectory.toFile())
                    .redirectInput(ToolProcess.NULL)
                    .redirectErrorStream(true)
                    .redirectOutput(output.toFile())
                    .start();
            return new Started(process, (int) process.pid());
        } catch (IOException e) {
            throw new CheckpointException(
                    name + " cannot be started: " + e.getMessage()
                            + ". Remedy: check the program's path and the work directory " + workDirectory,
                    e);
        }
    }

    @Override
    public Command.Result run(List<String> command, Duration limit) throws CheckpointException {
        return CommandStarter.call(command, limit);
    }

    @Override
    public boolean givesCapability(int number) {
        return ToolKit.hasCapability("self", number);
    }
}
