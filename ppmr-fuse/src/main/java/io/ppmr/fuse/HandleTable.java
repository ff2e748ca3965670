package io.ppmr.fuse;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The open files of a view by handle. Finding one takes no lock and allocates nothing; any thread may call. A user who
 * is not root has a share of them, and all such users together leave some free.
 *
 * @param <T> what is open
 */
public final class HandleTable<T> {
    /** Of one user who is not root. */
    static final int OF_A_USER = 16_384;
    /** Of all such users. */
    static final int OF_USERS = 3 * OF_A_USER;

    private static final int ROOT = 0;

    /** Written under the lock, and then once more as a whole, which shows what is in it to those who take none. */
    private volatile Object[] entries = new Object[16];

    private int[] owners = new int[16];
    private final ArrayDeque<Integer> free = new ArrayDeque<>();
    private final Map<Integer, Integer> held = new HashMap<>();
    private int users;
    private int used;

    /**
     * Enters an open file and gives its handle; ENFILE where the user's share is used up.
     *
     * @param uid who has opened it
     */
    public synchronized long add(T open, int uid) throws ErrnoException {
        if (uid != ROOT) {
            int own = held.getOrDefault(uid, 0);
            if (own >= OF_A_USER || users >= OF_USERS) {
                throw new ErrnoException(
                        Errno.ENFILE,
                        "user " + Integer.toUnsignedString(uid) + " has " + own + " files open in a mount: at most "
                                + OF_A_USER + " of a user, " + OF_USERS + " of all users but root");
            }
            held.put(uid, own + 1);
            users++;
        }
        Integer index = free.poll();
        if (index == null) {
            index = used++;
        }
        Object[] now = entries;
        if (index == now.length) {
            now = Arrays.copyOf(now, 2 * now.length);
            owners = Arrays.copyOf(owners, now.length);
        }
        now[index] = open;
        owners[index] = uid;
        entries = now;
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
            Object[] now = entries;
            now[(int) handle] = null;
            entries = now;
            free.push((int) handle);
            int uid = owners[(int) handle];
            if (uid != ROOT) {
                held.computeIfPresent(uid, (user, count) -> count == 1 ? null : count - 1);
                users--;
            }
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
