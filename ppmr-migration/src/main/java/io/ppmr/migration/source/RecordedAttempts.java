package io.ppmr.migration.source;

import io.ppmr.migration.keep.Keeping.KeptImageReport;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** The attempts of a migration that an earlier run of the service has begun: there is no further one. Any thread. */
record RecordedAttempts(MigrationPlan plan) implements Attempts {
    @Override
    public void begin(int number, List<String> participants) {
        throw new IllegalStateException("a migration that an earlier run has begun tries no further attempt");
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
    public boolean areDue() {
        return false;
    }

    @Override
    public void work() {
        // Its checkpoints have ended, or are ended as abandoned commands.
    }

    @Override
    public void rest() {
        // It looks at nothing.
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
    public boolean untouched() {
        return false;
    }

    @Override
    public boolean hasSuspended() {
        // The earlier run may have done so.
        return true;
    }

    @Override
    public void close() {
        // It holds nothing.
    }

    @Override
    public MigrationReport.Outcome notMoved() {
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
