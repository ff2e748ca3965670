package io.ppmr.transport;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.data.ProtocolException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class BacklogTest {
    private static final int ROOM = 1 << 20;
    private static final Duration LONG = Duration.ofSeconds(30);

    @Test
    void shouldRefuseByNameWhenThereIsNoMemoryWithinThePatience() throws Exception {
        Backlog backlog = new Backlog(ROOM, Duration.ZERO);
        int taken = 0;
        while (taken + backlog.chargeOf(100) <= ROOM) {
            taken += backlog.reserve(100);
        }
        ProtocolException refusal = assertThrows(ProtocolException.class, () -> backlog.reserve(100));
        assertTrue(refusal.getMessage().contains(taken + " of " + ROOM + " bytes"), refusal.getMessage());
        backlog.release(taken);
        assertEquals(backlog.chargeOf(100), backlog.reserve(100));
    }

    @Test
    void shouldAcceptASingleMessageOfAnySizeAndNoOther() throws Exception {
        Backlog backlog = new Backlog(ROOM, Duration.ZERO);
        int charge = backlog.reserve(Integer.MAX_VALUE);
        assertEquals(ROOM, charge);
        assertThrows(ProtocolException.class, () -> backlog.reserve(0));
        backlog.release(charge);
        backlog.reserve(0);
    }

    @Test
    void shouldWaitForMemoryThatIsReleasedInTime() throws Exception {
        Backlog backlog = new Backlog(ROOM, LONG);
        int charge = backlog.reserve(ROOM);
        CompletableFuture<Integer> next = CompletableFuture.supplyAsync(() -> {
            try {
                return backlog.reserve(1);
            } catch (ProtocolException e) {
                throw new IllegalStateException(e);
            }
        });
        backlog.release(charge);
        assertEquals(backlog.chargeOf(1), next.get(LONG.toSeconds(), TimeUnit.SECONDS));
    }
}
