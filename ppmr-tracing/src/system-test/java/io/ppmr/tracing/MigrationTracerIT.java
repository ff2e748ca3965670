package io.ppmr.tracing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.opentelemetry.proto.trace.v1.Span;
import io.ppmr.daemon.part.ServicePart;
import io.ppmr.migration.samples.MigrationSamples;
import io.ppmr.migration.samples.SampleCurve;
import io.ppmr.migration.samples.SampleStore;
import io.ppmr.migration.samples.SampledValue;
import io.ppmr.testbed.Conditions;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Traces reach a collector whole, and a collector that does not work drops them and delays nothing. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class MigrationTracerIT {
    private static final String ID = "0123abcd";

    @TempDir
    private Path folder;

    private final SimpleMeterRegistry registry = new SimpleMeterRegistry();
    private final TraceMeters meters = new TraceMeters(registry);

    private void sourceJournal(String id) throws IOException {
        long nowMs = System.currentTimeMillis();
        try (MappedJournal journal = MappedJournal.open(folder.resolve(MappedJournal.FILE_NAME))) {
            journal.append(new TransactionRecord.Requested(id, 0, "root", "job", ""));
            for (int attempt = 1; attempt <= 2; attempt++) {
                journal.append(new TransactionRecord.Begun(
                        id, attempt, List.of("n1:7"), List.of(new PlannedRank(0, "n1:7", List.of()))));
                journal.append(new TransactionRecord.StepTimed(
                        id, attempt, "checkpoint", -1, "", nowMs + 100L * attempt, 50_000_000, 4096));
            }
            journal.append(new TransactionRecord.RollBackDecided(id, 2, "the disk is full", false));
            journal.appendSynced(new TransactionRecord.Done(id, 2, FinalOutcome.ROLLED_BACK, "the disk is full"));
        }
        new SampleStore(folder)
                .save(
                        id,
                        new MigrationSamples(
                                nowMs,
                                List.of(0L, 10L, 20L, 30L),
                                List.of(new SampleCurve(SampledValue.WRITTEN, 0, List.of(0L, 5L, 9L, 9L)))));
    }

    private MigrationTracer tracer(String collector) {
        MigrationTracer tracer = new MigrationTracer(collector, meters);
        tracer.serve(new ServicePart.Ready(ServicePart.Side.SOURCE, folder, Optional.empty(), null, null, null));
        return tracer;
    }

    private static String hex(ByteString bytes) {
        return HexFormat.of().formatHex(bytes.toByteArray());
    }

    private static Span named(List<Span> all, String name) {
        return all.stream()
                .filter(one -> one.getName().equals(name))
                .findFirst()
                .orElseThrow();
    }

    @Test
    void shouldSendMigrationAttemptsStepsAndRanksWhenItIsOver() throws Exception {
        sourceJournal(ID);
        try (OtlpReceiver receiver = new OtlpReceiver(OtlpReceiver.CollectorAnswer.GOOD)) {
            MigrationTracer tracer = tracer(receiver.address());
            tracer.ended(ID);
            tracer.ended(ID);
            Conditions.until("the trace was sent", () -> meters.countSent() == 1);
            tracer.end();
            assertEquals(List.of("POST /v1/traces"), receiver.requests());
            List<Span> all = receiver.spans("ppmr-source");
            assertEquals(
                    List.of(
                            "migration",
                            "attempt 1",
                            "checkpoint",
                            "attempt 2",
                            "checkpoint",
                            "rank 0: checkpoint writes"),
                    all.stream().map(Span::getName).toList());
            for (Span span : all) {
                assertEquals(TraceExport.traceId(ID), hex(span.getTraceId()));
                assertTrue(span.getEndTimeUnixNano() >= span.getStartTimeUnixNano(), span.toString());
            }
            Span root = named(all, "migration");
            assertTrue(root.getParentSpanId().isEmpty());
            assertTrue(root.getStatus().getMessage().contains("the disk is full"), root.toString());
            assertEquals(root.getSpanId(), named(all, "attempt 2").getParentSpanId());
            assertEquals(
                    named(all, "attempt 1").getSpanId(),
                    named(all, "checkpoint").getParentSpanId());
            assertEquals(
                    TimeUnit.MILLISECONDS.toNanos(50),
                    named(all, "checkpoint").getEndTimeUnixNano()
                            - named(all, "checkpoint").getStartTimeUnixNano());
        }
    }

    @Test
    void shouldCountTheTraceAsDroppedWhenTheCollectorIsAwayOrAnswersAnError() throws Exception {
        sourceJournal(ID);
        String away;
        try (OtlpReceiver receiver = new OtlpReceiver(OtlpReceiver.CollectorAnswer.ERROR)) {
            away = receiver.address();
            MigrationTracer tracer = tracer(away);
            tracer.ended(ID);
            Conditions.until("the trace was dropped", () -> meters.countDropped() == 1);
            tracer.end();
            assertEquals(1, receiver.requests().size(), "a failure is not tried again");
        }
        MigrationTracer tracer = tracer(away);
        tracer.ended(ID);
        Conditions.until("the trace was dropped", () -> meters.countDropped() == 2);
        tracer.end();
        assertEquals(0, meters.countSent());
    }

    @Test
    void shouldNotWaitAndDropWhatIsTooMuchWhenTheCollectorDoesNotAnswer() throws Exception {
        sourceJournal(ID);
        try (OtlpReceiver receiver = new OtlpReceiver(OtlpReceiver.CollectorAnswer.NONE)) {
            MigrationTracer tracer = tracer(receiver.address());
            tracer.ended(ID);
            Conditions.until(
                    "the collector has the request", () -> receiver.requests().size() == 1);
            for (int i = 0; i < 100; i++) {
                tracer.ended("other-" + i);
            }
            // It has not answered, so these calls did not wait for it: 64 wait, and the others are dropped.
            assertEquals(36, meters.countDropped());
            long sinceNs = System.nanoTime();
            tracer.end();
            assertTrue(System.nanoTime() - sinceNs < Duration.ofSeconds(60).toNanos(), "the end has a limit");
            Conditions.until("all are dropped", () -> meters.countDropped() == 101);
        }
    }
}
