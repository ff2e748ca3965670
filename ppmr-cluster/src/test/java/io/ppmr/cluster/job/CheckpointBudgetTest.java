package io.ppmr.cluster.job;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.control.CheckpointInterval;
import java.time.Duration;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class CheckpointBudgetTest {
    private static final CheckpointBudget BUDGET =
            new CheckpointBudget(0.01, Optional.of(Duration.ofHours(20_000)), Duration.ofMinutes(1), 2);
    private static final Optional<Duration> NO_SET = Optional.empty();

    private static CheckpointInterval each(long seconds) {
        return new CheckpointInterval(false, seconds);
    }

    private static Optional<Duration> held(long seconds) {
        return Optional.of(Duration.ofSeconds(seconds));
    }

    @Test
    void shouldGive6000SecondsWhenHoldsOfOneMinuteMayTakeOnePercent() {
        assertEquals(Optional.of(Duration.ofMinutes(100)), BUDGET.interval(each(60), held(60), 4));
    }

    @Test
    void shouldKeepTheOrderedIntervalWhenItIsTheLongest() {
        assertEquals(Optional.of(Duration.ofHours(2)), BUDGET.interval(each(7200), held(60), 4));
    }

    @Test
    void shouldGiveTheLeastIntervalWhenTheOrderedOneIsShorter() {
        assertEquals(Optional.of(Duration.ofMinutes(1)), BUDGET.interval(each(5), NO_SET, 4));
        assertEquals(Optional.of(Duration.ofMinutes(1)), BUDGET.interval(CheckpointInterval.AUTO, NO_SET, 4));
    }

    @Test
    void shouldGiveYoungsIntervalWhenItIsLongerThanTheBudgets() {
        // sqrt(2 * 5 s * 72,000,000 s / 10 nodes) = 8,485 s; the budget of 1 % alone gives 500 s.
        assertEquals(
                8485,
                BUDGET.interval(CheckpointInterval.AUTO, held(5), 10)
                        .orElseThrow()
                        .toSeconds());
        // At 1,000 nodes that is 848 s, and at 100,000 nodes the budget is longer.
        assertEquals(
                848,
                BUDGET.interval(CheckpointInterval.AUTO, held(5), 1000)
                        .orElseThrow()
                        .toSeconds());
        assertEquals(
                500,
                BUDGET.interval(CheckpointInterval.AUTO, held(5), 100_000)
                        .orElseThrow()
                        .toSeconds());
    }

    @Test
    void shouldGiveNoIntervalWhenNoneIsOrderedOrItCannotBeDerived() {
        CheckpointBudget without = new CheckpointBudget(0.01, Optional.empty(), Duration.ofMinutes(1), 2);
        assertEquals(Optional.empty(), BUDGET.interval(CheckpointInterval.NONE, held(1), 1));
        assertEquals(Optional.empty(), without.interval(CheckpointInterval.AUTO, held(1), 1));
        assertTrue(without.whyNot(CheckpointInterval.AUTO).orElseThrow().contains("node_mtbf"));
        assertEquals(Optional.empty(), without.whyNot(each(60)));
    }
}
