package io.ppmr.migration;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.transaction.operator.OpenMigration;
import io.ppmr.transaction.operator.OperatorDecision;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Tests the operators' view of a migration whose processes take long to scan. */
class OperatorViewTest {
    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);

    private static final class Waiting implements OperatorView.ViewedMigration {
        private CompletableFuture<List<Integer>> scan = new CompletableFuture<>();
        private String waitsFor = "it waits for a target";

        @Override
        public String phase() {
            return "COMMITTING";
        }

        @Override
        public long waitsSinceNs() {
            return 0;
        }

        @Override
        public Future<List<Integer>> heldRanks() {
            return scan;
        }

        @Override
        public OperatorDecision.DecisionPreview preview(OperatorDecision word) {
            throw new AssertionError("no question is expected");
        }

        @Override
        public void resolve(OperatorDecision word) {
            throw new AssertionError("no decision is expected");
        }

        @Override
        public boolean isOver() {
            return false;
        }

        @Override
        public String describeEnd() {
            return "";
        }

        @Override
        public String waitsFor() {
            return waitsFor;
        }

        @Override
        public boolean isSeekingProof() {
            return false;
        }
    }

    private final Waiting migration = new Waiting();
    private long nowNs = 1000 * SECOND;
    private final OperatorView view = new OperatorView("m-1", migration, () -> nowNs);

    private Optional<List<Integer>> shown() {
        return view.open().map(OpenMigration::heldRanks);
    }

    @Test
    void shouldShowTheMigrationWithinASecondWhenTheScanHangs() {
        view.process();
        assertEquals(Optional.empty(), shown(), "the scan may end in a moment");
        nowNs += SECOND;
        view.process();
        assertEquals(Optional.of(List.of()), shown());
        migration.scan.complete(List.of(3));
        view.process();
        assertEquals(Optional.of(List.of(3)), shown());
        migration.scan = new CompletableFuture<>();
        nowNs += 2 * SECOND;
        view.process();
        nowNs += SECOND;
        view.process();
        assertEquals(Optional.of(List.of(3)), shown(), "what was found last");
    }

    @Test
    void shouldShowNothingWhenNoRankIsAwaited() {
        migration.scan.complete(List.of(1));
        view.process();
        assertEquals(Optional.of(List.of(1)), shown());
        migration.waitsFor = null;
        nowNs += SECOND;
        view.process();
        assertEquals(Optional.empty(), shown());
    }

    @Test
    void shouldShowWhatIsKnownWhenTheScanFails() {
        migration.scan.completeExceptionally(new IllegalStateException("a defect"));
        view.process();
        assertEquals(Optional.of(List.of()), shown());
    }
}
