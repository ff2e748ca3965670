package io.ppmr.source.session;

import io.ppmr.protocol.ControlMessage;

/** What a session's agent tells the thread that runs the migration. */
public sealed interface SessionEvent {

    /** The target says something that is not about bytes. */
    record Said(ControlMessage message) implements SessionEvent {}

    /** The control connection or the transport is gone. */
    record Lost(String reason) implements SessionEvent {}
}
