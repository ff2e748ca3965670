package io.ppmr.linux;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/**
 * A descriptor that means one process, and never a later one with the same PID: pidfd_open(2). The caller checks the
 * process's identity after the descriptor was opened. Closed by its owner, for one thread.
 */
public final class ProcessDescriptor implements AutoCloseable {
    private static final int PIDFD_SEND_SIGNAL = 424;
    private static final int PIDFD_OPEN = 434;
    /** The size of {@code struct pollfd}, and the offset of its requested events. */
    private static final int POLLFD_BYTES = 8;

    private static final int POLLFD_EVENTS_OFFSET = 4;
    private static final short POLLIN = 1;
    private static final int EINTR = 4;

    private final int number;

    private ProcessDescriptor(int number) {
        this.number = number;
    }

    /**
     * Opens a descriptor of the process that has this PID now. If the kernel refuses, {@link LibC#errno()} has the
     * reason.
     */
    public static Optional<ProcessDescriptor> open(int pid) {
        int number = (int) LibC.CALLS.syscall(PIDFD_OPEN, pid, 0, 0, 0);
        return number < 0 ? Optional.empty() : Optional.of(new ProcessDescriptor(number));
    }

    /** Sends a signal. If the kernel refuses, this returns false, and {@link LibC#errno()} has the reason. */
    public boolean signal(int signal) {
        return LibC.CALLS.syscall(PIDFD_SEND_SIGNAL, number, signal, 0, 0) == 0;
    }

    /**
     * Waits until the process ended. The kernel wakes this thread. Repeated reads of {@code /proc} would delay the end
     * of a process with thousands of threads, because they take the same locks.
     *
     * @param deadlineNs the time of {@link System#nanoTime()} at which this returns false
     */
    public boolean awaitEnd(long deadlineNs) {
        int events;
        do {
            long leftMs = TimeUnit.NANOSECONDS.toMillis(deadlineNs - System.nanoTime());
            events = poll((int) Math.max(0, Math.min(Integer.MAX_VALUE, leftMs)));
        } while (events < 0 && LibC.errno() == EINTR);
        return events > 0;
    }

    /**
     * Waits without a time limit until the process ended.
     *
     * @return false if the kernel refuses to wait
     */
    public boolean awaitEnd() {
        int events;
        do {
            events = poll(-1);
        } while (events < 0 && LibC.errno() == EINTR);
        return events > 0;
    }

    /** The descriptor's number, for further calls of its owner. */
    int number() {
        return number;
    }

    private int poll(int limitMs) {
        ByteBuffer polled = ByteBuffer.allocate(POLLFD_BYTES).order(ByteOrder.nativeOrder());
        polled.putInt(0, number);
        polled.putShort(POLLFD_EVENTS_OFFSET, POLLIN);
        return LibC.CALLS.poll(polled.array(), 1, limitMs);
    }

    @Override
    public void close() {
        LibC.CALLS.close(number);
    }
}
