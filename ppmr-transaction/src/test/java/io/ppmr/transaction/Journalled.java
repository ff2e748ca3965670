package io.ppmr.transaction;

import io.ppmr.transaction.EffectExecutor.Execution;
import io.ppmr.transaction.journal.TransactionJournal;
import io.ppmr.transaction.rules.Effect;

/** Executors for tests that have a journal. */
final class Journalled {
    private Journalled() {}

    /** Returns an executor that writes records into the journal, and passes all other effects on. */
    static EffectExecutor in(TransactionJournal journal, EffectExecutor others) {
        return effect -> {
            if (effect instanceof Effect.Persist persist) {
                journal.persist(persist.record());
                return Execution.DONE;
            }
            return others.carryOut(effect);
        };
    }
}
