package io.ppmr.transaction.rules;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.transaction.journal.TransactionRecord;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Visits every state that the real rules can reach, for one source, two targets and two attempts, within budgets of
 * failures. Messages may always be lost, late, repeated and in any order. A row limits the crashes (between any two
 * effects), losses of nodes, deaths of an original or a copy, failures, and losses of a link. It also limits fence
 * windows, operators' decisions, returns of the source's node, and held originals that their user continues. The same
 * search must find the defect of rules that are broken on purpose.
 */
@Timeout(600)
class ModelCheckTest {
    private static final int SLOTS_LOG = 22;

    @ParameterizedTest
    @CsvSource({
        "crashes,                      2,0,0,0,0,0,0,0,0,0, true",
        "crash and failure,            1,0,0,0,0,1,0,0,0,0, true",
        "crash and source,             1,1,0,0,0,0,0,1,0,1, true",
        "both nodes and failure,       0,1,1,0,0,1,0,1,0,0, true",
        "crash while links are cut,    1,0,0,0,0,0,1,1,0,0, true",
        "target while links are cut,   0,0,1,0,0,1,1,1,0,0, true",
        "processes die,                0,0,0,1,1,0,0,0,1,0, true",
        "source and original,          0,1,0,1,0,0,0,1,1,0, true",
        "source comes back,            0,1,0,0,0,1,0,1,0,1, true",
        "copy while links are cut,     0,0,0,0,1,0,1,1,0,0, true",
        "source without a fence,       1,1,0,0,0,0,0,0,1,0, false"
    })
    void shouldKeepThePromiseWhateverFails(
            String name,
            int crashes,
            int source,
            int target,
            int original,
            int copy,
            int failures,
            int links,
            int windows,
            int resolves,
            int reboots,
            boolean fence) {
        keeps(
                ModelBudget.of(name)
                        .with(ModelBudget.CRASHES, crashes)
                        .with(ModelBudget.SOURCE, source)
                        .with(ModelBudget.TARGET, target)
                        .with(ModelBudget.ORIGINAL, original)
                        .with(ModelBudget.COPY, copy)
                        .with(ModelBudget.FAILURE, failures)
                        .with(ModelBudget.LINK, links)
                        .with(ModelBudget.WINDOW, windows)
                        .with(ModelBudget.RESOLVE, resolves)
                        .with(ModelBudget.REBOOT, reboots),
                fence);
    }

    /** The largest searches, of millions of states each. */
    @ParameterizedTest
    @CsvSource({
        "source and processes,         0,1,0,1,1,0,0,1,1,0, true",
        "failure, copy and cut links,  0,0,0,0,1,1,1,1,0,0, true"
    })
    @Tag("soak")
    void shouldKeepThePromiseWhateverFailsInALargerSearch(
            String name,
            int crashes,
            int source,
            int target,
            int original,
            int copy,
            int failures,
            int links,
            int windows,
            int resolves,
            int reboots,
            boolean fence) {
        shouldKeepThePromiseWhateverFails(
                name, crashes, source, target, original, copy, failures, links, windows, resolves, reboots, fence);
    }

    @ParameterizedTest
    @CsvSource({
        "continued twice and failure, 0,0,0,0,1,0,0,0,2",
        "continued and crash,         1,0,0,0,0,0,0,0,1",
        "continued while cut,         0,1,0,0,0,1,1,0,1",
        "continued and deaths,        0,0,1,1,0,0,0,1,1"
    })
    void shouldNotCommitWhenAHeldOriginalIsContinued(
            String name,
            int crashes,
            int source,
            int original,
            int copy,
            int failures,
            int links,
            int windows,
            int resolves,
            int continued) {
        keeps(
                ModelBudget.of(name)
                        .with(ModelBudget.CRASHES, crashes)
                        .with(ModelBudget.SOURCE, source)
                        .with(ModelBudget.ORIGINAL, original)
                        .with(ModelBudget.COPY, copy)
                        .with(ModelBudget.FAILURE, failures)
                        .with(ModelBudget.LINK, links)
                        .with(ModelBudget.WINDOW, windows)
                        .with(ModelBudget.RESOLVE, resolves)
                        .with(ModelBudget.CONTINUED, continued),
                true);
    }

    @ParameterizedTest
    @CsvSource({
        "forged,                1,0,1,0,0,0,1",
        "forged and failure,    1,0,0,1,0,0,1",
        "forged while cut,      0,1,0,0,1,1,1",
        "forged and process,    0,0,1,1,0,0,1"
    })
    void shouldAcceptACommitOnlyWhenAllAreSealed(
            String name, int crashes, int source, int original, int failures, int links, int windows, int forged) {
        keeps(
                ModelBudget.of(name)
                        .with(ModelBudget.CRASHES, crashes)
                        .with(ModelBudget.SOURCE, source)
                        .with(ModelBudget.ORIGINAL, original)
                        .with(ModelBudget.FAILURE, failures)
                        .with(ModelBudget.LINK, links)
                        .with(ModelBudget.WINDOW, windows)
                        .with(ModelBudget.FORGED, forged),
                true);
    }

