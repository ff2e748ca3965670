package io.ppmr.os;

import jnr.ffi.Memory;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;

/**
 * The time since this node's boot, in nanoseconds: {@code CLOCK_BOOTTIME} of clock_gettime(2). Unlike {@code
 * System.nanoTime}, which is stopped while the machine is suspended, it is what has passed for all other nodes, too. So
 * whatever two nodes must agree on is counted by it. Any thread; allocates nothing but once for each thread.
 */
public final class BootClock {
    /** The number of the call, which is not the same on x86-64 and AArch64. */
    private static final long CLOCK_GETTIME = System.getProperty("os.arch").equals("aarch64") ? 113 : 228;

    private static final int CLOCK_MONOTONIC = 1;
    private static final int CLOCK_BOOTTIME = 7;
    private static final int TIMESPEC_BYTES = 16;
    private static final int NANOSECONDS_OFFSET = 8;
    private static final long NS_A_SECOND = 1_000_000_000L;
    private static final ThreadLocal<Pointer> TIMESPEC =
            ThreadLocal.withInitial(() -> Memory.allocateDirect(Runtime.getSystemRuntime(), TIMESPEC_BYTES));

    private BootClock() {}

    /** The time since the boot. */
    public static long nowNs() {
        return read(CLOCK_BOOTTIME);
    }

    /** Returns for how long the machine has been suspended since its boot. */
    public static long suspendedNs() {
        // In this order what passes between the two makes it no smaller than it is.
        long awakeNs = read(CLOCK_MONOTONIC);
        return read(CLOCK_BOOTTIME) - awakeNs;
    }

    private static long read(int clock) {
        Pointer timespec = TIMESPEC.get();
        if (LibC.CALLS.syscall(CLOCK_GETTIME, clock, timespec.address(), 0, 0) != 0) {
            throw new IllegalStateException("clock " + clock + " cannot be read: " + LibC.describe(LibC.errno()));
        }
        return timespec.getLong(0) * NS_A_SECOND + timespec.getLong(NANOSECONDS_OFFSET);
    }
}
