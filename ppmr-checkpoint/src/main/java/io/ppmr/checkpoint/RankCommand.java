package io.ppmr.checkpoint;

import io.ppmr.os.LogContext;
import io.ppmr.os.ProcessIdentity;
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
 * One checkpoint or restart that is under way, watched by a daemon thread of its own from start to end: deadline and
 * cancellation take effect even while no thread waits in {@link #await}. The thread ends with the command. Owned by the
 * thread that started it; {@link #cancel} may come from any.
 */
public final class RankCommand {

    /** The steps that differ between checkpoint and restart, and between tools. Called by the command's thread only. */
    interface Steps {
        /**
         * Returns true if the tool has reported success. One that reports failure, or ends without success, throws.
         */
        boolean succeeded(ToolProcess tool) throws CheckpointException;

        /** Waits until every process is proved to be stopped, and returns them; throws if they are not in time. */
        HeldRank proveHeld(ToolProcess tool) throws CheckpointException;

        /**
         * Returns whether the tool can be killed safely. True for restarts; false for checkpointers that run inside the
         * target process.
         */
        boolean toolMayBeKilled();

        /** Undoes what has happened: the originals run again, or what was restored is ended. The tool has ended. */
        void undo() throws CheckpointException;
    }

    /**
     * The time limits of the adapters for steps that normally take moments.
     *
     * @param cancelGrace how long a cancelled tool has to end by itself; its I/O fails meanwhile
     * @param terminateGrace how long it has after SIGTERM, before SIGKILL
     * @param holdProof within what time all processes must be stopped after the tool has reported success
     * @param rollback within what time the originals must run again after a failed checkpoint, and what a failed
     *     restart restored must be gone
     */
    public record Timing(Duration cancelGrace, Duration terminateGrace, Duration holdProof, Duration rollback) {
        public static Timing defaults() {
            return new Timing(
                    Duration.ofSeconds(10), Duration.ofSeconds(5), Duration.ofSeconds(10), Duration.ofSeconds(10));
        }
    }

    private static final Logger LOG = LoggerFactory.getLogger(RankCommand.class);
    private static final long POLL_NS = 10_000_000;

    /** So long a command waits between two looks for each command that is under way: many share the cores. */
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
     * @param atMost how long to wait in this call
     * @return the held rank, or null if the command is still running after {@code atMost}
     * @throws CheckpointException if the command failed, ran past its deadline or was cancelled; after a failed or
     *     cancelled checkpoint the originals run again, after a failed restart nothing that it restored is left
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

    /** Has a task done when it has ended, well or not; at once if it has already. The task is short. */
    void whenEnded(Runnable task) {
        var unused = outcome.whenComplete((held, failure) -> task.run());
    }

    /**
     * Runs a task as soon as the command fails, if it is a restart that was not cancelled. What it has left is being
     * ended then, and cannot end as long as it reads an image that has not arrived: the owner of the images must fail
     * its reads. The task is short.
     */
    void whenFailing(Consumer<CheckpointException> task) {
        var unused = failing.thenAccept(task);
    }

    /**
     * Returns the processes that it has started, for a journal: the tool, and the init of a namespace made for the
     * rank. A service that is started after this one has died ends them by {@link OrphanedCommand}.
     */
    public List<ProcessIdentity> started() {
        return started;
    }

    /**
     * Ends the command. The filesystem has been told to fail its calls before this is called, so the tool is first
     * given time to end by itself: a checkpointer killed in the middle could leave its process broken. One that writes
     * from within its process must not be cancelled while there is time to let it end ({@link
     * Checkpointer#writesInProcess}).
     */
    public void cancel() {
        cancelled = true;
        wake.release();
    }

    private void run() {
        UNDER_WAY.incrementAndGet();
        try {
            while (!steps.succeeded(tool)) {
                requireWanted();
                pause();
            }
            HeldRank held = steps.proveHeld(tool);
            requireWanted();
            outcome.complete(held);
        } catch (CheckpointException | RuntimeException e) {
            outcome.completeExceptionally(cleanUp(e));
        } finally {
            UNDER_WAY.decrementAndGet();
        }
    }

    private void requireWanted() throws CheckpointException {
        if (cancelled) {
            throw new CheckpointException(name + " was cancelled");
        }
        if (System.nanoTime() - deadlineNs >= 0) {
            throw new CheckpointException(name + " has not ended within its limit of " + limit
                    + ". Remedy: look for a filesystem that stalls, or raise the limit");
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
            text.append("; besides, ").append(e.getMessage());
            failure.addSuppressed(e);
        }
        try {
            steps.undo();
        } catch (CheckpointException | RuntimeException e) {
            LOG.error("{}: could not be undone", name, e);
            text.append("; besides, ").append(e.getMessage());
            failure.addSuppressed(e);
        }
        return text.length() == failure.getMessage().length()
                ? failure
                : new CheckpointException(text.toString(), failure);
    }
}
