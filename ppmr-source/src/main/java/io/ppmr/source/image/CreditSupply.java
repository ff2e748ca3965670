package io.ppmr.source.image;

import io.ppmr.protocol.data.CreditRequestFrame;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import org.agrona.collections.Long2LongHashMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Supplies one file's writers with receive slots. It requests credits from the target, waits for the replies, requests
 * credits ahead while a writer continues in order, and returns unused ones.
 *
 * <p>Guarded by the file's lock, which is released while waiting. {@link #offerReply} takes no lock.
 */
final class CreditSupply {
    /** Value in place of a receive slot: the request was denied. */
    static final int DENIED = -2;

    /** The end of a wait for a receive slot. */
    enum WaitResult {
        GRANTED,
        DENIED,
        FAILED
    }

    private static final Logger LOG = LoggerFactory.getLogger(CreditSupply.class);
    private static final int MAX_LOOKAHEAD = 8;
    private static final long NO_WINDOW = -1;
    /** Not a 32-bit number, so that it differs from every slot of a target. */
    private static final long NO_SLOT = Long.MIN_VALUE;

    private static final long WAIT_SLICE_NS = TimeUnit.SECONDS.toNanos(1);

    private final OutgoingFile file;
    private final ReentrantLock lock;
    private final Condition changed;
    private final Outlet outlet;
    /** The granted receive slots, by window; a few at a time. */
    private final Long2LongHashMap credits = new Long2LongHashMap(NO_SLOT);

    private final CreditInbox replies = new CreditInbox();
    private volatile Thread waiting;
    private long deniedWindow = NO_WINDOW;
    private long requestedTo = NO_WINDOW;
    private int inOrderCount;

    CreditSupply(OutgoingFile file, ReentrantLock lock, Condition changed, Outlet outlet) {
        this.file = file;
        this.lock = lock;
        this.changed = changed;
        this.outlet = outlet;
    }

    /**
     * Called by the session's agent: adds the target's reply, a receive slot or {@link #DENIED}.
     *
     * @return false if there are more replies than requests
     */
    boolean offerReply(long window, int slot) {
        boolean added = replies.offer(window, slot);
        LockSupport.unpark(waiting);
        return added;
    }

    /** Wakes all waiting threads, which then check the state again. */
    void wake() {
        LockSupport.unpark(waiting);
    }

    boolean isAwaited() {
        return waiting != null;
    }

    boolean hasCredit(long window) {
        return credits.containsKey(window);
    }

    /** Waits until the receive slot of a window is granted. */
    WaitResult await(long window) throws IOException, InterruptedException {
        processReplies();
        if (credits.containsKey(window)) {
            return WaitResult.GRANTED;
        }
        while (waiting != null && file.failure() == null) {
            // Another writer of this file is blocked, and only one sends a blocked request at a time.
            changed.awaitNanos(WAIT_SLICE_NS);
        }
        waiting = Thread.currentThread();
        long startNs = System.nanoTime();
        deniedWindow = NO_WINDOW;
        try {
            if (!credits.containsKey(window)) {
                outlet.requestCredits(file, window, 1, CreditRequestFrame.BLOCKED);
                requestedTo = Math.max(requestedTo, window);
            }
            while (!credits.containsKey(window) && file.failure() == null && deniedWindow != window) {
                // A blocked writer returns credits that it does not need next, so that other files can use them.
                returnUnused();
                awaitReply();
            }
        } finally {
            waiting = null;
            changed.signalAll();
            outlet.waitedForSlot(file, System.nanoTime() - startNs);
        }
        if (file.failure() != null) {
            return WaitResult.FAILED;
        }
        if (deniedWindow == window) {
            file.logContext()
                    .logging(() -> LOG.warn("file {}: no space for window {} at the target", file.name(), window));
            return WaitResult.DENIED;
        }
        return WaitResult.GRANTED;
    }

    /**
     * Uses a window's receive slot, returns slots of earlier windows, and requests credits ahead if the writer
     * continues in order.
     */
    int use(long window, boolean inOrder) throws IOException {
        int slot = (int) credits.remove(window);
        returnBelow(window);
        inOrderCount = inOrder ? inOrderCount + 1 : 0;
        if (requestedTo < window || inOrderCount == 0) {
            requestedTo = window;
        }
        long upTo = window + Math.min(inOrderCount, MAX_LOOKAHEAD);
        if (upTo > requestedTo && requestedTo - window <= MAX_LOOKAHEAD / 2) {
            outlet.requestCredits(file, requestedTo + 1, (int) (upTo - requestedTo), 0);
            requestedTo = upTo;
        }
        return slot;
    }

    /** Returns all credits, including those that were granted in the meantime. */
    void returnAll() throws IOException {
        processReplies();
        returnUnused();
    }

    private void returnUnused() throws IOException {
        if (!credits.isEmpty()) {
            returnBelow(Long.MAX_VALUE);
            requestedTo = NO_WINDOW;
        }
    }

    /** Returns credits for windows before this one, which the writer passed. */
    private void returnBelow(long window) throws IOException {
        Long2LongHashMap.EntryIterator unusedCredits = credits.entrySet().iterator();
        while (unusedCredits.hasNext()) {
            unusedCredits.next();
            long unused = unusedCredits.getLongKey();
            if (unused < window) {
                int slot = (int) unusedCredits.getLongValue();
                unusedCredits.remove();
                outlet.returnCredit(file, unused, slot);
            }
        }
    }

    private void awaitReply() throws InterruptedException {
        lock.unlock();
        try {
            if (replies.isEmpty() && file.failure() == null) {
                LockSupport.parkNanos(this, WAIT_SLICE_NS);
            }
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
        } finally {
            lock.lock();
        }
        processReplies();
    }

    private void processReplies() {
        while (!replies.isEmpty()) {
            int reply = replies.value();
            if (reply == DENIED) {
                deniedWindow = replies.window();
            } else {
                credits.put(replies.window(), reply);
            }
            replies.remove();
        }
    }
}
