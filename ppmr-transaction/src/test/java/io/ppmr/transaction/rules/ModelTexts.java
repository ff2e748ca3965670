package io.ppmr.transaction.rules;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.transaction.journal.TransactionRecord;

/** Removes texts for people, so that equal states are the same state. */
final class ModelTexts {
    private ModelTexts() {}

    static ParticipantState without(ParticipantState state) {
        return state.reason().isEmpty()
                ? state
                : new ParticipantState(
                        state.migrationId(),
                        state.attempt(),
                        state.phase(),
                        state.membership(),
                        state.sourceLost(),
                        state.fence(),
                        state.answers(),
                        state.aim(),
                        state.othersCommitted(),
                        state.decidedHere(),
                        state.done(),
                        "");
    }

    static TransactionRecord without(TransactionRecord record) {
        if (record instanceof TransactionRecord.RollBackDecided back) {
            return new TransactionRecord.RollBackDecided(back.migrationId(), back.attempt(), "", back.byOperator());
        }
        if (record instanceof TransactionRecord.Broken broken) {
            return new TransactionRecord.Broken(broken.migrationId(), broken.attempt(), "");
        }
        if (record instanceof TransactionRecord.RolledBackHere back) {
            return new TransactionRecord.RolledBackHere(back.migrationId(), back.attempt(), "", back.decidedHere());
        }
        if (record instanceof TransactionRecord.Done done) {
            return new TransactionRecord.Done(done.migrationId(), done.attempt(), done.outcome(), "");
        }
        return record;
    }

    static ControlMessage without(ControlMessage message) {
        if (message instanceof ControlMessage.NotHeld not) {
            return new ControlMessage.NotHeld(not.migrationId(), "");
        }
        if (message instanceof ControlMessage.RollBack back) {
            return new ControlMessage.RollBack(back.migrationId(), "");
        }
        if (message instanceof ControlMessage.RolledBack back) {
            return new ControlMessage.RolledBack(back.migrationId(), "");
        }
        return message;
    }

    /** Returns true if an effect changes the model. */
    static boolean matters(Effect effect) {
        boolean hook = effect instanceof Effect.Resume || effect instanceof Effect.Reconnect;
        return !(hook || effect instanceof Effect.StopAttempt);
    }
}
