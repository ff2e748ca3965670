package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.opentelemetry.proto.trace.v1.Span;
import io.ppmr.testbed.Conditions;
import io.ppmr.tracing.OtlpReceiver;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Real migrations with traces: one trace over both nodes, and no effect of a collector that does not work. */
@Timeout(value = 180, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class TracesIT {
    @TempDir
    private Path directory;

    private static String tracing(String collector) {
        return "[tracing]\notlp = \"" + collector + "\"\n";
    }

    private ReplayJob job() throws Exception {
        return new ReplayJob(directory)
                .rank(
                        List.of("open image wcxn", "write 1m 64k", "close"),
                        List.of("open image r", "read 1m 64k", "close"));
    }

    private int migrate(String collector, OtlpReceiver receiver, int traces) throws Exception {
        try (ReplayJob job = job();
                RealServices services = new RealServices(directory)) {
            services.sections(tracing(collector), tracing(collector));
            services.startTarget(job);
            services.startSource(job);
            int exit = services.migrate(directory.resolve("report.json"), "replay");
            Conditions.until(
                    "the collector was asked", () -> receiver.requests().size() >= traces);
            return exit;
        }
    }

    @Test
    void shouldBeOneTraceOfBothNodesInOrderWhenAJobIsMoved() throws Exception {
        try (OtlpReceiver receiver = new OtlpReceiver(OtlpReceiver.CollectorAnswer.GOOD)) {
            assertEquals(0, migrate(receiver.address(), receiver, 2));
            List<Span> source = receiver.spans("ppmr-source");
            List<Span> target = receiver.spans("ppmr-target");
            Set<Object> traces = new HashSet<>();
            Set<Object> ids = new HashSet<>();
            Stream.concat(source.stream(), target.stream()).forEach(span -> {
                traces.add(span.getTraceId());
                assertTrue(ids.add(span.getSpanId()), "twice: " + span);
            });
            assertEquals(1, traces.size());
            for (Span span : target) {
                assertTrue(ids.contains(span.getParentSpanId()), "without a parent: " + span);
            }
            List<String> phases = target.stream()
                    .map(Span::getName)
                    .filter(name -> !name.startsWith("rank "))
                    .toList();
            assertEquals(
                    List.of("target", "receive and restart", "wait for the decision", "carry the decision out"),
                    phases);
            for (int i = 2; i < phases.size(); i++) {
                assertEquals(
                        target.get(i - 1).getEndTimeUnixNano(), target.get(i).getStartTimeUnixNano());
            }
            List<String> names = source.stream().map(Span::getName).toList();
            assertEquals(List.of("migration", "attempt 1"), names.subList(0, 2));
            assertTrue(
                    names.containsAll(List.of("prepare", "checkpoint", "commit", "rank 0: checkpoint writes")),
                    names.toString());
            assertTrue(target.stream().anyMatch(span -> span.getName().equals("rank 0: restart reads")));
        }
    }

    @Test
    @Tag("soak")
    void shouldMoveTheJobAllTheSameWhenTheCollectorFailsOrDoesNotAnswer() throws Exception {
        try (OtlpReceiver receiver = new OtlpReceiver(OtlpReceiver.CollectorAnswer.NONE)) {
            assertEquals(0, migrate(receiver.address(), receiver, 2));
        }
    }
}
