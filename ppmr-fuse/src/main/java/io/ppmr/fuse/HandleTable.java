package io.ppmr.fuse;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The open files of a view by handle. Finding one takes no lock and allocates nothing; any thread may call.
 *
 * @param <T> what is open
 */
public final class HandleTable<T> {
    private volatile Object[] entries = new Object[16];
    private final ArrayDeque<Integer> free = new ArrayDeque<>();
    private int used;

    /** Enters an open file and gives its handle. */
    public synchronized long add(T open) {
        Integer index = free.poll();
        if (index == null) {
            index = used++;
        }
        Object[] next = Arrays.copyOf(entries, Math.max(entries.length, Integer.highestOneBit(used) * 2));
        next[index] = open;
        entries = next;
        return index;
    }

    /** The open file of a handle, or null. */
    @SuppressWarnings("unchecked")
    public T get(long handle) {
        Object[] current = entries;
        return handle >= 0 && handle < current.length ? (T) current[(int) handle] : null;
    }

    /** The open file of a handle; EBADF if there is none. */
    public T require(long handle) throws ErrnoException {
        T open = get(handle);
        if (open == null) {
            throw new ErrnoException(Errno.EBADF, "handle " + handle + " is not open");
        }
        return open;
    }

    /** Takes a handle out and gives what was open, or null if nothing was. */
    public synchronized T remove(long handle) {
        T open = get(handle);
        if (open != null) {
            Object[] next = entries.clone();
            next[(int) handle] = null;
            entries = next;
            free.push((int) handle);
        }
        return open;
    }

    /** Everything that is open now. */
    @SuppressWarnings("unchecked")
    public List<T> all() {
        List<T> open = new ArrayList<>();
        for (Object entry : entries) {
            if (entry != null) {
                open.add((T) entry);
            }
        }
        return open;
    }
}
