package io.ppmr.checkpoint;

import io.ppmr.os.ProcessClock;
import io.ppmr.os.ProcessIdentity;
import io.ppmr.os.Processors;
import java.io.IOException;
import java.util.List;
import java.util.OptionalLong;

/**
 * The processor time of a process that is stopped and off its processors, by which a later look tells whether it ran
 * since. Immutable.
 *
 * @param threads the times of each thread, in the order of their numbers
 * @param clockNs the time of all threads together; empty where the kernel does not tell it
 */
record RunTimes(List<ThreadTimes> threads, OptionalLong clockNs) {
    static RunTimes of(ProcessTable table, ProcessIdentity process) {
        // The clock first: what runs in between shows by the clock later.
        OptionalLong clockNs = ProcessClock.ns(process.pid());
        return new RunTimes(table.times(process), clockNs);
    }

    /**
     * Proves of a process with more threads than the node has processors that none of them ran since, without a look at
     * each. SIGCONT makes all threads of a process runnable. One that ran and left its processor counts in the clock.
     * One that ran and has not left it yet occupies a processor, so there are at most as many of these as processors.
     * If one thread more than that is stopped, and the clock tells the same afterwards, then none ran.
     *
     * @return false if that cannot be told; the threads are looked at one by one then
     */
    boolean proveStandstill(ProcessTable table, ProcessIdentity process) {
        if (clockNs.isEmpty()) {
            return false;
        }
        int enough = processors() + 1;
        return threads.size() > enough
                && threads.stream().limit(enough).allMatch(thread -> table.isStopped(process, thread.thread()))
                && ProcessClock.ns(process.pid()).equals(clockNs)
                && table.isAlive(process);
    }

    private static int processors() {
        try {
            return Processors.online().cardinality();
        } catch (IOException e) {
            // A node without sysfs: more than any has, so each thread is looked at.
            return Integer.MAX_VALUE - 1;
        }
    }
}
