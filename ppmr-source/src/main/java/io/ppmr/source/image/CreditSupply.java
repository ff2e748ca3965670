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
 * Gives one file's writers the receive slots that they need: asks the target, waits for its answer, asks ahead while a
 * writer continues in order, and gives back what is not used.
 *
 * <p>Guarded by the file's lock, which is given up while waiting; {@link #offerReply} takes no lock.
 */
final class CreditSupply {
    /** Instead of a receive slot: there will be none. */
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
    /** No 32-bit number, so that none that a target sends is taken for it. */
    private static final long NO_SLOT = Long.MIN_VALUE;

    private static final long WAIT_SLICE_NS = TimeUnit.SECONDS.toNanos(1);

    private final OutgoingFile file;
    private final ReentrantLock lock;
    private final Condition changed;
    private final Outlet outlet;
    /** The receive slots that the target has granted, by window: a handful at a time. */
    private final Long2LongHashMap credits = new Long2LongHashMap(NO_SLOT);

    private final CreditInbox answers = new CreditInbox();
    private volatile Thread waiting;
    private long deniedWindow = NO_WINDOW;
    private long wantedTo = NO_WINDOW;
    private int inOrderCount;

    CreditSupply(OutgoingFile file, ReentrantLock lock, Condition changed, Outlet outlet) {
        this.file = file;
        this.lock = lock;
        this.changed = changed;
        this.outlet = outlet;
    }

    /**
     * The session's agent: the target's answer, a receive slot or {@link #DENIED}.
     *
     * @return false if there are more answers than were asked for
     */
    boolean offerReply(long window, int slot) {
        boolean kept = answers.offer(window, slot);
        LockSupport.unpark(waiting);
        return kept;
    }

    /** Has all that wait look again. */
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
            // Another writer of this file is blocked: one asks at a time.
            changed.awaitNanos(WAIT_SLICE_NS);
        }
        waiting = Thread.currentThread();
        long startNs = System.nanoTime();
        deniedWindow = NO_WINDOW;
        try {
            if (!credits.containsKey(window)) {
                outlet.requestCredits(file, window, 1, CreditRequestFrame.BLOCKED);
                wantedTo = Math.max(wantedTo, window);
            }
            while (!credits.containsKey(window) && file.failure() == null && deniedWindow != window) {
                // A blocked writer returns credits that it does not need next, so that other files can use them.
                returnHeld();
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
                    .logging(() -> LOG.warn("file {}: no room for window {} at the target", file.name(), window));
            return WaitResult.DENIED;
        }
        return WaitResult.GRANTED;
    }

    /** Uses a window's receive slot, gives back those the writer is past, and asks ahead if it continues in order. */
    int use(long window, boolean inOrder) throws IOException {
        int slot = (int) credits.remove(window);
        returnBelow(window);
        inOrderCount = inOrder ? inOrderCount + 1 : 0;
        if (wantedTo < window || inOrderCount == 0) {
            wantedTo = window;
        }
        long upTo = window + Math.min(inOrderCount, MAX_LOOKAHEAD);
        if (upTo > wantedTo && wantedTo - window <= MAX_LOOKAHEAD / 2) {
            outlet.requestCredits(file, wantedTo + 1, (int) (upTo - wantedTo), 0);
            wantedTo = upTo;
        }
        return slot;
    }

    /** Gives back everything, also what was granted meanwhile. */
    void returnAll() throws IOException {
        processReplies();
        returnHeld();
    }

    private void returnHeld() throws IOException {
        if (!credits.isEmpty()) {
            returnBelow(Long.MAX_VALUE);
            wantedTo = NO_WINDOW;
        }
    }

    /** Gives back what is for windows before this one: the writer is past them. */
    private void returnBelow(long window) throws IOException {
        Long2LongHashMap.EntryIterator held = credits.entrySet().iterator();
        while (held.hasNext()) {
            held.next();
            long unused = held.getLongKey();
            if (unused < window) {
                int slot = (int) held.getLongValue();
                held.remove();
                outlet.returnCredit(file, unused, slot);
            }
        }
    }

    private void awaitReply() throws InterruptedException {
        lock.unlock();
        try {
            if (answers.isEmpty() && file.failure() == null) {
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
        while (!answers.isEmpty()) {
            int answer = answers.value();
            if (answer == DENIED) {
                deniedWindow = answers.window();
            } else {
                credits.put(answers.window(), answer);
            }
            answers.remove();
        }
    }
}
