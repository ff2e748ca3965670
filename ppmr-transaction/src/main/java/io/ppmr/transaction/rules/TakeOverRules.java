package io.ppmr.transaction.rules;

import io.ppmr.protocol.control.ControlMessage.ParticipantStatus;
import io.ppmr.protocol.control.VoterState;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.rules.ParticipantState.Phase;

/** The rules of a participant whose source does not answer. They fence it, take over, and decide. */
final class TakeOverRules {
    private TakeOverRules() {}

    static Transition<ParticipantState> apply(ParticipantState state, ParticipantEvent event) {
        if (event instanceof ParticipantEvent.SourceFenceDue due) {
            return fenceDue(state, due);
        }
        if (event instanceof ParticipantEvent.FenceWindowOver) {
            return state.fencing() || state.round() == 0 ? Transition.stay(state) : Transition.of(state.withRound(0));
        }
        if (event instanceof ParticipantEvent.FenceEnded ended) {
            return fenceEnded(state, ended.off());
        }
        if (event instanceof ParticipantEvent.PeerOff off) {
            return peerOff(state, off.participant());
        }
        return resolve(state, (ParticipantEvent.ParticipantDecision) event);
    }

    private static Transition<ParticipantState> fenceDue(ParticipantState state, ParticipantEvent.SourceFenceDue due) {
        boolean applies = state.phase() == Phase.PREPARED && state.isFirst() && state.sourceLost() && !state.fencing();
        if (!applies) {
            return Transition.stay(state);
        }
        ParticipantState next = state.withRound(due.untilNs());
        if (next.others().isEmpty()) {
            return fence(next);
        }
        return Transition.of(next)
                .and(next.others().stream()
                        .map(name -> ParticipantRules.ask(next, name, due.untilNs(), due.promiseNs()))
                        .toList());
    }

    private static Transition<ParticipantState> fence(ParticipantState state) {
        return Transition.of(
                state.withFencing(true),
                new Effect.Persist(new TransactionRecord.Fencing(state.migrationId(), state.attempt(), state.round())),
                new Effect.FenceSource());
    }

    private static Transition<ParticipantState> fenceEnded(ParticipantState state, boolean off) {
        if (state.phase() != Phase.PREPARED || !state.fencing()) {
            return Transition.stay(state);
        }
        return off ? takeOver(state, FinalOutcome.COMMITTED) : Transition.of(state.withFencing(false));
    }

    private static Transition<ParticipantState> takeOver(ParticipantState state, FinalOutcome aim) {
        ParticipantState next = state.takenOver(aim);
        Effect taken = new Effect.Persist(new TransactionRecord.TakenOver(state.migrationId(), state.attempt(), aim));
        if (next.others().isEmpty()) {
            Transition<ParticipantState> decided = decide(next);
            return Transition.of(decided.state(), taken).and(decided.effects());
        }
        return Transition.of(next, taken).and(ParticipantRules.unanswered(next));
    }

    private static Transition<ParticipantState> decide(ParticipantState state) {
        return state.aim() == FinalOutcome.COMMITTED || state.othersCommitted()
                ? ParticipantRules.commit(state, true)
                : ParticipantRules.rollBack(state, "an operator decided", true);
    }

    static Transition<ParticipantState> onStanding(ParticipantState state, String from, ParticipantStatus standing) {
        VoterState where = standing.state();
        if (state.phase() == Phase.PREPARED) {
            // Both are final. No participant of this attempt can decide otherwise.
            if (where == VoterState.COMMITTED) {
                return ParticipantRules.commit(state, false);
            }
            if (where == VoterState.ROLLED_BACK) {
                return ParticipantRules.rollBack(state, from + " rolled back", false);
            }
            boolean counts = where == VoterState.PROMISED
                    && state.round() != 0
                    && standing.round() == state.round()
                    && !state.fencing();
            if (!counts) {
                return Transition.stay(state);
            }
            ParticipantState next = state.answeredBy(from, false);
            return next.silent().isEmpty() ? fence(next) : Transition.of(next);
        }
        if (state.phase() != Phase.TAKEN_OVER || !state.isFirst()) {
            return Transition.stay(state);
        }
        if (where == VoterState.ROLLED_BACK) {
            return ParticipantRules.rollBack(state, from + " rolled back", true);
        }
        if (where != VoterState.TAKE_OVER_ACCEPTED && where != VoterState.COMMITTED) {
            return Transition.stay(state);
        }
        ParticipantState next = state.answeredBy(from, where == VoterState.COMMITTED);
        return next.silent().isEmpty() ? decide(next) : Transition.of(next);
    }

    private static Transition<ParticipantState> resolve(
            ParticipantState state, ParticipantEvent.ParticipantDecision resolve) {
        boolean open = state.phase() == Phase.PREPARED || state.phase() == Phase.TAKEN_OVER;
        if (open && state.isFirst()) {
            return takeOver(state, resolve.outcome());
        }
        if (open && resolve.firstOff() && resolve.outcome() == FinalOutcome.ROLLED_BACK) {
            return ParticipantRules.rollBack(state, "an operator decided", false);
        }
        return Transition.stay(state);
    }

    private static Transition<ParticipantState> peerOff(ParticipantState state, String participant) {
        if (!state.silent().contains(participant)) {
            return Transition.stay(state);
        }
        if (state.phase() == Phase.TAKEN_OVER && state.isFirst() && state.aim() == FinalOutcome.ROLLED_BACK) {
            ParticipantState next = state.answeredBy(participant, false);
            return next.silent().isEmpty() ? decide(next) : Transition.of(next);
        }
        if (state.decidedHere() && !state.done()) {
            ParticipantState next = state.answeredBy(participant, false);
            return next.silent().isEmpty()
                    ? new Transition<>(next.finished(), ParticipantRules.closing(next))
                    : Transition.of(next);
        }
        return Transition.stay(state);
    }
}
