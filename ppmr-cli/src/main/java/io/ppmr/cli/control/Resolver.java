package io.ppmr.cli.control;

import io.ppmr.transaction.OperatorWord;
import io.ppmr.transaction.Resolution;
import java.io.IOException;

/** A service that carries out what an operator decides, or says what it would mean. Any thread; blocks it. */
@FunctionalInterface
public interface Resolver {
    /**
     * Follows an operator's word for a migration, or says what that would mean.
     *
     * @param id the migration's name, or the first characters of it
     * @param carryOut whether it is to be done
     * @param by who asks, for the log
     */
    Resolution resolve(String id, OperatorWord word, boolean carryOut, String by)
            throws IOException, InterruptedException;

    /** Of a service that has no migrations. */
    static Resolver none() {
        return (id, word, carryOut, by) ->
                new Resolution(id, Resolution.Result.REFUSED, "Migration '" + id + "' is not known here.");
    }
}
