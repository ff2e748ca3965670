package io.ppmr.os;

import java.io.IOException;

/**
 * A socket of another process, as a descriptor of this one that means the same socket: pidfd_getfd(2). Closed by its
 * owner, for one thread.
 */
public final class BorrowedSocket implements AutoCloseable {
    private static final int PIDFD_OPEN = 434;
    private static final int PIDFD_GETFD = 438;
    private static final int BOTH_WAYS = 2;

    private final int descriptor;

    private BorrowedSocket(int descriptor) {
        this.descriptor = descriptor;
    }

    /**
     * Borrows one.
     *
     * @throws IOException if the process or the descriptor is gone, the kernel is older than Linux 5.6, or this process
     *     may not trace that one
     */
    public static BorrowedSocket of(int pid, int number) throws IOException {
        int process = (int) LibC.CALLS.syscall(PIDFD_OPEN, pid, 0, 0, 0);
        if (process < 0) {
            throw new IOException("PID " + pid + " cannot be held: " + LibC.describe(LibC.errno()));
        }
        try {
            int descriptor = (int) LibC.CALLS.syscall(PIDFD_GETFD, process, number, 0, 0);
            if (descriptor < 0) {
                throw new IOException("descriptor " + number + " of PID " + pid + " cannot be borrowed: "
                        + LibC.describe(LibC.errno()));
            }
            return new BorrowedSocket(descriptor);
        } finally {
            LibC.CALLS.close(process);
        }
    }

    /** Ends the connection in both directions, for all processes that have the socket; shutdown(2). */
    public void shutDown() throws IOException {
        if (LibC.CALLS.shutdown(descriptor, BOTH_WAYS) != 0) {
            throw new IOException("a socket cannot be shut down: " + LibC.describe(LibC.errno()));
        }
    }

    @Override
    public void close() {
        LibC.CALLS.close(descriptor);
    }
}
