package io.ppmr.fuse;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The open files of a view by handle. A lookup takes no lock and allocates nothing; any thread may call. Each user
 * except root has a share of the handles, and all these users together leave some free.
 *
 * @param <T> the open object
 */
public final class HandleTable<T> {
    /** Maximum for one user who is not root. */
    static final int OF_A_USER = 16_384;
    /** Maximum for all these users. */
    static final int OF_USERS = 3 * OF_A_USER;

    private static final int ROOT = 0;

    /**
     * Written while holding the lock. A second write of the reference publishes the contents to readers without the
     * lock.
     */
    private volatile Object[] entries = new Object[16];

    private int[] owners = new int[16];
    private final ArrayDeque<Integer> free = new ArrayDeque<>();
    private final Map<Integer, Integer> openByUser = new HashMap<>();
    private int users;
    private int used;

    /**
     * Adds an open file and returns its handle. Throws ENFILE if the user's share is exhausted.
     *
     * @param uid the user that opened it
     */
    public synchronized long add(T open, int uid) throws ErrnoException {
        if (uid != ROOT) {
            int own = openByUser.getOrDefault(uid, 0);
            if (own >= OF_A_USER || users >= OF_USERS) {
                throw new ErrnoException(
                        Errno.ENFILE,
                        "user " + Integer.toUnsignedString(uid) + " has " + own + " files open in a mount: at most "
                                + OF_A_USER + " of a user, " + OF_USERS + " of all users except root");
            }
            openByUser.put(uid, own + 1);
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

    /** Returns the open file of a handle, or null. */
    @SuppressWarnings("unchecked")
    public T get(long handle) {
        Object[] current = entries;
        return handle >= 0 && handle < current.length ? (T) current[(int) handle] : null;
    }

    /** Returns the open file of a handle. Throws EBADF if there is none. */
    public T require(long handle) throws ErrnoException {
        T open = get(handle);
        if (open == null) {
            throw new ErrnoException(Errno.EBADF, "handle " + handle + " is not open");
        }
        return open;
    }

    /** Removes a handle and returns its open file, or null if there was none. */
    public synchronized T remove(long handle) {
        T open = get(handle);
        if (open != null) {
            Object[] now = entries;
            now[(int) handle] = null;
            entries = now;
            free.push((int) handle);
            int uid = owners[(int) handle];
            if (uid != ROOT) {
                openByUser.computeIfPresent(uid, (user, count) -> count == 1 ? null : count - 1);
                users--;
            }
        }
        return open;
    }

    /** Returns all open files. */
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
