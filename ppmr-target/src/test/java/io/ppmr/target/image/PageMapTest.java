package io.ppmr.target.image;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.BitSet;
import java.util.List;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import org.junit.jupiter.api.Test;

class PageMapTest {
    /** Three leaves and a part of a fourth, two of which are far away from the others. */
    private static final int SPACE = 3 * PageMap.LEAF_PAGES + 100;

    private final Staging staging = new Staging(Path.of("/dev/shm"), 0);

    record Step(boolean adds, int from, int pages) {}

    @Provide
    Arbitrary<List<Step>> steps() {
        Arbitrary<Integer> pages = Arbitraries.oneOf(
                Arbitraries.integers().between(1, 200), Arbitraries.integers().between(1, SPACE));
        return Combinators.combine(
                        Arbitraries.of(true, true, false),
                        Arbitraries.integers().between(0, SPACE - 1),
                        pages)
                .as(Step::new)
                .list()
                .ofMaxSize(40);
    }

    @Property(tries = 300)
    void shouldAgreeWithASetOfBits(@ForAll("steps") List<Step> steps) throws Exception {
        PageMap map = new PageMap(staging);
        BitSet model = new BitSet();
        for (Step step : steps) {
            int to = Math.min(SPACE, step.from + step.pages);
            int before = model.cardinality();
            if (step.adds) {
                model.set(step.from, to);
                assertEquals(model.cardinality() - before, map.add(step.from, to));
            } else {
                model.clear(step.from, to);
                assertEquals(before - model.cardinality(), map.remove(step.from, to));
            }
            for (int page : new int[] {0, step.from, to, to - 1, step.from / 2, PageMap.LEAF_PAGES, SPACE}) {
                assertEquals(model.get(page), map.has(page));
                int next = model.nextSetBit(page);
                assertEquals(next < 0 ? Long.MAX_VALUE : next, map.nextIn(page));
                assertEquals(model.nextClearBit(page), map.nextOut(page, SPACE + 1));
            }
        }
        map.remove(0, Long.MAX_VALUE / PageMap.PAGE_BYTES);
        assertEquals(0, staging.mapBytes(), "leaves that are not given back");
    }

    @Test
    void shouldStorePagesFarApart() throws Exception {
        PageMap map = new PageMap(staging);
        long far = Long.MAX_VALUE / PageMap.PAGE_BYTES - 1;
        assertEquals(1, map.add(far, far + 1));
        assertEquals(1, map.add(7, 8));
        assertEquals(far, map.nextIn(8));
        assertEquals(8, map.nextOut(7, far));
        assertEquals(far + 1, map.nextOut(far, far + 2));
        assertEquals(2L * PageMap.LEAF_BYTES, staging.mapBytes());
        assertEquals(2, map.remove(0, Long.MAX_VALUE / PageMap.PAGE_BYTES));
    }

    @Test
    void shouldRefuseByNameWhenItIsSpreadTooFar() throws Exception {
        PageMap map = new PageMap(staging);
        for (long leaf = 0; leaf < Staging.MAX_LEAVES; leaf++) {
            long page = leaf * PageMap.LEAF_PAGES;
            map.add(page, page + 1);
        }
        long beyond = (long) Staging.MAX_LEAVES * PageMap.LEAF_PAGES;
        String message = assertThrows(ImageException.class, () -> map.add(beyond, beyond + 1))
                .getMessage();
        assertTrue(message.contains("spread over more than 131072 parts of 32 MiB"), message);
        map.remove(0, beyond);
        map.add(beyond, beyond + 1);
        map.remove(beyond, beyond + 1);
        assertEquals(0, staging.mapBytes());
    }
}
