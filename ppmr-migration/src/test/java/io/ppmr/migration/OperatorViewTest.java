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

/** The view that operators have of a migration whose processes are looked at for long. */
class OperatorViewTest {
    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);

    private static final class Waiting implements OperatorView.ViewedMigration {
        private CompletableFuture<List<Integer>> look = new CompletableFuture<>();
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
            return look;
        }

        @Override
        public OperatorDecision.DecisionPreview ruling(OperatorDecision word) {
            throw new AssertionError("nobody asks");
        }

        @Override
        public void resolve(OperatorDecision word) {
            throw new AssertionError("nobody decides");
        }

        @Override
        public boolean isOver() {
            return false;
        }

        @Override
        public String ending() {
            return "";
        }

        @Override
        public String waitsFor() {
            return waitsFor;
        }

        @Override
        public boolean seeksProof() {
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
    void shouldShowTheMigrationWithinASecondWhenTheLookHangs() {
        view.work();
        assertEquals(Optional.empty(), shown(), "the look may end in a moment");
        nowNs += SECOND;
        view.work();
        assertEquals(Optional.of(List.of()), shown());
        migration.look.complete(List.of(3));
        view.work();
        assertEquals(Optional.of(List.of(3)), shown());
        migration.look = new CompletableFuture<>();
        nowNs += 2 * SECOND;
        view.work();
        nowNs += SECOND;
        view.work();
        assertEquals(Optional.of(List.of(3)), shown(), "what was found last");
    }

    @Test
    void shouldShowNothingAnyMoreWhenNobodyIsWaitedFor() {
        migration.look.complete(List.of(1));
        view.work();
        assertEquals(Optional.of(List.of(1)), shown());
        migration.waitsFor = null;
        nowNs += SECOND;
        view.work();
        assertEquals(Optional.empty(), shown());
    }

    @Test
    void shouldShowWhatIsKnownWhenTheLookFails() {
        migration.look.completeExceptionally(new IllegalStateException("a defect"));
        view.work();
        assertEquals(Optional.of(List.of()), shown());
    }
}
