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

    private static SessionEvent.MessageReceived message(String id, int lengthBytes) {
        return new SessionEvent.MessageReceived(new ControlMessage.Commit(id), lengthBytes);
    }

    @Test
    void shouldCutAPeerOffWhenItSaysMuchBeforeAMigrationListens() throws Exception {
        try (ConnectionEvents events = new ConnectionEvents(room)) {
            int count = 0;
            try {
                for (; count < 1_000_000; count++) {
                    events.onEvent(message("m", 60_000));
                }
            } catch (ProtocolException refused) {
                assertTrue(
                        refused.getMessage().contains("messages faster than this node handles them"),
                        refused.getMessage());
            }
            assertTrue(count > 0 && count <= ROOM / 60_000, count + " messages were kept");
            events.onEvent(new SessionEvent.LinkLost("the end arrives whatever waits"));
            assertEquals(count + 1, events.waiting().size());
            assertEquals(Optional.of("the end arrives whatever waits"), events.loss());
        }
        assertEquals(ROOM, room.reserve(ROOM), "all room is given back");
    }

    @Test
    void shouldCutAPeerOffWhenItSaysManyShortMessages() throws Exception {
        Backlog large = new Backlog(64 << 20, Duration.ZERO);
        try (ConnectionEvents events = new ConnectionEvents(large)) {
            for (int count = 0; count < 64; count++) {
                events.onEvent(message("m", 20));
            }
            assertThrows(ProtocolException.class, () -> events.onEvent(message("m", 20)));
        }
    }

    @Test
    void shouldKeepOnePeersExcessFromAnother() throws Exception {
        ConnectionEvents greedy = new ConnectionEvents(room);
        assertThrows(ProtocolException.class, () -> {
            while (true) {
                greedy.onEvent(message("m", 60_000));
            }
        });
        // Its agent ends the connection, and its thread closes this.
        greedy.close();
        try (ConnectionEvents other = new ConnectionEvents(room)) {
            other.onEvent(message("n", 60_000));
            assertEquals(1, other.waiting().size());
        }
    }

    @Test
    void shouldTakeAnyNumberOfMessagesWhenEachIsDealtWith() throws Exception {
        try (ConnectionEvents events = new ConnectionEvents(room)) {
            for (int i = 0; i < 1000; i++) {
                events.onEvent(message("m", 60_000));
                events.handled((SessionEvent.MessageReceived) events.waiting().remove());
            }
        }
        assertEquals(ROOM, room.reserve(ROOM));
    }

    @Test
    void shouldPassAllOnInOrderWhenAMigrationListens() throws Exception {
        List<SessionEvent> passed = new ArrayList<>();
        try (ConnectionEvents events = new ConnectionEvents(room)) {
            events.onEvent(message("a", 1));
            events.onEvent(message("b", 1));
            events.passTo(passed::add);
            assertEquals(ROOM, room.reserve(ROOM), "what is passed on is the migration's to count");
            events.onEvent(message("c", 1));
            events.onEvent(new SessionEvent.LinkLost("over"));
        }
        assertEquals(
                List.of(message("a", 1), message("b", 1), message("c", 1), new SessionEvent.LinkLost("over")), passed);
    }
}
