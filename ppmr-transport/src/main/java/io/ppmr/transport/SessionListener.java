package io.ppmr.transport;

import io.ppmr.protocol.data.ProtocolException;

/** Takes the events of one end of a session, on the thread of its agent. */
@FunctionalInterface
public interface SessionListener {
    /**
     * Takes an event.
     *
     * @throws ProtocolException if it is a message of a peer that sends more than is dealt with; the agent then ends
     *     the connection. Other events are always taken
     */
    void onEvent(SessionEvent event) throws ProtocolException;
}
