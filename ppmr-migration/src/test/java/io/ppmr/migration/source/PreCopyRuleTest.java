package io.ppmr.migration.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.migration.source.PreCopyRule.Rounds;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.DoubleRange;
import net.jqwik.api.constraints.LongRange;
import org.junit.jupiter.api.Test;

class PreCopyRuleTest {
    private static final long MIB = 1 << 20;
    private static final long GIB = 1 << 30;
    private final PreCopyRule rule = PreCopyRule.DEFAULT;

    private static Rounds round(long sentBytes, long writtenBytes, double seconds) {
        return new Rounds(sentBytes, writtenBytes, (long) (seconds * 1e9), 0, true, "");
    }

    private static Rounds failed() {
        return new Rounds(0, 0, 1_000_000, 0, false, "thread 7 waits in the kernel");
    }

    private Optional<String> end(long imageBytes, Rounds... rounds) {
        List<Rounds> history = List.of(rounds);
        return rule.whyEnd(
                history, history.stream().mapToLong(Rounds::durationNs).sum(), imageBytes);
    }

    @Test
    void shouldMakeAnotherRoundWhenWhatWasWrittenWouldTakeLong() {
        assertEquals(Optional.empty(), end(GIB, round(GIB, 400 * MIB, 9)));
    }

    @Test
    void shouldEndWhenTheExpectedPauseIsShortEnough() {
        assertEquals(
                Optional.of("the expected pause is 0.7 s"),
                end(GIB, round(GIB, 400 * MIB, 9), round(400 * MIB, 30 * MIB, 3.5)));
    }

    @Test
    void shouldEndWhenTheJobWritesFasterThanItsMemoryIsSent() {
        String why = end(GIB, round(GIB, 900 * MIB, 9), round(900 * MIB, 890 * MIB, 8), round(890 * MIB, 880 * MIB, 8))
                .orElseThrow();
        assertTrue(why.endsWith("for the job writes faster than its memory is sent"), why);
    }

    @Test
    void shouldEndWhenNoRoundCanBeMade() {
        assertEquals(Optional.empty(), end(GIB, failed(), failed()));
        assertEquals(
                Optional.of("no further round could be made: thread 7 waits in the kernel"),
                end(GIB, failed(), failed(), failed()));
    }

    @Test
    void shouldEndWhenTheDeadlineIsOver() {
        assertTrue(new PreCopyRule(Duration.ofSeconds(1), Duration.ofSeconds(5), 30)
                .whyEnd(List.of(round(GIB, 400 * MIB, 9)), 9_000_000_000L, GIB)
                .orElseThrow()
                .endsWith("the copy has reached its limit"));
    }

    /** The copy ends at any rate of writes, and sends a bounded number of images. */
    @Property(tries = 300)
    void shouldAlwaysEndAfterABoundedNumberOfBytes(
            @ForAll @LongRange(min = 1 << 20, max = 1L << 40) long imageBytes,
            @ForAll @DoubleRange(min = 1e6, max = 1e10) double linkBytesASecond,
            @ForAll @DoubleRange(min = 0, max = 1e10) double writtenBytesASecond) {
        List<Rounds> history = new ArrayList<>();
        long sentBytes = imageBytes;
        double seconds = 0;
        while (history.isEmpty()
                || rule.whyEnd(history, (long) (seconds * 1e9), imageBytes).isEmpty()) {
            double duration = (double) sentBytes / linkBytesASecond;
            long writtenBytes = (long) Math.min((double) imageBytes, writtenBytesASecond * duration);
            history.add(round(sentBytes, writtenBytes, duration));
            seconds += duration;
            sentBytes = writtenBytes;
        }
        assertTrue(history.size() <= rule.mostRounds());
        assertTrue(history.stream().mapToLong(Rounds::sentBytes).sum() <= 4 * imageBytes + 1);
    }
}
