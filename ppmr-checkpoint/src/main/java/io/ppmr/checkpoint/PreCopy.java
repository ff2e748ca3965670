package io.ppmr.checkpoint;

import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * The copy of a running rank's memory in rounds, by {@code ppmr-pages source --rounds}. Each round sends the pages that
 * were written since the one before it. Later the same tool makes the checkpoint of the stopped rank. It ends when this
 * service ends, and leaves the processes as they were.
 *
 * <p>Safe for any thread, since a checkpoint takes the tool over on another thread than the owner's. Closed by its
 * owner.
 */
public final class PreCopy implements AutoCloseable {
    /** The name of the FIFO by which the tool gets its orders, in the tool's folder. */
    static final String ORDERS = "orders";

    /** The size of a page, of which rounds count. */
    public static final int PAGE_BYTES = 4096;

    private static final Pattern ROUND = Pattern.compile(
            "round (\\d+) sent (\\d+) written (\\d+) stopped-us (\\d+) processes (\\d+) untracked (\\d+) ?(.*)");

    /**
     * The result of one round.
     *
     * @param number its number; 0 if it was not made, because the rank's threads could not be stopped
     * @param sentPages pages that it sent
     * @param writtenPages pages that were written since it found the sent ones
     * @param stoppedUs time for which the rank's threads were stopped, in microseconds
     * @param processes the rank's processes
     * @param untracked those of them whose memory is sent when the rank is stopped for its checkpoint
     * @param why why one of these is not tracked, or why the round was not made; else empty
     */
    public record Round(
            int number, long sentPages, long writtenPages, long stoppedUs, int processes, int untracked, String why) {}

    private final ToolProcess tool;
    private final Path ordersPath;
    private final Path log;
    private final ToolKit kit;
    private final List<ProcessIdentity> started;
    private RandomAccessFile orders;
    private int ordered;
    private boolean isOrderDue;
    private boolean isCutDue;
    private boolean owned = true;

    private PreCopy(ToolProcess tool, Path ordersPath, Path log, ToolKit kit) {
        this.tool = tool;
        this.ordersPath = ordersPath;
        this.log = log;
        this.kit = kit;
        this.started = tool.identity().map(List::of).orElse(List.of());
    }

    static PreCopy of(ToolProcess tool, Path orders, Path log, ToolKit kit) {
        return new PreCopy(tool, orders, log, kit);
    }

    /** Returns the tool's processes, for a journal. */
    public List<ProcessIdentity> started() {
        return started;
    }

    /** Orders a round. The one before it must be finished. Does not block; {@link #result} delivers the order. */
    public synchronized void order() {
        ordered++;
        isOrderDue = true;
        isCutDue = false;
    }

    /**
     * Has the current round end at once. The pages that it has not sent are sent when the rank is stopped. Nothing
     * happens if the round is finished.
     */
    public synchronized void cut() throws CheckpointException {
        if (isOrderDue) {
            isCutDue = true;
        } else if (owned) {
            send("cut");
        }
    }

    /**
     * Returns the ordered round's result, or empty as long as it is not finished. Does not block.
     *
     * @throws CheckpointException if the tool ended. The rank runs as before.
     */
    public synchronized Optional<Round> result() throws CheckpointException {
        requireTool();
        if (isOrderDue && Files.exists(ordersPath)) {
            isOrderDue = false;
            send("round");
            if (isCutDue) {
                send("cut");
            }
        }
        List<String> lines = tool.output()
                .lines()
                .filter(line -> line.startsWith("round ") || line.startsWith("none "))
                .toList();
        if (ordered == 0 || lines.size() < ordered) {
            return Optional.empty();
        }
        String line = lines.get(ordered - 1);
        Matcher found = ROUND.matcher(line);
        return Optional.of(
                found.matches()
                        ? new Round(
                                Integer.parseInt(found.group(1)),
                                Long.parseLong(found.group(2)),
                                Long.parseLong(found.group(3)),
                                Long.parseLong(found.group(4)),
                                Integer.parseInt(found.group(5)),
                                Integer.parseInt(found.group(6)),
                                found.group(7))
                        : new Round(0, 0, 0, 0, 0, 0, line.substring(line.indexOf(' ') + 1)));
    }

    /** Orders the checkpoint of the rank, which is stopped now, and hands the tool over. */
    synchronized ToolProcess dump(List<Integer> pids) throws CheckpointException {
        if (!owned) {
            throw new CheckpointException("the copy of the rank's memory was called off");
        }
        // From now on the tool may be inside of the processes, and is not killed.
        owned = false;
        send("dump " + pids.stream().map(String::valueOf).collect(Collectors.joining(" ")));
        return tool;
    }

    Path log() {
        return log;
    }

    private void requireTool() throws CheckpointException {
        if (tool.exitCode().isPresent()) {
            throw new CheckpointException("the rank's memory could not be copied while it ran: "
                    + tool.describeEnd(log, Map.of(), ToolProcess.LogWords.UNKNOWN));
        }
    }

    /** The FIFO is opened for reading, too, so that the call does not wait for the tool. */
    private void send(String order) throws CheckpointException {
        try {
            if (orders == null) {
                orders = new RandomAccessFile(ordersPath.toFile(), "rw");
            }
            orders.write((order + "\n").getBytes(StandardCharsets.US_ASCII));
        } catch (IOException e) {
            throw new CheckpointException(
                    "the tool that copies the rank's memory gets no orders: " + e.getMessage(), e);
        }
    }

    /** Ends the tool, if no checkpoint took it over. The rank runs as before. */
    @Override
    public synchronized void close() throws CheckpointException {
        try {
            if (orders != null) {
                orders.close();
            }
        } catch (IOException e) {
            throw new CheckpointException("the orders of the tool cannot be closed: " + e.getMessage(), e);
        } finally {
            if (owned) {
                owned = false;
                tool.kill(kit.timing().rollback(), kit.signals());
            }
        }
    }
}
