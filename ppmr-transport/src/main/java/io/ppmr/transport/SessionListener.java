package io.ppmr.transport;

import io.ppmr.protocol.data.ProtocolException;

/** Receives the events of one end of a session, on the thread of its agent. */
@FunctionalInterface
public interface SessionListener {
    /**
     * Handles an event.
     *
     * @throws ProtocolException if it is a message of a peer that sends messages faster than they are handled; the
     *     agent then closes the connection. Other events are always accepted
     */
    void onEvent(SessionEvent event) throws ProtocolException;
}
