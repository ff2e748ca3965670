package io.ppmr.target.image;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.PoolGeometry;
import java.util.HashSet;
import java.util.List;
import java.util.NavigableMap;
import java.util.Set;
import java.util.TreeMap;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.Tuple;
import org.junit.jupiter.api.Test;

class WindowIndexTest {
    private static final int CHUNK_BYTES = 16 * 1024;
    private static final int UNIT_BYTES = 1024;
    private static final int UNITS = CHUNK_BYTES / UNIT_BYTES;
    private static final int MIB = 1 << 20;
    /** On both sides of where the tree has its edges; no larger ones are granted. */
    private static final long[] WINDOWS = {
        0, 1, 2, 63, 64, 65, 4095, 4096, 262_143, 262_144, 1 << 30, (1L << 49) - 66, (1L << 49) - 65
    };

    private final PoolGeometry geometry = new PoolGeometry(CHUNK_BYTES, 4);
    private final Extents extents = new Extents(slot -> {});
    private final ReceiveSlot slot = new ReceiveSlot();

    private enum Kind {
        PUT,
        TAKE,
        REMOVE,
        TRUNCATE
    }

    /** Windows by their place in the list above; a bit of {@code units} is a part of the window that is there. */
    record Step(Kind kind, int window, int units, int from, int lastWindow, int to) {}

    @Provide
    Arbitrary<List<Step>> steps() {
        return Combinators.combine(
                        Arbitraries.frequency(
                                Tuple.of(10, Kind.PUT),
                                Tuple.of(2, Kind.TAKE),
                                Tuple.of(4, Kind.REMOVE),
                                Tuple.of(1, Kind.TRUNCATE)),
                        Arbitraries.integers().between(0, WINDOWS.length - 1),
                        Arbitraries.integers().between(1, (1 << UNITS) - 1),
                        Arbitraries.integers().between(0, UNITS),
                        Arbitraries.integers().between(0, WINDOWS.length - 1),
                        Arbitraries.integers().between(0, UNITS))
                .as(Step::new)
                .list()
                .ofMaxSize(40);
    }

    @Property(tries = 1000)
    void shouldHoldWhatATableOfBytesHolds(@ForAll("steps") List<Step> steps) {
        try (IndexMemory memory = new IndexMemory(MIB)) {
            Set<Integer> emptied = new HashSet<>();
            WindowIndex index = new WindowIndex(memory, geometry, place -> assertTrue(emptied.add(place)));
            TreeMap<Long, Integer> model = new TreeMap<>();
            int place = 0;
            for (Step step : steps) {
                long window = WINDOWS[step.window];
                Set<Integer> before = new HashSet<>(model.values());
                emptied.clear();
                switch (step.kind) {
                    case PUT -> {
                        if (!index.has(window)) {
                            put(index, model, window, step.units, place++);
                            before = new HashSet<>(model.values());
                        }
                    }
                    case TAKE -> {
                        if (index.has(window)) {
                            take(index, model, window);
                            before = new HashSet<>(model.values());
                        }
                    }
                    case REMOVE -> {
                        long start = window * CHUNK_BYTES + (long) step.from * UNIT_BYTES;
                        long end = WINDOWS[step.lastWindow] * CHUNK_BYTES + (long) step.to * UNIT_BYTES;
                        assertTrue(index.remove(start, end));
                        model.subMap(start, Math.max(start, end)).clear();
                    }
                    case TRUNCATE -> {
                        long size = window * CHUNK_BYTES + (long) step.from * UNIT_BYTES;
                        assertTrue(index.remove(size, Long.MAX_VALUE));
                        model.tailMap(size).clear();
                    }
                }
                before.removeAll(model.values());
                assertEquals(before, emptied, "places whose last byte has gone");
                same(index, model);
            }
            assertTrue(index.remove(0, Long.MAX_VALUE));
            assertEquals(0, memory.usedBytes(), "what was taken is not given back");
        }
    }

    private void put(WindowIndex index, NavigableMap<Long, Integer> model, long window, int units, int place) {
        extents.forget(0, Long.MAX_VALUE);
        for (int unit = 0; unit < UNITS; unit++) {
            if ((units & 1 << unit) != 0) {
                long start = window * CHUNK_BYTES + (long) unit * UNIT_BYTES;
                // In two pieces that touch.
                extents.put(start, start + 10, slot);
                extents.put(start + 10, start + UNIT_BYTES, slot);
                model.put(start, place);
            }
        }
        assertTrue(index.put(window, place, extents));
        assertEquals(place, index.place(window));
    }

