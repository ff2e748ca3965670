package io.ppmr.os;

import java.io.IOException;

/** A descriptor of another process as one of this process, which means the same open file. For one thread. */
final class BorrowedDescriptor implements AutoCloseable {
    private static final int PIDFD_OPEN = 434;
    private static final int PIDFD_GETFD = 438;
    private static final int EPERM = 1;
    private static final int ENOSYS = 38;

    private final int number;

    private BorrowedDescriptor(int number) {
        this.number = number;
    }

    /**
     * Borrows one.
     *
     * @throws CannotBorrowException if the kernel is older than Linux 5.6, or this process may not trace that one
     * @throws IOException if the process or the descriptor is gone
     */
    static BorrowedDescriptor of(int pid, int number) throws IOException {
        int process = (int) LibC.CALLS.syscall(PIDFD_OPEN, pid, 0, 0, 0);
        if (process < 0) {
            throw failure("PID " + pid + " cannot be held", LibC.errno());
        }
        try {
            int descriptor = (int) LibC.CALLS.syscall(PIDFD_GETFD, process, number, 0, 0);
            if (descriptor < 0) {
                throw failure("descriptor " + number + " of PID " + pid + " cannot be borrowed", LibC.errno());
            }
            return new BorrowedDescriptor(descriptor);
        } finally {
            LibC.CALLS.close(process);
        }
    }

    private static IOException failure(String what, int errno) {
        String message = what + ": " + LibC.describe(errno);
        return errno == ENOSYS || errno == EPERM ? new CannotBorrowException(message) : new IOException(message);
    }

    /** Takes one of this process's own. */
    static BorrowedDescriptor own(int number) {
        return new BorrowedDescriptor(number);
    }

    int number() {
        return number;
    }

    @Override
    public void close() {
        LibC.CALLS.close(number);
    }
}
