package io.ppmr.transaction;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.transaction.rules.CoordinatorEvent;
import io.ppmr.transaction.rules.CoordinatorEvent.OriginalsState;
import io.ppmr.transaction.rules.Effect;
import io.ppmr.transaction.rules.TransactionTimes;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Tests a source that was frozen during a rollback, in virtual time. */
class FrozenCoordinatorTest {
    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);

    /** An executor that only notes effects. */
    private final class Notes implements EffectExecutor {
        private final List<String> fenced = new ArrayList<>();
        private final List<String> reports = new ArrayList<>();
        private boolean fencesLater;

        @Override
        public Execution carryOut(Effect effect) {
            if (effect instanceof Effect.FenceParticipant fence) {
                if (fencesLater) {
                    return Execution.RUNNING;
                }
                fenced.add(fence.participant());
            } else if (effect instanceof Effect.ProveOriginals) {
                coordinator.proved(OriginalsState.HELD, "");
            } else if (effect instanceof Effect.EvaluateFailure judge) {
                coordinator.failureEvaluated(judge, OriginalsState.HELD, List.of());
            } else {
                reports.add(effect.toString());
            }
            return Execution.DONE;
        }
    }

    private final Notes notes = new Notes();
    private final Coordinator coordinator = new Coordinator("m", TransactionTimes.standard(SECOND, 0), notes);
    private long nowNs = 1000 * SECOND;

    /** Rolls back after both targets may have voted and the second one is lost. */
    private void rollBackWithoutTheSecond() {
        coordinator.start(List.of("a", "b"), List.of(), nowNs);
        for (String target : List.of("a", "b")) {
            coordinator.onMessage(target, 1, new ControlMessage.Accept(0, 20_000, 1_000, ""), nowNs);
            coordinator.on(new CoordinatorEvent.ImageComplete(target, List.of()), nowNs);
        }
        coordinator.linkDown("b", nowNs);
        coordinator.fail("link lost", "b", nowNs);
    }

    private void passSeconds(int seconds) {
        long endNs = nowNs + seconds * SECOND;
        while (nowNs < endNs) {
            nowNs = Math.min(endNs, Math.max(nowNs + 1, coordinator.nextDeadlineNs()));
            coordinator.tick(nowNs);
        }
    }

    @Test
    void shouldBeInDoubtOnlyWhileAnAwaitedTargetIsUnreachable() {
        assertFalse(coordinator.isSettledByReached());
        rollBackWithoutTheSecond();
        assertFalse(coordinator.isSettledByReached(), "b is not reached");
        coordinator.linkUp("b", nowNs);
        assertTrue(coordinator.isSettledByReached());
        passSeconds(1000);
        assertTrue(coordinator.isSettledByReached(), "however long they take");
        coordinator.linkDown("a", nowNs);
        assertFalse(coordinator.isSettledByReached(), "a is not reached");
        coordinator.onMessage("a", 1, new ControlMessage.RolledBack("m", "gone"), nowNs);
        assertTrue(coordinator.isSettledByReached(), "a has answered");
        coordinator.onMessage("b", 1, new ControlMessage.RolledBack("m", "gone"), nowNs);
        assertFalse(coordinator.isSettledByReached(), "it is over");
    }

    @Test
    void shouldFenceAnUnreachableTargetOnlyWhenItCanNoLongerFenceThisNode() {
        rollBackWithoutTheSecond();
        passSeconds(60);
        assertEquals(List.of("b"), notes.fenced, notes.reports::toString);
    }

    @Test
    void shouldAcceptMessagesAgainWhenTheFenceEndedBeforeTheEffectCountedAsDone() {
        rollBackWithoutTheSecond();
        notes.fencesLater = true;
        passSeconds(60);
        coordinator.fenceEnded("b", false, nowNs);
        notes.fencesLater = false;
        coordinator.wake(nowNs);
        coordinator.linkUp("b", nowNs);
        for (String target : List.of("a", "b")) {
            coordinator.onMessage(target, 1, new ControlMessage.RolledBack("m", "gone"), nowNs);
        }
        assertTrue(coordinator.state().isOver(), notes.reports::toString);
    }

    @Test
    void shouldNotFenceWhenTheFirstTargetMayHaveLostAFrozenSource() {
        rollBackWithoutTheSecond();
        // The first target has lost the source in the meantime, and may be about to fence it.
        nowNs += 80 * SECOND;
        coordinator.tick(nowNs);
        assertEquals(List.of(), notes.fenced, notes.reports::toString);
        coordinator.linkDown("a", nowNs);
        passSeconds(20);
        assertEquals(List.of(), notes.fenced, notes.reports::toString);
        passSeconds(60);
        assertEquals(Set.of("b", "a"), Set.copyOf(notes.fenced), notes.reports::toString);
    }

    @Test
    void shouldNotFenceWhenAFrozenSourceWakesWithAMessage() {
        rollBackWithoutTheSecond();
        nowNs += 80 * SECOND;
        coordinator.linkUp("a", nowNs);
        coordinator.tick(nowNs);
        assertEquals(List.of(), notes.fenced, notes.reports::toString);
    }
}
