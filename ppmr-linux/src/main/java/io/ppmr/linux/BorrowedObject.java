package io.ppmr.linux;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;

/**
 * A duplicate, in this process, of an unnamed pipe or a socket of another process: pidfd_getfd(2). It remains valid
 * when the other process closes or replaces its own descriptor. Closed by its owner, for one thread.
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
     * Borrows a descriptor.
     *
     * @throws IOException if the descriptor no longer exists, is neither an unnamed pipe nor a socket, or cannot be
     *     borrowed
     */
    public static BorrowedObject of(int pid, int number) throws IOException {
        BorrowedDescriptor borrowed = BorrowedDescriptor.of(pid, number);
        // The link of a file, such as a named FIFO, is its path and has no such prefix.
        String shown = ProcFiles.link("/proc/self/fd/" + borrowed.number()).orElse("");
        if (WITHOUT_PATH.stream().noneMatch(shown::startsWith)) {
            borrowed.close();
            throw new IOException(
                    "descriptor " + number + " of PID " + pid + " is no pipe without a name and no socket");
        }
        return new BorrowedObject(borrowed);
    }

    /** Returns true if the object belongs to this user and this group. */
    public boolean isOwnedBy(int uid, int gid) throws IOException {
        Path own = Path.of("/proc/self/fd/" + descriptor.number());
        return Files.getAttribute(own, "unix:uid").equals(uid)
                && Files.getAttribute(own, "unix:gid").equals(gid);
    }

    /** Changes the owner and the group. The kernel then counts a socket as that user's. */
    public void changeOwner(int uid, int gid) throws IOException {
        if (LibC.CALLS.fchown(descriptor.number(), uid, gid) != 0) {
            throw new IOException("its owner cannot be changed to user " + Integer.toUnsignedString(uid) + ": "
                    + LibC.describe(LibC.errno()));
        }
    }

    /**
     * Calls listen(2) again on a listening Unix socket, as a user. The kernel then reports that user and this service's
     * process to connecting clients (SO_PEERCRED). A separate thread sets its effective user for this call and then
     * ends. Its real and saved user stay root, so that no process of the user may signal or trace it.
     *
     * @param backlog the limit of waiting connections, as before
     */
    public void listenAs(int uid, int gid, int backlog) throws IOException {
        String[] failure = {"its thread did not end within 10 s"};
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
