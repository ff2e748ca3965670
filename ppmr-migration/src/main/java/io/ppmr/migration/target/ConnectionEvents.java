package io.ppmr.migration.target;

import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.transport.Backlog;
import io.ppmr.transport.SessionEvent;
import io.ppmr.transport.SessionListener;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * The events of one control connection. They wait for the connection's thread, or go to a migration after
 * {@link #passTo}. Before a migration listens, any peer with the key can send messages. Therefore their number is
 * limited. They share room with all connections until {@link #handled}, {@link #passTo} or {@link #close}.
 *
 * <p>The connection's agent calls {@link #onEvent}. The connection's thread calls the other methods.
 */
final class ConnectionEvents implements SessionListener, AutoCloseable {
    /**
     * Maximum number of waiting events. A source sends three messages before its migration listens. Another peer
     * repeats one message each second.
     */
    private static final int MOST_WAITING = 64;

    private final Backlog room;
    private final BlockingQueue<SessionEvent> waiting = new LinkedBlockingQueue<>();
    /** The occupied room; guarded by this. */
    private int chargedBytes;
    /** The migration that listens, or null until there is one. Guarded by this. */
    private SessionListener migration;

    private volatile String loss;

    ConnectionEvents(Backlog room) {
        this.room = room;
    }

    @Override
    public void onEvent(SessionEvent event) throws ProtocolException {
        if (event instanceof SessionEvent.LinkLost end) {
            loss = end.reason();
        }
        SessionListener next;
        synchronized (this) {
            next = migration;
            if (next == null) {
                queue(event);
            }
        }
        if (next != null) {
            next.onEvent(event);
        }
    }

    /** Returns why the connection ended, or empty while it has not. Any thread. */
    Optional<String> loss() {
        return Optional.ofNullable(loss);
    }

    private void queue(SessionEvent event) throws ProtocolException {
        if (event instanceof SessionEvent.MessageReceived received) {
            if (waiting.size() >= MOST_WAITING) {
                throw new ProtocolException(
                        "the peer has sent " + MOST_WAITING + " unread messages, and" + " sends more");
            }
            chargedBytes += room.reserve(received.lengthBytes());
        }
        waiting.add(event);
    }

    /** Returns the waiting events, oldest first. */
    BlockingQueue<SessionEvent> waiting() {
        return waiting;
    }

    /** Releases the room of a message that was handled. */
    synchronized void handled(SessionEvent.MessageReceived received) {
        int charge = room.chargeOf(received.lengthBytes());
        chargedBytes -= charge;
        room.release(charge);
    }

    /** Passes the waiting events to the migration, and all later ones. */
    void passTo(SessionListener listener) throws ProtocolException {
        synchronized (this) {
            for (SessionEvent event = waiting.poll(); event != null; event = waiting.poll()) {
                listener.onEvent(event);
            }
            migration = listener;
        }
        close();
    }

    /** Releases the room. Waiting events are dropped. */
    @Override
    public synchronized void close() {
        room.release(chargedBytes);
        chargedBytes = 0;
    }
}
