package io.ppmr.checkpoint;

import io.ppmr.checkpoint.ProcessPrivileges.OpenFile;
import java.util.Map;
import java.util.TreeMap;

/** The facts about all threads and files of a rank together. Owned by one thread. */
final class RightsSummary {
    private final Map<String, long[]> limits = new TreeMap<>();
    private int leastNice = Integer.MAX_VALUE;
    private boolean sharedMemory;
    private boolean settings;

    void add(ThreadRights thread) {
        add(thread.scheduling().nice(), thread.limits());
    }

    void add(int nice, Map<String, long[]> ofThread) {
        leastNice = Math.min(leastNice, nice);
        ofThread.forEach((name, limit) -> limits.merge(name, limit, RightsSummary::larger));
    }

    void add(OpenFile file) {
        sharedMemory |= file.path().equals(ProcessPrivileges.SHARED_MEMORY)
                || file.path().equals(ProcessPrivileges.UNNAMED_MEMORY);
    }

    /** Notes that a thread or a socket has settings that a restart leaves out. */
    void addSettings() {
        settings = true;
    }

    /** Returns true if a thread or a socket has settings that a restart leaves out. */
    boolean hasSettings() {
        return settings;
    }

    private static long[] larger(long[] one, long[] other) {
        return new long[] {
            larger(one[ThreadRights.SOFT], other[ThreadRights.SOFT]),
            larger(one[ThreadRights.HARD], other[ThreadRights.HARD])
        };
    }

    private static long larger(long one, long other) {
        return Long.compareUnsigned(one, other) > 0 ? one : other;
    }

    /** Returns true if no thread is known. */
    boolean hasNoThread() {
        return leastNice == Integer.MAX_VALUE;
    }

    /** Returns the least nice value of a thread, or 0 if none is known. */
    int leastNice() {
        return hasNoThread() ? 0 : leastNice;
    }

    /**
     * Returns the largest limit of a thread, or 0 if none is known.
     *
     * @param limit its name in prlimit(1)
     * @param which {@link ThreadRights#SOFT} or {@link ThreadRights#HARD}
     */
    long most(String limit, int which) {
        long[] values = limits.get(limit);
        return values == null ? 0 : values[which];
    }

    /** Returns true if a process shares memory that belongs to no file. */
    boolean hasSharedMemory() {
        return sharedMemory;
    }
}
