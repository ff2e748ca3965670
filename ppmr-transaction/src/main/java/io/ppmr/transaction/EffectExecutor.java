package io.ppmr.transaction;

import io.ppmr.transaction.rules.Effect;
import java.io.IOException;

/**
 * Carries out the effects of a migration's rules at one service. Called on the migration's thread, with one effect
 * after the other, in the rules' order. An effect that is not done is handed over again until it is; those behind it
 * wait.
 */
@FunctionalInterface
public interface EffectExecutor {
    /** The state of an effect that was handed over. */
    enum Execution {
        /** It is carried out. */
        DONE,

        /** Another thread works at it. {@link TransactionDriver#wake} is called when it may have ended. */
        RUNNING,

        /** It could not be carried out, and must be tried again. */
        FAILED
    }

    /**
     * Carries an effect out, or has another thread do so. An effect that looks at processes hands what it has found to
     * the driver before it is done.
     *
     * @throws IOException if a record cannot be written
     */
    Execution carryOut(Effect effect) throws IOException;
}
