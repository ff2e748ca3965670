package io.ppmr.transaction;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.data.TransferReport;
import io.ppmr.transaction.rules.CoordinatorEvent;
import io.ppmr.transaction.rules.CoordinatorEvent.OriginalsState;
import io.ppmr.transaction.rules.CoordinatorState.CoordinatorPhase;
import io.ppmr.transaction.rules.Effect;
import io.ppmr.transaction.rules.TransactionTimes;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Tests effects that another thread carries out. Events that arrive in the meantime wait, and keep their order. */
class RunningEffectTest {
    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);

    /** An executor whose effects of one class run on another thread until the test ends them. */
    private final class Slow implements EffectExecutor {
        private final List<String> calls = new ArrayList<>();
        private Class<? extends Effect> slow = Effect.Recover.class;
        private OriginalsState originals = OriginalsState.HELD;
        private List<String> next = List.of();

        @Override
        public Execution carryOut(Effect effect) throws IOException {
            if (slow.isInstance(effect)) {
                return Execution.RUNNING;
            }
            calls.add(effect.getClass().getSimpleName());
            if (effect instanceof Effect.Persist persist) {
                journal.persist(persist.record());
            } else if (effect instanceof Effect.EvaluateFailure judge) {
                coordinator.failureEvaluated(judge, originals, next);
            } else if (effect instanceof Effect.ProveOriginals) {
                coordinator.proved(originals, "it runs");
            }
            return Execution.DONE;
        }

        private void none() {
            slow = Effect.Recover.class;
        }
    }

    private final Slow slow = new Slow();
    private final InMemoryJournal journal = new InMemoryJournal();
    private final Coordinator coordinator = new Coordinator("m", TransactionTimes.standard(15 * SECOND, 0), slow);
    private long nowNs = 1000 * SECOND;

    private void begin() {
        slow.none();
        coordinator.start(List.of("a"), List.of(), nowNs);
        coordinator.onMessage("a", 1, new ControlMessage.Accept(0, 0, 1_000, ""), nowNs);
    }

    private void vote() {
        coordinator.on(new CoordinatorEvent.ImageComplete("a", List.of()), nowNs);
        coordinator.onMessage("a", 1, new ControlMessage.Prepared(TransferReport.EMPTY), nowNs);
        coordinator.onMessage("a", 1, new ControlMessage.StillHeld("m"), nowNs);
    }

    @Test
    void shouldHandleWaitingEventsInOrderWhenTheEffectEnds() {
        begin();
        slow.slow = Effect.Seal.class;
        vote();
        assertFalse(coordinator.isSettled());
        assertEquals(CoordinatorPhase.PREPARING, coordinator.state().phase(), "the vote waits");
        slow.none();
        coordinator.wake(nowNs);
        assertEquals(CoordinatorPhase.COMMITTING, coordinator.state().phase());
        assertTrue(slow.calls.indexOf("Seal") < slow.calls.indexOf("EndOriginals"), slow.calls::toString);
    }

    @Test
    void shouldReportNoWaitWhileAnEffectIsUnderWay() {
        slow.slow = Effect.StartAttempt.class;
        coordinator.start(List.of("a"), List.of(), nowNs);
        nowNs += 60 * SECOND;
        coordinator.tick(nowNs);
        assertNull(coordinator.waitsFor());
        assertFalse(slow.calls.contains("Say"), slow.calls::toString);
        nowNs += 120 * SECOND;
        coordinator.tick(nowNs);
        assertTrue(coordinator.waitsFor().startsWith("waiting to carry out StartAttempt"), coordinator.waitsFor());
    }

    @Test
    void shouldShowTheOldStateWhileTheDecisionIsBeingWritten() {
        begin();
        coordinator.on(new CoordinatorEvent.ImageComplete("a", List.of()), nowNs);
        coordinator.onMessage("a", 1, new ControlMessage.Prepared(TransferReport.EMPTY), nowNs);
        slow.slow = Effect.Persist.class;
        coordinator.onMessage("a", 1, new ControlMessage.StillHeld("m"), nowNs);
        assertEquals(CoordinatorPhase.COMMITTING, coordinator.state().phase());
        assertEquals(CoordinatorPhase.CONFIRMING, coordinator.writtenState().phase());
        slow.none();
        coordinator.wake(nowNs);
        assertEquals(CoordinatorPhase.COMMITTING, coordinator.writtenState().phase());
    }

    @Test
    void shouldProveTheOriginalsAgainWhenTheJournalHadNoRoomForTheDecision() {
        begin();
        coordinator.on(new CoordinatorEvent.ImageComplete("a", List.of()), nowNs);
        coordinator.onMessage("a", 1, new ControlMessage.Prepared(TransferReport.EMPTY), nowNs);
        journal.full(true);
        coordinator.onMessage("a", 1, new ControlMessage.StillHeld("m"), nowNs);
        assertEquals(CoordinatorPhase.CONFIRMING, coordinator.state().phase());
        slow.originals = OriginalsState.ALIVE;
        journal.full(false);
        nowNs += 10 * SECOND;
        coordinator.tick(nowNs);
        assertEquals(CoordinatorPhase.ROLLING_BACK, coordinator.state().phase(), "the earlier proof is out of date");
    }

    @Test
    void shouldIgnoreAnImageOfAnEarlierAttempt() {
        begin();
        slow.slow = Effect.Persist.class;
        slow.next = List.of("a");
        coordinator.fail("a failure of the target", "a", nowNs);
        coordinator.onAttempt(1, new CoordinatorEvent.ImageComplete("a", List.of()), nowNs);
        slow.none();
        coordinator.wake(nowNs);
        assertEquals(2, coordinator.state().attempt());
        assertFalse(coordinator.state().members().get(0).sealed(), "that image is the first attempt's");
    }

    @Test
    void shouldCheckTheLastVoteWhenItIsHandled() {
        begin();
        slow.slow = Effect.Seal.class;
        coordinator.on(new CoordinatorEvent.ImageComplete("a", List.of()), nowNs);
        List<String> evaluated = new ArrayList<>();
        coordinator.onMessage(
                "a", 1, new ControlMessage.Prepared(TransferReport.EMPTY), () -> !evaluated.add("asked"), nowNs);
        assertEquals(List.of(), evaluated, "the image is not sealed yet");
        slow.none();
        coordinator.wake(nowNs);
        assertEquals(List.of("asked"), evaluated);
        assertEquals(CoordinatorPhase.PREPARING, coordinator.state().phase(), "it was called off before");
    }

    @Test
    void shouldNotCheckAVoteWhenNoDecisionFollows() {
        begin();
        List<String> evaluated = new ArrayList<>();
        ControlMessage vote = new ControlMessage.Prepared(TransferReport.EMPTY);
        coordinator.onMessage("a", 1, vote, () -> evaluated.add("its image is not whole"), nowNs);
        coordinator.on(new CoordinatorEvent.ImageComplete("a", List.of()), nowNs);
        coordinator.onMessage("b", 1, vote, () -> evaluated.add("it is not a participant"), nowNs);
        coordinator.onMessage("a", 1, vote, () -> evaluated.add("its vote"), nowNs);
        coordinator.onMessage("a", 1, vote, () -> evaluated.add("all have voted"), nowNs);
        assertEquals(List.of("its vote"), evaluated);
        assertEquals(CoordinatorPhase.CONFIRMING, coordinator.state().phase());
    }
}
