package io.ppmr.transport;

import io.ppmr.protocol.data.Message;

/** A message of one end of a session to the thread that runs the migration. Immutable. */
public sealed interface SessionEvent {

    /**
     * The peer says something that is not about names or bytes.
     *
     * @param lengthBytes of the message on the wire
     */
    record MessageReceived(Message message, int lengthBytes) implements SessionEvent {}

    /** The transfer has failed. */
    record TransferFailed(String reason) implements SessionEvent {}

    /** The control connection, or at the source the connection that carries the bytes, is gone. */
    record LinkLost(String reason) implements SessionEvent {}
}
