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

/** Effects that another thread works at: what comes meanwhile waits, and keeps its order. */
class RunningEffectTest {
    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);

    /** An executor for which another thread works at each effect of one class, as long as the test wants. */
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
            } else if (effect instanceof Effect.Judge judge) {
                coordinator.judged(judge, originals, next);
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
    private final Coordinator coordinator = new Coordinator("m", TransactionTimes.usual(15 * SECOND, 0), slow);
    private long nowNs = 1000 * SECOND;

    private void begin() {
        slow.none();
        coordinator.start(List.of("a"), List.of(), nowNs);
        coordinator.heard("a", 1, new ControlMessage.Accept(0, 0, 1_000), nowNs);
    }

    private void vote() {
        coordinator.on(new CoordinatorEvent.ImageComplete("a", List.of()), nowNs);
        coordinator.heard("a", 1, new ControlMessage.Prepared(TransferReport.EMPTY), nowNs);
        coordinator.heard("a", 1, new ControlMessage.StillHeld("m"), nowNs);
    }

    @Test
    void shouldTakeWhatHasComeInItsOrderWhenTheEffectHasEnded() {
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
    void shouldNotSayThatItWaitsForAnEffectThatIsUnderWay() {
        slow.slow = Effect.StartAttempt.class;
        coordinator.start(List.of("a"), List.of(), nowNs);
        nowNs += 60 * SECOND;
        coordinator.tick(nowNs);
        assertNull(coordinator.waitsFor());
        assertFalse(slow.calls.contains("Say"), slow.calls::toString);
        nowNs += 120 * SECOND;
        coordinator.tick(nowNs);
        assertTrue(coordinator.waitsFor().startsWith("it waits to carry out StartAttempt"), coordinator.waitsFor());
    }

    @Test
    void shouldShowPeopleTheStateBeforeWhileTheDecisionIsBeingWritten() {
        begin();
        coordinator.on(new CoordinatorEvent.ImageComplete("a", List.of()), nowNs);
        coordinator.heard("a", 1, new ControlMessage.Prepared(TransferReport.EMPTY), nowNs);
        slow.slow = Effect.Persist.class;
        coordinator.heard("a", 1, new ControlMessage.StillHeld("m"), nowNs);
        assertEquals(CoordinatorPhase.COMMITTING, coordinator.state().phase());
        assertEquals(CoordinatorPhase.CONFIRMING, coordinator.writtenState().phase());
        slow.none();
        coordinator.wake(nowNs);
        assertEquals(CoordinatorPhase.COMMITTING, coordinator.writtenState().phase());
    }

    @Test
    void shouldProveTheOriginalsAnewWhenTheJournalHadNoRoomForTheDecision() {
        begin();
        coordinator.on(new CoordinatorEvent.ImageComplete("a", List.of()), nowNs);
        coordinator.heard("a", 1, new ControlMessage.Prepared(TransferReport.EMPTY), nowNs);
        journal.full(true);
        coordinator.heard("a", 1, new ControlMessage.StillHeld("m"), nowNs);
        assertEquals(CoordinatorPhase.CONFIRMING, coordinator.state().phase());
        slow.originals = OriginalsState.ALIVE;
        journal.full(false);
        nowNs += 10 * SECOND;
        coordinator.tick(nowNs);
        assertEquals(
                CoordinatorPhase.ROLLING_BACK, coordinator.state().phase(), "what was proved before holds no more");
    }

    @Test
    void shouldNotTakeAnImageOfAnEarlierAttemptForOneOfTheNext() {
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
    void shouldAskWhetherTheLastVoteMayDecideWhenItsTurnHasCome() {
        begin();
        slow.slow = Effect.Seal.class;
        coordinator.on(new CoordinatorEvent.ImageComplete("a", List.of()), nowNs);
        List<String> asked = new ArrayList<>();
        coordinator.heard("a", 1, new ControlMessage.Prepared(TransferReport.EMPTY), () -> !asked.add("asked"), nowNs);
        assertEquals(List.of(), asked, "the image is not sealed yet");
        slow.none();
        coordinator.wake(nowNs);
        assertEquals(List.of("asked"), asked);
        assertEquals(CoordinatorPhase.PREPARING, coordinator.state().phase(), "it was called off before");
    }

    @Test
    void shouldNotAskWhetherAVoteMayDecideWhenNothingFollowsFromIt() {
        begin();
        List<String> asked = new ArrayList<>();
        ControlMessage vote = new ControlMessage.Prepared(TransferReport.EMPTY);
        coordinator.heard("a", 1, vote, () -> asked.add("its image is not whole"), nowNs);
        coordinator.on(new CoordinatorEvent.ImageComplete("a", List.of()), nowNs);
        coordinator.heard("b", 1, vote, () -> asked.add("nobody knows it"), nowNs);
        coordinator.heard("a", 1, vote, () -> asked.add("its vote"), nowNs);
        coordinator.heard("a", 1, vote, () -> asked.add("all have voted"), nowNs);
        assertEquals(List.of("its vote"), asked);
        assertEquals(CoordinatorPhase.CONFIRMING, coordinator.state().phase());
    }
}
