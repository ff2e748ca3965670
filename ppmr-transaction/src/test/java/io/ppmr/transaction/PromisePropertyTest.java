package io.ppmr.transaction;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.ControlMessage.ParticipantStatus;
import io.ppmr.protocol.control.ControlMessage.StatusQuery;
import io.ppmr.protocol.control.VoterState;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.rules.Effect;
import io.ppmr.transaction.rules.ParticipantEvent;
import io.ppmr.transaction.rules.ParticipantRules;
import io.ppmr.transaction.rules.ParticipantState;
import io.ppmr.transaction.rules.States;
import io.ppmr.transaction.rules.TransactionTimes;
import io.ppmr.transaction.rules.Transition;
import java.util.List;
import java.util.concurrent.TimeUnit;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;

/** Tests that a target promises exactly the requested time, or nothing. */
class PromisePropertyTest {
    private static final long LONGEST_MS = TimeUnit.NANOSECONDS.toMillis(TransactionTimes.LONGEST_PROMISE_NS);
    private static final long LAST_CONTACT_NS = TimeUnit.DAYS.toNanos(100);
    private static final List<String> PARTICIPANTS = List.of("a:1", "b:1", "c:1");

    @Provide
    static Arbitrary<Long> durations() {
        return Arbitraries.oneOf(
                Arbitraries.longs(),
                Arbitraries.longs().between(0, 2 * LONGEST_MS),
                Arbitraries.of(0L, 1L, -1L, LONGEST_MS, LONGEST_MS + 1, Long.MAX_VALUE, Long.MIN_VALUE));
    }

    private static ParticipantState voted() {
        return States.participant("m", PARTICIPANTS, "b:1", ParticipantState.Phase.PREPARED);
    }

    private static Transition<ParticipantState> receive(String from, ControlMessage message) {
        return ParticipantRules.apply(voted(), new ParticipantEvent.PeerMessage(from, 1, message, LAST_CONTACT_NS));
    }

    @Property(tries = 2000)
    void shouldPromiseAsLongAsAskedOrDeclineAndNeverShorter(@ForAll("durations") long promiseMs, @ForAll long round) {
        Transition<ParticipantState> received = receive("a:1", new StatusQuery("m", round, promiseMs));
        boolean promised = round != 0 && promiseMs > 0 && promiseMs <= LONGEST_MS;
        assertEquals(promised, received.state().promised());
        Effect answer = new Effect.Send(
                "a:1", 1, new ParticipantStatus("m", promised ? VoterState.PROMISED : VoterState.PREPARED, round));
        assertEquals(
                promised
                        ? List.of(
                                new Effect.Persist(new TransactionRecord.Promised(
                                        "m", 1, LAST_CONTACT_NS + TimeUnit.MILLISECONDS.toNanos(promiseMs))),
                                answer)
                        : List.of(answer),
                received.effects());
        assertTrue(
                LAST_CONTACT_NS + (promised ? TimeUnit.MILLISECONDS.toNanos(promiseMs) : 0) >= LAST_CONTACT_NS,
                "a promise that is over before it begins");
    }

    @Property(tries = 500)
    void shouldPromiseNothingWhenTheRequesterIsNotTheFirst(@ForAll("durations") long promiseMs) {
        assertEquals(
                List.of(new Effect.Send("c:1", 1, new ParticipantStatus("m", VoterState.PREPARED, 5))),
                receive("c:1", new StatusQuery("m", 5, promiseMs)).effects());
    }

    @Example
    void shouldIgnoreMessagesWhenTheSenderIsNoParticipant() {
        for (ControlMessage message : List.of(
                new StatusQuery("m", 5, 1),
                new ParticipantStatus("m", VoterState.COMMITTED, 0),
                new ParticipantStatus("m", VoterState.ROLLED_BACK, 0),
                new ControlMessage.TakeOver("m"))) {
            Transition<ParticipantState> received = receive("stranger:1", message);
            assertEquals(List.of(), received.effects(), message.toString());
            assertEquals(voted(), received.state());
        }
    }

    @Example
    void shouldKeepThePromiseToItsEndWhenTheServiceIsRestartedWithAShorterWindowOfItsOwn() throws Exception {
        InMemoryJournal journal = new InMemoryJournal();
        TransactionTimes noFence = TransactionTimes.standard(TimeUnit.SECONDS.toNanos(5), 0);
        long endNs = LAST_CONTACT_NS + TimeUnit.MINUTES.toNanos(30);
        journal.appendSynced(
                new TransactionRecord.PreparedHere("m", 1, PARTICIPANTS, "b:1", "s", List.of(), LAST_CONTACT_NS));
        journal.appendSynced(new TransactionRecord.Promised("m", 1, endNs));
        HeldParticipantTest.Notes notes = new HeldParticipantTest.Notes();
        Participant again = notes.participant(noFence, journal);
        again.recover(journal.records("m"), LAST_CONTACT_NS + 1, 0);
        long stepNs = TimeUnit.SECONDS.toNanos(1);
        for (long now = LAST_CONTACT_NS + 1; now < endNs - stepNs; now += stepNs) {
            again.tick(now);
            assertTrue(again.state().promised(), "the promise is over before its end");
        }
        again.linkUp(endNs - 1);
        again.onMessage(1, new ControlMessage.RollBack("m", "late"), endNs - 1);
        assertSame(ParticipantState.Phase.PREPARED, again.state().phase());
        again.tick(endNs);
        again.linkUp(endNs + 1);
        again.onMessage(1, new ControlMessage.RollBack("m", "now"), endNs + 1);
        assertSame(ParticipantState.Phase.ROLLED_BACK, again.state().phase());
    }

    @Example
    void shouldHoldNoPromiseOfAnEarlierBoot() throws Exception {
        InMemoryJournal journal = new InMemoryJournal();
        journal.appendSynced(
                new TransactionRecord.PreparedHere("m", 1, PARTICIPANTS, "b:1", "s", List.of(), LAST_CONTACT_NS));
        journal.appendSynced(new TransactionRecord.Promised("m", 1, LAST_CONTACT_NS + 1000));
        Participant again = new HeldParticipantTest.Notes()
                .participant(TransactionTimes.standard(TimeUnit.SECONDS.toNanos(5), 0), journal);
        long now = TimeUnit.MINUTES.toNanos(2);
        again.recover(journal.records("m"), now, 0);
        again.tick(now + 1);
        again.linkUp(now + 2);
        again.onMessage(1, new ControlMessage.RollBack("m", "now"), now + 2);
        assertSame(ParticipantState.Phase.ROLLED_BACK, again.state().phase());
    }
}
