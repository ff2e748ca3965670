package io.ppmr.bufferpool;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import java.util.BitSet;
import java.util.List;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import org.junit.jupiter.api.Test;

class ByteRangeSetTest {
    private static final int SPACE = 96;

    /** Adds or removes a range, or truncates the set at {@code start} if {@code end} is negative. */
    record Step(int start, int end, boolean removes) {
        Step(int start, int end) {
            this(start, end, false);
        }

        boolean cuts() {
            return end < 0;
        }
    }

    @Provide
    Arbitrary<List<Step>> steps() {
        Arbitrary<Integer> offset = Arbitraries.integers().between(0, SPACE);
        Arbitrary<Step> adds = Combinators.combine(offset, offset).as(Step::new);
        Arbitrary<Step> shortAdds = Combinators.combine(
                        offset, Arbitraries.integers().between(0, 4))
                .as((start, length) -> new Step(start, start + length));
        Arbitrary<Step> removes = Combinators.combine(offset, offset)
                .as((start, end) -> new Step(Math.min(start, end), Math.max(start, end), true));
        Arbitrary<Step> cuts = offset.map(size -> new Step(size, -1));
        return Arbitraries.frequencyOf(
                        net.jqwik.api.Tuple.of(3, adds),
                        net.jqwik.api.Tuple.of(8, shortAdds),
                        net.jqwik.api.Tuple.of(3, removes),
                        net.jqwik.api.Tuple.of(1, cuts))
                .list()
                .ofMaxSize(60);
    }

    @Property
    void shouldHoldWhatASetOfBitsHolds(@ForAll("steps") List<Step> steps) {
        ByteRangeSet set = new ByteRangeSet();
        BitSet model = new BitSet();
        for (Step step : steps) {
            if (step.cuts()) {
                set.truncate(step.start());
                model.clear(step.start(), SPACE * 2);
            } else if (step.removes()) {
                set.remove(step.start(), step.end());
                model.clear(step.start(), step.end());
            } else {
                set.add(step.start(), step.end());
                model.set(step.start(), Math.max(step.start(), step.end()));
            }
            same(model, set);
        }
    }

    private static void same(BitSet model, ByteRangeSet set) {
        int start = model.nextSetBit(0);
        int range = 0;
        while (start >= 0) {
            int end = model.nextClearBit(start);
            assertTrue(range < set.rangeCount(), "range from " + start + " is missing");
            assertEquals(start, set.start(range));
            assertEquals(end, set.end(range));
            range++;
            start = model.nextSetBit(end);
        }
        assertEquals(range, set.rangeCount());
        for (int offset = 0; offset < SPACE * 2; offset++) {
            assertEquals(model.get(offset) ? model.nextClearBit(offset) : offset, set.coveredTo(offset));
            int next = model.nextSetBit(offset);
            assertEquals(next < 0 ? Long.MAX_VALUE : next, set.nextFrom(offset));
        }
    }

    @Test
    void shouldKeepOffsetsBeyondTheRangeOfAnInt() {
        ByteRangeSet set = new ByteRangeSet();
        long far = 1L << 50;
        set.add(far, far + 10);
        set.add(far + 10, far + 20);
        assertEquals(1, set.rangeCount());
        assertEquals(far + 20, set.coveredTo(far));
        assertEquals(far, set.nextFrom(0));
    }

    @Test
    void shouldAllocateNothingWhenRangesAreAddedInOrder() {
        ByteRangeSet set = new ByteRangeSet();
        var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        long self = Thread.currentThread().getId();
        addInOrder(set, 0, 20_000);
        threads.getThreadAllocatedBytes(self);
        long before = threads.getThreadAllocatedBytes(self);
        addInOrder(set, 20_000, 60_000);
        long allocated = threads.getThreadAllocatedBytes(self) - before;
        assertTrue(allocated < 1024, "adding 40000 ranges in order allocated " + allocated + " bytes");
        assertEquals(1, set.rangeCount());
    }

    private static void addInOrder(ByteRangeSet set, int from, int to) {
        for (int i = from; i < to; i++) {
            set.add(i * 100L, (i + 1) * 100L);
        }
    }
}
