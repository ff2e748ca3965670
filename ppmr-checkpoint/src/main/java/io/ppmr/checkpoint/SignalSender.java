package io.ppmr.checkpoint;

import io.ppmr.os.LibC;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;

/**
 * Sends signals to processes by identity, never by PID alone: between a look at /proc and kill(2) the PID can become a
 * stranger's. A pidfd is opened first, the process is looked at afterwards, and the signal goes to the pidfd: if the
 * PID was reused before the pidfd was opened the look sees it, if later the pidfd still means the old process.
 * pidfd_open(2), pidfd_send_signal(2). Immutable, for any thread.
 */
public final class SignalSender {
    /** The signals used here, by their number on Linux (the same on x86-64 and AArch64). */
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

    /** The numbers of system calls that came after Linux 5.0 are the same on all machines. */
    private static final int PIDFD_SEND_SIGNAL = 424;

    private static final int PIDFD_OPEN = 434;
    private static final int ESRCH = 3;

    private final ProcessTable table;

    /** One that tells processes apart by this table. */
    public SignalSender(ProcessTable table) {
        this.table = table;
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

    /** The same, for any signal, by its number. */
    public boolean send(int signal, ProcessIdentity process) throws CheckpointException {
        int descriptor = (int) LibC.CALLS.syscall(PIDFD_OPEN, process.pid(), 0, 0, 0);
        if (descriptor < 0) {
            return answer(signal, process, LibC.errno());
        }
        try {
            return table.isAlive(process)
                    && (LibC.CALLS.syscall(PIDFD_SEND_SIGNAL, descriptor, signal, 0, 0) == 0
                            || answer(signal, process, LibC.errno()));
        } catch (UncheckedIOException e) {
            throw new CheckpointException("signal " + signal + " could not be sent: " + e.getMessage(), e);
        } finally {
            LibC.CALLS.close(descriptor);
        }
    }

    /** False, for one that is gone; throws for one that may not be signalled. */
    private static boolean answer(int signal, ProcessIdentity process, int errno) throws CheckpointException {
        if (errno == ESRCH) {
            return false;
        }
        throw new CheckpointException("signal " + signal + " could not be sent to PID " + process.pid() + ": "
                + LibC.describe(errno) + ". Remedy: run as root or as the job's user, on Linux 5.3 or newer");
    }

    /**
     * Sends a signal to each process that still lives, in this order. Where one may not be signalled the others are all
     * the same.
     *
     * @return those that are gone
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
}
