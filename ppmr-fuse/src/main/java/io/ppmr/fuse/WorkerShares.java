package io.ppmr.fuse;

import io.ppmr.linux.LibC;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Limits the workers of one mount that each user may occupy, so that no ordinary user can block all of them. Each user
 * has a share, and all ordinary users together leave some workers for root and the service. Each worker has its own
 * slot. It takes no lock and allocates nothing, because each read and write uses it. A few calls that begin at the same
 * time may exceed the limits.
 */
final class WorkerShares {
    /** Maximum for one user who is neither root nor the service's own: four concurrent calls for each of 256 ranks. */
    static final int OF_A_USER = 1024;
    /** Maximum for all these users. The other workers are kept free. */
    static final int OF_USERS = FuseWorkers.WORKERS_MAX - OF_A_USER;

    private static final int ROOT = 0;
    private static final long FREE = 0;
    private static final long IDLE = 1;
    private static final long SERVING = 1L << 32;

    private final AtomicLongArray slots = new AtomicLongArray(FuseWorkers.WORKERS_MAX);
    private final AtomicInteger users = new AtomicInteger();
    private final int service = LibC.CALLS.geteuid();

    /** Reserves a worker's slot, until it is released. There is one for each worker that may run. */
    int reserveSlot() {
        for (int slot = 0; slot < slots.length(); slot++) {
            if (slots.compareAndSet(slot, FREE, IDLE)) {
                return slot;
            }
        }
        throw new IllegalStateException("more than " + slots.length() + " workers have a slot");
    }

    void releaseSlot(int slot) {
        slots.set(slot, FREE);
    }

    /**
     * Called before a worker serves a call that may wait.
     *
     * @param uid the user of the call
     * @return false if the user's share is exhausted: the call must be refused
     */
    boolean begin(int slot, int uid) {
        if (uid == ROOT || uid == service) {
            return true;
        }
        int serving = users.incrementAndGet();
        if (serving > OF_A_USER && (serving > OF_USERS || servedFor(uid) >= OF_A_USER)) {
            users.decrementAndGet();
            return false;
        }
        slots.set(slot, SERVING | Integer.toUnsignedLong(uid));
        return true;
    }

    /** Called when the call ended, or was refused. */
    void end(int slot) {
        if (slots.get(slot) != IDLE) {
            slots.set(slot, IDLE);
            users.decrementAndGet();
        }
    }

    private int servedFor(int uid) {
        long wanted = SERVING | Integer.toUnsignedLong(uid);
        int found = 0;
        for (int slot = 0; slot < slots.length(); slot++) {
            if (slots.get(slot) == wanted) {
                found++;
            }
        }
        return found;
    }
}
