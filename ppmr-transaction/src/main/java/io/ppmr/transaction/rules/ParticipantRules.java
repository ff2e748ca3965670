package io.ppmr.transaction.rules;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.ControlMessage.Begin;
import io.ppmr.protocol.control.ControlMessage.Commit;
import io.ppmr.protocol.control.ControlMessage.Committed;
import io.ppmr.protocol.control.ControlMessage.ParticipantStatus;
import io.ppmr.protocol.control.ControlMessage.RollBack;
import io.ppmr.protocol.control.ControlMessage.RolledBack;
import io.ppmr.protocol.control.ControlMessage.StatusQuery;
import io.ppmr.protocol.control.ControlMessage.TakeOver;
import io.ppmr.protocol.control.VoterState;
import io.ppmr.protocol.data.TransferReport;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.rules.ParticipantState.Phase;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * The participant's table of docs/internals/transaction.md as a pure function: no clock, no input or output. An event
 * without a row in the table changes nothing. {@link PeerRules} has the messages between participants.
 */
public final class ParticipantRules {
    private ParticipantRules() {}

    /** Applies an event. */
    public static Transition<ParticipantState> apply(ParticipantState state, ParticipantEvent event) {
        if (event instanceof ParticipantEvent.CoordinatorMessage received) {
            return onMessage(state, received.attempt(), received.message());
        }
        if (event instanceof ParticipantEvent.PeerMessage received) {
            return PeerRules.onMessage(state, received);
        }
        if (event instanceof ParticipantEvent.CopiesHeld held) {
            return vote(state, held);
        }
        if (event instanceof ParticipantEvent.LocalFailure failed) {
            return fail(state, failed.reason());
        }
        if (event instanceof ParticipantEvent.CopiesProved proved) {
            if (state.phase() != Phase.PREPARED) {
                return Transition.stay(state);
            }
            ControlMessage answer = proved.reason().isEmpty()
                    ? new ControlMessage.StillHeld(state.migrationId())
                    : new ControlMessage.NotHeld(state.migrationId(), proved.reason());
            return Transition.of(state, reply(state, answer));
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

    /** Returns the effects that wait for an answer. They are repeated until it comes. */
    public static List<Effect> unanswered(ParticipantState state) {
        List<Effect> effects = new ArrayList<>();
        switch (state.phase()) {
            case PREPARED -> {
                if (state.sourceLost()) {
                    state.others().forEach(name -> effects.add(ask(state, name, 0, 0)));
                } else {
                    effects.add(vote(state));
                }
            }
            case TAKEN_OVER -> {
                if (state.isFirst()) {
                    TakeOver takeOver = new TakeOver(state.migrationId());
                    state.silent().forEach(name -> effects.add(send(state, name, takeOver)));
                } else {
                    state.others().stream()
                            .filter(state::isFirst)
                            .forEach(name -> effects.add(standing(state, name, VoterState.TAKE_OVER_ACCEPTED, 0)));
                }
            }
            case COMMITTED, ROLLED_BACK -> {
                if (!state.done()) {
                    state.silent().forEach(name -> effects.add(send(state, name, decision(state))));
                }
            }
            default -> {
                // No message of this participant waits for an answer.
            }
        }
        return effects;
    }

    private static Transition<ParticipantState> onMessage(ParticipantState state, int attempt, ControlMessage message) {
        if (message instanceof Begin begin) {
            return begin(state, attempt, begin);
        }
        boolean decision = message instanceof RollBack || message instanceof ControlMessage.Confirm;
        if (attempt > state.attempt()) {
            return decision ? endUnbegun(state, attempt, rolledBack(state, attempt)) : stay(state);
        }
        if (attempt < state.attempt()) {
            return decision ? Transition.of(state, rolledBack(state, attempt)) : stay(state);
        }
        if (message instanceof ControlMessage.Confirm) {
            return switch (state.phase()) {
                // The source was restarted, so the rest of the image never comes.
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

    private static Transition<ParticipantState> begin(ParticipantState state, int attempt, Begin begin) {
        if (attempt < state.attempt() || (attempt == state.attempt() && state.phase() == Phase.ROLLED_BACK)) {
            return Transition.of(state, rolledBack(state, attempt));
        }
        boolean free =
                switch (state.phase()) {
                    case NOTHING, ROLLED_BACK -> state.done();
                    case PREPARING -> attempt > state.attempt();
                    default -> false;
                };
        if (!free) {
            return stay(state);
        }
        List<Effect> effects = new ArrayList<>();
        if (state.phase() == Phase.PREPARING) {
            // The older attempt's image was never whole. Otherwise the newer attempt would not have begun.
            effects.add(new Effect.EndCopies());
        }
        effects.add(new Effect.StartRestore(attempt));
        String self = begin.participants().get(begin.participantIndex());
        return new Transition<>(state.begun(attempt, begin.participants(), self), effects);
    }

    private static Transition<ParticipantState> vote(ParticipantState state, ParticipantEvent.CopiesHeld held) {
        if (state.phase() != Phase.PREPARING) {
            return stay(state);
        }
        return Transition.of(
                state.in(Phase.PREPARED),
                new Effect.Persist(new TransactionRecord.PreparedHere(
                        state.migrationId(),
                        state.attempt(),
                        state.participants(),
                        state.self(),
                        held.source(),
                        held.copies(),
                        held.lastContactNs())),
                vote(state));
    }

    private static Transition<ParticipantState> fail(ParticipantState state, String reason) {
        return switch (state.phase()) {
            case PREPARING -> rollBack(state, reason, false);
            case PREPARED ->
                Transition.of(state, reply(state, new ControlMessage.NotHeld(state.migrationId(), reason)));
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
        return Transition.of(
                        next,
                        new Effect.Persist(
                                new TransactionRecord.LostSource(state.migrationId(), state.attempt(), atNs)))
                .and(unanswered(next));
    }

    /** Commits and releases the copies. {@code here} means that this participant decided after a take-over. */
    static Transition<ParticipantState> commit(ParticipantState state, boolean here) {
        ParticipantState next = state.decided(Phase.COMMITTED, here, "");
        return carryOut(
                next,
                new Effect.Persist(new TransactionRecord.CommittedHere(state.migrationId(), state.attempt(), here)),
                new Effect.ReleaseCopies());
    }

    /** Rolls back and kills the copies. {@code here} means that this participant decided after a take-over. */
    static Transition<ParticipantState> rollBack(ParticipantState state, String reason, boolean here) {
        ParticipantState next = state.decided(Phase.ROLLED_BACK, here, reason);
        return carryOut(
                next,
                new Effect.Persist(
                        new TransactionRecord.RolledBackHere(state.migrationId(), state.attempt(), reason, here)),
                new Effect.EndCopies());
    }

    private static Transition<ParticipantState> carryOut(ParticipantState state, Effect... effects) {
        boolean committed = state.phase() == Phase.COMMITTED;
        return Transition.of(state, effects)
                .and(committed ? committed(state) : rolledBack(state, state.attempt()))
                .and(unanswered(state))
                .and(state.done() ? closing(state) : List.of());
    }

    static List<Effect> closing(ParticipantState state) {
        FinalOutcome outcome = state.phase() == Phase.COMMITTED ? FinalOutcome.COMMITTED : FinalOutcome.ROLLED_BACK;
        List<Effect> effects = new ArrayList<>();
        if (outcome == FinalOutcome.COMMITTED && state.decidedHere()) {
            // Otherwise the source runs the hook.
            effects.add(new Effect.Reconnect());
        }
        effects.add(new Effect.Persist(
                new TransactionRecord.Done(state.migrationId(), state.attempt(), outcome, state.reason())));
        effects.add(new Effect.Finished(outcome, state.reason()));
        return effects;
    }

    /** Ends an attempt that is newer than any known one before it has begun here. */
    static Transition<ParticipantState> endUnbegun(ParticipantState state, int attempt, Effect answer) {
        boolean free =
                switch (state.phase()) {
                    case NOTHING, PREPARING -> true;
                    case ROLLED_BACK -> state.done();
                    default -> false;
                };
        if (!free) {
            return stay(state);
        }
        ParticipantState next = state.over(attempt, "the attempt was over before it began here");
        List<Effect> effects = new ArrayList<>();
        if (state.phase() == Phase.PREPARING) {
            effects.add(new Effect.EndCopies());
        }
        effects.add(new Effect.Persist(
                new TransactionRecord.RolledBackHere(state.migrationId(), attempt, next.reason(), false)));
        effects.add(new Effect.Persist(
                new TransactionRecord.Done(state.migrationId(), attempt, FinalOutcome.ROLLED_BACK, next.reason())));
        effects.add(answer);
        return new Transition<>(next, effects);
    }

    /**
     * Returns the first transition of a restarted participant. After a vote, the record of the vote identifies the
     * copies.
     *
     * @param records this migration's records, in order
     */
    public static Transition<ParticipantState> recover(String migrationId, List<TransactionRecord> records) {
        ParticipantState state = ParticipantState.fresh(migrationId);
        for (TransactionRecord record : records) {
            state = replay(state, record);
        }
        // A decision counts as carried out only if a record confirms it. Otherwise the copies may still be held or
        // alive.
        List<TransactionRecord> steps =
                records.stream().filter(TransactionRecord::isStep).toList();
        boolean carriedOut = steps.isEmpty() || steps.get(steps.size() - 1) instanceof TransactionRecord.Done;
        if (carriedOut && state.done()) {
            return Transition.of(state);
        }
        return switch (state.phase()) {
            case COMMITTED -> carryOut(state, new Effect.ReleaseCopies());
            case ROLLED_BACK -> carryOut(state, new Effect.EndCopies());
            default -> new Transition<>(state, unanswered(state));
        };
    }

    private static ParticipantState replay(ParticipantState state, TransactionRecord record) {
        if (record instanceof TransactionRecord.PreparedHere prepared) {
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
            // For a migration that ended long ago, the journal keeps only the outcome.
            return committed.attempt() == state.attempt()
                    ? state.decided(Phase.COMMITTED, committed.decidedHere(), "")
                    : state.committedLongAgo(committed.attempt(), committed.decidedHere());
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

    /**
     * Returns the question to another participant. With a round, which names the fence window, it requests a promise,
     * too.
     */
    public static Effect.Send ask(ParticipantState state, String to, long round, long promiseNs) {
        return send(state, to, new StatusQuery(state.migrationId(), round, TimeUnit.NANOSECONDS.toMillis(promiseNs)));
    }

    static Effect.Send standing(ParticipantState state, String to, VoterState where, long round) {
        return send(state, to, new ParticipantStatus(state.migrationId(), where, round));
    }

    static Effect.Send send(ParticipantState state, String to, ControlMessage message) {
        return new Effect.Send(to, state.attempt(), message);
    }

    private static ControlMessage decision(ParticipantState state) {
        return state.phase() == Phase.COMMITTED
                ? new Commit(state.migrationId())
                : new RollBack(state.migrationId(), state.reason());
    }

    private static Effect.Reply reply(ParticipantState state, ControlMessage message) {
        return new Effect.Reply(state.attempt(), message);
    }

    private static Effect.Reply vote(ParticipantState state) {
        return reply(state, new ControlMessage.Prepared(TransferReport.EMPTY));
    }

    private static Effect.Reply committed(ParticipantState state) {
        return reply(state, new Committed(state.migrationId()));
    }

    private static Effect.Reply rolledBack(ParticipantState state, int attempt) {
        return new Effect.Reply(attempt, new RolledBack(state.migrationId(), state.reason()));
    }
}
