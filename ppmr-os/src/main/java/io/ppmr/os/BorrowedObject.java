package io.ppmr.os;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;

/**
 * A pipe without a name or a socket of another process, as a descriptor of this one that means the same:
 * pidfd_getfd(2).
 * Whatever the other process does with its own meanwhile, this one stays. Closed by its owner, for one thread.
 */
public final class BorrowedObject implements AutoCloseable {
    private static final Set<String> WITHOUT_PATH = Set.of("pipe:[", "socket:[");

    private static final boolean IS_AARCH64 = System.getProperty("os.arch").equals("aarch64");
    private static final long LISTEN = IS_AARCH64 ? 201 : 50;
    private static final long SETRESUID = IS_AARCH64 ? 147 : 117;
    private static final long SETRESGID = IS_AARCH64 ? 149 : 119;
    private static final int UNCHANGED = -1;
    private static final long THREAD_LIMIT_MS = 10_000;

    private final BorrowedDescriptor descriptor;

    private BorrowedObject(BorrowedDescriptor descriptor) {
        this.descriptor = descriptor;
    }

    /**
     * Borrows one.
     *
     * @throws IOException if the descriptor is gone, is neither a pipe without a name nor a socket, or cannot be
     *     borrowed
     */
    public static BorrowedObject of(int pid, int number) throws IOException {
        BorrowedDescriptor borrowed = BorrowedDescriptor.of(pid, number);
        // The path of a file, as of a FIFO with a name, begins otherwise.
        String shown = ProcFiles.link("/proc/self/fd/" + borrowed.number()).orElse("");
        if (WITHOUT_PATH.stream().noneMatch(shown::startsWith)) {
            borrowed.close();
            throw new IOException(
                    "descriptor " + number + " of PID " + pid + " is no pipe without a name and no socket");
        }
        return new BorrowedObject(borrowed);
    }

    /** Returns true if it belongs to a user and a group. */
    public boolean isOf(int uid, int gid) throws IOException {
        Path own = Path.of("/proc/self/fd/" + descriptor.number());
        return Files.getAttribute(own, "unix:uid").equals(uid)
                && Files.getAttribute(own, "unix:gid").equals(gid);
    }

    /** Gives it to a user and a group; a socket counts as that user's from then on. */
    public void giveTo(int uid, int gid) throws IOException {
        if (LibC.CALLS.fchown(descriptor.number(), uid, gid) != 0) {
            throw new IOException(
                    "it cannot be given to user " + Integer.toUnsignedString(uid) + ": " + LibC.describe(LibC.errno()));
        }
    }

    /**
     * Has a Unix socket that listens listen once more, as a user: the kernel tells those who connect that this user
     * listens (SO_PEERCRED), and that it is this service's process. A thread of its own takes the user's identity, and
     * ends with it; its real and its saved identity stay root's, so that no process of the user's may touch it.
     *
     * @param backlog how many connections may wait, as before
     */
    public void listenAs(int uid, int gid, int backlog) throws IOException {
        String[] failure = {"its thread has not ended"};
        Thread listening = new Thread(
                () -> {
                    boolean done = LibC.CALLS.syscall(SETRESGID, UNCHANGED, gid, UNCHANGED, 0) == 0
                            && LibC.CALLS.syscall(SETRESUID, UNCHANGED, uid, UNCHANGED, 0) == 0
                            && LibC.CALLS.syscall(LISTEN, descriptor.number(), backlog, 0, 0) == 0;
                    failure[0] = done ? "" : LibC.describe(LibC.errno());
                },
                "listen-as-user");
        listening.start();
        UninterruptedWait.of(() -> {
            listening.join(THREAD_LIMIT_MS);
            return true;
        });
        if (!failure[0].isEmpty()) {
            throw new IOException("it cannot listen as user " + Integer.toUnsignedString(uid) + ": " + failure[0]);
        }
    }

    @Override
    public void close() {
        descriptor.close();
    }
}
