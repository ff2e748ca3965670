package io.ppmr.fuse;

import io.ppmr.os.LibC;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Shares the workers of one mount out, so that no ordinary user has all of them wait. A user has a share, all
 * ordinary users together leave some free for root and the service. Used by the workers, each with a place of its own;
 * takes no lock and allocates nothing, as each read and write passes here. The limits may be passed by the few calls
 * that begin at the same moment.
 */
final class WorkerShares {
    /** Of one user who is neither root nor the service's own: four calls at a time for each of 256 ranks. */
    static final int OF_A_USER = 1024;
    /** Of all such users; the others are kept free. */
    static final int OF_USERS = FuseWorkers.WORKERS_MAX - OF_A_USER;

    private static final int ROOT = 0;
    private static final long NOBODY = 0;
    private static final long IDLE = 1;
    private static final long SERVING = 1L << 32;

    private final AtomicLongArray places = new AtomicLongArray(FuseWorkers.WORKERS_MAX);
    private final AtomicInteger users = new AtomicInteger();
    private final int service = LibC.CALLS.geteuid();

    /** A worker's own place, until it is given back. There is one for each that may run. */
    int takePlace() {
        for (int place = 0; place < places.length(); place++) {
            if (places.compareAndSet(place, NOBODY, IDLE)) {
                return place;
            }
        }
        throw new IllegalStateException("more than " + places.length() + " workers have a place");
    }

    void givePlaceBack(int place) {
        places.set(place, NOBODY);
    }

    /**
     * A worker is about to serve a call that may wait.
     *
     * @param uid whose call
     * @return false if the user's share is used up: the call must be refused
     */
    boolean begin(int place, int uid) {
        if (uid == ROOT || uid == service) {
            return true;
        }
        int serving = users.incrementAndGet();
        if (serving > OF_A_USER && (serving > OF_USERS || servedFor(uid) >= OF_A_USER)) {
            users.decrementAndGet();
            return false;
        }
        places.set(place, SERVING | Integer.toUnsignedLong(uid));
        return true;
    }

    /** The call has ended, or was refused. */
    void end(int place) {
        if (places.get(place) != IDLE) {
            places.set(place, IDLE);
            users.decrementAndGet();
        }
    }

    private int servedFor(int uid) {
        long wanted = SERVING | Integer.toUnsignedLong(uid);
        int found = 0;
        for (int place = 0; place < places.length(); place++) {
            if (places.get(place) == wanted) {
                found++;
            }
        }
        return found;
    }
}
