package io.ppmr.source;

import io.ppmr.checkpoint.AbandonedCommand;
import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.StartedCommands;
import io.ppmr.checkpoint.WorkDirectories;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The checkpoint commands that an earlier run of the service has left running: they have sessions of their own, and go
 * on without it. Their writes fail, since its mount is gone; they are given time to end by themselves, as one that is
 * killed in the middle can leave its process broken. Owned by the migration's thread.
 */
final class AbandonedCheckpoints {
    private static final Logger LOG = LoggerFactory.getLogger(AbandonedCheckpoints.class);

    /** There are none. */
    static final AbandonedCheckpoints NONE = new AbandonedCheckpoints(List.of());

    private final List<Path> directories;

    private AbandonedCheckpoints(List<Path> directories) {
        this.directories = new ArrayList<>(directories);
    }

    /** Those of a migration, by the work directories of its attempts. */
    static AbandonedCheckpoints of(String migrationId, Path workDirectory) {
        try (Stream<Path> found = Files.list(workDirectory)) {
            return new AbandonedCheckpoints(
                    found.filter(directory -> directory.getFileName().toString().startsWith(migrationId + "."))
                            .toList());
        } catch (IOException e) {
            LOG.error(
                    "migration {}: {} cannot be read, so a checkpoint command that still runs is not found: {}",
                    migrationId,
                    workDirectory,
                    e.getMessage());
            return NONE;
        }
    }

    /** Sees each of them ended, and removes its work directory; whether none is left. */
    boolean end() {
        for (Iterator<Path> left = directories.iterator(); left.hasNext(); ) {
            Path directory = left.next();
            try {
                new AbandonedCommand(StartedCommands.read(directory)).endPatiently();
            } catch (IOException | CheckpointException e) {
                LOG.error(
                        "a checkpoint command of the service before is left, so its original is not touched: {}",
                        e.getMessage());
                return false;
            }
            try {
                WorkDirectories.remove(directory);
            } catch (IOException e) {
                LOG.warn("work directory {} stays behind: {}", directory, e.getMessage());
            }
            left.remove();
        }
        return true;
    }
}
