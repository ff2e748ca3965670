package io.ppmr.transaction.rules;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.ControlMessage.Commit;
import io.ppmr.protocol.control.ControlMessage.Committed;
import io.ppmr.protocol.control.ControlMessage.ParticipantStatus;
import io.ppmr.protocol.control.ControlMessage.RollBack;
import io.ppmr.protocol.control.ControlMessage.RolledBack;
import io.ppmr.protocol.control.ControlMessage.StatusQuery;
import io.ppmr.protocol.control.ControlMessage.TakeOver;
import io.ppmr.protocol.control.VoterState;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.rules.ParticipantState.Phase;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** The rules of a participant for the messages of another one. */
final class PeerRules {
    private PeerRules() {}

    static Transition<ParticipantState> hear(ParticipantState state, ParticipantEvent.PeerMessage heard) {
        String from = heard.participant();
        ControlMessage message = heard.message();
        boolean asked = message instanceof StatusQuery || message instanceof TakeOver;
        boolean told = message instanceof RollBack;
        if (heard.attempt() > state.attempt()) {
            return asked || told
                    ? ParticipantRules.neverAny(state, heard.attempt(), over(state, heard))
                    : Transition.stay(state);
        }
        if (heard.attempt() < state.attempt()) {
            return asked || told ? Transition.of(state, over(state, heard)) : Transition.stay(state);
        }
        if (!state.participants().isEmpty() && !state.others().contains(from)) {
            // Messages from non-participants are ignored.
            return Transition.stay(state);
        }
        if (message instanceof StatusQuery ask) {
            return hearAsk(state, from, ask, heard.atNs());
        }
        if (message instanceof TakeOver) {
            return hearTakeOver(state, from);
        }
        if (message instanceof ParticipantStatus standing) {
            return TakeOverRules.hearStanding(state, from, standing);
        }
        if (message instanceof Commit || message instanceof RollBack) {
            return hearDecision(state, from, message);
        }
        if (message instanceof Committed || message instanceof RolledBack) {
            return hearAnswer(state, from, message instanceof Committed);
        }
        return Transition.stay(state);
    }

    private static Effect over(ParticipantState state, ParticipantEvent.PeerMessage heard) {
        String id = state.migrationId();
        ControlMessage answer = heard.message() instanceof RollBack
                ? new RolledBack(id, state.reason())
                : new ParticipantStatus(id, VoterState.ROLLED_BACK, 0);
        return new Effect.Send(heard.participant(), heard.attempt(), answer);
    }

    private static Transition<ParticipantState> hearAsk(
            ParticipantState state, String from, StatusQuery ask, long atNs) {
        return switch (state.phase()) {
            case PREPARED -> promise(state, from, ask, atNs);
            case COMMITTED -> Transition.of(state, ParticipantRules.standing(state, from, VoterState.COMMITTED, 0));
            case ROLLED_BACK -> Transition.of(state, ParticipantRules.standing(state, from, VoterState.ROLLED_BACK, 0));
            default -> Transition.stay(state);
        };
    }

    private static Transition<ParticipantState> promise(
            ParticipantState state, String from, StatusQuery ask, long atNs) {
        // A promise is kept as long as it was given for, or not given: who was promised something may have the source
        // shot.
        long promiseNs = TimeUnit.MILLISECONDS.toNanos(ask.promiseMs());
        boolean tooLong = promiseNs <= 0 || promiseNs > TransactionTimes.LONGEST_PROMISE_NS;
        if (ask.round() == 0 || !state.isFirst(from) || tooLong) {
            return Transition.of(state, ParticipantRules.standing(state, from, VoterState.PREPARED, ask.round()));
        }
        return Transition.of(
                state.withPromise(true),
                new Effect.Persist(
                        new TransactionRecord.Promised(state.migrationId(), state.attempt(), atNs + promiseNs)),
                ParticipantRules.standing(state, from, VoterState.PROMISED, ask.round()));
    }

    private static Transition<ParticipantState> hearTakeOver(ParticipantState state, String from) {
        if (!state.participants().isEmpty() && !state.isFirst(from)) {
            return Transition.stay(state);
        }
        return switch (state.phase()) {
            case PREPARING ->
                ParticipantRules.rollBack(state, "the source is off", false)
                        .and(ParticipantRules.standing(state, from, VoterState.ROLLED_BACK, 0));
            case PREPARED ->
                Transition.of(
                        state.takenOver(FinalOutcome.COMMITTED),
                        new Effect.Persist(new TransactionRecord.TakenOver(
                                state.migrationId(), state.attempt(), FinalOutcome.COMMITTED)),
                        ParticipantRules.standing(state, from, VoterState.TAKE_OVER_ACCEPTED, 0));
            case TAKEN_OVER ->
                Transition.of(state, ParticipantRules.standing(state, from, VoterState.TAKE_OVER_ACCEPTED, 0));
            case COMMITTED -> Transition.of(state, ParticipantRules.standing(state, from, VoterState.COMMITTED, 0));
            case ROLLED_BACK -> Transition.of(state, ParticipantRules.standing(state, from, VoterState.ROLLED_BACK, 0));
            default -> Transition.stay(state);
        };
    }

    /** The first participant's decision after a take-over. */
    private static Transition<ParticipantState> hearDecision(
            ParticipantState state, String from, ControlMessage message) {
        boolean commit = message instanceof Commit;
        Effect done = ParticipantRules.send(
                state,
                from,
                state.phase() == Phase.COMMITTED || (commit && state.phase() != Phase.ROLLED_BACK)
                        ? new Committed(state.migrationId())
                        : new RolledBack(state.migrationId(), state.reason()));
        if (state.phase() == Phase.COMMITTED || state.phase() == Phase.ROLLED_BACK) {
            return Transition.of(state, done);
        }
        boolean applies = state.isFirst(from) && (state.phase() != Phase.PREPARING || !commit);
        if (!applies) {
            return Transition.stay(state);
        }
        Transition<ParticipantState> decided = commit
                ? ParticipantRules.commit(state, false)
                : ParticipantRules.rollBack(state, ((RollBack) message).reason(), false);
        return decided.and(done);
    }

    /** The answer of one who was told the decision. */
    private static Transition<ParticipantState> hearAnswer(ParticipantState state, String from, boolean committed) {
        boolean awaited = state.decidedHere() && !state.done() && state.silent().contains(from);
        if (!awaited) {
            return Transition.stay(state);
        }
        ParticipantState next = state.answeredBy(from, committed);
        List<Effect> effects = new ArrayList<>();
        if (committed != (state.phase() == Phase.COMMITTED)) {
            effects.add(new Effect.Say(from + " has decided otherwise: committed=" + committed));
        }
        if (next.silent().isEmpty()) {
            next = next.finished();
            effects.addAll(ParticipantRules.closing(next));
        }
        return new Transition<>(next, effects);
    }
}
