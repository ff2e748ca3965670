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
 * The messages and tasks from other threads for a migration's thread. Any thread may call {@link #add}, {@link #post}
 * and {@link #wake}. The migration's thread calls the other methods.
 */
final class MigrationInbox {
    /** Heap for messages that wait for the migration's thread. There are some for each rank. */
    private static final int MESSAGE_BYTES = 16 << 20;

    /** An empty event, which only wakes the migration's thread. */
    private static final Attempt.InboxEvent WAKE_UP = new Attempt.InboxEvent(-1, "", null);

    private final BlockingQueue<Attempt.InboxEvent> events = new LinkedBlockingQueue<>();
    /** The size of the waiting messages, except for those of progress. */
    private final Backlog backlog;
    /** The last progress message of each target, for which one event is in the queue. */
    private final Map<String, Attempt.InboxEvent> progress = new ConcurrentHashMap<>();

    private final Queue<Runnable> tasks = new ConcurrentLinkedQueue<>();

    /** @param patience time for which a target's agent waits for room */
    MigrationInbox(Duration patience) {
        this.backlog = new Backlog(MESSAGE_BYTES, patience);
    }

    /**
     * Adds a message from a target, or its loss. Progress messages are frequent, so only the last one of each target is
     * kept.
     *
     * @throws ProtocolException if the target sends too much
     */
    void add(Attempt.InboxEvent next) throws ProtocolException {
        if (isProgress(next)) {
            if (progress.put(next.participant(), next) == null) {
                events.add(next);
            }
            return;
        }
        if (next.event() instanceof SessionEvent.MessageReceived received) {
            backlog.reserve(received.lengthBytes());
        }
        events.add(next);
    }

    private static boolean isProgress(Attempt.InboxEvent next) {
        return next.event() instanceof SessionEvent.MessageReceived received
                && received.message() instanceof DataMessage.Progress;
    }

    /** Adds a task for the migration's thread. */
    void post(Runnable runPosted) {
        tasks.add(runPosted);
        wake();
    }

    /** Wakes the migration's thread, unless an event is waiting anyway. */
    void wake() {
        if (events.isEmpty()) {
            events.add(WAKE_UP);
        }
    }

    /** Waits for the next message. Returns empty if none arrived, or another thread called {@link #wake}. */
    Optional<Attempt.InboxEvent> next(long waitMs) throws InterruptedException {
        return resolveProgress(events.poll(waitMs, TimeUnit.MILLISECONDS));
    }

    /** Returns the next message that has arrived, or empty if none is left. */
    Optional<Attempt.InboxEvent> next() {
        Optional<Attempt.InboxEvent> next = Optional.empty();
        while (next.isEmpty() && !events.isEmpty()) {
            next = resolveProgress(events.poll());
        }
        return next;
    }

    private Optional<Attempt.InboxEvent> resolveProgress(Attempt.InboxEvent first) {
        if (first == null || first.event() == null) {
            return Optional.empty();
        }
        if (isProgress(first)) {
            return Optional.of(progress.remove(first.participant()));
        }
        if (first.event() instanceof SessionEvent.MessageReceived received) {
            backlog.release(backlog.chargeOf(received.lengthBytes()));
        }
        return Optional.of(first);
    }

    /** Runs the posted tasks. If one throws, the later ones wait for the next call. */
    void runPosted() {
        for (Runnable next = tasks.poll(); next != null; next = tasks.poll()) {
            next.run();
        }
    }
}
