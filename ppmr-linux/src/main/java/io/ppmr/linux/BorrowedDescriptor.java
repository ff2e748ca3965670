package io.ppmr.linux;

import java.io.IOException;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A duplicate, in this process, of a socket or pipe descriptor of another process. For one thread.
 *
 * <p>The other process can replace its descriptor by a file at any time. Closing such a file calls the server of its
 * filesystem, which may belong to the user and never respond. So a separate thread closes the file, and the number of
 * these threads is limited.
 */
final class BorrowedDescriptor implements AutoCloseable {
    private static final int PIDFD_GETFD = 438;
    private static final int SOCKET_TYPE = 3;
    /** F_GETPIPE_SZ. */
    private static final int PIPE_SIZE = 1032;

    private static final int MOST_UNCLOSED = 16;
    private static final AtomicInteger UNCLOSED = new AtomicInteger();
    private static final int EPERM = 1;
    private static final int ENOSYS = 38;

    private final int number;

    private BorrowedDescriptor(int number) {
        this.number = number;
    }

    /**
     * Borrows a descriptor.
     *
     * @throws CannotBorrowException if the kernel is older than Linux 5.6, or this process may not trace that one
     * @throws IOException if the process or the descriptor no longer exists, or it is neither a socket nor a pipe
     */
    static BorrowedDescriptor of(int pid, int number) throws IOException {
        if (UNCLOSED.get() >= MOST_UNCLOSED) {
            throw new IOException(MOST_UNCLOSED + " files that processes have replaced sockets and pipes with are"
                    + " not closed yet, since their filesystems do not answer. Remedy: end the servers of these");
        }
        Optional<ProcessDescriptor> opened = ProcessDescriptor.open(pid);
        if (opened.isEmpty()) {
            throw failure("PID " + pid + " cannot be held", LibC.errno());
        }
        try (ProcessDescriptor process = opened.get()) {
            int descriptor = (int) LibC.CALLS.syscall(PIDFD_GETFD, process.number(), number, 0, 0);
            if (descriptor < 0) {
                throw failure("descriptor " + number + " of PID " + pid + " cannot be borrowed", LibC.errno());
            }
            if (!isSocketOrPipe(descriptor)) {
                discard(descriptor);
                throw new IOException("descriptor " + number + " of PID " + pid + " is no pipe and no socket");
            }
            return new BorrowedDescriptor(descriptor);
        }
    }

    /** These calls do not reach the server of a filesystem. */
    private static boolean isSocketOrPipe(int descriptor) {
        int[] length = {Integer.BYTES};
        return LibC.CALLS.getsockopt(descriptor, LibC.SOCKET_LEVEL, SOCKET_TYPE, new byte[Integer.BYTES], length) == 0
                || LibC.CALLS.fcntl(descriptor, PIPE_SIZE, 0) >= 0;
    }

    private static void discard(int descriptor) {
        UNCLOSED.incrementAndGet();
        Thread closing = new Thread(
                () -> {
                    LibC.CALLS.close(descriptor);
                    UNCLOSED.decrementAndGet();
                },
                "close-of-a-users-file");
        closing.setDaemon(true);
        closing.start();
    }

    private static IOException failure(String what, int errno) {
        String message = what + ": " + LibC.describe(errno);
        return errno == ENOSYS || errno == EPERM ? new CannotBorrowException(message) : new IOException(message);
    }

    /** Wraps a descriptor that this process opened. */
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
