package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class RareLogTest {
    private final List<String> lines = new ArrayList<>();
    private long nowNs = Long.MAX_VALUE - TimeUnit.SECONDS.toNanos(10);
    private final RareLog log = new RareLog(lines::add, () -> nowNs);

    @Test
    void shouldWriteTheFirstOfAKindAtOnceAndCountTheNextOnesForAMinute() {
        for (int i = 0; i < 3000; i++) {
            log.write("late", "line " + i);
            nowNs += TimeUnit.MILLISECONDS.toNanos(20);
        }
        assertEquals(List.of("line 0"), lines);
        log.write("wrong key", "another kind");
        log.write("late", "line 3000");
        assertEquals(
                List.of(
                        "line 0",
                        "another kind",
                        "line 3000 (2999 more of this kind were suppressed since the last such line)"),
                lines);
        nowNs += TimeUnit.SECONDS.toNanos(60);
        log.write("late", "line 3001");
        assertEquals("line 3001", lines.get(3));
    }
}
