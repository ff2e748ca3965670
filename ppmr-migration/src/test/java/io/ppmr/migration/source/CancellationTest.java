package io.ppmr.migration.source;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class CancellationTest {
    private final Cancellation cancellation = new Cancellation();

    @Test
    void shouldRefuseToDecideWhenCalledOff() {
        assertTrue(cancellation.cancel("by alice"));
        assertTrue(cancellation.cancel("by bob"));
        assertEquals(
                "by alice", assertThrows(IOException.class, cancellation::check).getMessage());
        assertEquals(
                "by alice",
                assertThrows(IOException.class, cancellation::decide).getMessage());
    }

    @Test
    void shouldRefuseToCallOffWhenDecided() {
        assertDoesNotThrow(cancellation::check);
        assertDoesNotThrow(cancellation::decide);
        assertFalse(cancellation.cancel("too late"));
        assertDoesNotThrow(cancellation::check);
    }

    @Test
    void shouldTellWhoMayWaitWhenItIsCalledOffBeforeOrAfterThat() {
        List<String> reasons = new ArrayList<>();
        cancellation.onCancel(reason -> reasons.add("early " + reason));
        assertEquals(List.of(), reasons);
        assertTrue(cancellation.cancel("by alice"));
        assertTrue(cancellation.cancel("by bob"));
        cancellation.onCancel(reason -> reasons.add("late " + reason));
        assertEquals(List.of("early by alice", "late by alice"), reasons);
    }

    @Test
    void shouldTellNobodyWhenItIsDecided() {
        cancellation.onCancel(reason -> {
            throw new AssertionError(reason);
        });
        assertDoesNotThrow(cancellation::decide);
        assertFalse(cancellation.cancel("too late"));
    }

    @Test
    void shouldCallOffAgainWhenTheAttemptThatWasToBeCommittedIsRolledBack() {
        assertDoesNotThrow(cancellation::decide);
        cancellation.reopen();
        assertTrue(cancellation.cancel("by alice"));
        cancellation.reopen();
        assertEquals("by alice", cancellation.reason().orElse(""), "only a decision is taken back");
    }
}
