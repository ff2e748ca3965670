package io.ppmr.transaction;

import io.ppmr.transaction.rules.Effect;
import java.io.IOException;

/**
 * Carries out the effects of a migration's rules at one service. The migration's thread calls it with one effect after
 * the other, in the rules' order. An effect that is not done is handed over again until it is. Later effects wait.
 */
@FunctionalInterface
public interface EffectExecutor {
    /** The state of an effect that was handed over. */
    enum Execution {
        /** The effect was carried out. */
        DONE,

        /** Another thread carries out the effect. {@link TransactionDriver#wake} is called when it may be over. */
        RUNNING,

        /** The effect failed, and must be tried again. */
        FAILED
    }

    /**
     * Carries out an effect, or passes it to another thread. If the effect inspects processes, the result goes to the
     * driver before the effect is done.
     *
     * @throws IOException if a record cannot be written
     */
    Execution carryOut(Effect effect) throws IOException;
}
