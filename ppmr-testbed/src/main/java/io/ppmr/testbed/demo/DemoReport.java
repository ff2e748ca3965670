package io.ppmr.testbed.demo;

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
 * @param outcome {@code committed} if every migration was, and every process went on to the right result; else the
 *     outcome of the first that was not, or {@code failed}
 * @param migrations one each
 */
public record DemoReport(String outcome, List<Migration> migrations) {

    /**
     * A migration: its figures are those of {@link MigrationReport}.
     *
     * @param outcome the report's, in small letters
     * @param processes what became of each process
     * @param longestGapSeconds for which a rank of an MPI job was without a block; null where none was measured
     */
    public record Migration(
            String checkpointer,
            String outcome,
            long bytes,
            long stagedBytes,
            double seconds,
            double firstByteReadSeconds,
            double lastByteWrittenSeconds,
            long bytesReadWhenLastWritten,
            long poolBytes,
            long sourcePeakRssBytes,
            long targetPeakRssBytes,
            List<ComputingJob.Outcome> processes,
            Double longestGapSeconds) {

        static Migration of(MigrationReport report, List<ComputingJob.Outcome> processes, Double longestGapSeconds) {
            return new Migration(
                    report.checkpointer(),
                    report.outcome().name().toLowerCase(Locale.ROOT),
                    report.bytes(),
                    report.stagedBytes(),
                    report.seconds(),
                    report.firstByteReadSeconds(),
                    report.lastByteWrittenSeconds(),
                    report.bytesReadWhenLastWritten(),
                    report.poolBytes(),
                    report.sourcePeakRssBytes(),
                    report.targetPeakRssBytes(),
                    processes,
                    longestGapSeconds);
        }

        boolean good() {
            return outcome.equals(COMMITTED)
                    && !processes.isEmpty()
                    && processes.stream().allMatch(process -> process.continued() && process.resultOk());
        }
    }

    private static final String COMMITTED =
            MigrationReport.Outcome.COMMITTED.name().toLowerCase(Locale.ROOT);

    public DemoReport {
        migrations = List.copyOf(migrations);
    }

    static DemoReport of(List<Migration> migrations) {
        String outcome = migrations.stream()
                .filter(migration -> !migration.good())
                .map(migration -> migration.outcome().equals(COMMITTED) ? "failed" : migration.outcome())
                .findFirst()
                .orElse(migrations.isEmpty() ? "failed" : COMMITTED);
        return new DemoReport(outcome, migrations);
    }

    /** Returns true if everything went as it should. */
    public boolean good() {
        return outcome.equals(COMMITTED);
    }

    void write(Path file) throws IOException {
        new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT).writeValue(file.toFile(), this);
    }
}
