package io.ppmr.checkpoint;

import io.ppmr.linux.LogContext;
import io.ppmr.linux.ProcessIdentity;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A running checkpoint or restart. Its own daemon thread watches it from start to end, so that deadline and
 * cancellation take effect even while no thread waits in {@link #await}. The thread ends with the command. Owned by the
 * thread that started it. Any thread may call {@link #cancel}.
 */
public final class RankCommand {

    /** The steps that differ between checkpoint and restart, and between tools. Called by the command's thread only. */
    interface Steps {
        /** Returns true if the tool has reported success. Throws if it reports failure, or ends without success. */
        boolean succeeded(ToolProcess tool) throws CheckpointException;

        /**
         * Waits until every process is proved to be stopped, and returns them. Throws if they are not stopped in time.
         */
        HeldRank proveHeld(ToolProcess tool) throws CheckpointException;

        /**
         * Returns whether the tool can be killed safely. True for restarts; false for checkpointers that run inside the
         * target process.
         */
        boolean toolMayBeKilled();

        /**
         * Undoes the command after the tool ended. The originals run again, or the restored processes are killed.
         */
        void undo() throws CheckpointException;
    }

    /**
     * The time limits of the adapters for steps that normally take milliseconds.
     *
     * @param cancelGrace time for a cancelled tool to end without a signal, while its I/O fails
     * @param terminateGrace time after SIGTERM, before SIGKILL
     * @param holdProof time after the tool's success in which all processes must be stopped
     * @param rollback time in which the originals must run again after a failed checkpoint, or a failed restart's
     *     processes must be gone
     */
    public record Timing(Duration cancelGrace, Duration terminateGrace, Duration holdProof, Duration rollback) {
        public static Timing defaults() {
            return new Timing(
                    Duration.ofSeconds(10), Duration.ofSeconds(5), Duration.ofSeconds(10), Duration.ofSeconds(10));
        }
    }

    private static final Logger LOG = LoggerFactory.getLogger(RankCommand.class);
    private static final long POLL_NS = 10_000_000;

    /** Pause between two checks for each running command, because many share the cores. */
    private static final long POLL_SHARE_NS = 250_000;

    private static final AtomicInteger UNDER_WAY = new AtomicInteger();

    private final String name;
    private final ToolProcess tool;
    private final Steps steps;
    private final Duration limit;
    private final long deadlineNs;
    private final ToolKit kit;
    private final List<ProcessIdentity> started;
    private final CompletableFuture<HeldRank> outcome = new CompletableFuture<>();
    private final CompletableFuture<CheckpointException> failing = new CompletableFuture<>();
    private final Semaphore wake = new Semaphore(0);
    private volatile boolean cancelled;

    private RankCommand(
            String name, ToolProcess tool, List<ProcessIdentity> started, Steps steps, Duration limit, ToolKit kit) {
        this.name = name;
        this.started = started;
        this.tool = tool;
        this.steps = steps;
        this.limit = limit;
        this.deadlineNs = System.nanoTime() + limit.toNanos();
        this.kit = kit;
    }

    /**
     * Begins to watch a started tool.
     *
     * @param namespace the init of a namespace that was made for it
     */
    static RankCommand watch(
            String name,
            ToolProcess tool,
            Optional<ProcessIdentity> namespace,
            Steps steps,
            Duration limit,
            ToolKit kit) {
        List<ProcessIdentity> started = new ArrayList<>();
        tool.identity().ifPresent(started::add);
        namespace.ifPresent(started::add);
        RankCommand command = new RankCommand(name, tool, List.copyOf(started), steps, limit, kit);
        var unused = tool.process().onExit().thenRun(command.wake::release);
        LogContext.thread(command::run, "ppmr-" + name.replace(' ', '-')).start();
        return command;
    }

    /**
     * Waits until the tool has reported success and every process is proved to be stopped.
     *
     * @param atMost maximum time of this call
     * @return the held rank, or null if the command is still running after {@code atMost}
     * @throws CheckpointException if the command failed, exceeded its deadline or was cancelled. After a checkpoint
     *     the originals run again. After a restart no restored process is left.
     */
    public HeldRank await(Duration atMost) throws CheckpointException, InterruptedException {
        try {
            return !outcome.isDone() && atMost.isZero() ? null : outcome.get(atMost.toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException stillRunning) {
            return null;
        } catch (ExecutionException e) {
            throw new CheckpointException(e.getCause().getMessage(), e.getCause());
        }
    }

    /**
     * Runs a short task when the command ends, with any outcome. If it ended already, the task runs at once.
     */
    void whenEnded(Runnable task) {
        var unused = outcome.whenComplete((held, failure) -> task.run());
    }

    /**
     * Runs a short task as soon as the command fails, if it is a restart that was not cancelled. Its remaining
     * processes are then killed, but cannot end while they read an image that has not arrived. The owner of the images
     * must fail those reads.
     */
    void whenFailing(Consumer<CheckpointException> task) {
        var unused = failing.thenAccept(task);
    }

    /**
     * Returns its processes for a journal: the tool, and the init of a namespace made for the rank. If this service
     * dies, its next run kills them by {@link OrphanedCommand}.
     */
    public List<ProcessIdentity> started() {
        return started;
    }

    /**
     * Ends the command. The filesystem fails its calls before this is called, so the tool first gets time to end
     * without a signal. A checkpointer that is killed in the middle could leave its process broken. One that writes
     * from within its process must not be cancelled while there is time to let it end
     * ({@link Checkpointer#writesInProcess}).
     */
    public void cancel() {
        cancelled = true;
        wake.release();
    }

    private void run() {
        UNDER_WAY.incrementAndGet();
        try {
            while (!steps.succeeded(tool)) {
                requireNotCancelled();
                pause();
            }
            HeldRank held = steps.proveHeld(tool);
            requireNotCancelled();
            outcome.complete(held);
        } catch (CheckpointException | RuntimeException e) {
            outcome.completeExceptionally(cleanUp(e));
        } finally {
            UNDER_WAY.decrementAndGet();
        }
    }

    private void requireNotCancelled() throws CheckpointException {
        if (cancelled) {
            throw new CheckpointException(name + " was cancelled");
        }
        if (System.nanoTime() - deadlineNs >= 0) {
            throw new CheckpointException(name + " has not ended within its limit of " + limit
                    + ". Remedy: check for a filesystem that stalls, or raise the limit");
        }
    }

    private void pause() {
        try {
            // The end of the tool ends the pause, too.
            long pauseNs = Math.max(POLL_NS, POLL_SHARE_NS * UNDER_WAY.get());
            if (wake.tryAcquire(pauseNs, TimeUnit.NANOSECONDS)) {
                wake.drainPermits();
            }
        } catch (InterruptedException e) {
            // This thread belongs to the command, so an interrupt means that the command must end.
            Thread.currentThread().interrupt();
            cancelled = true;
        }
    }

    private CheckpointException cleanUp(Exception cause) {
        CheckpointException failure = cause instanceof CheckpointException expected
                ? expected
                : new CheckpointException(name + " failed by a defect of this program: " + cause, cause);
        StringBuilder text = new StringBuilder(failure.getMessage());
        boolean toolFailed = !cancelled && System.nanoTime() - deadlineNs < 0;
        try {
            if (steps.toolMayBeKilled()) {
                if (!cancelled) {
                    failing.complete(failure);
                }
                tool.kill(kit.timing().rollback(), kit.signals());
            } else {
                tool.end(
                        toolFailed ? Duration.ZERO : kit.timing().cancelGrace(),
                        kit.timing().terminateGrace(),
                        kit.signals());
            }
        } catch (CheckpointException | RuntimeException e) {
            LOG.error("{}: the tool could not be ended", name, e);
            text.append("; also, ").append(e.getMessage());
            failure.addSuppressed(e);
        }
        try {
            steps.undo();
        } catch (CheckpointException | RuntimeException e) {
            LOG.error("{}: could not be undone", name, e);
            text.append("; also, ").append(e.getMessage());
            failure.addSuppressed(e);
        }
        return text.length() == failure.getMessage().length()
                ? failure
                : new CheckpointException(text.toString(), failure);
    }
}
