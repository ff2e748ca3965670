package io.ppmr.os;

import io.ppmr.os.ProcFiles.FileStatus;
import java.io.IOException;
import java.util.Optional;

/**
 * A pipe of another process, as a descriptor of this one that means the same pipe, pidfd_getfd(2). Whatever the other
 * process does with its own meanwhile, this one stays. Closed by its owner, for one thread.
 */
public final class BorrowedPipe implements AutoCloseable {
    /** PIPEFS_MAGIC: what lies there has no path. */
    private static final long PIPES = 0x50495045L;

    private final BorrowedDescriptor descriptor;

    private BorrowedPipe(BorrowedDescriptor descriptor) {
        this.descriptor = descriptor;
    }

    /**
     * Borrows one.
     *
     * @throws IOException if the descriptor is gone, is no pipe without a name, or cannot be borrowed
     */
    public static BorrowedPipe of(int pid, int number) throws IOException {
        BorrowedDescriptor borrowed = BorrowedDescriptor.of(pid, number);
        String own = "/proc/self/fd/" + borrowed.number();
        Optional<FileStatus> status = ProcFiles.status(own);
        if (status.filter(FileStatus::isFifo).isEmpty()
                || !ProcFiles.filesystemType(own).equals(Optional.of(PIPES))) {
            borrowed.close();
            throw new IOException("descriptor " + number + " of PID " + pid + " is no pipe");
        }
        return new BorrowedPipe(borrowed);
    }

    /** Gives it to a user and a group. */
    public void giveTo(int uid, int gid) throws IOException {
        if (LibC.CALLS.fchown(descriptor.number(), uid, gid) != 0) {
            throw new IOException("a pipe cannot be given to user " + Integer.toUnsignedString(uid) + ": "
                    + LibC.describe(LibC.errno()));
        }
    }

    @Override
    public void close() {
        descriptor.close();
    }
}
