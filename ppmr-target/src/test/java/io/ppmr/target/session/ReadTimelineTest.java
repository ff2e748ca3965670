package io.ppmr.target.session;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.data.TransferReport.ReadSample;
import java.util.List;
import org.junit.jupiter.api.Test;

class ReadTimelineTest {
    private static final long MS = 1_000_000;

    private final ReadTimeline timeline = new ReadTimeline();

    @Test
    void shouldBeginWithTheFirstByte() {
        timeline.sample(5 * MS, 0);
        timeline.sample(7 * MS, 10);
        assertEquals(7 * MS, timeline.firstReadNs());
        assertEquals(List.of(new ReadSample(7 * MS, 10)), timeline.samples());
    }

    @Test
    void shouldSampleOnlyChangesAndNotTooOften() {
        timeline.sample(1 * MS, 10);
        timeline.sample(1 * MS + 1, 20);
        timeline.sample(3 * MS, 10);
        timeline.sample(4 * MS, 30);
        assertEquals(List.of(new ReadSample(1 * MS, 10), new ReadSample(4 * MS, 30)), timeline.samples());
    }

    @Test
    void shouldStayWithinItsBoundForAnyDuration() {
        long reads = 200_000;
        for (long i = 1; i <= reads; i++) {
            timeline.sample(i * MS, i * 1000);
        }
        List<ReadSample> samples = timeline.samples();
        assertTrue(samples.size() <= 2048 && samples.size() > 900, samples.size() + " samples");
        assertEquals(new ReadSample(MS, 1000), samples.get(0));
        for (int i = 1; i < samples.size(); i++) {
            assertTrue(samples.get(i).timeNs() > samples.get(i - 1).timeNs());
            assertEquals(samples.get(i).timeNs() / MS * 1000, samples.get(i).readBytes());
        }
        assertTrue(samples.get(samples.size() - 1).timeNs() > reads * MS - 300 * MS, "the end is missing");
    }
}
