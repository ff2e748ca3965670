package io.ppmr.transaction;

import io.ppmr.transaction.ParticipantState.Phase;
import io.ppmr.transaction.TransactionMessage.Ask;
import io.ppmr.transaction.TransactionMessage.Begin;
import io.ppmr.transaction.TransactionMessage.Commit;
import io.ppmr.transaction.TransactionMessage.Committed;
import io.ppmr.transaction.TransactionMessage.RollBack;
import io.ppmr.transaction.TransactionMessage.RolledBack;
import io.ppmr.transaction.TransactionMessage.Standing;
import io.ppmr.transaction.TransactionMessage.TakeOver;
import io.ppmr.transaction.TransactionMessage.Where;
import java.util.ArrayList;
import java.util.List;

/**
 * The participant's table of docs/transaction.md, as a pure function: no clock, no input or output. Whatever has no
 * place in the table changes nothing. What participants say to each other is in {@link PeerRules}.
 */
public final class ParticipantRules {
    private ParticipantRules() {}

    /** What follows from an event. */
    public static Transition<ParticipantState> apply(ParticipantState state, ParticipantEvent event) {
        if (event instanceof ParticipantEvent.Heard heard) {
            return hear(state, heard.message());
        }
        if (event instanceof ParticipantEvent.HeardPeer heard) {
            return PeerRules.hear(state, heard);
        }
        if (event instanceof ParticipantEvent.CopiesHeld held) {
            return vote(state, held);
        }
        if (event instanceof ParticipantEvent.Failed failed) {
            return fail(state, failed.reason());
        }
        if (event instanceof ParticipantEvent.CopiesProved proved) {
            if (state.phase() != Phase.PREPARED) {
                return Transition.stay(state);
            }
            TransactionMessage answer = proved.reason().isEmpty()
                    ? new TransactionMessage.StillHeld(state.migrationId(), state.attempt())
                    : new TransactionMessage.NotHeld(state.migrationId(), state.attempt(), proved.reason());
            return Transition.of(state, new Effect.Reply(answer));
        }
        if (event instanceof ParticipantEvent.SourceLost lost) {
            return sourceLost(state, lost.atNs());
        }
        if (event instanceof ParticipantEvent.SourceBack) {
            return state.sourceLost() ? Transition.of(state.withSourceLost(false)) : Transition.stay(state);
        }
        if (event instanceof ParticipantEvent.PromiseOver) {
            return Transition.of(state.withPromise(false));
        }
        return TakeOverRules.apply(state, event);
    }

    /** What waits for an answer, to be said again until it comes. */
    public static List<Effect> unanswered(ParticipantState state) {
        List<Effect> effects = new ArrayList<>();
        switch (state.phase()) {
            case PREPARED -> {
                if (state.sourceLost()) {
                    state.others().forEach(name -> effects.add(new Effect.Send(name, ask(state, 0, 0))));
                } else {
                    effects.add(
                            new Effect.Reply(new TransactionMessage.Prepared(state.migrationId(), state.attempt())));
                }
            }
            case TAKEN_OVER -> {
                if (state.isFirst()) {
                    TakeOver takeOver = new TakeOver(state.migrationId(), state.attempt());
                    state.silent().forEach(name -> effects.add(new Effect.Send(name, takeOver)));
                } else {
                    state.others().stream()
                            .filter(state::isFirst)
                            .forEach(name -> effects.add(new Effect.Send(name, standing(state, Where.BOUND, 0))));
                }
            }
            case COMMITTED, ROLLED_BACK -> {
                if (!state.done()) {
                    state.silent().forEach(name -> effects.add(new Effect.Send(name, decision(state))));
                }
            }
            default -> {
                // Nothing of its own is on the way.
            }
        }
        return effects;
    }

    private static Transition<ParticipantState> hear(ParticipantState state, TransactionMessage message) {
        if (message instanceof Begin begin) {
            return begin(state, begin);
        }
        boolean decision = message instanceof RollBack || message instanceof TransactionMessage.Confirm;
        if (message.attempt() > state.attempt()) {
            return decision ? neverAny(state, message.attempt(), rolledBack(state, message.attempt())) : stay(state);
        }
        if (message.attempt() < state.attempt()) {
            return decision ? Transition.of(state, rolledBack(state, message.attempt())) : stay(state);
        }
        if (message instanceof TransactionMessage.Confirm) {
            return switch (state.phase()) {
                // The source was restarted: the rest of the image never comes.
                case PREPARING -> rollBack(state, "the source was restarted before the vote", false);
                case PREPARED -> Transition.of(state, new Effect.ProveCopies());
                case COMMITTED -> Transition.of(state, committed(state));
                case ROLLED_BACK -> Transition.of(state, rolledBack(state, state.attempt()));
                default -> stay(state);
            };
        }
        if (message instanceof Commit) {
            return switch (state.phase()) {
                case PREPARED -> commit(state, false);
                case COMMITTED -> Transition.of(state, committed(state));
                case ROLLED_BACK -> Transition.of(state, rolledBack(state, state.attempt()));
                default -> stay(state);
            };
        }
        if (message instanceof RollBack back) {
            return switch (state.phase()) {
                case PREPARING -> rollBack(state, back.reason(), false);
                case PREPARED ->
                    state.promised() || state.fencing() ? stay(state) : rollBack(state, back.reason(), false);
                case COMMITTED -> Transition.of(state, committed(state));
                case ROLLED_BACK -> Transition.of(state, rolledBack(state, state.attempt()));
                default -> stay(state);
            };
        }
        return stay(state);
    }

