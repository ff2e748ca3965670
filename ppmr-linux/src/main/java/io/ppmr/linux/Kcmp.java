package io.ppmr.linux;

import java.io.IOException;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.OptionalInt;
import jnr.ffi.Memory;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;

/**
 * Compares open file descriptions of processes by kcmp(2). The kernel orders them, so that many descriptions can be
 * sorted instead of compared pairwise. Any thread. Needs the right to trace both processes.
 */
public final class Kcmp {
    /** The number of the system call, which differs between x86-64 and AArch64. */
    private static final long NUMBER = System.getProperty("os.arch").equals("aarch64") ? 272 : 312;

    private static final int FILE = 0;
    private static final int EPOLL_TARGET = 7;
    private static final int SLOT_BYTES = 12;
    private static final int LESS = 1;
    private static final int GREATER = 2;
    private static final int EPERM = 1;
    private static final int ENOENT = 2;
    private static final int ESRCH = 3;
    private static final int EBADF = 9;
    private static final int EACCES = 13;

    private Kcmp() {}

    /**
     * A descriptor of a process.
     *
     * @param pid the process
     * @param number the descriptor's number in it
     */
    public record Descriptor(int pid, int number) {}

    /**
     * Compares the open file descriptions of two descriptors.
     *
     * @return 0 if both refer to one description, -1 or 1 by the kernel's order; empty if one no longer exists, or may
     *     not be compared
     * @throws IOException if this kernel does not support the comparison
     */
    public static OptionalInt compare(Descriptor one, Descriptor other) throws IOException {
        return order(LibC.CALLS.syscall(NUMBER, one.pid(), other.pid(), FILE, one.number(), other.number(), 0));
    }

    /**
     * Returns whether an epoll(7) instance watches the open file description of a descriptor.
     *
     * @param epoll the descriptor of the instance
     * @param target the number under which the description was added to it
     * @param occurrence the index among the descriptions that were added under that number, from 0
     * @param candidate the descriptor to compare
     */
    public static boolean isTarget(Descriptor epoll, int target, int occurrence, Descriptor candidate)
            throws IOException {
        Pointer slot = Memory.allocateDirect(Runtime.getSystemRuntime(), SLOT_BYTES);
        byte[] fields = ByteBuffer.allocate(SLOT_BYTES)
                .order(ByteOrder.nativeOrder())
                .putInt(epoll.number())
                .putInt(target)
                .putInt(occurrence)
                .array();
        slot.put(0, fields, 0, fields.length);
        try {
            OptionalInt order = order(LibC.CALLS.syscall(
                    NUMBER, candidate.pid(), epoll.pid(), EPOLL_TARGET, candidate.number(), slot.address(), 0));
            return order.isPresent() && order.getAsInt() == 0;
        } finally {
            // Keeps the memory alive during the call, which receives only its address.
            Reference.reachabilityFence(slot);
        }
    }

    private static OptionalInt order(long result) throws IOException {
        if (result >= 0) {
            return OptionalInt.of(result == LESS ? -1 : result == GREATER ? 1 : (int) result);
        }
        int errno = LibC.errno();
        if (errno == ESRCH || errno == EBADF || errno == ENOENT || errno == EPERM || errno == EACCES) {
            return OptionalInt.empty();
        }
        throw new IOException(
                "open files cannot be compared by kcmp(2), which CRIU needs, too: " + LibC.describe(errno));
    }
}
