package io.ppmr.cluster.controller;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.controller.FenceRules.DueFences;
import io.ppmr.cluster.controller.FenceRules.FenceCandidate;
import io.ppmr.cluster.controller.FenceRules.FenceLimits;
import io.ppmr.cluster.record.NodeStatus;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** The rules by which controllers fence nodes by themselves. */
class FenceRulesTest {
    private static final FenceLimits LIMITS = new FenceLimits(Duration.ofSeconds(60), Duration.ofSeconds(60), 4);
    private static final long NOW_NS = Duration.ofMinutes(10).toNanos();
    private static final long NOW_MS = Duration.ofHours(30).toMillis();

    private static FenceCandidate up(int number) {
        return new FenceCandidate("u" + number, NodeStatus.UP, 0, List.of(), true);
    }

    private static FenceCandidate suspect(String host, Duration since) {
        return new FenceCandidate(host, NodeStatus.SUSPECT, NOW_NS - since.toNanos(), List.of(), true);
    }

    private static FenceCandidate fenced(String host, Duration ago) {
        return new FenceCandidate(host, NodeStatus.OFF, 0, List.of(NOW_MS - ago.toMillis()), true);
    }

    private static DueFences due(int up, FenceCandidate... others) {
        List<FenceCandidate> all = new ArrayList<>(List.of(others));
        for (int i = 0; i < up; i++) {
            all.add(up(i));
        }
        return FenceRules.due(all, LIMITS, NOW_NS, NOW_MS);
    }

    @Test
    void shouldFenceTheLongestSilentFirstWhenItsDelayIsOver() {
        DueFences due = due(3, suspect("late", Duration.ofSeconds(61)), suspect("early", Duration.ofSeconds(99)));
        assertEquals(List.of("early", "late"), due.hosts());
        assertEquals(Optional.empty(), due.heldBack());
        assertEquals(List.of(), due(3, suspect("a", Duration.ofSeconds(59))).hosts());
    }

    @Test
    void shouldFenceOnlySuspectNodesOfAKnownBoot() {
        for (NodeStatus state : NodeStatus.values()) {
            FenceCandidate node = new FenceCandidate("n", state, 0, List.of(), true);
            assertEquals(
                    state == NodeStatus.SUSPECT ? List.of("n") : List.of(),
                    due(9, node).hosts(),
                    state.word());
        }
        assertEquals(
                List.of(),
                due(9, new FenceCandidate("n", NodeStatus.SUSPECT, 0, List.of(), false))
                        .hosts());
    }

    @Test
    void shouldHoldBackWhenMoreThanTwoAndMoreThanATwentiethAreSuspect() {
        Duration over = Duration.ofSeconds(70);
        DueFences three = due(2, suspect("a", over), suspect("b", over), suspect("c", over));
        assertEquals(List.of(), three.hosts());
        assertTrue(three.heldBack().orElseThrow().startsWith("3 of 5 nodes are lost"), three.toString());
        assertEquals(
                List.of("a", "b"),
                due(1, suspect("a", over), suspect("b", over)).hosts());
        assertEquals(
                3,
                due(57, suspect("a", over), suspect("b", over), suspect("c", over))
                        .hosts()
                        .size());
        assertEquals(
                0,
                due(56, suspect("a", over), suspect("b", over), suspect("c", over))
                        .hosts()
                        .size());
    }

    @Test
    void shouldCountNodesThatWereFencedWithinTheHourAndThoseThatAreBeingFenced() {
        FenceCandidate late = suspect("a", Duration.ofSeconds(70));
        Duration before = Duration.ofMinutes(59);
        assertEquals(
                List.of(),
                due(9, late, fenced("b", before), fenced("c", before)).hosts());
        assertEquals(
                List.of("a"),
                due(9, late, fenced("b", before), fenced("c", Duration.ofMinutes(61)))
                        .hosts());
        FenceCandidate running = new FenceCandidate("d", NodeStatus.FENCING, 0, List.of(NOW_MS), true);
        assertEquals(List.of(), due(9, late, fenced("b", before), running).hosts());
    }

    @Test
    void shouldFenceNoMoreThanTheMostOfAnHour() {
        Duration before = Duration.ofMinutes(30);
        DueFences due = due(
                200,
                suspect("a", Duration.ofSeconds(80)),
                suspect("b", Duration.ofSeconds(70)),
                fenced("c", before),
                fenced("d", before),
                fenced("e", before));
        assertEquals(List.of("a"), due.hosts());
        assertTrue(due.heldBack().orElseThrow().endsWith("not fenced: b"), due.toString());
    }

    @Test
    void shouldCountEachFenceOfANodeForTheMostOfAnHour() {
        FenceCandidate again = new FenceCandidate(
                "a",
                NodeStatus.SUSPECT,
                0,
                List.of(NOW_MS - 4_000_000, NOW_MS - 9000, NOW_MS - 8000, NOW_MS - 7000, NOW_MS - 6000),
                true);
        assertEquals(List.of(), due(200, again).hosts());
        FenceCandidate once =
                new FenceCandidate("a", NodeStatus.SUSPECT, 0, again.fencesMs().subList(0, 4), true);
        assertEquals(List.of("a"), due(200, once).hosts());
    }

    @Test
    void shouldCountSilentAndUnknownNodesAsLost() {
        FenceCandidate late = suspect("a", Duration.ofSeconds(70));
        FenceCandidate unknown = new FenceCandidate("b", NodeStatus.UNKNOWN, 0, List.of(), true);
        FenceCandidate silent = new FenceCandidate("c", NodeStatus.SILENT, 0, List.of(), true);
        assertEquals(List.of("a"), due(9, late, unknown).hosts());
        assertEquals(List.of(), due(9, late, unknown, silent).hosts());
    }

    @Test
    void shouldStartNoCommandWhenTheProofIsTooOld() {
        assertTrue(FenceRules.mayStart(NOW_NS, NOW_NS + FenceRules.START_LIMIT.toNanos()));
        assertFalse(FenceRules.mayStart(NOW_NS, NOW_NS + FenceRules.START_LIMIT.toNanos() + 1));
    }
}
