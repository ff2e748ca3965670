package io.ppmr.migration.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.migration.source.PreCopyRule.History;
import io.ppmr.migration.source.PreCopyRule.Rounds;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.DoubleRange;
import net.jqwik.api.constraints.LongRange;
import org.junit.jupiter.api.Test;

class PreCopyRuleTest {
    private static final long MIB = 1 << 20;
    private static final long GIB = 1 << 30;
    private static final long SECOND_NS = 1_000_000_000L;
    private static final PreCopyRule RULE = rule(600);

    private static PreCopyRule rule(long deadlineSeconds) {
        return new PreCopyRule(Duration.ofSeconds(1), Duration.ofSeconds(deadlineSeconds), 30, OptionalLong.empty());
    }

    private static PreCopyRule within(double seconds) {
        return new PreCopyRule(
                Duration.ofSeconds(1), Duration.ofMinutes(10), 30, OptionalLong.of((long) (seconds * SECOND_NS)));
    }

    private static Rounds round(long sentBytes, long writtenBytes, double seconds) {
        return new Rounds(sentBytes, writtenBytes, (long) (seconds * 1e9), 0, true, "");
    }

    private static Rounds failed() {
        return new Rounds(0, 0, 1_000_000, 0, false, "thread 7 waits in the kernel");
    }

    private static Optional<String> end(long imageBytes, Rounds... rounds) {
        return end(RULE, imageBytes, List.of(rounds));
    }

    private static Optional<String> end(PreCopyRule rule, long imageBytes, List<Rounds> ended) {
        return rule.whyEnd(
                new History(ended, 0, imageBytes, 0, 0),
                ended.stream().mapToLong(Rounds::durationNs).sum());
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
        assertTrue(end(rule(5), GIB, List.of(round(GIB, 400 * MIB, 9)))
                .orElseThrow()
                .endsWith("the copy has reached its limit"));
    }

    @Test
    void shouldStreamWhatIsStreamedInAShortPause() {
        assertEquals(
                Optional.of("a pause of 0.6 s is expected, and pause_goal allows it"), RULE.whyShortEnough(256 * MIB));
        assertEquals(Optional.empty(), RULE.whyShortEnough(GIB));
    }

    @Test
    void shouldStreamAtOnceWhenTheTimeIsTooShortForRounds() {
        assertTrue(within(1.8).whyTooLate(GIB, 0).orElseThrow().contains("within the time"));
        assertEquals(Optional.empty(), within(20).whyTooLate(GIB, 0));
    }

    @Test
    void shouldEndWhenAnotherRoundDoesNotFitIntoTheTime() {
        // The first round took 9 s. Another one takes 3.5 s, and leaves 1.4 s and the fixed 0.45 s to the pause.
        List<Rounds> ended = List.of(round(GIB, 400 * MIB, 9));
        assertEquals(Optional.empty(), end(within(15), GIB, ended));
        assertTrue(end(within(14), GIB, ended).orElseThrow().contains("within the time"));
    }

    @Test
    void shouldCutARoundWhoseRestDoesNotFitIntoTheTime() {
        // 100 MiB a second, so 1,024 MiB take 10.2 s, and the writes in this time 2.6 s.
        assertEquals(Optional.empty(), cut(within(14), 2, 200 * MIB));
        assertTrue(cut(within(12), 2, 200 * MIB).orElseThrow().contains("within the time"));
        assertEquals(Optional.empty(), cut(RULE, 2, 200 * MIB));
    }

    @Test
    void shouldCutARoundThatSendsNothingWhenTheTimeEnds() {
        assertEquals(Optional.empty(), cut(within(5), 4, 0));
        assertTrue(cut(within(5), 4.5, 0).isPresent());
    }

    @Test
    void shouldCutARoundAtTheDeadlineWhenNoTimeWasGiven() {
        assertEquals(Optional.empty(), cut(rule(60), 59, 200 * MIB));
        assertTrue(cut(rule(60), 60, 200 * MIB).orElseThrow().contains("deadline"));
        assertTrue(cut(rule(60), 61, 0).orElseThrow().contains("deadline"));
    }

    private static Optional<String> cut(PreCopyRule rule, double seconds, long sentBytes) {
        long nowNs = (long) (seconds * SECOND_NS);
        return rule.whyCut(new History(List.of(), 0, GIB, sentBytes, nowNs), nowNs);
    }

    /** Nobody waits for a round that cannot be over in time, at any rate of the network. */
    @Property(tries = 300)
    void shouldLeaveTimeForThePauseAtAnyRate(
            @ForAll @LongRange(min = 64 << 20, max = 1L << 36) long imageBytes,
            @ForAll @DoubleRange(min = 2e7, max = 1e10) double linkBytesASecond,
            @ForAll @DoubleRange(min = 10, max = 300) double timeSeconds) {
        PreCopyRule rule = within(timeSeconds);
        double seconds = 0;
        long sentBytes = 0;
        while (sentBytes < imageBytes
                && rule.whyCut(new History(List.of(), 0, imageBytes, sentBytes, (long) (seconds * SECOND_NS)), (long)
                                (seconds * SECOND_NS))
                        .isEmpty()) {
            seconds += 0.1;
            sentBytes = Math.min(imageBytes, (long) (seconds * linkBytesASecond));
        }
        double wholeSeconds = imageBytes / linkBytesASecond + imageBytes / (double) GIB * 0.35 + 0.1;
        // Either everything fits, or the round was cut as soon as the rate was known.
        assertTrue(seconds + 0.1 <= timeSeconds || wholeSeconds <= timeSeconds, seconds + " of " + timeSeconds + " s");
        if (wholeSeconds * 2 < timeSeconds) {
            assertEquals(imageBytes, sentBytes);
        }
    }

    /** The copy ends at any rate of writes, and sends a bounded number of images. */
    @Property(tries = 300)
    void shouldAlwaysEndAfterABoundedNumberOfBytes(
            @ForAll @LongRange(min = 1 << 20, max = 1L << 40) long imageBytes,
            @ForAll @DoubleRange(min = 1e6, max = 1e10) double linkBytesASecond,
            @ForAll @DoubleRange(min = 0, max = 1e10) double writtenBytesASecond) {
        List<Rounds> history = new ArrayList<>();
        long sentBytes = imageBytes;
        while (history.isEmpty() || end(RULE, imageBytes, history).isEmpty()) {
            double duration = (double) sentBytes / linkBytesASecond;
            long writtenBytes = (long) Math.min((double) imageBytes, writtenBytesASecond * duration);
            history.add(round(sentBytes, writtenBytes, duration));
            sentBytes = writtenBytes;
        }
        assertTrue(history.size() <= RULE.mostRounds());
        assertTrue(history.stream().mapToLong(Rounds::sentBytes).sum() <= 4 * imageBytes + 1);
    }
}
