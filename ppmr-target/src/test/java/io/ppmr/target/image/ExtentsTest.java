package io.ppmr.target.image;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.List;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.Tuple;
import org.junit.jupiter.api.Test;

class ExtentsTest {
    private static final int WINDOW_BYTES = 32;
    private static final int WINDOWS = 4;
    private static final int SLOTS_A_WINDOW = 3;
    private static final int SPACE = WINDOW_BYTES * WINDOWS;

    private enum Kind {
        PUT,
        REMOVE,
        TRUNCATE,
        MOVE
    }

    /** For PUT and MOVE the offsets are within the window. */
    record Step(Kind kind, int window, int start, int end, int slot, int otherSlot) {}

    @Provide
    Arbitrary<List<Step>> steps() {
        return Combinators.combine(
                        Arbitraries.frequency(
                                Tuple.of(10, Kind.PUT),
                                Tuple.of(3, Kind.REMOVE),
                                Tuple.of(1, Kind.TRUNCATE),
                                Tuple.of(3, Kind.MOVE)),
                        Arbitraries.integers().between(0, WINDOWS - 1),
                        Arbitraries.integers().between(0, SPACE),
                        Arbitraries.integers().between(0, SPACE),
                        Arbitraries.integers().between(0, SLOTS_A_WINDOW - 1),
                        Arbitraries.integers().between(0, SLOTS_A_WINDOW - 1))
                .as(Step::new)
                .list()
                .ofMaxSize(50);
    }

    /** The model of extents: the slot of each byte. */
    private static final class Model {
        private final int[] owner = new int[SPACE];
        private final int[] live = new int[WINDOWS * SLOTS_A_WINDOW];
        private final int[] emptied = new int[WINDOWS * SLOTS_A_WINDOW];

        private Model() {
            Arrays.fill(owner, -1);
        }

        void put(int start, int end, int slot) {
            remove(start, end);
            for (int i = start; i < end; i++) {
                owner[i] = slot;
                live[slot]++;
            }
        }

        void remove(int start, int end) {
            for (int i = start; i < end; i++) {
                int slot = owner[i];
                owner[i] = -1;
                if (slot >= 0 && --live[slot] == 0) {
                    emptied[slot]++;
                }
            }
        }

        void move(int from, int to) {
            for (int i = 0; i < SPACE; i++) {
                if (owner[i] == from) {
                    owner[i] = to;
                    live[from]--;
                    live[to]++;
                }
            }
        }
    }

    @Property
    void shouldAgreeWithATableOfBytes(@ForAll("steps") List<Step> steps) {
        ReceiveSlot[] slots = new ReceiveSlot[WINDOWS * SLOTS_A_WINDOW];
        for (int i = 0; i < slots.length; i++) {
            slots[i] = ReceiveSlots.make(i, i, 0);
        }
        int[] emptied = new int[slots.length];
        Extents extents = new Extents(slot -> emptied[slot.index()]++);
        Model model = new Model();
        for (Step step : steps) {
            apply(step, extents, model, slots);
            for (int i = 0; i < slots.length; i++) {
                assertEquals(model.live[i], slots[i].changeLiveBytes(0), "live bytes of slot " + i + " after " + step);
                assertEquals(model.emptied[i], emptied[i], "times that slot " + i + " was emptied, after " + step);
            }
            same(model, extents);
        }
    }

    private static void apply(Step step, Extents extents, Model model, ReceiveSlot[] slots) {
        int windowStart = step.window() * WINDOW_BYTES;
        int slot = step.window() * SLOTS_A_WINDOW + step.slot();
        int otherSlot = step.window() * SLOTS_A_WINDOW + step.otherSlot();
        int low = Math.min(step.start(), step.end());
        int high = Math.max(step.start(), step.end());
        switch (step.kind()) {
            case PUT -> {
                int start = windowStart + low % WINDOW_BYTES;
                int end = Math.min(start + 1 + (high - low) % WINDOW_BYTES, windowStart + WINDOW_BYTES);
                extents.put(start, end, slots[slot]);
                model.put(start, end, slot);
            }
            case REMOVE -> {
                extents.remove(low, high);
                model.remove(low, high);
            }
            case TRUNCATE -> {
                extents.remove(low, Long.MAX_VALUE);
                model.remove(low, SPACE);
            }
            case MOVE -> {
                extents.move(slots[slot], slots[otherSlot], windowStart, windowStart + WINDOW_BYTES);
                model.move(slot, otherSlot);
            }
        }
    }

    private static void same(Model model, Extents extents) {
        for (int extent = 0; extent < extents.count(); extent++) {
            assertTrue(extents.start(extent) < extents.end(extent), "extent " + extent + " is empty");
            assertTrue(extent == 0 || extents.end(extent - 1) <= extents.start(extent), "extents overlap");
        }
        long next = Long.MAX_VALUE;
        for (int offset = SPACE - 1; offset >= 0; offset--) {
            int found = extents.find(offset);
            int owner = found < 0 ? -1 : extents.slot(found).index();
            assertEquals(model.owner[offset], owner, "slot of byte " + offset);
            next = owner < 0 ? next : offset;
            assertEquals(next, extents.nextStart(offset), "first byte from " + offset + " on");
        }
        assertEquals(-1, extents.find(SPACE));
    }

    @Test
    void shouldAllocateNothingWhenAWriterAndAReaderContinueInOrder() {
        ReceiveSlot[] slots = {ReceiveSlots.make(0, 0, 0), ReceiveSlots.make(1, 1, 0)};
        Extents extents = new Extents(slot -> {});
        inOrder(extents, slots, 0, 20_000);
        var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        long self = Thread.currentThread().getId();
        threads.getThreadAllocatedBytes(self);
        long before = threads.getThreadAllocatedBytes(self);
        inOrder(extents, slots, 20_000, 60_000);
        long allocated = threads.getThreadAllocatedBytes(self) - before;
        assertTrue(allocated < 1024, "40000 puts and removes allocated " + allocated + " bytes");
    }

    private static void inOrder(Extents extents, ReceiveSlot[] slots, long from, long to) {
        for (long window = from; window < to; window++) {
            extents.put(window * WINDOW_BYTES, (window + 1) * WINDOW_BYTES, slots[(int) window & 1]);
            extents.remove((window - 1) * WINDOW_BYTES, window * WINDOW_BYTES);
        }
    }
}
