package io.ppmr.testbed.demo;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.annotation.JsonUnwrapped;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.testbed.ComputingJob;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;

/**
 * The result of a demonstration, for {@code --json}.
 *
 * @param outcome {@code committed} if every migration was, and every process continued to the right result; otherwise
 *     the outcome of the first failure, or {@code failed}
 * @param migrations one each
 */
public record DemoReport(String outcome, List<DemoMigration> migrations) {

    /**
     * A migration.
     *
     * @param report the report, whose fields are beside the others, except that the outcome is in small letters
     * @param processes what became of each process
     * @param longestGapSeconds the longest time for which a rank of an MPI job received no block, or null if it was not
     *     measured
     */
    public record DemoMigration(
            @JsonUnwrapped @JsonIgnoreProperties("outcome") MigrationReport report,
            List<ComputingJob.ProcessOutcome> processes,
            Double longestGapSeconds) {

        @JsonProperty
        String outcome() {
            return report.outcome().name().toLowerCase(Locale.ROOT);
        }

        boolean good() {
            return outcome().equals(COMMITTED)
                    && !processes.isEmpty()
                    && processes.stream().allMatch(process -> process.continued() && process.resultOk());
        }
    }

    private static final String COMMITTED =
            MigrationReport.Outcome.COMMITTED.name().toLowerCase(Locale.ROOT);

    public DemoReport {
        migrations = List.copyOf(migrations);
    }

    static DemoReport of(List<DemoMigration> migrations) {
        String outcome = migrations.stream()
                .filter(migration -> !migration.good())
                .map(migration -> migration.outcome().equals(COMMITTED) ? "failed" : migration.outcome())
                .findFirst()
                .orElse(migrations.isEmpty() ? "failed" : COMMITTED);
        return new DemoReport(outcome, migrations);
    }

    /** Returns true if every step succeeded. */
    public boolean good() {
        return outcome.equals(COMMITTED);
    }

    void write(Path file) throws IOException {
        new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT).writeValue(file.toFile(), this);
    }
}
