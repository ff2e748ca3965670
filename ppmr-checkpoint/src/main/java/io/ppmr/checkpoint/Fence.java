package io.ppmr.checkpoint;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The site's way to prove that a node is off: a command of its own, such as one that asks the node's management
 * controller to cut the power, which exits with 0 only when the node is off. Immutable, for any thread.
 *
 * @param words the command; {@code {node}} in it becomes the node's address
 * @param delay how long the node must have been lost before the command is run
 * @param deadline how long the command may take
 */
public record Fence(List<String> words, Duration delay, Duration deadline) {

    public Fence {
        words = List.copyOf(words);
    }

    /** Runs the command and returns when the node is proved off; throws if it is not. */
    public void prove(String node, Path workDirectory, NativePrograms programs) throws CheckpointException {
        List<String> command = CommandTemplate.fill(words, Map.of("node", node));
        new SiteCommand("fence", command, Optional.empty(), deadline)
                .run(Map.of("PPMR_NODE", node), workDirectory, programs);
    }
}
