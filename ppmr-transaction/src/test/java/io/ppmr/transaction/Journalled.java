package io.ppmr.transaction;

import io.ppmr.transaction.EffectExecutor.Execution;
import io.ppmr.transaction.journal.TransactionJournal;
import io.ppmr.transaction.rules.Effect;

/** Executors of tests that have a journal. */
final class Journalled {
    private Journalled() {}

    /** Writes records into the journal, and leaves all other effects to the executor. */
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
