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
    void shouldRefuseByNameWhenThereIsNoRoomWithinThePatience() throws Exception {
        Backlog backlog = new Backlog(ROOM, Duration.ZERO);
        int taken = 0;
        while (taken + backlog.chargeOf(100) <= ROOM) {
            taken += backlog.take(100);
        }
        ProtocolException refusal = assertThrows(ProtocolException.class, () -> backlog.take(100));
        assertTrue(refusal.getMessage().contains(taken + " of " + ROOM + " bytes"), refusal.getMessage());
        backlog.give(taken);
        assertEquals(backlog.chargeOf(100), backlog.take(100));
    }

    @Test
    void shouldLetASingleMessageInWhateverItsSizeAndNothingBesideIt() throws Exception {
        Backlog backlog = new Backlog(ROOM, Duration.ZERO);
        int charge = backlog.take(Integer.MAX_VALUE);
        assertEquals(ROOM, charge);
        assertThrows(ProtocolException.class, () -> backlog.take(0));
        backlog.give(charge);
        backlog.take(0);
    }

    @Test
    void shouldWaitForRoomWhenItIsGivenBackInTime() throws Exception {
        Backlog backlog = new Backlog(ROOM, LONG);
        int charge = backlog.take(ROOM);
        CompletableFuture<Integer> next = CompletableFuture.supplyAsync(() -> {
            try {
                return backlog.take(1);
            } catch (ProtocolException e) {
                throw new IllegalStateException(e);
            }
        });
        backlog.give(charge);
        assertEquals(backlog.chargeOf(1), next.get(LONG.toSeconds(), TimeUnit.SECONDS));
    }
}
