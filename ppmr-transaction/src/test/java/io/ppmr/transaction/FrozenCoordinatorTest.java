package io.ppmr.transaction;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.transaction.journal.Outcome;
import io.ppmr.transaction.rules.CoordinatorEvent;
import io.ppmr.transaction.rules.CoordinatorEvent.Originals;
import io.ppmr.transaction.rules.TransactionTimes;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** A source that rolls back and was frozen meanwhile, by the clock. */
class FrozenCoordinatorTest {
    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);

    /** Ports that only note. */
    private static final class Notes implements Coordinator.Ports {
        private final List<String> fenced = new ArrayList<>();
        private final List<String> told = new ArrayList<>();

        @Override
        public void send(String participant, int attempt, ControlMessage message) {
            told.add("to " + participant + ": " + message);
        }

        @Override
        public Originals originals() {
            return Originals.HELD;
        }

        @Override
        public String whyNotHeld() {
            return "";
        }

        @Override
        public List<String> nextAttempt(String reason, String participant) {
            return List.of();
        }

        @Override
        public void startAttempt(int attempt, List<String> participants) {
            told.add("attempt " + attempt + " with " + participants);
        }

        @Override
        public boolean stopAttempt(int attempt, String reason) {
            return true;
        }

        @Override
        public void seal(String participant) {
            told.add("seal " + participant);
        }

        @Override
        public boolean endOriginals() {
            return true;
        }

        @Override
        public boolean continueOriginals() {
            return true;
        }

        @Override
        public void resume() {
            told.add("resume");
        }

        @Override
        public void reconnect() {
            told.add("reconnect");
        }

        @Override
        public boolean fence(String participant) {
            fenced.add(participant);
            return true;
        }

        @Override
        public void say(String text) {
            told.add(text);
        }

        @Override
        public void finished(Outcome outcome, String reason) {
            told.add(outcome + " " + reason);
        }
    }

    private final Notes notes = new Notes();
    private final Coordinator coordinator =
            new Coordinator("m", TransactionTimes.usual(SECOND, 0), new InMemoryJournal(), notes);
    private long nowNs = 1000 * SECOND;

    /** Both targets may have voted, the second one is lost, and the source rolls back. */
    private void rollBackWithoutTheSecond() {
        coordinator.start(List.of("a", "b"), List.of(), nowNs);
        for (String target : List.of("a", "b")) {
            coordinator.heard(target, 1, new ControlMessage.Accept(0, 20_000, 1_000), nowNs);
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
    void shouldBeInDoubtOnlyWhileATargetThatIsWaitedForIsNotReached() {
        assertFalse(coordinator.isSettledByReached());
        rollBackWithoutTheSecond();
        assertFalse(coordinator.isSettledByReached(), "b is not reached");
        coordinator.linkUp("b", nowNs);
        assertTrue(coordinator.isSettledByReached());
        passSeconds(1000);
        assertTrue(coordinator.isSettledByReached(), "however long they take");
        coordinator.linkDown("a", nowNs);
        assertFalse(coordinator.isSettledByReached(), "a is not reached");
        coordinator.heard("a", 1, new ControlMessage.RolledBack("m", "gone"), nowNs);
        assertTrue(coordinator.isSettledByReached(), "a has answered");
        coordinator.heard("b", 1, new ControlMessage.RolledBack("m", "gone"), nowNs);
        assertFalse(coordinator.isSettledByReached(), "it is over");
    }

    @Test
    void shouldFenceOneThatIsNotReachedWhenItCannotFenceThisNodeAnyMore() {
        rollBackWithoutTheSecond();
        passSeconds(60);
        assertEquals(List.of("b"), notes.fenced, notes.told::toString);
    }

    @Test
    void shouldFenceNobodyWhenTheFirstOneMayHaveLostAFrozenSource() {
        rollBackWithoutTheSecond();
        // The first one has lost the source meanwhile, and may be about to have it shot.
        nowNs += 80 * SECOND;
        coordinator.tick(nowNs);
        assertEquals(List.of(), notes.fenced, notes.told::toString);
        coordinator.linkDown("a", nowNs);
        passSeconds(20);
        assertEquals(List.of(), notes.fenced, notes.told::toString);
        passSeconds(60);
        assertEquals(Set.of("b", "a"), Set.copyOf(notes.fenced), notes.told::toString);
    }

    @Test
    void shouldFenceNobodyWhenAMessageIsTheFirstThatAFrozenSourceSees() {
        rollBackWithoutTheSecond();
        nowNs += 80 * SECOND;
        coordinator.linkUp("a", nowNs);
        coordinator.tick(nowNs);
        assertEquals(List.of(), notes.fenced, notes.told::toString);
    }
}
