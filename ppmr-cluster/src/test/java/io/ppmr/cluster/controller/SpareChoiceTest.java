package io.ppmr.cluster.controller;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.record.ServiceRecord;
import io.ppmr.cluster.record.SpareNeeds;
import io.ppmr.cluster.record.SpareNeeds.Where;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

/** The choice of spare nodes. */
class SpareChoiceTest {
    private static final long GIB = 1L << 30;

    private final Map<String, ServiceRecord> targets = new HashMap<>();
    private final SpareChoice choice = new SpareChoice(new SplittableRandom(7));

    private void target(String host, String zone, int places, int load, long memoryBytes, String... tools) {
        targets.put(
                host,
                new ServiceRecord(
                        "0123abcd-0123-0123-0123-0123456789ab",
                        host + ":7411",
                        host + ":1",
                        zone,
                        "0.3.0",
                        memoryBytes,
                        GIB,
                        places,
                        load,
                        List.of(tools),
                        "00",
                        0));
    }

    private List<String> choose(Where where, long memoryBytes) {
        return choose(where, memoryBytes, 0);
    }

    private List<String> choose(Where where, long memoryBytes, long nowNs) {
        return choice.choose(new SpareNeeds("n0", "a", where, "criu", memoryBytes, 0), targets, nowNs);
    }

    @Test
    void shouldNameTheLeastLoadedFirstAndEightAtMost() {
        for (int i = 1; i <= 20; i++) {
            target("n" + i, "a", 1, 100 - i, GIB, "criu");
        }
        List<String> chosen = choose(Where.ANY, 1);
        assertEquals(SpareChoice.MOST, chosen.size());
        assertEquals("n20:7411", chosen.get(0));
        assertEquals("n13:7411", chosen.get(7));
    }

    @Test
    void shouldNameOnlyNodesThatFit() {
        target("n0", "a", 1, 0, GIB, "criu");
        target("n1", "a", 1, 0, GIB, "blcr");
        target("n2", "a", 0, 0, GIB, "criu");
        target("n3", "a", 1, 0, 1, "criu");
        target("n4", "a", 1, 1, GIB, "criu");
        target("n5", "b", 1, 2, GIB, "criu");
        assertEquals(List.of("n4:7411", "n5:7411"), choose(Where.ANY, 2));
    }

    @Test
    void shouldNameOnlyNodesOfTheZone() {
        target("n4", "a", 5, 1, GIB, "criu");
        target("n5", "b", 5, 2, GIB, "criu");
        assertEquals(List.of("n4:7411"), choose(Where.SAME, 2));
        assertEquals(List.of("n5:7411"), choose(Where.OTHER, 2));
    }

    @Test
    void shouldHandOutNoPlaceTwiceWithinAMinute() {
        target("n1", "a", 2, 0, GIB, "criu");
        target("n2", "a", 2, 0, GIB, "criu");
        Map<String, Integer> handedOut = new HashMap<>();
        for (int i = 0; i < 4; i++) {
            handedOut.merge(choose(Where.ANY, 1).get(0), 1, Integer::sum);
        }
        assertEquals(Map.of("n1:7411", 2, "n2:7411", 2), handedOut);
        assertEquals(List.of(), choose(Where.ANY, 1));
        assertEquals(2, choose(Where.ANY, 1, SpareChoice.RESERVED.toNanos()).size());
    }

    @Test
    void shouldCountHandedOutMemory() {
        target("n1", "a", 9, 0, GIB, "criu");
        assertEquals(1, choose(Where.ANY, GIB * 3 / 4).size());
        assertEquals(List.of(), choose(Where.ANY, GIB / 2));
    }

    @Test
    void shouldOrderNodesOfEqualLoadAtRandom() {
        for (int i = 1; i <= 4; i++) {
            target("n" + i, "a", 1000, 50, 1L << 50, "criu");
        }
        Set<String> first = new HashSet<>();
        for (int i = 0; i < 100; i++) {
            first.add(choose(Where.ANY, 1).get(0));
        }
        assertEquals(4, first.size());
    }

    @Test
    void shouldFindASpareOutOfTenThousandInLessThanAMillisecondOrSo() {
        for (int i = 0; i < 10_000; i++) {
            target("n" + i, "a", 2, i % 97, GIB, "criu");
        }
        for (int i = 0; i < 200; i++) {
            choose(Where.ANY, 1);
        }
        long[] times = new long[101];
        for (int i = 0; i < times.length; i++) {
            long startNs = System.nanoTime();
            choose(Where.ANY, 1);
            times[i] = System.nanoTime() - startNs;
        }
        java.util.Arrays.sort(times);
        // The bench has the limit of 1 ms; this one only finds a wrong order of growth.
        assertTrue(times[50] < 50_000_000, times[50] + " ns");
    }
}
