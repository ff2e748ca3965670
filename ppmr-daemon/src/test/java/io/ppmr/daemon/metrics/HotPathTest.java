package io.ppmr.daemon.metrics;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import io.ppmr.source.metrics.SourceHops;
import io.ppmr.target.metrics.TargetHops;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.List;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests that the measurements of each chunk cost no garbage, are shown, and are recorded where a recording is on. */
class HotPathTest {
    private static final int CHUNKS = 4;
    private static final int TIMES = 50_000;
    private static final long AT_MOST_BYTES = TIMES / 10;

    private final PrometheusMeterRegistry registry = MetricsEndpoint.registry();
    private final SourceHops source = new SourceHops(registry, CHUNKS);
    private final TargetHops target = new TargetHops(registry);

    @TempDir
    private Path folder;

    private void measure(int times) {
        for (int i = 0; i < times; i++) {
            source.written(7);
            source.filled(11);
            source.sent(i % CHUNKS, 7);
            source.released(i % CHUNKS);
            source.waitedForChunk(13);
            source.waitedForSlot(i, 17);
            target.chunkExpected();
            target.pullStarted(i % CHUNKS, 19);
            target.chunkReceived(i % CHUNKS, 7, 23);
            target.recordCheck(29);
            target.readerWaited(i, 31);
            target.addRead(7);
            target.changeGauges(0, 1, 2);
        }
    }

    @Test
    void shouldAllocateNothingWhenChunksAreMeasured() {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        long thread = Thread.currentThread().getId();
        measure(TIMES);
        long beforeBytes = threads.getThreadAllocatedBytes(thread);
        measure(TIMES);
        long usedBytes = threads.getThreadAllocatedBytes(thread) - beforeBytes;
        assertTrue(usedBytes <= AT_MOST_BYTES, usedBytes + " bytes for " + TIMES + " chunks");
    }

    @Test
    void shouldShowWhatWasMeasuredWhenScraped() {
        measure(10);
        String scraped = registry.scrape();
        for (String line : List.of(
                "ppmr_source_data_bytes_total{stage=\"written\"} 70.0",
                "ppmr_source_chunks_total{stage=\"released\"} 10.0",
                "ppmr_source_pool_wait_seconds_count 10",
                "ppmr_source_chunk_flight_seconds_bucket{le=\"+Inf\"} 10",
                "ppmr_target_data_bytes_total{stage=\"read\"} 70.0",
                "ppmr_target_chunks_in_flight 10.0",
                "ppmr_target_chunk_receive_seconds_count 10")) {
            assertTrue(scraped.lines().anyMatch(line::equals), line + "\n" + scraped);
        }
    }

    @Test
    void shouldRecordEachHopWhenSomebodyRecords() throws IOException {
        Path file = folder.resolve("recording.jfr");
        List<String> names = List.of(
                "source.ChunkFlight",
                "source.PoolWait",
                "source.SlotWait",
                "target.ChunkReceive",
                "target.PullWait",
                "target.ReaderWait");
        try (Recording recording = new Recording()) {
            names.forEach(name -> recording.enable("ppmr." + name));
            recording.start();
            measure(3);
            recording.stop();
            recording.dump(file);
        }
        List<RecordedEvent> events = RecordingFile.readAllEvents(file);
        for (String name : names) {
            List<RecordedEvent> found = events.stream()
                    .filter(event -> event.getEventType().getName().equals("ppmr." + name))
                    .toList();
            assertEquals(3, found.size(), name);
            assertTrue(found.get(0).getDuration("took").toNanos() > 0, name);
        }
    }
}
