package io.ppmr.migration.source;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** Tests the spare that replaces a target that failed. */
class NextAttemptsTest {
    private static final MigrationLimits LIMITS =
            new MigrationLimits(Duration.ZERO, Duration.ZERO, Duration.ZERO, Duration.ofMinutes(5), 3, 0);

    private final MigrationPlan first = MigrationPlan.spread(List.of(0, 1), List.of(node(1), node(2)));
    private final NextAttempts attempts = new NextAttempts(LIMITS, true, List.of(node(1), node(3), node(4)));

    private static InetSocketAddress node(int port) {
        return new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
    }

    private static List<Integer> ports(Optional<MigrationPlan> plan) {
        return plan.stream()
                .flatMap(one -> one.legs().stream())
                .map(leg -> leg.target().getPort())
                .toList();
    }

    @Test
    void shouldPlanWithTheSameSpareWhenAFailureIsLookedAtOnceMore() {
        assertEquals(List.of(1, 3), ports(attempts.plan(first, 1)));
        assertEquals(List.of(1, 3), ports(attempts.plan(first, 1)), "no question was sent in between");
        assertEquals(List.of(3, 2), ports(attempts.plan(first, 0)), "another one's failure");
    }

    @Test
    void shouldGoOnToTheNextSpareWhenAnAttemptHasBegunWithOne() {
        MigrationPlan second = attempts.plan(first, 1).orElseThrow();
        assertEquals(Optional.of(second), attempts.taken(second.addresses()));
        MigrationPlan third = attempts.plan(second, 1).orElseThrow();
        assertEquals(List.of(1, 4), ports(Optional.of(third)));
        assertEquals(Optional.of(third), attempts.taken(third.addresses()));
        assertEquals(Optional.empty(), attempts.plan(third, 1), "no spare is left");
    }

    @Test
    void shouldKeepASpareWhenAnotherPlanIsCarriedOut() {
        attempts.plan(first, 1);
        assertEquals(Optional.empty(), attempts.taken(first.addresses()));
        assertEquals(List.of(1, 3), ports(attempts.plan(first, 1)));
    }

    @Test
    void shouldRepeatThePlanOnceWhenAnAttemptFailedBeforeTheJobWasStopped() {
        assertEquals(Optional.of(first), attempts.again(first));
        assertEquals(Optional.of(first), attempts.again(first), "no question was sent in between");
        assertEquals(Optional.of(first), attempts.taken(first.addresses()));
        assertEquals(Optional.empty(), attempts.again(first));
        assertEquals(List.of(1, 3), ports(attempts.plan(first, 1)), "no spare is used up");
    }
}