    private void take(WindowIndex index, NavigableMap<Long, Integer> model, long window) {
        extents.forget(0, Long.MAX_VALUE);
        index.take(window, slot, extents);
        long windowStart = window * CHUNK_BYTES;
        for (int unit = 0; unit < UNITS; unit++) {
            long start = windowStart + (long) unit * UNIT_BYTES;
            assertEquals(model.remove(start) != null, extents.find(start) >= 0, "unit " + unit + " that was taken");
        }
        assertFalse(index.has(window));
    }

    private static void same(WindowIndex index, NavigableMap<Long, Integer> model) {
        for (long window : WINDOWS) {
            long windowStart = window * CHUNK_BYTES;
            assertEquals(
                    !model.subMap(windowStart, windowStart + CHUNK_BYTES - 1).isEmpty(), index.has(window));
            for (long unit = 0; unit < UNITS; unit++) {
                long start = windowStart + unit * UNIT_BYTES;
                Integer place = model.get(start);
                assertEquals(place != null, index.find(start + 5), () -> "byte " + (start + 5));
                if (place != null) {
                    assertEquals(place, index.foundPlace());
                    long end = start + UNIT_BYTES;
                    while (end < windowStart + CHUNK_BYTES && model.containsKey(end)) {
                        end += UNIT_BYTES;
                    }
                    assertEquals(end - start - 5, index.foundBytes(start + 5));
                }
                Long next = model.ceilingKey(start);
                assertEquals(next == null ? Long.MAX_VALUE : next, index.nextStart(start));
                assertEquals(
                        place != null ? start + 5 : next == null ? Long.MAX_VALUE : next, index.nextStart(start + 5));
            }
        }
    }

    @Test
    void shouldBeAsItWasWhenThereIsNoMemoryForAWindow() {
        try (IndexMemory memory = new IndexMemory(MIB)) {
            WindowIndex index = new WindowIndex(memory, geometry, place -> {});
            int windows = 0;
            for (long window = 0; put(index, window); window += 64) {
                windows++;
            }
            assertTrue(windows > 1000, windows + " leaves in 1 MiB");
            assertFalse(memory.hasRoom());
            long usedBytes = memory.usedBytes();
            assertFalse(index.has(windows * 64L));
            for (long window : new long[] {windows * 64L + 5, 1L << 40}) {
                assertFalse(put(index, window));
                assertFalse(index.has(window));
            }
            assertTrue(memory.usedBytes() - usedBytes <= 9 * 256, "a refused window has left something");
            assertEquals(64L * CHUNK_BYTES, index.nextStart(CHUNK_BYTES));
            assertEquals(Long.MAX_VALUE, index.nextStart((windows - 1) * 64L * CHUNK_BYTES + CHUNK_BYTES));
            index.remove(0, CHUNK_BYTES);
            assertTrue(memory.hasRoom() || put(index, 0), "what was given back cannot be taken");
            index.remove(0, Long.MAX_VALUE);
            assertEquals(0, memory.usedBytes());
        }
    }

    @Test
    void shouldKeepAWindowThatHasMoreRunsThanThereIsMemoryFor() {
        try (IndexMemory memory = new IndexMemory(MIB)) {
            WindowIndex index = new WindowIndex(memory, geometry, place -> {});
            long window = 0;
            while (put(index, window)) {
                window++;
            }
            // The last words go to runs: holes are noted until there is no room for one more.
            int holes = 0;
            while (index.remove(100 + holes * 2L, 101 + holes * 2L)) {
                holes++;
            }
            assertTrue(index.find(100 + holes * 2L), "a hole that could not be noted is there");
            assertEquals(0, index.foundPlace());
            assertTrue(index.find(CHUNK_BYTES - 1));
            for (int hole = 0; hole < holes; hole++) {
                assertFalse(index.find(100 + hole * 2L));
            }
            index.remove(0, Long.MAX_VALUE);
            assertEquals(0, memory.usedBytes());
        }
    }

    private boolean put(WindowIndex index, long window) {
        extents.forget(0, Long.MAX_VALUE);
        extents.put(window * CHUNK_BYTES, (window + 1) * CHUNK_BYTES, slot);
        return index.put(window, (int) (window / 64), extents);
    }
}
