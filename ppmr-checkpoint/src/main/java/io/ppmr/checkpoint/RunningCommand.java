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
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A command that is under way, watched by a daemon thread of its own from start to end: deadline and cancellation take
 * effect even while nobody waits in {@link #await}. The thread ends with the command.
 */
final class RunningCommand implements RankCommand {

    /** What differs between checkpoint and restart, and between tools. Called by the command's thread only. */
    interface Steps {
        /**
         * Whether the tool has reported success. One that reports failure, or ends without success, throws.
         */
        boolean succeeded(ToolProcess tool) throws CheckpointException;

        /** Waits until every process is proved to be stopped, and returns them; throws if they are not in time. */
        HeldRank proveHeld(ToolProcess tool) throws CheckpointException;

        /**
         * Whether nothing is lost when the tool is killed at any moment. True of a restart; a checkpointer may be
         * inside the process that it writes.
         */
        boolean toolMayBeKilled();

        /** Undoes what has happened: the originals run again, or what was restored is ended. The tool has ended. */
        void undo() throws CheckpointException;
    }

    private static final Logger LOG = LoggerFactory.getLogger(RunningCommand.class);
    private static final long POLL_NS = 10_000_000;

    private final String name;
    private final ToolProcess tool;
    private final Steps steps;
    private final Duration limit;
    private final long deadlineNs;
    private final CommandTiming timing;
    private final SignalSender signals;
    private final List<ProcessIdentity> started;
    private final CompletableFuture<HeldRank> outcome = new CompletableFuture<>();
    private final Semaphore wake = new Semaphore(0);
    private volatile boolean cancelled;

    private RunningCommand(
            String name,
            ToolProcess tool,
            List<ProcessIdentity> started,
            Steps steps,
            Duration limit,
            CommandTiming timing,
            SignalSender signals) {
        this.name = name;
        this.started = started;
        this.tool = tool;
        this.steps = steps;
        this.limit = limit;
        this.deadlineNs = System.nanoTime() + limit.toNanos();
        this.timing = timing;
        this.signals = signals;
    }

    /**
     * Begins to watch a started tool.
     *
     * @param namespace the init of a namespace that was made for it
     */
    static RunningCommand watch(
            String name,
            ToolProcess tool,
            Optional<ProcessIdentity> namespace,
            Steps steps,
            Duration limit,
            ToolKit kit) {
        List<ProcessIdentity> started = new ArrayList<>();
        tool.identity().ifPresent(started::add);
        namespace.ifPresent(started::add);
        RunningCommand command =
                new RunningCommand(name, tool, List.copyOf(started), steps, limit, kit.timing(), kit.signals());
        var unused = tool.process().onExit().thenRun(command.wake::release);
        LogContext.thread(command::run, "ppmr-" + name.replace(' ', '-')).start();
        return command;
    }

    @Override
    public HeldRank await(Duration atMost) throws CheckpointException, InterruptedException {
        try {
            return outcome.get(atMost.toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException stillRunning) {
            return null;
        } catch (ExecutionException e) {
            throw new CheckpointException(e.getCause().getMessage(), e.getCause());
        }
    }

    @Override
    public List<ProcessIdentity> started() {
        return started;
    }

    @Override
    public void cancel() {
        cancelled = true;
        wake.release();
    }

    private void run() {
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
            if (wake.tryAcquire(POLL_NS, TimeUnit.NANOSECONDS)) {
                wake.drainPermits();
            }
        } catch (InterruptedException e) {
            // Nobody else has this thread: whoever interrupts it wants the command to end.
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
                tool.kill(timing.rollback(), signals);
            } else {
                tool.end(toolFailed ? Duration.ZERO : timing.cancelGrace(), timing.terminateGrace(), signals);
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
