package io.ppmr.target.session;

import io.ppmr.protocol.ControlMessage;

/** What a session's agent tells the thread that runs the migration. */
public sealed interface SessionEvent {

    /** The source says something that is not about bytes. */
    record Said(ControlMessage message) implements SessionEvent {}

    /** The transfer has failed. */
    record TransferFailed(String reason) implements SessionEvent {}

    /** The control connection is gone. */
    record LinkLost(String reason) implements SessionEvent {}
}
