package io.ppmr.linux;

import java.util.OptionalLong;
import jnr.ffi.Memory;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;

/**
 * Reads the processor time of another process in nanoseconds: the sum of all its threads, including those that ended.
 * It calls clock_gettime(2) with the clock of clock_getcpuclockid(3), one system call for any number of threads. The
 * kernel adds a thread's time when the thread leaves its processor, and at each tick of the scheduler. Any thread.
 */
public final class ProcessClock {
    /** The number of clock_gettime(2), which differs between x86-64 and AArch64. */
    private static final long CLOCK_GETTIME = System.getProperty("os.arch").equals("aarch64") ? 113 : 228;

    /** The kernel's CPUCLOCK_SCHED: the clock of a whole process, as its scheduler counts. */
    private static final int OF_SCHEDULER = 2;

    private static final int PID_SHIFT = 3;
    private static final int TIMESPEC_BYTES = 16;
    private static final long NS_PER_S = 1_000_000_000L;
    private static final ThreadLocal<Pointer> TIMESPEC =
            ThreadLocal.withInitial(() -> Memory.allocateDirect(Runtime.getSystemRuntime(), TIMESPEC_BYTES));

    private ProcessClock() {}

    /** Returns the processor time of a process in ns; empty if the process no longer exists, or the kernel refuses. */
    public static OptionalLong ns(int pid) {
        Pointer time = TIMESPEC.get();
        // The kernel expects the complement of the PID: its clocks have negative numbers.
        int clock = (~pid << PID_SHIFT) | OF_SCHEDULER;
        return LibC.CALLS.syscall(CLOCK_GETTIME, clock, time.address(), 0, 0) == 0
                ? OptionalLong.of(time.getLong(0) * NS_PER_S + time.getLong(Long.BYTES))
                : OptionalLong.empty();
    }
}
