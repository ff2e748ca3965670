package io.ppmr.daemon.control;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.control.ControlServer.ConnectionShares;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class ControlPlacesTest {
    private final ConnectionShares places = new ConnectionShares();

    private static void requireRefused(Optional<String> refusal, String reason) {
        assertTrue(refusal.orElse("was not refused").contains(reason), refusal.toString());
    }

    private void fillByOthers() {
        for (int i = 0; i < ConnectionShares.FOR_OTHERS; i++) {
            assertEquals(Optional.empty(), places.enter("user" + i / ConnectionShares.OF_A_USER, false, false));
        }
    }

    @Test
    void shouldGiveAUserItsShareAndNoMore() {
        for (int i = 0; i < ConnectionShares.OF_A_USER; i++) {
            assertEquals(Optional.empty(), places.enter("alice", false, false));
        }
        requireRefused(places.enter("alice", false, false), "user alice has 8 connections to this service open");
        requireRefused(places.enter("alice", false, true), "user alice has 8 connections");
        assertEquals(Optional.empty(), places.enter("bob", false, false));
        places.leave("alice", false);
        assertEquals(Optional.empty(), places.enter("alice", false, false));
    }

    @Test
    void shouldKeepPlacesFreeForThoseWhoControlWhenOthersAreMany() {
        fillByOthers();
        requireRefused(places.enter("carol", false, false), "of users who may not control it");
        for (int i = 0; i < ConnectionShares.OF_A_USER; i++) {
            assertEquals(Optional.empty(), places.enter("operator", false, true));
        }
        for (int i = 0; i < ConnectionShares.KEPT_FREE - ConnectionShares.OF_A_USER; i++) {
            assertEquals(Optional.empty(), places.enter("root", true, true));
        }
        requireRefused(places.enter("root", true, true), "as many connections as it takes");
        // A place that root returned is not for others.
        places.leave("root", true);
        requireRefused(places.enter("carol", false, false), "of users who may not control it");
        assertEquals(Optional.empty(), places.enter("root", true, true));
    }

    @Test
    void shouldLetThoseWhoControlTakeOthersPlacesWhileTheseAreFree() {
        for (int i = 0; i < ConnectionShares.FOR_OTHERS + ConnectionShares.KEPT_FREE; i++) {
            assertEquals(Optional.empty(), places.enter("root", true, true));
        }
        requireRefused(places.enter("root", true, true), "as many connections as it takes");
        places.leave("root", true);
        assertEquals(Optional.empty(), places.enter("alice", false, false));
    }
}
