package io.ppmr.transaction;

import io.ppmr.transaction.ParticipantState.Phase;
import io.ppmr.transaction.TransactionMessage.Ask;
import io.ppmr.transaction.TransactionMessage.Commit;
import io.ppmr.transaction.TransactionMessage.Committed;
import io.ppmr.transaction.TransactionMessage.RollBack;
import io.ppmr.transaction.TransactionMessage.RolledBack;
import io.ppmr.transaction.TransactionMessage.Standing;
import io.ppmr.transaction.TransactionMessage.TakeOver;
import io.ppmr.transaction.TransactionMessage.Where;
import java.util.ArrayList;
import java.util.List;

/** What a participant does with the words of another one. */
final class PeerRules {
    private PeerRules() {}

    static Transition<ParticipantState> hear(ParticipantState state, ParticipantEvent.HeardPeer heard) {
        String from = heard.participant();
        TransactionMessage message = heard.message();
        boolean asked = message instanceof Ask || message instanceof TakeOver;
        boolean told = message instanceof RollBack;
        if (message.attempt() > state.attempt()) {
            return asked || told
                    ? ParticipantRules.neverAny(state, message.attempt(), over(state, from, message))
                    : Transition.stay(state);
        }
        if (message.attempt() < state.attempt()) {
            return asked || told ? Transition.of(state, over(state, from, message)) : Transition.stay(state);
        }
        if (!state.participants().isEmpty() && !state.others().contains(from)) {
            // Who takes no part in this attempt has no say in it, and is told nothing.
            return Transition.stay(state);
        }
        if (message instanceof Ask ask) {
            return hearAsk(state, from, ask, heard.atNs());
        }
        if (message instanceof TakeOver) {
            return hearTakeOver(state, from);
        }
        if (message instanceof Standing standing) {
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

    private static Effect over(ParticipantState state, String from, TransactionMessage message) {
        String id = state.migrationId();
        return message instanceof RollBack
                ? new Effect.Send(from, new RolledBack(id, message.attempt(), state.reason()))
                : new Effect.Send(from, new Standing(id, message.attempt(), Where.ROLLED_BACK, 0));
    }

    private static Transition<ParticipantState> hearAsk(ParticipantState state, String from, Ask ask, long atNs) {
        return switch (state.phase()) {
            case PREPARED -> promise(state, from, ask, atNs);
            case COMMITTED -> Transition.of(state, say(state, from, Where.COMMITTED, 0));
            case ROLLED_BACK -> Transition.of(state, say(state, from, Where.ROLLED_BACK, 0));
            default -> Transition.stay(state);
        };
    }

    private static Transition<ParticipantState> promise(ParticipantState state, String from, Ask ask, long atNs) {
        // A promise is kept as long as it was given for, or not given: who was promised something may have the source
        // shot.
        boolean tooLong = ask.promiseNs() <= 0 || ask.promiseNs() > TransactionTimes.LONGEST_PROMISE_NS;
        if (ask.round() == 0 || !state.isFirst(from) || tooLong) {
            return Transition.of(state, say(state, from, Where.PREPARED, ask.round()));
        }
        return Transition.of(
                state.withPromise(true),
                new Effect.Persist(
                        new TransactionRecord.Promised(state.migrationId(), state.attempt(), atNs + ask.promiseNs())),
                say(state, from, Where.PROMISED, ask.round()));
    }

    private static Transition<ParticipantState> hearTakeOver(ParticipantState state, String from) {
        if (!state.participants().isEmpty() && !state.isFirst(from)) {
            return Transition.stay(state);
        }
        return switch (state.phase()) {
            case PREPARING -> {
                Transition<ParticipantState> back = ParticipantRules.rollBack(state, "the source is off", false);
                List<Effect> effects = new ArrayList<>(back.effects());
                effects.add(say(state, from, Where.ROLLED_BACK, 0));
                yield new Transition<>(back.state(), effects);
            }
            case PREPARED ->
                Transition.of(
                        state.takenOver(Outcome.COMMITTED),
                        new Effect.Persist(new TransactionRecord.TakenOver(
                                state.migrationId(), state.attempt(), Outcome.COMMITTED)),
                        say(state, from, Where.BOUND, 0));
            case TAKEN_OVER -> Transition.of(state, say(state, from, Where.BOUND, 0));
            case COMMITTED -> Transition.of(state, say(state, from, Where.COMMITTED, 0));
            case ROLLED_BACK -> Transition.of(state, say(state, from, Where.ROLLED_BACK, 0));
            default -> Transition.stay(state);
        };
    }

    /** The first participant's decision after a take-over. */
    private static Transition<ParticipantState> hearDecision(
            ParticipantState state, String from, TransactionMessage message) {
        boolean commit = message instanceof Commit;
        Effect done = new Effect.Send(
                from,
                state.phase() == Phase.COMMITTED || (commit && state.phase() != Phase.ROLLED_BACK)
                        ? new Committed(state.migrationId(), state.attempt())
                        : new RolledBack(state.migrationId(), state.attempt(), state.reason()));
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
        List<Effect> effects = new ArrayList<>(decided.effects());
        effects.add(done);
        return new Transition<>(decided.state(), effects);
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

    private static Effect.Send say(ParticipantState state, String to, Where where, long round) {
        return new Effect.Send(to, ParticipantRules.standing(state, where, round));
    }
}
