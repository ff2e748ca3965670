package io.ppmr.source.image;

import java.io.IOException;
import org.agrona.collections.Long2LongHashMap;

/** The slots that the target has granted to one file, by window. Guarded by the file's lock. */
final class SlotCredits {
    static final int NONE = -1;

    /** Hears of a slot that is given back. */
    @FunctionalInterface
    interface GivenBack {
        void giveBack(long window, int slot) throws IOException;
    }

    private final Long2LongHashMap slots = new Long2LongHashMap(NONE);

    void add(long window, int slot) {
        slots.put(window, slot);
    }

    boolean has(long window) {
        return slots.containsKey(window);
    }

    /** Uses the slot of a window; {@link #NONE} if there is none. */
    int take(long window) {
        return (int) slots.remove(window);
    }

    boolean isEmpty() {
        return slots.isEmpty();
    }

    void giveBackAll(GivenBack to) throws IOException {
        for (Long window : slots.keySet().toArray(new Long[0])) {
            to.giveBack(window, take(window));
        }
    }
}
