package io.ppmr.os;

import java.util.concurrent.atomic.AtomicInteger;

/**
 * Limits the output that several commands keep at a time, where users decide how much they print. Each command has a
 * few bytes of its own, so that no other one's output cuts a short answer; what is longer needs room that all share.
 * Nothing waits for room: what finds none is cut. Safe for any thread.
 */
public final class OutputBudget {
    private final AtomicInteger freeBytes;
    private final int ownBytes;
    private final int mostBytes;

    /**
     * Makes a budget for some number of commands at a time, which the caller limits.
     *
     * @param sharedBytes what the commands share
     * @param ownBytes what each of them has beside that
     * @param mostBytes the most that one of them keeps
     */
    public OutputBudget(int sharedBytes, int ownBytes, int mostBytes) {
        this.freeBytes = new AtomicInteger(sharedBytes);
        this.ownBytes = ownBytes;
        this.mostBytes = mostBytes;
    }

    /** Opens the share of one command; to be closed when its output is kept no longer. */
    public BudgetShare open() {
        return new BudgetShare();
    }

    /** Takes shared bytes: as many as are wanted, or as are free. */
    private int take(int wantedBytes) {
        int before = freeBytes.getAndUpdate(free -> free - Math.min(free, wantedBytes));
        return Math.min(before, wantedBytes);
    }

    /** The share of one command. For one thread, which closes it. */
    public final class BudgetShare implements AutoCloseable {
        private int keptBytes;
        private int sharedBytes;
        private boolean cut;

        private BudgetShare() {}

        /** Returns how many of some further bytes may be kept; after the first that may not, none may. */
        int admit(int bytes) {
            if (cut) {
                return 0;
            }
            int own = Math.min(bytes, Math.max(0, ownBytes - keptBytes));
            int shared = take(Math.max(0, Math.min(bytes, mostBytes - keptBytes) - own));
            sharedBytes += shared;
            keptBytes += own + shared;
            cut = own + shared < bytes;
            return own + shared;
        }

        /** Returns true if there was output that was not kept. */
        public boolean isCut() {
            return cut;
        }

        /** Gives its bytes back. */
        @Override
        public void close() {
            freeBytes.addAndGet(sharedBytes);
            sharedBytes = 0;
            cut = true;
        }
    }
}
