package io.ppmr.target.image;

import org.agrona.collections.LongArrayQueue;
import org.agrona.collections.LongHashSet;

/** What the writer of one file asks for and has been given. Owned by the session's agent. */
final class FileCreditRequests {
    static final long NONE = -1;

    final ArrivingFile file;

    /** Windows whose slot is granted and not advertised yet. */
    final LongHashSet granted = new LongHashSet();

    /** Windows that the writer will probably need next. */
    final LongArrayQueue ahead = new LongArrayQueue();

    /** The window for which a writer stands still. */
    long blockedWindow = NONE;

    /** Whether there is a gap in the file before the blocked window. */
    boolean blockedBehindGap;

    /** Whether it stands in the ledger's queue. */
    boolean queued;

    FileCreditRequests(ArrivingFile file) {
        this.file = file;
    }

    boolean wantsAnything() {
        return blockedWindow != NONE || !ahead.isEmpty();
    }

    boolean isBlocked() {
        return blockedWindow != NONE;
    }

    /** The writer is at this window: what it was to need before it is past. */
    void forgetUpTo(long window) {
        while (!ahead.isEmpty() && ahead.peekLong() <= window) {
            ahead.pollLong();
        }
    }

    void forget() {
        blockedWindow = NONE;
        ahead.clear();
    }
}
