package io.ppmr.migration.source;

import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.transport.Backlog;
import io.ppmr.transport.SessionEvent;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * The messages and tasks that other threads have for a migration's thread: what targets say, and what is to be done.
 * {@link #add}, {@link #post} and {@link #wake} are for any thread, the others for the migration's.
 */
final class MigrationInbox {
    /** The heap for messages that the migration's thread has not dealt with yet: there are some for each rank. */
    private static final int HEARD_BYTES = 16 << 20;

    /** Says nothing: the migration's thread looks at what does not come as a message. */
    private static final Attempt.InboxEvent NOTHING = new Attempt.InboxEvent(-1, "", null);

    private final BlockingQueue<Attempt.InboxEvent> heard = new LinkedBlockingQueue<>();
    /** Of the messages in {@link #heard} but those of progress. */
    private final Backlog backlog;
    /** The last such word of each target, for which one stands in {@link #heard}. */
    private final Map<String, Attempt.InboxEvent> progress = new ConcurrentHashMap<>();

    private final Queue<Runnable> posted = new ConcurrentLinkedQueue<>();

    /** @param patience how long a target's agent waits for room */
    MigrationInbox(Duration patience) {
        this.backlog = new Backlog(HEARD_BYTES, patience);
    }

    /**
     * Takes what a target says, or that it is lost. How far the transfer is comes again and again: of each target the
     * last word of that counts.
     *
     * @throws ProtocolException if it says more than is dealt with
     */
    void add(Attempt.InboxEvent next) throws ProtocolException {
        if (isProgress(next)) {
            if (progress.put(next.participant(), next) == null) {
                heard.add(next);
            }
            return;
        }
        if (next.event() instanceof SessionEvent.MessageReceived said) {
            backlog.reserve(said.lengthBytes());
        }
        heard.add(next);
    }

    private static boolean isProgress(Attempt.InboxEvent next) {
        return next.event() instanceof SessionEvent.MessageReceived said
                && said.message() instanceof DataMessage.Progress;
    }

    /** Has the migration's thread do it. */
    void post(Runnable work) {
        posted.add(work);
        wake();
    }

    /** Has the migration's thread look at what does not come as a message; it does so anyway where one waits. */
    void wake() {
        if (heard.isEmpty()) {
            heard.add(NOTHING);
        }
    }

    /** Waits for what a target says; empty if nothing has come, or another thread has woken this one. */
    Optional<Attempt.InboxEvent> next(long waitMs) throws InterruptedException {
        return taken(heard.poll(waitMs, TimeUnit.MILLISECONDS));
    }

    /** Returns what a target has said by now; empty if nothing is left. */
    Optional<Attempt.InboxEvent> next() {
        Optional<Attempt.InboxEvent> next = Optional.empty();
        while (next.isEmpty() && !heard.isEmpty()) {
            next = taken(heard.poll());
        }
        return next;
    }

    private Optional<Attempt.InboxEvent> taken(Attempt.InboxEvent first) {
        if (first == null || first.event() == null) {
            return Optional.empty();
        }
        if (isProgress(first)) {
            return Optional.of(progress.remove(first.participant()));
        }
        if (first.event() instanceof SessionEvent.MessageReceived said) {
            backlog.release(backlog.chargeOf(said.lengthBytes()));
        }
        return Optional.of(first);
    }

    /** Does what was posted. Where one thing throws, those behind it are for the next call. */
    void work() {
        for (Runnable next = posted.poll(); next != null; next = posted.poll()) {
            next.run();
        }
    }
}
