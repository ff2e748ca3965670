package io.ppmr.migration.target;

import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.transport.Backlog;
import io.ppmr.transport.SessionEvent;
import io.ppmr.transport.SessionListener;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * The events of one control connection: they wait for the connection's thread, and from {@link #passTo} on they go to a
 * migration. A peer that has the key decides how much it says before a migration listens, so what waits is limited in
 * number, and takes room that all connections share until {@link #handled}, {@link #passTo} or {@link #close}.
 *
 * <p>The connection's agent calls {@link #onEvent}; the connection's thread calls the rest.
 */
final class ConnectionEvents implements SessionListener, AutoCloseable {
    /** A source says three messages before its migration listens, another peer the same word again each second. */
    private static final int MOST_WAITING = 64;

    private final Backlog room;
    private final BlockingQueue<SessionEvent> waiting = new LinkedBlockingQueue<>();
    /** The room that is taken; guarded by this. */
    private int chargedBytes;
    /** Guarded by this; null until a migration listens. */
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

    /** Returns why the connection has ended; empty while it has not. Any thread. */
    Optional<String> loss() {
        return Optional.ofNullable(loss);
    }

    private void queue(SessionEvent event) throws ProtocolException {
        if (event instanceof SessionEvent.MessageReceived said) {
            if (waiting.size() >= MOST_WAITING) {
                throw new ProtocolException(
                        "the peer has sent " + MOST_WAITING + " messages that wait to be read, and" + " sends more");
            }
            chargedBytes += room.reserve(said.lengthBytes());
        }
        waiting.add(event);
    }

    /** The events that wait, oldest first. */
    BlockingQueue<SessionEvent> waiting() {
        return waiting;
    }

    /** A message that was taken out is dealt with. */
    synchronized void handled(SessionEvent.MessageReceived said) {
        int charge = room.chargeOf(said.lengthBytes());
        chargedBytes -= charge;
        room.release(charge);
    }

    /** The migration listens from now on, and hears first what waits. */
    void passTo(SessionListener listener) throws ProtocolException {
        synchronized (this) {
            for (SessionEvent event = waiting.poll(); event != null; event = waiting.poll()) {
                listener.onEvent(event);
            }
            migration = listener;
        }
        close();
    }

    /** Gives the room back; what waits is no longer read. */
    @Override
    public synchronized void close() {
        room.release(chargedBytes);
        chargedBytes = 0;
    }
}
