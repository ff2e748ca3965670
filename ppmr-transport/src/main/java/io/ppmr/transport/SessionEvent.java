package io.ppmr.transport;

import io.ppmr.protocol.data.Message;

/** An event of one end of a session for the thread that runs the migration. Immutable. */
public sealed interface SessionEvent {

    /**
     * The peer sent a message that is not about names or bytes.
     *
     * @param lengthBytes the message's length on the wire
     */
    record MessageReceived(Message message, int lengthBytes) implements SessionEvent {}

    /** The transfer failed. */
    record TransferFailed(String reason) implements SessionEvent {}

    /** The control connection was lost, or at the source the connection of the chunks. */
    record LinkLost(String reason) implements SessionEvent {}
}
