package io.ppmr.transaction;

/** Leaves out what differs in words only, so that equal states are the same state. */
final class ModelTexts {
    private ModelTexts() {}

    static ParticipantState without(ParticipantState state) {
        return state.reason().isEmpty()
                ? state
                : new ParticipantState(
                        state.migrationId(),
                        state.attempt(),
                        state.phase(),
                        state.participants(),
                        state.self(),
                        state.sourceLost(),
                        state.round(),
                        state.answers(),
                        state.fencing(),
                        state.promised(),
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

    static TransactionMessage without(TransactionMessage message) {
        if (message instanceof TransactionMessage.NotHeld not) {
            return new TransactionMessage.NotHeld(not.migrationId(), not.attempt(), "");
        }
        if (message instanceof TransactionMessage.RollBack back) {
            return new TransactionMessage.RollBack(back.migrationId(), back.attempt(), "");
        }
        if (message instanceof TransactionMessage.RolledBack back) {
            return new TransactionMessage.RolledBack(back.migrationId(), back.attempt(), "");
        }
        return message;
    }

    /** Whether an effect changes anything in the model. */
    static boolean matters(Effect effect) {
        boolean hook = effect instanceof Effect.Resume || effect instanceof Effect.Reconnect;
        boolean work = effect instanceof Effect.StartAttempt || effect instanceof Effect.StopAttempt;
        return !(hook || work);
    }
}
