package io.ppmr.target;

import io.ppmr.target.session.SessionEvent;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * The end of a conversation: the source closes once it has heard the last word. Closing first, with bytes of the source
 * unread, would reset the connection and could take that word back.
 */
final class LastWords {
    /** Long enough for TCP to get through once a link that was down for some seconds is up again. */
    private static final long AT_MOST_NS = TimeUnit.SECONDS.toNanos(15);

    private LastWords() {}

    /** Waits, bounded, until the source has closed the connection. */
    static void awaitHeard(BlockingQueue<SessionEvent> events) throws InterruptedException {
        long deadlineNs = System.nanoTime() + AT_MOST_NS;
        SessionEvent event;
        do {
            event = events.poll(deadlineNs - System.nanoTime(), TimeUnit.NANOSECONDS);
        } while (event != null && !(event instanceof SessionEvent.LinkLost));
    }
}