    private static void keeps(ModelBudget budget, boolean fence) {
        long startNs = System.nanoTime();
        ModelSearch search = new ModelSearch(budget, ModelVariant.REAL, null, fence, true, SLOTS_LOG);
        boolean good = search.run();
        System.out.printf(
                "model check, %s: %d states, %d ms%n",
                budget.name(), search.states(), (System.nanoTime() - startNs) / 1_000_000);
        assertNull(search.problem(), () -> search.problem() + "\n" + String.join("\n", search.trace()));
        assertTrue(good, "the search found no problem, but did not succeed");
        // Without a circle, every run without further failures ends. The ends were checked.
        assertFalse(search.hasCircle(), "a run without further failures may not end");
    }

    @ParameterizedTest
    @CsvSource({
        "COMMIT_BEFORE_ALL_VOTES,          0,1,1,0,0,1,0,0,0,0",
        "SKIP_LAST_ROUND,                  0,0,0,0,1,0,0,0,0,0",
        "NEXT_ATTEMPT_BEFORE_VOTER_RELEASED, 0,0,0,0,0,1,0,0,0,0",
        "CONTINUE_BEFORE_ANSWERS,          0,1,0,0,0,1,0,1,0,0",
        "TAKE_OVER_WITHOUT_FENCE,          0,0,0,0,0,1,1,1,0,0",
        "FENCE_WITHOUT_PROMISES,           0,0,0,0,0,1,1,1,0,0",
        "PROMISE_AND_KEEP_IT_SHORTER,      0,0,0,0,0,1,1,1,0,0",
        "RELEASE_BEFORE_ORIGINALS_END,     1,0,0,0,0,0,1,1,0,0",
        "COMMIT_WHATEVER_ORIGINALS_DO,     0,0,0,0,0,0,0,0,1,0",
        "PROVE_BY_STATE_ALONE,             0,0,0,0,0,0,0,0,1,0",
        "ACCEPT_COMMIT_BEFORE_ALL_ARE_SEALED, 0,0,0,0,0,0,0,0,0,1"
    })
    void shouldFindTheDefectWhenRulesAreBroken(
            ModelVariant variant,
            int crashes,
            int source,
            int target,
            int original,
            int copy,
            int failures,
            int links,
            int windows,
            int continued,
            int forged) {
        finds(
                ModelBudget.of(variant.name())
                        .with(ModelBudget.CRASHES, crashes)
                        .with(ModelBudget.SOURCE, source)
                        .with(ModelBudget.TARGET, target)
                        .with(ModelBudget.ORIGINAL, original)
                        .with(ModelBudget.COPY, copy)
                        .with(ModelBudget.FAILURE, failures)
                        .with(ModelBudget.LINK, links)
                        .with(ModelBudget.WINDOW, windows)
                        .with(ModelBudget.CONTINUED, continued)
                        .with(ModelBudget.FORGED, forged),
                variant,
                null,
                false);
    }

    /** A forgotten sync of these records may lose the computation, double it or leave it held. */
    @ParameterizedTest
    @CsvSource({
        "Begun,           2,0,0,0,0,0",
        "Sealed,          1,1,1,0,1,0",
        "RollBackDecided, 1,1,1,0,1,0",
        "PreparedHere,    2,0,0,0,0,0",
        "RolledBackHere,  1,0,1,0,0,0",
        "TakenOver,       1,1,1,0,0,1",
        "CommittedHere,   1,1,0,0,0,0",
        "Promised,        1,0,1,1,1,0",
        "Fencing,         1,0,1,1,1,0"
    })
    void shouldFindTheDefectWhenASyncIsForgotten(
            String record, int crashes, int source, int failures, int links, int windows, int resolves)
            throws ClassNotFoundException {
        Class<? extends TransactionRecord> type =
                Class.forName(TransactionRecord.class.getName() + "$" + record).asSubclass(TransactionRecord.class);
        ModelBudget budget = ModelBudget.of("forgets " + record)
                .with(ModelBudget.CRASHES, crashes)
                .with(ModelBudget.SOURCE, source)
                .with(ModelBudget.FAILURE, failures)
                .with(ModelBudget.LINK, links)
                .with(ModelBudget.WINDOW, windows)
                .with(ModelBudget.RESOLVE, resolves);
        finds(budget, ModelVariant.REAL, type, false);
    }

    /**
     * A lost COMMIT, BROKEN or DONE is found again from the killed originals or the other side's answer. The
     * computation is not harmed. However, an action or a report would precede its record. This test finds that.
     */
    @ParameterizedTest
    @CsvSource({"CommitDecided, 0", "CommittedHere, 0", "Done, 0", "Broken, 1"})
    void shouldFindAnActionBeforeItsRecordWhenASyncIsForgotten(String record, int originalDeaths)
            throws ClassNotFoundException {
        Class<? extends TransactionRecord> type =
                Class.forName(TransactionRecord.class.getName() + "$" + record).asSubclass(TransactionRecord.class);
        finds(
                ModelBudget.of("acts before " + record)
                        .with(ModelBudget.ORIGINAL, originalDeaths)
                        .with(ModelBudget.FAILURE, 1),
                ModelVariant.REAL,
                type,
                true);
    }

    private static void finds(
            ModelBudget budget,
            ModelVariant variant,
            Class<? extends TransactionRecord> notSynced,
            boolean writeAhead) {
        ModelSearch search = new ModelSearch(budget, variant, notSynced, true, writeAhead, SLOTS_LOG);
        search.run();
        assertNotNull(search.problem(), () -> "nothing was found in " + search.states() + " states");
        System.out.printf(
                "model check, %s: found after %d steps in %d states: %s%n",
                budget.name(), search.trace().size(), search.states(), search.problem());
    }
}
