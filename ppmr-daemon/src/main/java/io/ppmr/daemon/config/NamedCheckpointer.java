package io.ppmr.daemon.config;

import io.ppmr.checkpoint.Availability;
import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.CheckpointTask;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.RankCommand;
import io.ppmr.checkpoint.RestartNeeds;
import io.ppmr.checkpoint.RestartTask;
import io.ppmr.checkpoint.RunAs;
import io.ppmr.protocol.data.ReadingMode;
import java.util.List;
import java.util.Optional;

/**
 * A checkpointer under the name that the configuration gives it, by which source and target agree on it: a node may
 * have several of one kind.
 *
 * @param name as in {@code [checkpointers.NAME]}
 * @param tool what does it
 */
record NamedCheckpointer(String name, Checkpointer tool) implements Checkpointer {
    @Override
    public Availability probe() {
        return tool.probe();
    }

    @Override
    public ReadingMode readingMode() {
        return tool.readingMode();
    }

    @Override
    public List<String> announcedNames(int rank) {
        return tool.announcedNames(rank);
    }

    @Override
    public List<String> completionNames(int rank) {
        return tool.completionNames(rank);
    }

    @Override
    public Optional<String> finalNameOf(String temporaryName) {
        return tool.finalNameOf(temporaryName);
    }

    @Override
    public RestartNeeds restartNeeds() {
        return tool.restartNeeds();
    }

    @Override
    public RunAs runAs() {
        return tool.runAs();
    }

    @Override
    public boolean checkpointsHeldRanks() {
        return tool.checkpointsHeldRanks();
    }

    @Override
    public boolean writesFromWithin() {
        return tool.writesFromWithin();
    }

    @Override
    public RankCommand checkpoint(CheckpointTask task) throws CheckpointException {
        return tool.checkpoint(task);
    }

    @Override
    public RankCommand restart(RestartTask task) throws CheckpointException {
        return tool.restart(task);
    }
}
