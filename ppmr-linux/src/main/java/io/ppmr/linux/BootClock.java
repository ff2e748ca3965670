package io.ppmr.linux;

import jnr.ffi.Memory;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;

/**
 * The time since this node's boot, in nanoseconds: {@code CLOCK_BOOTTIME} of clock_gettime(2). {@code System.nanoTime}
 * stops while the machine is suspended. This clock continues, like the clocks of other nodes. So deadlines that two
 * nodes must agree on use this clock. Any thread; allocates only once per thread.
 */
public final class BootClock {
    /** The number of the system call, which differs between x86-64 and AArch64. */
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

    /** Returns the total time for which the machine was suspended since its boot. */
    public static long suspendedNs() {
        // In this order, time that passes between the two reads cannot make the result too small.
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
