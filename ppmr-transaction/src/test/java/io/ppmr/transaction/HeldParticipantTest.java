package io.ppmr.transaction;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.VoterState;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.TransactionJournal;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.journal.TransactionRecord.RecordedClock;
import io.ppmr.transaction.operator.OperatorDecision;
import io.ppmr.transaction.rules.Begins;
import io.ppmr.transaction.rules.Effect;
import io.ppmr.transaction.rules.TransactionTimes;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Tests a target that has voted and whose source is gone, in virtual time. */
class HeldParticipantTest {
    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);
    private static final OperatorDecision COMMIT = new OperatorDecision(FinalOutcome.COMMITTED, Set.of(), false, false);

    /** An executor that only notes effects. */
    static final class Notes implements EffectExecutor {
        private final List<String> reports = new ArrayList<>();
        private final List<String> beginning = new ArrayList<>();
        private Participant participant;
        private int fences;
        private int reconnects;
        private int releases;
        private int promises;
        private int sent;
        private String copies = "";

        /** Makes a participant whose effects are noted here. */
        Participant participant(TransactionTimes times, TransactionJournal journal) {
            participant = new Participant("m", times, Journalled.in(journal, this));
            return participant;
        }

        @Override
        public Execution carryOut(Effect effect) {
            if (effect instanceof Effect.Reply reply) {
                beginning.add(reply.message().getClass().getSimpleName());
            } else if (effect instanceof Effect.Send send) {
                sent++;
                if (send.message() instanceof ControlMessage.ParticipantStatus standing
                        && standing.state() == VoterState.PROMISED) {
                    promises++;
                }
            } else if (effect instanceof Effect.StartRestore) {
                beginning.add("restores");
            } else if (effect instanceof Effect.ProveCopies) {
                participant.copiesProved(copies);
            } else if (effect instanceof Effect.ProveForPromise promise) {
                participant.promiseProved(promise, copies);
            } else if (effect instanceof Effect.ReleaseCopies) {
                releases++;
            } else if (effect instanceof Effect.FenceSource) {
                fences++;
            } else if (effect instanceof Effect.Reconnect) {
                reconnects++;
            } else if (effect instanceof Effect.DropSourceLink) {
                reports.add("the link is dropped");
            } else if (effect instanceof Effect.Report text) {
                reports.add(text.text());
            }
            return Execution.DONE;
        }

        private long loud() {
            return reports.stream().filter(text -> text.contains("IN DOUBT")).count();
        }
    }

    private static final long HOUR = 3600 * SECOND;

    private final Notes notes = new Notes();
    private final TransactionTimes times =
            TransactionTimes.standard(5 * SECOND, 0).withFence(SECOND, 4 * SECOND);
    private long now = 100 * SECOND;

    private final InMemoryJournal journal = new InMemoryJournal();

    private Participant held(TransactionTimes with) {
        return held(with, List.of("a"), "a");
    }

    private Participant held(TransactionTimes with, List<String> participants, String self) {
        Participant participant = notes.participant(with, journal);
        participant.linkUp(now);
        participant.onMessage(1, Begins.of("m", participants, self), now);
        participant.copiesHeld("s", Begins.copies("a"), now);
        participant.linkDown(now);
        return participant;
    }

    private void passes(Participant participant, int seconds) {
        for (int i = 0; i < seconds; i++) {
            now += SECOND;
            participant.tick(now);
        }
    }

    @Test
    void shouldAcceptBeforeItStartsTheRestores() {
        held(times);
        assertEquals(List.of("Accept", "restores"), notes.beginning.subList(0, 2));
    }

    @Test
    void shouldResendLessOftenWhenAPeerIsSilentForLong() {
        Participant participant = held(times, List.of("a", "b"), "a");
        participant.resolve(COMMIT, now);
        passes(participant, 10);
        assertTrue(notes.sent >= 8, "sent " + notes.sent + " times in the first 10 s");
        passes(participant, 50);
        notes.sent = 0;
        passes(participant, 600);
        assertTrue(notes.sent >= 55 && notes.sent <= 61, "sent " + notes.sent + " times in the next 600 s");
        // After any event, the interval is one second again.
        participant.resolve(COMMIT, now);
        notes.sent = 0;
        passes(participant, 5);
        assertTrue(notes.sent >= 4, "sent " + notes.sent + " times in 5 s after an event");
    }

    @Test
    void shouldReportHeldRanksAtOnceAndEvery30Seconds() {
        Participant participant = held(TransactionTimes.standard(5 * SECOND, 0));
        long sinceNs = now;
        passes(participant, 1);
        assertEquals(1, notes.loud());
        passes(participant, 300);
        assertEquals(11, notes.loud());
        assertEquals(sinceNs, participant.waitsSinceNs());
        participant.linkUp(now);
        assertEquals(null, participant.waitsFor());
        passes(participant, 100);
        assertEquals(11, notes.loud(), "nothing is held now");
    }

    @Test
    void shouldRunTheFenceAgainForAnOperatorAndTakeOverWhenItSucceeds() {
        Participant participant = held(times);
        passes(participant, 2);
        assertEquals(1, notes.fences, "its own window");
        participant.fenceEnded(false, now);
        assertFalse(participant.isSeekingProof());
        passes(participant, 60);
        assertEquals(1, notes.fences, "never after the window by itself");
        assertEquals(
                OperatorDecision.DecisionPreview.How.AFTER_FENCE,
                participant.preview(COMMIT).how());
        participant.resolve(COMMIT, now);
        assertTrue(participant.isSeekingProof());
        assertEquals(2, notes.fences);
        assertEquals(0, notes.releases);
        participant.fenceEnded(true, now);
        assertEquals(1, notes.releases);
        assertEquals(1, notes.reconnects, "there is no source to run the hook");
        assertFalse(participant.preview(COMMIT).allows());
    }

    @Test
    void shouldStayHeldWhenTheOperatorsFenceFailsToo() {
        Participant participant = held(times);
        passes(participant, 2);
        participant.fenceEnded(false, now);
        participant.resolve(COMMIT, now);
        participant.fenceEnded(false, now);
        assertFalse(participant.isSeekingProof());
        assertEquals(0, notes.releases);
        assertNotNull(participant.waitsFor());
        assertTrue(participant.preview(COMMIT).allows(), "it may be tried again");
    }

    @Test
    void shouldLeaveTheReconnectToTheSourceWhenTheSourceHasDecided() {
        Participant participant = held(times);
        participant.linkUp(now);
        participant.onMessage(1, new ControlMessage.Commit("m"), now);
        assertEquals(1, notes.releases);
        assertEquals(0, notes.reconnects);
    }

    @Test
    void shouldPromiseNothingWhenACopyDiesDuringAFullJournal() {
        journal.full(true);
        Participant second = held(times, List.of("a", "b"), "b");
        second.onPeerMessage("a", 1, new ControlMessage.StatusQuery("m", 7, 60_000), now);
        notes.copies = "a copy is dead";
        journal.full(false);
        passes(second, 10);
        assertEquals(0, notes.promises, "the requester may fence the source on a promise");
    }

    @Test
    void shouldPromiseOnceThereIsRoomInTheJournalWhenTheCopiesAreHeld() {
        journal.full(true);
        Participant second = held(times, List.of("a", "b"), "b");
        second.onPeerMessage("a", 1, new ControlMessage.StatusQuery("m", 7, 60_000), now);
        passes(second, 10);
        assertEquals(0, notes.promises);
        journal.full(false);
        passes(second, 10);
        assertEquals(1, notes.promises);
    }

    @Test
    void shouldNotFenceAfterARestartEitherWhenItWasFrozenAsItLostTheSource() {
        Participant frozen = notes.participant(times, journal);
        frozen.linkUp(now);
        frozen.onMessage(1, Begins.of("m", List.of("a"), "a"), now);
        frozen.copiesHeld("s", Begins.copies("a"), now);
        now += 60 * SECOND;
        frozen.linkDown(now);
        passes(frozen, 2);
        assertEquals(0, notes.fences, "the time of the source's loss is unknown");
        Participant again = notes.participant(times, journal);
        again.recover(journal.records("m"), now, 0);
        passes(again, 10);
        assertEquals(0, notes.fences, "the time is unknown after the restart, too");
    }

    @Test
    void shouldFenceAfterARestartWhenItsWindowIsStillOpen() {
        held(times);
        Participant again = notes.participant(times, journal);
        again.recover(journal.records("m"), now, 0);
        passes(again, 2);
        assertEquals(1, notes.fences);
    }

    /**
     * Recovers from an earlier release's records, on a machine that was suspended since its boot at an unknown time.
     */
    private Participant recovered(TransactionRecord... more) throws Exception {
        journal.appendSynced(new TransactionRecord.PreparedHere(
                "m", 1, List.of("a"), "a", "s", List.of(), now - HOUR, RecordedClock.AWAKE));
        for (TransactionRecord record : more) {
            journal.appendSynced(record);
        }
        Participant again = notes.participant(times, journal);
        again.recover(journal.records("m"), now, HOUR);
        return again;
    }

    @Test
    void shouldNotFenceWhenAnEarlierReleaseHasWrittenSinceWhenTheSourceIsLost() throws Exception {
        now += 2 * HOUR;
        // By the stopped clock, the source may have been lost for less than the delay, or for more than the window.
        Participant again = recovered(new TransactionRecord.LostSource("m", 1, now - 2 * SECOND, RecordedClock.AWAKE));
        passes(again, 60);
        assertEquals(0, notes.fences);
        again.linkUp(now);
        again.linkDown(now);
        passes(again, 3);
        assertEquals(1, notes.fences);
    }

    @Test
    void shouldKeepAPromiseOfAnEarlierReleaseToItsEndWhenTheMachineWasSuspended() throws Exception {
        now += 2 * HOUR;
        Participant again =
                recovered(new TransactionRecord.Promised("m", 1, now - HOUR + 30 * SECOND, RecordedClock.AWAKE));
        passes(again, 29);
        assertFalse(notes.reports.contains("the link is dropped"));
        passes(again, 2);
        assertTrue(notes.reports.contains("the link is dropped"));
    }

    @Test
    void shouldNotFenceWhenTheMachineIsSuspendedThroughItsWindow() {
        Participant participant = held(times);
        now += HOUR;
        passes(participant, 10);
        assertEquals(0, notes.fences);
    }
}
