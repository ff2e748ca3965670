package io.ppmr.target;

import io.ppmr.protocol.ControlMessage;
import io.ppmr.transport.ControlLink;

/** What a migration's thread hears from outside of it. */
sealed interface Heard {

    /** The source says something on one of its connections. */
    record FromSource(ControlMessage message, ControlLink link) implements Heard {}

    /** Another target of the migration says something. */
    record FromPeer(String participant, int attempt, ControlMessage message) implements Heard {}

    /** A connection of the source is gone. */
    record SourceLost(String reason, ControlLink link) implements Heard {}

    /** The transfer has failed, or the service gives it up. */
    record Failed(String reason) implements Heard {}

    /** The fence command has ended. */
    record FenceEnded(boolean off) implements Heard {}
}
