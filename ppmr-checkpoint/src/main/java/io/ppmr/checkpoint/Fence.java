package io.ppmr.checkpoint;

import io.ppmr.linux.LogContext;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The site's way to prove that a node is off: a command of the site. For example, it lets the node's management
 * controller cut the power. It exits with 0 only when the node is off. Immutable, for any thread.
 *
 * @param words the command; {@code {node}} in it is replaced by the node's address
 * @param delay time for which the node must have been lost before the command runs
 * @param deadline time limit of the command
 */
public record Fence(List<String> words, Duration delay, Duration deadline) {
    private static final Logger LOG = LoggerFactory.getLogger(Fence.class);

    public Fence {
        words = List.copyOf(words);
    }

    /** Runs the command and returns when the node is proved off. Throws if it is not. */
    public void prove(String node, Path workDirectory, NativePrograms programs) throws CheckpointException {
        List<String> command = CommandTemplate.fill(words, Map.of("node", node));
        new SiteCommand("fence", command, Optional.empty(), deadline)
                .run(Map.of("PPMR_NODE", node), workDirectory, programs);
    }

    /**
     * Runs the command on its own thread. {@code ended} receives the result there.
     *
     * @param wanted checked right before the command is started, because a service that was frozen must not fence
     *     too late
     */
    public void start(
            String node, Path workDirectory, NativePrograms programs, BooleanSupplier wanted, Consumer<Boolean> ended) {
        LogContext.thread(
                        () -> ended.accept(wanted.getAsBoolean() && isProved(node, workDirectory, programs)),
                        "ppmr-fence-" + node)
                .start();
    }

    private boolean isProved(String node, Path workDirectory, NativePrograms programs) {
        try {
            prove(node, workDirectory, programs);
            LOG.warn("node {} is proved off by the fence command", node);
            return true;
        } catch (CheckpointException | RuntimeException e) {
            LOG.error("node {} is not proved off: {}", node, e.getMessage());
            return false;
        }
    }
}
