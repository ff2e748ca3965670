package io.ppmr.migration.target;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.transport.Backlog;
import io.ppmr.transport.SessionEvent;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class ConnectionEventsTest {
    private static final int ROOM = 1 << 20;

    private final Backlog room = new Backlog(ROOM, Duration.ZERO);

    private static SessionEvent.MessageReceived said(String id, int lengthBytes) {
        return new SessionEvent.MessageReceived(new ControlMessage.Commit(id), lengthBytes);
    }

    @Test
    void shouldCutAPeerOffWhenItSaysMuchBeforeAMigrationListens() throws Exception {
        try (ConnectionEvents events = new ConnectionEvents(room)) {
            int heard = 0;
            try {
                for (; heard < 1_000_000; heard++) {
                    events.onEvent(said("m", 60_000));
                }
            } catch (ProtocolException refused) {
                assertTrue(
                        refused.getMessage().contains("messages faster than this node handles them"),
                        refused.getMessage());
            }
            assertTrue(heard > 0 && heard <= ROOM / 60_000, heard + " messages were kept");
            events.onEvent(new SessionEvent.LinkLost("the end is heard whatever waits"));
            assertEquals(heard + 1, events.waiting().size());
            assertEquals(Optional.of("the end is heard whatever waits"), events.loss());
        }
        assertEquals(ROOM, room.reserve(ROOM), "all room is given back");
    }

    @Test
    void shouldCutAPeerOffWhenItSaysManyShortMessages() throws Exception {
        Backlog large = new Backlog(64 << 20, Duration.ZERO);
        try (ConnectionEvents events = new ConnectionEvents(large)) {
            for (int heard = 0; heard < 64; heard++) {
                events.onEvent(said("m", 20));
            }
            assertThrows(ProtocolException.class, () -> events.onEvent(said("m", 20)));
        }
    }

    @Test
    void shouldKeepOnePeersExcessFromAnother() throws Exception {
        ConnectionEvents greedy = new ConnectionEvents(room);
        assertThrows(ProtocolException.class, () -> {
            while (true) {
                greedy.onEvent(said("m", 60_000));
            }
        });
        // Its agent ends the connection, and its thread closes this.
        greedy.close();
        try (ConnectionEvents other = new ConnectionEvents(room)) {
            other.onEvent(said("n", 60_000));
            assertEquals(1, other.waiting().size());
        }
    }

    @Test
    void shouldTakeAnyNumberOfMessagesWhenEachIsDealtWith() throws Exception {
        try (ConnectionEvents events = new ConnectionEvents(room)) {
            for (int i = 0; i < 1000; i++) {
                events.onEvent(said("m", 60_000));
                events.handled((SessionEvent.MessageReceived) events.waiting().remove());
            }
        }
        assertEquals(ROOM, room.reserve(ROOM));
    }

    @Test
    void shouldPassAllOnInOrderWhenAMigrationListens() throws Exception {
        List<SessionEvent> passed = new ArrayList<>();
        try (ConnectionEvents events = new ConnectionEvents(room)) {
            events.onEvent(said("a", 1));
            events.onEvent(said("b", 1));
            events.passTo(passed::add);
            assertEquals(ROOM, room.reserve(ROOM), "what is passed on is the migration's to count");
            events.onEvent(said("c", 1));
            events.onEvent(new SessionEvent.LinkLost("over"));
        }
        assertEquals(List.of(said("a", 1), said("b", 1), said("c", 1), new SessionEvent.LinkLost("over")), passed);
    }
}
