package io.ppmr.transaction;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.data.TransferReport;
import io.ppmr.transaction.rules.Begins;
import io.ppmr.transaction.rules.CoordinatorEvent;
import io.ppmr.transaction.rules.CoordinatorEvent.OriginalsState;
import io.ppmr.transaction.rules.Effect;
import io.ppmr.transaction.rules.TransactionTimes;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Tests an executor that throws once, by a defect of the service. Decisions must be carried out all the same. */
class DefectiveExecutorTest {
    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);

    private final List<String> calls = new ArrayList<>();
    private final Set<String> threw = new HashSet<>();
    private final TransactionTimes times = TransactionTimes.standard(15 * SECOND, 0);
    private long nowNs = 1000 * SECOND;

    /** Notes effects and succeeds, except for the first one of a given name. */
    private final class Executor implements EffectExecutor {
        private final String throwsOnce;
        private Coordinator coordinator;
        private Participant participant;

        private Executor(String throwsOnce) {
            this.throwsOnce = throwsOnce;
        }

        private Coordinator coordinator(InMemoryJournal journal) {
            coordinator = new Coordinator("m", times, Journalled.in(journal, this));
            return coordinator;
        }

        private Participant participant() {
            participant = new Participant("m", times, Journalled.in(new InMemoryJournal(), this));
            return participant;
        }

        @Override
        public Execution carryOut(Effect effect) {
            String name = effect.getClass().getSimpleName();
            if (name.equals(throwsOnce) && threw.add(name)) {
                throw new IllegalStateException("a defect of " + name);
            }
            calls.add(name);
            if (effect instanceof Effect.EvaluateFailure judge) {
                coordinator.failureEvaluated(judge, OriginalsState.HELD, List.of());
            } else if (effect instanceof Effect.ProveOriginals) {
                coordinator.proved(OriginalsState.HELD, "");
            } else if (effect instanceof Effect.Recover recover) {
                coordinator.originalsProvedForRecovery(recover, OriginalsState.HELD);
            } else if (effect instanceof Effect.ProveCopies) {
                participant.copiesProved("");
            }
            return Execution.DONE;
        }
    }

    private void pass(TransactionDriver<?> driver) {
        long endNs = nowNs + 10 * SECOND;
        while (nowNs < endNs) {
            nowNs = Math.min(endNs, Math.max(nowNs + 1, driver.nextDeadlineNs()));
            driver.tick(nowNs);
        }
    }

    private void requireEnded(TransactionDriver<?> driver, String effect, String before) {
        assertTrue(threw.contains(effect), () -> "missing effect: " + effect + "; effects: " + calls);
        assertTrue(driver.isSettled(), calls::toString);
        assertEquals(1, calls.stream().filter("Finished"::equals).count(), calls::toString);
        assertTrue(calls.indexOf(before) >= 0 && calls.indexOf(before) < calls.indexOf("Finished"), calls::toString);
    }

    private Coordinator sealed(String throwsOnce) {
        Coordinator coordinator = new Executor(throwsOnce).coordinator(new InMemoryJournal());
        coordinator.start(List.of("a"), List.of(), nowNs);
        pass(coordinator);
        coordinator.onMessage("a", 1, new ControlMessage.Accept(0, 0, 1_000, ""), nowNs);
        coordinator.on(new CoordinatorEvent.ImageComplete("a", List.of()), nowNs);
        pass(coordinator);
        return coordinator;
    }

    @ParameterizedTest
    @ValueSource(strings = {"StartAttempt", "Seal", "Send", "ProveOriginals", "EndOriginals", "Reconnect", "Finished"})
    void shouldCommitAtTheSourceWhenTheExecutorThrowsOnce(String effect) {
        Coordinator coordinator = sealed(effect);
        coordinator.onMessage("a", 1, new ControlMessage.Prepared(TransferReport.EMPTY), nowNs);
        pass(coordinator);
        coordinator.onMessage("a", 1, new ControlMessage.StillHeld("m"), nowNs);
        pass(coordinator);
        coordinator.onMessage("a", 1, new ControlMessage.Committed("m"), nowNs);
        pass(coordinator);
        requireEnded(coordinator, effect, "EndOriginals");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "EvaluateFailure",
                "ProveOriginals",
                "StopAttempt",
                "Send",
                "ContinueOriginals",
                "Resume",
                "Finished",
            })
    void shouldRollBackAtTheSourceWhenTheExecutorThrowsOnce(String effect) {
        Coordinator coordinator = sealed(effect);
        coordinator.fail("link lost", "a", nowNs);
        pass(coordinator);
        coordinator.onMessage("a", 1, new ControlMessage.RolledBack("m", ""), nowNs);
        pass(coordinator);
        requireEnded(coordinator, effect, "ContinueOriginals");
    }

    @ParameterizedTest
    @ValueSource(strings = {"Recover", "ContinueOriginals"})
    void shouldRollBackARestartedSourceWhenTheExecutorThrowsOnce(String effect) {
        InMemoryJournal journal = new InMemoryJournal();
        new Executor("none").coordinator(journal).start(List.of("a"), List.of(), nowNs);
        calls.clear();
        Coordinator coordinator = new Executor(effect).coordinator(journal);
        coordinator.recover(journal.records("m"), nowNs);
        pass(coordinator);
        requireEnded(coordinator, effect, "ContinueOriginals");
    }

    private Participant begun(String throwsOnce) {
        Participant participant = new Executor(throwsOnce).participant();
        participant.linkUp(nowNs);
        participant.onMessage(1, Begins.of("m", List.of("a"), "a"), nowNs);
        pass(participant);
        return participant;
    }

    @ParameterizedTest
    @ValueSource(strings = {"StartRestore", "Reply", "ProveCopies", "ReleaseCopies", "Finished"})
    void shouldCommitAtATargetWhenTheExecutorThrowsOnce(String effect) {
        Participant participant = begun(effect);
        participant.copiesHeld("s", Begins.copies("a"), nowNs);
        pass(participant);
        participant.onMessage(1, new ControlMessage.Confirm("m"), nowNs);
        pass(participant);
        participant.onMessage(1, new ControlMessage.Commit("m"), nowNs);
        pass(participant);
        requireEnded(participant, effect, "ReleaseCopies");
    }

    @ParameterizedTest
    @ValueSource(strings = {"EndCopies", "Reply", "Finished"})
    void shouldRollBackAtATargetWhenTheExecutorThrowsOnce(String effect) {
        Participant participant = begun(effect);
        participant.onMessage(1, new ControlMessage.RollBack("m", "called off"), nowNs);
        pass(participant);
        requireEnded(participant, effect, "EndCopies");
    }
}
