package io.ppmr.source;

import io.ppmr.transaction.OpenMigration;
import io.ppmr.transaction.OpenMigrations;
import io.ppmr.transaction.OperatorCall;
import io.ppmr.transaction.OperatorWord;
import io.ppmr.transaction.Resolution;
import io.ppmr.transaction.TransactionJournal;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicReference;

/**
 * What operators ask of a source's service, for the migration that is under way. Immutable, for any thread.
 *
 * @param running the migration, or none
 */
record SourceOperators(AtomicReference<SourceMigration> running) {
    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final Duration ANSWER_LIMIT = Duration.ofSeconds(60);

    /** The migrations that an operator should know of. */
    List<OpenMigration> open() {
        return Optional.ofNullable(running.get()).flatMap(SourceMigration::open).stream()
                .toList();
    }

    /** An operator decides, or asks what that would mean; waits for the answer. */
    Resolution resolve(String id, OperatorWord word, boolean carryOut, String by, TransactionJournal journal)
            throws IOException, InterruptedException {
        OperatorCall call = new OperatorCall(word, carryOut, by, PATIENCE.toNanos());
        SourceMigration open = running.get();
        if (open != null && OpenMigrations.isNamed(open.id(), id) && open.take(call)) {
            Resolution answer = call.await(ANSWER_LIMIT.toNanos());
            return answer == null ? OpenMigrations.silent(open.id(), ANSWER_LIMIT) : answer;
        }
        return OpenMigrations.notOpen(id, journal, open == null ? List.of() : List.of(open.id()));
    }
}