    private static Transition<ParticipantState> begin(ParticipantState state, Begin begin) {
        if (begin.attempt() < state.attempt()
                || (begin.attempt() == state.attempt() && state.phase() == Phase.ROLLED_BACK)) {
            return Transition.of(state, rolledBack(state, begin.attempt()));
        }
        boolean free =
                switch (state.phase()) {
                    case NOTHING, ROLLED_BACK -> state.done();
                    case PREPARING -> begin.attempt() > state.attempt();
                    default -> false;
                };
        if (!free) {
            return stay(state);
        }
        List<Effect> effects = new ArrayList<>();
        if (state.phase() == Phase.PREPARING) {
            // Its image was never whole, or the newer attempt would not have begun.
            effects.add(new Effect.EndCopies());
        }
        effects.add(new Effect.StartRestore(begin.attempt()));
        return new Transition<>(state.begun(begin.attempt(), begin.participants(), begin.self()), effects);
    }

    private static Transition<ParticipantState> vote(ParticipantState state, ParticipantEvent.CopiesHeld held) {
        if (state.phase() != Phase.PREPARING) {
            return stay(state);
        }
        return Transition.of(
                state.in(Phase.PREPARED),
                new Effect.Persist(new TransactionRecord.Prepared(
                        state.migrationId(),
                        state.attempt(),
                        state.participants(),
                        state.self(),
                        held.source(),
                        held.copies(),
                        held.heardNs())),
                new Effect.Reply(new TransactionMessage.Prepared(state.migrationId(), state.attempt())));
    }

    private static Transition<ParticipantState> fail(ParticipantState state, String reason) {
        return switch (state.phase()) {
            case PREPARING -> rollBack(state, reason, false);
            case PREPARED ->
                Transition.of(
                        state,
                        new Effect.Reply(new TransactionMessage.NotHeld(state.migrationId(), state.attempt(), reason)));
            default -> stay(state);
        };
    }

    private static Transition<ParticipantState> sourceLost(ParticipantState state, long atNs) {
        if (state.phase() == Phase.PREPARING) {
            return rollBack(state, "the source was lost before the vote", false);
        }
        if (state.phase() != Phase.PREPARED || state.sourceLost()) {
            return stay(state);
        }
        ParticipantState next = state.withSourceLost(true);
        List<Effect> effects = new ArrayList<>();
        effects.add(new Effect.Persist(new TransactionRecord.SourceLost(state.migrationId(), state.attempt(), atNs)));
        effects.addAll(unanswered(next));
        return new Transition<>(next, effects);
    }

    /** Its copies run; {@code here}: by its own decision. */
    static Transition<ParticipantState> commit(ParticipantState state, boolean here) {
        ParticipantState next = state.decided(Phase.COMMITTED, here, "");
        List<Effect> effects = new ArrayList<>();
        effects.add(
                new Effect.Persist(new TransactionRecord.CommittedHere(state.migrationId(), state.attempt(), here)));
        return carryOut(next, effects, new Effect.ReleaseCopies());
    }

    /** Its copies are ended; {@code here}: by its own decision after a take-over. */
    static Transition<ParticipantState> rollBack(ParticipantState state, String reason, boolean here) {
        ParticipantState next = state.decided(Phase.ROLLED_BACK, here, reason);
        List<Effect> effects = new ArrayList<>();
        effects.add(new Effect.Persist(
                new TransactionRecord.RolledBackHere(state.migrationId(), state.attempt(), reason, here)));
        return carryOut(next, effects, new Effect.EndCopies());
    }

    private static Transition<ParticipantState> carryOut(
            ParticipantState state, List<Effect> effects, Effect onCopies) {
        effects.add(onCopies);
        boolean committed = state.phase() == Phase.COMMITTED;
        effects.add(committed ? committed(state) : rolledBack(state, state.attempt()));
        effects.addAll(unanswered(state));
        if (state.done()) {
            effects.addAll(closing(state));
        }
        return new Transition<>(state, effects);
    }

