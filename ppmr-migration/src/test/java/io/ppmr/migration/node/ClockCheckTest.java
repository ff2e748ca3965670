package io.ppmr.migration.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.control.Finding;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.LongRange;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ClockCheckTest {
    @ParameterizedTest
    @CsvSource({
        "0, 1999, 0, OK",
        "0, 5999, 0, WARN",
        "5999, 0, 5999, WARN",
        "0, 30000, 60000, OK",
        "0, 62001, 60000, WARN",
        "60000, 57000, 120000, WARN",
    })
    void shouldWarnOnlyWhenTheTargetsClockLiesOutsideOfTheExchange(
            long askedMs, long targetMs, long answeredMs, Finding.Level level) {
        assertEquals(level, ClockCheck.finding(askedMs, targetMs, answeredMs).level());
    }

    @Property
    void shouldSayNothingOfASlowAnswerWhenTheClocksAgree(
            @ForAll @LongRange(max = 1L << 42) long askedMs,
            @ForAll @LongRange(max = 1 << 20) long untilReadMs,
            @ForAll @LongRange(max = 1 << 20) long untilAnsweredMs) {
        long readMs = askedMs + untilReadMs;
        assertEquals(
                Finding.Level.OK,
                ClockCheck.finding(askedMs, readMs, readMs + untilAnsweredMs).level());
    }

    @Property
    void shouldSayNoMoreThanTheDifferenceWhenTheClocksAreApart(
            @ForAll @LongRange(min = -100_000, max = 100_000) long apartMs,
            @ForAll @LongRange(max = 10_000) long untilReadMs,
            @ForAll @LongRange(max = 10_000) long untilAnsweredMs) {
        Finding finding = ClockCheck.finding(0, untilReadMs + apartMs, untilReadMs + untilAnsweredMs);
        if (finding.level() == Finding.Level.WARN) {
            long saidS = Long.parseLong(finding.text().replaceFirst(".* at least (\\d+) s apart.*", "$1"));
            assertTrue(saidS * 1000 <= Math.abs(apartMs), finding.text());
        }
        if (Math.abs(apartMs) > untilReadMs + untilAnsweredMs + 2000) {
            assertEquals(Finding.Level.WARN, finding.level());
        }
    }
}
