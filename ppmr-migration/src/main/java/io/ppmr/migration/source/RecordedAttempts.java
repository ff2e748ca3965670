package io.ppmr.migration.source;

import io.ppmr.migration.keep.Keeping.KeptImageReport;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** The attempts of a migration that an earlier run of the service began. No further attempt is possible. Any thread. */
record RecordedAttempts(MigrationPlan plan) implements Attempts {
    @Override
    public void begin(int number, List<String> participants) {
        throw new IllegalStateException("a migration of an earlier run tries no further attempt");
    }

    @Override
    public Map<String, SourceSession> sessions() {
        return Map.of();
    }

    @Override
    public void seal(String participant) {
        throw new IllegalStateException("an earlier run of the service wrote the image of " + participant);
    }

    @Override
    public boolean isDue() {
        return false;
    }

    @Override
    public void work() {
        // Its checkpoints ended, or are killed as orphaned commands.
    }

    @Override
    public void stopChecking() {
        // There are no checks.
    }

    @Override
    public boolean giveUp(int number, String reason) {
        return true;
    }

    @Override
    public List<String> next(String participant) {
        return List.of();
    }

    @Override
    public boolean isUntouched() {
        return false;
    }

    @Override
    public boolean hasSuspended() {
        // The earlier run may have done so.
        return true;
    }

    @Override
    public void close() {
        // There is no resource to release.
    }

    @Override
    public MigrationReport.Outcome outcomeWithoutCommit() {
        return MigrationReport.Outcome.ROLLED_BACK;
    }

    @Override
    public String reason(String last) {
        return last;
    }

    @Override
    public Optional<KeptImageReport> copy() {
        return Optional.empty();
    }

    @Override
    public Optional<String> waitsFor() {
        return Optional.empty();
    }

    @Override
    public boolean responds(long limitNs) {
        return true;
    }
}