    static List<Effect> closing(ParticipantState state) {
        Outcome outcome = state.phase() == Phase.COMMITTED ? Outcome.COMMITTED : Outcome.ROLLED_BACK;
        List<Effect> effects = new ArrayList<>();
        if (outcome == Outcome.COMMITTED && state.decidedHere()) {
            // Else the source does it.
            effects.add(new Effect.Reconnect());
        }
        effects.add(new Effect.Persist(
                new TransactionRecord.Done(state.migrationId(), state.attempt(), outcome, state.reason())));
        effects.add(new Effect.Finished(outcome, state.reason()));
        return effects;
    }

    /** An attempt newer than any it knows of is over before it has begun here. */
    static Transition<ParticipantState> neverAny(ParticipantState state, int attempt, Effect answer) {
        boolean free =
                switch (state.phase()) {
                    case NOTHING, PREPARING -> true;
                    case ROLLED_BACK -> state.done();
                    default -> false;
                };
        if (!free) {
            return stay(state);
        }
        ParticipantState next = state.over(attempt, "it was over before it had begun here");
        List<Effect> effects = new ArrayList<>();
        if (state.phase() == Phase.PREPARING) {
            effects.add(new Effect.EndCopies());
        }
        effects.add(new Effect.Persist(
                new TransactionRecord.RolledBackHere(state.migrationId(), attempt, next.reason(), false)));
        effects.add(new Effect.Persist(
                new TransactionRecord.Done(state.migrationId(), attempt, Outcome.ROLLED_BACK, next.reason())));
        effects.add(answer);
        return new Transition<>(next, effects);
    }

    /**
     * What a restarted participant does. Where it has voted, its copies are found by the names in the record of the
     * vote.
     *
     * @param records those of this migration, in order
     */
    public static Transition<ParticipantState> recover(String migrationId, List<TransactionRecord> records) {
        ParticipantState state = ParticipantState.nothing(migrationId);
        for (TransactionRecord record : records) {
            state = replay(state, record);
        }
        // What was decided here counts as carried out only by its own record: the copies may still be held, or there.
        List<TransactionRecord> steps =
                records.stream().filter(TransactionRecord::isStep).toList();
        boolean carriedOut = steps.isEmpty() || steps.get(steps.size() - 1) instanceof TransactionRecord.Done;
        if (carriedOut && state.done()) {
            return Transition.of(state);
        }
        return switch (state.phase()) {
            case COMMITTED -> carryOut(state, new ArrayList<>(), new Effect.ReleaseCopies());
            case ROLLED_BACK -> carryOut(state, new ArrayList<>(), new Effect.EndCopies());
            default -> new Transition<>(state, unanswered(state));
        };
    }

    private static ParticipantState replay(ParticipantState state, TransactionRecord record) {
        if (record instanceof TransactionRecord.Prepared prepared) {
            return state.begun(prepared.attempt(), prepared.participants(), prepared.self())
                    .in(Phase.PREPARED);
        }
        if (record instanceof TransactionRecord.Promised) {
            return state.withPromise(true);
        }
        if (record instanceof TransactionRecord.Fencing) {
            return state.withFencing(true);
        }
        if (record instanceof TransactionRecord.TakenOver taken) {
            return state.takenOver(taken.aim());
        }
        if (record instanceof TransactionRecord.CommittedHere committed) {
            // Of a migration that has ended long ago the journal keeps only how.
            ParticipantState known =
                    committed.attempt() == state.attempt() ? state : state.begun(committed.attempt(), List.of(), "");
            return known.decided(Phase.COMMITTED, committed.decidedHere(), "");
        }
        if (record instanceof TransactionRecord.RolledBackHere back) {
            return back.attempt() == state.attempt()
                    ? state.decided(Phase.ROLLED_BACK, back.decidedHere(), back.reason())
                    : state.over(back.attempt(), back.reason());
        }
        return record instanceof TransactionRecord.Done ? state.finished() : state;
    }

    static Transition<ParticipantState> stay(ParticipantState state) {
        return Transition.stay(state);
    }

    static Ask ask(ParticipantState state, long round, long promiseNs) {
        return new Ask(state.migrationId(), state.attempt(), round, promiseNs);
    }

    static Standing standing(ParticipantState state, Where where, long round) {
        return new Standing(state.migrationId(), state.attempt(), where, round);
    }

    static TransactionMessage decision(ParticipantState state) {
        return state.phase() == Phase.COMMITTED
                ? new Commit(state.migrationId(), state.attempt())
                : new RollBack(state.migrationId(), state.attempt(), state.reason());
    }

    static Effect.Reply committed(ParticipantState state) {
        return new Effect.Reply(new Committed(state.migrationId(), state.attempt()));
    }

    static Effect.Reply rolledBack(ParticipantState state, int attempt) {
        return new Effect.Reply(new RolledBack(state.migrationId(), attempt, state.reason()));
    }
}
