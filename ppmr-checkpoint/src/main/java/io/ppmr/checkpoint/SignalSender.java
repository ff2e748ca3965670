package io.ppmr.checkpoint;

import io.ppmr.linux.KernelFeatures;
import io.ppmr.linux.KernelFeatures.Feature;
import io.ppmr.linux.LibC;
import io.ppmr.linux.ProcessDescriptor;
import io.ppmr.linux.ProcessIdentity;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.function.IntFunction;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sends signals to processes by identity, never only by PID, because a PID can be reused between a read of /proc and
 * kill(2). A pidfd is opened first, then the process is checked, and the signal goes to the pidfd. If the PID was
 * reused before the pidfd was opened, the check finds that. If it was reused later, the pidfd still means the old
 * process. pidfd_open(2), pidfd_send_signal(2).
 *
 * <p>A kernel without pidfds (before Linux 5.3) has only kill(2), with a check before and after it. In between the
 * process must not end, so a running one is stopped first. A process that is stopped by mistake can be
 * continued again. Some microseconds remain between a check and a stop, in which the kernel would have to reuse the
 * same PID. A process that waits in the kernel (state D) cannot be stopped, and cannot end either.
 *
 * <p>Immutable, for any thread.
 */
public final class SignalSender {
    private static final Logger LOG = LoggerFactory.getLogger(SignalSender.class);

    /** The used signals, by their number on Linux (the same on x86-64 and AArch64). */
    enum Signal {
        KILL(9),
        TERM(15),
        CONT(18),
        STOP(19);

        private final int number;

        Signal(int number) {
            this.number = number;
        }
    }

    private static final int ESRCH = 3;
    /** Time for a process to stop after SIGSTOP. One in the kernel takes longer. */
    private static final Duration STOP_LIMIT = Duration.ofMillis(50);

    private final ProcessTable table;
    private final IntFunction<Optional<ProcessIdentity>> finder;
    private final boolean hasDescriptors;

    /** Makes a sender that identifies processes by this table. */
    public SignalSender(ProcessTable table) {
        this(table, KernelFeatures.here());
    }

    /** Makes a sender for a kernel with these features. */
    SignalSender(ProcessTable table, KernelFeatures kernel) {
        this(table, kernel, table::find);
    }

    /**
     * Makes a sender for a kernel with these features.
     *
     * @param finder returns the process of a PID, at each check before and after kill(2)
     */
    SignalSender(ProcessTable table, KernelFeatures kernel, IntFunction<Optional<ProcessIdentity>> finder) {
        this.table = table;
        this.finder = finder;
        this.hasDescriptors = kernel.has(Feature.PIDFD);
    }

    /**
     * Sends a signal, if that very process still lives.
     *
     * @return false if it is gone
     * @throws CheckpointException if this service may not signal it
     */
    boolean send(Signal signal, ProcessIdentity process) throws CheckpointException {
        return send(signal.number, process);
    }

    /** Sends any signal by its number, if that very process still lives. */
    public boolean send(int signal, ProcessIdentity process) throws CheckpointException {
        try {
            return hasDescriptors ? sendByDescriptor(signal, process) : sendByPid(signal, process);
        } catch (UncheckedIOException e) {
            throw new CheckpointException("signal " + signal + " could not be sent: " + e.getMessage(), e);
        }
    }

    private boolean sendByDescriptor(int signal, ProcessIdentity process) throws CheckpointException {
        Optional<ProcessDescriptor> opened = ProcessDescriptor.open(process.pid());
        if (opened.isEmpty()) {
            return answer(signal, process, LibC.errno());
        }
        try (ProcessDescriptor descriptor = opened.get()) {
            return table.isAlive(process) && (descriptor.signal(signal) || answer(signal, process, LibC.errno()));
        }
    }

    /**
     * Waits until a process ended, which the kernel notifies. Returns at once on a kernel without pidfds.
     *
     * @param deadlineNs a time of {@link System#nanoTime()}
     */
    void awaitEnd(ProcessIdentity process, long deadlineNs) {
        Optional<ProcessDescriptor> opened = hasDescriptors ? ProcessDescriptor.open(process.pid()) : Optional.empty();
        if (opened.isEmpty()) {
            return;
        }
        try (ProcessDescriptor descriptor = opened.get()) {
            // Checked after the descriptor was opened: it cannot refer to a later process with this PID.
            if (table.isAlive(process)) {
                descriptor.awaitEnd(deadlineNs);
            }
        }
    }

    private boolean sendByPid(int signal, ProcessIdentity process) throws CheckpointException {
        if (!isAlive(process)) {
            return false;
        }
        boolean harmless = signal == Signal.STOP.number || signal == Signal.CONT.number;
        boolean stopsIt = !harmless && !table.isHeld(process);
        if (stopsIt) {
            if (!kill(Signal.STOP.number, process) || isReused(process)) {
                return false;
            }
            Polling.until(STOP_LIMIT, () -> table.isHeld(process) || !isAlive(process));
        }
        boolean sent = isAlive(process) && kill(signal, process);
        if (isReused(process)) {
            return false;
        }
        if (stopsIt && signal != Signal.KILL.number) {
            kill(Signal.CONT.number, process);
        }
        return sent;
    }

