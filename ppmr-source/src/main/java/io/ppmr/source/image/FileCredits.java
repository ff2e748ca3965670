package io.ppmr.source.image;

import java.io.IOException;
import java.util.Arrays;

/** The slots that the target has granted to one file, by window: a handful at a time. Guarded by the file's lock. */
final class FileCredits {
    static final int NONE = -1;

    /** Hears of a slot that is given back. */
    @FunctionalInterface
    interface GivenBack {
        void giveBack(long window, int slot) throws IOException;
    }

    private long[] windows = new long[16];
    private int[] slots = new int[16];
    private int count;

    void add(long window, int slot) {
        if (count == windows.length) {
            windows = Arrays.copyOf(windows, count * 2);
            slots = Arrays.copyOf(slots, count * 2);
        }
        windows[count] = window;
        slots[count] = slot;
        count++;
    }

    boolean has(long window) {
        return find(window) >= 0;
    }

    /** Uses the slot of a window; {@link #NONE} if there is none. */
    int take(long window) {
        int at = find(window);
        return at < 0 ? NONE : remove(at);
    }

    boolean isEmpty() {
        return count == 0;
    }

    void giveBackAll(GivenBack to) throws IOException {
        giveBackBelow(Long.MAX_VALUE, to);
    }

    /** Gives back what is for windows before this one: the writer is past them. */
    void giveBackBelow(long window, GivenBack to) throws IOException {
        for (int at = count - 1; at >= 0; at--) {
            if (windows[at] < window) {
                long unused = windows[at];
                to.giveBack(unused, remove(at));
            }
        }
    }

    private int find(long window) {
        for (int at = 0; at < count; at++) {
            if (windows[at] == window) {
                return at;
            }
        }
        return -1;
    }

    private int remove(int at) {
        int slot = slots[at];
        count--;
        windows[at] = windows[count];
        slots[at] = slots[count];
        return slot;
    }
}
