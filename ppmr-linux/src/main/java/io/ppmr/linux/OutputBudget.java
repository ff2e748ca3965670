package io.ppmr.linux;

import java.util.concurrent.atomic.AtomicInteger;

/**
 * Limits the output that several commands keep at a time, where users decide how much they print. Each command has a
 * few bytes of its own, so that the output of other commands never truncates a short answer. Longer output needs room
 * from a shared budget. No command waits for room: output without room is truncated. Safe for any thread.
 */
public final class OutputBudget {
    private final AtomicInteger freeBytes;
    private final int ownBytes;
    private final int maxBytes;

    /**
     * Creates a budget for several concurrent commands, whose number the caller limits.
     *
     * @param sharedBytes the bytes that the commands share
     * @param ownBytes the additional bytes of each command
     * @param maxBytes the maximum that one command keeps
     */
    public OutputBudget(int sharedBytes, int ownBytes, int maxBytes) {
        this.freeBytes = new AtomicInteger(sharedBytes);
        this.ownBytes = ownBytes;
        this.maxBytes = maxBytes;
    }

    /** Opens the share of one command. The caller closes it when it no longer keeps the output. */
    public BudgetShare open() {
        return new BudgetShare();
    }

    /** Reserves shared bytes: the wanted number, or all free bytes if there are fewer. */
    private int reserve(int wantedBytes) {
        int before = freeBytes.getAndUpdate(free -> free - Math.min(free, wantedBytes));
        return Math.min(before, wantedBytes);
    }

    /** The share of one command. For one thread, which closes it. */
    public final class BudgetShare implements AutoCloseable {
        private int keptBytes;
        private int sharedBytes;
        private boolean truncated;

        private BudgetShare() {}

        /** Returns how many of the next bytes may be kept. After the first refused byte the result is always 0. */
        int admit(int bytes) {
            if (truncated) {
                return 0;
            }
            int own = Math.min(bytes, Math.max(0, ownBytes - keptBytes));
            int shared = reserve(Math.max(0, Math.min(bytes, maxBytes - keptBytes) - own));
            sharedBytes += shared;
            keptBytes += own + shared;
            truncated = own + shared < bytes;
            return own + shared;
        }

        /** Returns true if some output was not kept. */
        public boolean isTruncated() {
            return truncated;
        }

        /** Returns the share's bytes to the budget. */
        @Override
        public void close() {
            freeBytes.addAndGet(sharedBytes);
            sharedBytes = 0;
            truncated = true;
        }
    }
}
