package io.ppmr.checkpoint;

import io.ppmr.linux.ProcessClock;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.linux.Processors;
import java.io.IOException;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * The processor time of a process that is stopped and off its processors. A later check finds out from it whether the
 * process ran since. Immutable.
 */
sealed interface RunTimes {
    /** Notes the time of a process. A process with many threads is read without each of them. */
    static RunTimes of(ProcessTable table, ProcessIdentity process) {
        // The clock is read first. A run in between then shows by the clock later.
        OptionalLong clockNs = ProcessClock.ns(process.pid());
        int enough = processors() + 1;
        List<Integer> some = clockNs.isPresent() ? table.someThreads(process, enough) : List.of();
        return some.size() == enough ? new OfCrowd(clockNs.getAsLong(), some) : new OfThreads(table.times(process));
    }

    /** Returns why the process is not proved alive, stopped and unchanged, or empty if it is. */
    Optional<String> whyNotHeld(ProcessTable table, ProcessIdentity process);

    private static int processors() {
        try {
            return Processors.online().cardinality();
        } catch (IOException e) {
            // On a node without sysfs this is more than any has, so each thread is read.
            return Integer.MAX_VALUE - 1;
        }
    }

    private static Optional<String> hasRun(ProcessIdentity process, String how) {
        return Optional.of("PID " + process.pid()
                + " has run while it was held (it was continued from outside, as by SIGCONT): " + how);
    }

    /**
     * A process with more threads than the node has processors. SIGCONT makes all threads of a process runnable. A
     * thread that ran and left its processor counts in the clock. One that ran and has not left it yet occupies a
     * processor, so there are at most as many of these as processors. If one thread more than that is stopped, and the
     * clock is unchanged after that, then none ran.
     *
     * @param clockNs the time of all threads together
     * @param some numbers of threads, one more than processors
     */
    record OfCrowd(long clockNs, List<Integer> some) implements RunTimes {
        @Override
        public Optional<String> whyNotHeld(ProcessTable table, ProcessIdentity process) {
            boolean areStopped = some.stream().allMatch(thread -> table.isStopped(process, thread));
            OptionalLong nowNs = ProcessClock.ns(process.pid());
            if (areStopped && nowNs.equals(OptionalLong.of(clockNs)) && table.isAlive(process)) {
                return Optional.empty();
            }
            Optional<String> runs = table.whyNotHeld(List.of(process));
            if (runs.isPresent()) {
                return runs;
            }
            OptionalLong thenNs = ProcessClock.ns(process.pid());
            return thenNs.equals(OptionalLong.of(clockNs))
                    ? Optional.empty()
                    : hasRun(
                            process,
                            "its threads had run " + clockNs + " ns, and have run "
                                    + (thenNs.isPresent() ? thenNs.getAsLong() + " ns" : "for an unknown time"));
        }
    }

    /**
     * Any other process.
     *
     * @param threads the times of each thread, in the order of their numbers
     */
    record OfThreads(List<ThreadTimes> threads) implements RunTimes {
        @Override
        public Optional<String> whyNotHeld(ProcessTable table, ProcessIdentity process) {
            List<ThreadTimes> now = table.times(process);
            boolean same = now.equals(threads);
            // A thread that has not run since it was found stopped is still stopped, unless it is about to run.
            if (!same || !table.isStopped(process) || !now.stream().allMatch(ThreadTimes::showsTurnsAtOnce)) {
                Optional<String> runs = table.whyNotHeld(List.of(process));
                if (runs.isPresent()) {
                    return runs;
                }
            }
            return same ? Optional.empty() : hasRun(process, difference(now));
        }

        private String difference(List<ThreadTimes> now) {
            for (ThreadTimes thread : now) {
                for (ThreadTimes earlier : threads) {
                    if (earlier.thread() == thread.thread() && !earlier.equals(thread)) {
                        return thread.since(earlier);
                    }
                }
            }
            return "it has other threads than before";
        }
    }
}
