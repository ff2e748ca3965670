package io.ppmr.transport;

import io.ppmr.protocol.data.Message;

/** What one end of a session tells the thread that runs the migration. Immutable. */
public sealed interface SessionEvent {

    /** The peer says something that is not about names or bytes. */
    record Said(Message message) implements SessionEvent {}

    /** The transfer has failed. */
    record TransferFailed(String reason) implements SessionEvent {}

    /** The control connection, or at the source the connection that carries the bytes, is gone. */
    record LinkLost(String reason) implements SessionEvent {}
}