    private boolean isAlive(ProcessIdentity process) {
        return finder.apply(process.pid()).filter(process::equals).isPresent();
    }

    private boolean kill(int signal, ProcessIdentity process) throws CheckpointException {
        return LibC.CALLS.kill(process.pid(), signal) == 0 || answer(signal, process, LibC.errno());
    }

    /**
     * Returns true if the PID belongs to another process by now, which may have received the signal. That process is
     * continued again.
     */
    private boolean isReused(ProcessIdentity process) throws CheckpointException {
        Optional<ProcessIdentity> now = finder.apply(process.pid());
        if (now.isEmpty() || now.get().equals(process)) {
            return false;
        }
        LOG.error(
                "PID {} became another process's while it was signalled (this kernel has no pidfd_open): {} may have"
                        + " received a signal for {}",
                process.pid(),
                now.get(),
                process);
        kill(Signal.CONT.number, now.get());
        return true;
    }

    /** Returns false if the process is gone. Throws if it may not be signalled. */
    private static boolean answer(int signal, ProcessIdentity process, int errno) throws CheckpointException {
        if (errno == ESRCH) {
            return false;
        }
        throw new CheckpointException("signal " + signal + " could not be sent to PID " + process.pid() + ": "
                + LibC.describe(errno) + ". Remedy: run as root or as the job's user");
    }

    /**
     * Sends a signal to each process that still lives, in this order. If one may not be signalled, the others are all
     * the same.
     *
     * @return processes that are gone
     */
    List<ProcessIdentity> sendAll(Signal signal, List<ProcessIdentity> processes) throws CheckpointException {
        List<ProcessIdentity> gone = new ArrayList<>();
        CheckpointException failure = null;
        for (ProcessIdentity process : processes) {
            try {
                if (!send(signal, process)) {
                    gone.add(process);
                }
            } catch (CheckpointException e) {
                failure = failure == null ? e : failure;
            }
        }
        if (failure != null) {
            throw failure;
        }
        return gone;
    }

    /** Finds processes, again at each call. */
    interface Members {
        List<ProcessIdentity> find() throws CheckpointException;
    }

    /** Kills the found processes repeatedly. Returns false if some of them still exist when the time is over. */
    boolean killAll(Duration limit, Members members) throws CheckpointException {
        return Polling.until(limit, () -> {
            List<ProcessIdentity> left = members.find();
            killChildrenFirst(left);
            return left.isEmpty();
        });
    }

    /**
     * Kills processes in the reverse order. A copy that is not whole is killed before the helper that keeps its memory
     * registered, so it never runs on missing pages.
     *
     * @param processes each one before its children
     */
    void killChildrenFirst(Collection<ProcessIdentity> processes) throws CheckpointException {
        List<ProcessIdentity> reversed = new ArrayList<>(processes);
        Collections.reverse(reversed);
        sendAll(Signal.KILL, reversed);
    }

    /**
     * Ends a command and all its descendants in steps: time to end, SIGTERM, SIGKILL. A checkpointer that is
     * killed in the middle can leave foreign code in its process, so it gets time first.
     *
     * @param name name of the command, for the log
     * @param grace time to end without a signal
     * @param killLimit time to end after SIGKILL
     * @return false if it still exists after that
     */
    boolean endPatiently(String name, Members members, Duration grace, Duration terminateGrace, Duration killLimit)
            throws CheckpointException {
        if (Polling.until(grace, () -> members.find().isEmpty())) {
            return true;
        }
        LOG.warn("{} did not end within {}: sending SIGTERM", name, grace);
        sendAll(Signal.TERM, members.find());
        if (Polling.until(terminateGrace, () -> members.find().isEmpty())) {
            return true;
        }
        LOG.error(
                "{} does not end on SIGTERM: sending SIGKILL. If it was writing a checkpoint, the process may be left"
                        + " damaged",
                name);
        return killAll(killLimit, members);
    }

    /**
     * Continues processes and makes sure that they run. Processes that ended are left out.
     *
     * @throws CheckpointException if one does not run in time; the message names the rank
     */
    void resume(int rank, Collection<ProcessIdentity> processes, Duration limit) throws CheckpointException {
        letRun(processes);
        requireRunning(rank, processes, limit);
    }

    /**
     * Sends SIGCONT to every process, even if it seems to run. After SIGSTOP, or after the death of its tracer, a
     * stopped process shows as running until it gets a processor, and only then stops.
     */
    void letRun(Collection<ProcessIdentity> processes) throws CheckpointException {
        sendAll(Signal.CONT, List.copyOf(processes));
    }

    /** Checks that processes run after SIGCONT, and sends it again to those that do not. */
    void requireRunning(int rank, Collection<ProcessIdentity> processes, Duration limit) throws CheckpointException {
        boolean running = Polling.until(limit, () -> {
            boolean all = true;
            for (ProcessIdentity process : processes) {
                if (table.isAlive(process) && !table.isRunning(process)) {
                    all = false;
                    send(Signal.CONT, process);
                }
            }
            return all;
        });
        if (!running) {
            throw new CheckpointException("rank " + rank + ": its processes do not run again after SIGCONT");
        }
    }
}
