package io.ppmr.linux;

import java.util.Optional;
import jnr.ffi.Memory;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;

/**
 * The scheduling of a thread, sched(7), read by three system calls. A rank can have thousands of threads, and a file of
 * proc(5) costs the kernel ten times as much. Immutable.
 *
 * @param nice its nice value
 * @param realtimePriority its real-time priority; 0 without a real-time policy
 * @param policy its scheduling policy, without the flag SCHED_RESET_ON_FORK
 */
public record Scheduling(int nice, int realtimePriority, int policy) {
    private static final boolean IS_AARCH64 = System.getProperty("os.arch").equals("aarch64");
    private static final long GET_PRIORITY = IS_AARCH64 ? 141 : 140;
    private static final long GET_PARAMETERS = IS_AARCH64 ? 121 : 143;
    private static final long GET_SCHEDULER = IS_AARCH64 ? 120 : 145;
    private static final int OF_A_PROCESS = 0;
    /** The system call returns 20 minus the nice value, so that no result is negative. */
    private static final int NICE_OFFSET = 20;

    private static final int RESET_ON_FORK = 0x40000000;
    private static final ThreadLocal<Pointer> PARAMETERS =
            ThreadLocal.withInitial(() -> Memory.allocateDirect(Runtime.getSystemRuntime(), Long.BYTES));

    /** Returns the scheduling of a thread; empty if the thread no longer exists, or access is denied. */
    public static Optional<Scheduling> of(int thread) {
        Pointer parameters = PARAMETERS.get();
        long nice = LibC.CALLS.syscall(GET_PRIORITY, OF_A_PROCESS, thread, 0, 0);
        long policy = LibC.CALLS.syscall(GET_SCHEDULER, thread, 0, 0, 0);
        long status = LibC.CALLS.syscall(GET_PARAMETERS, thread, parameters.address(), 0, 0);
        return nice < 0 || policy < 0 || status < 0
                ? Optional.empty()
                : Optional.of(
                        new Scheduling(NICE_OFFSET - (int) nice, parameters.getInt(0), (int) policy & ~RESET_ON_FORK));
    }
}
