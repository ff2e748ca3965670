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

/** The rules of a participant for messages from another participant. */
final class PeerRules {
    private PeerRules() {}

    static Transition<ParticipantState> onMessage(ParticipantState state, ParticipantEvent.PeerMessage received) {
        String from = received.participant();
        ControlMessage message = received.message();
        boolean isQuestion = message instanceof StatusQuery || message instanceof TakeOver;
        boolean isRollBack = message instanceof RollBack;
        if (received.attempt() > state.attempt()) {
            return isQuestion || isRollBack
                    ? ParticipantRules.endUnbegun(state, received.attempt(), over(state, received))
                    : Transition.stay(state);
        }
        if (received.attempt() < state.attempt()) {
            return isQuestion || isRollBack ? Transition.of(state, over(state, received)) : Transition.stay(state);
        }
        if (!state.participants().isEmpty() && !state.others().contains(from)) {
            // Messages from non-participants are ignored.
            return Transition.stay(state);
        }
        if (message instanceof StatusQuery ask) {
            return onStatusQuery(state, from, ask, received.atNs());
        }
        if (message instanceof TakeOver) {
            return onTakeOver(state, from);
        }
        if (message instanceof ParticipantStatus standing) {
            return TakeOverRules.onStanding(state, from, standing);
        }
        if (message instanceof Commit || message instanceof RollBack) {
            return onDecision(state, from, message);
        }
        if (message instanceof Committed || message instanceof RolledBack) {
            return onAnswer(state, from, message instanceof Committed);
        }
        return Transition.stay(state);
    }

    private static Effect over(ParticipantState state, ParticipantEvent.PeerMessage received) {
        String id = state.migrationId();
        ControlMessage answer = received.message() instanceof RollBack
                ? new RolledBack(id, state.reason())
                : new ParticipantStatus(id, VoterState.ROLLED_BACK, 0);
        return new Effect.Send(received.participant(), received.attempt(), answer);
    }

    private static Transition<ParticipantState> onStatusQuery(
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
        // A promise is kept for the requested time, or not given. A peer that has a promise may fence the source.
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

    private static Transition<ParticipantState> onTakeOver(ParticipantState state, String from) {
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

    /** Follows the first participant's decision after a take-over. */
    private static Transition<ParticipantState> onDecision(
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

    /** Notes an answer to the decision that this participant sent. */
    private static Transition<ParticipantState> onAnswer(ParticipantState state, String from, boolean committed) {
        boolean awaited = state.decidedHere() && !state.done() && state.silent().contains(from);
        if (!awaited) {
            return Transition.stay(state);
        }
        ParticipantState next = state.answeredBy(from, committed);
        List<Effect> effects = new ArrayList<>();
        if (committed != (state.phase() == Phase.COMMITTED)) {
            effects.add(new Effect.Report(from + " decided otherwise: committed=" + committed));
        }
        if (next.silent().isEmpty()) {
            next = next.finished();
            effects.addAll(ParticipantRules.closing(next));
        }
        return new Transition<>(next, effects);
    }
}
