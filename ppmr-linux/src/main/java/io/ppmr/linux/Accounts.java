package io.ppmr.linux;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.Arrays;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import jnr.ffi.Pointer;

/**
 * Looks up users and groups through the C library, which also queries the site's directory service; see
 * nsswitch.conf(5). If that service does not respond, only one internal thread blocks: a caller waits ten seconds at
 * most. Any thread.
 */
public final class Accounts {
    private static final String NUMBER = "\\d{1,9}|[1-3]\\d{9}|4[01]\\d{8}";
    private static final long LIMIT_S = 10;
    private static final long IDLE_S = 1;
    /** The C library's modules for directory services need a larger stack than the JVM's default. */
    private static final long STACK_BYTES = 8 << 20;

    /** The offset of the number in {@code struct passwd} and in {@code struct group}, which follows two pointers. */
    private static final int ID_OFFSET = 16;

    private static final int GROUP_OF_USER_OFFSET = 20;
    private static final int USUAL_GROUPS = 64;
    private static final long KEPT_NS = TimeUnit.SECONDS.toNanos(1);

    /** One thread, since the C library returns its results in static memory. */
    private static final ThreadPoolExecutor QUERIES =
            new ThreadPoolExecutor(1, 1, IDLE_S, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), Accounts::thread);

    static {
        QUERIES.allowCoreThreadTimeOut(true);
    }

    /** A user's number and that of its primary group. */
    public record User(int uid, int gid) {}

    private record Granted(int uid, int gid, Optional<Set<Integer>> groups, long atNs) {}

    private static volatile Granted granted = new Granted(-1, -1, Optional.empty(), System.nanoTime());

    private Accounts() {}

    /** Returns the user with this name, if there is one. Throws if the lookup takes more than ten seconds. */
    public static Optional<User> user(String name) throws IOException {
        return query("user " + name, () -> userAt(LibC.CALLS.getpwnam(name)));
    }

    /**
     * Returns the number of a user, given as a name or as a number in text form.
     *
     * @throws IOException if no user has that name, or the lookup takes more than ten seconds
     */
    public static int uidOf(String user) throws IOException {
        return user.matches(NUMBER)
                ? Integer.parseUnsignedInt(user)
                : user(user)
                        .orElseThrow(() -> new IOException(
                                "user " + user + " is not in this node's user database: add the user there"))
                        .uid();
    }

    /** Returns the user with this number, if there is one. Throws if the lookup takes more than ten seconds. */
    public static Optional<User> user(int uid) throws IOException {
        return query("user " + uid, () -> userAt(LibC.CALLS.getpwuid(uid)));
    }

    /** Returns the number of a group, if there is one. Throws if the lookup takes more than ten seconds. */
    public static OptionalInt group(String name) throws IOException {
        return query("group " + name, () -> {
            Pointer group = LibC.CALLS.getgrnam(name);
            return group == null ? OptionalInt.empty() : OptionalInt.of(group.getInt(ID_OFFSET));
        });
    }

    /** Returns all groups of a user; empty for an unknown user. Throws if the lookup takes more than ten seconds. */
    public static Set<Integer> groupsOf(String name) throws IOException {
        return query("the groups of user " + name, () -> {
            Optional<User> user = userAt(LibC.CALLS.getpwnam(name));
            return user.isEmpty() ? Set.of() : groupsOf(name, user.get().gid(), USUAL_GROUPS);
        });
    }

    /**
     * Returns all groups that the database grants a user; empty for an unknown user. Throws if the lookup takes more
     * than ten seconds.
     */
    public static Optional<Set<Integer>> groupsOf(int uid) throws IOException {
        return query("the groups of user " + uid, () -> {
            Pointer entry = LibC.CALLS.getpwuid(uid);
            // Copied at once, because the next call may overwrite the entry.
            return Optional.ofNullable(entry)
                    .map(found -> groupsOf(
                            found.getPointer(0).getString(0), found.getInt(GROUP_OF_USER_OFFSET), USUAL_GROUPS));
        });
    }

    /**
     * Returns the groups of a user with {@code gid} in place of the primary group in the database, as initgroups(3)
     * does. The result is cached for one second, because a job of a thousand ranks sends as many queries.
     */
    public static Optional<Set<Integer>> groupsOf(int uid, int gid) throws IOException {
        Granted last = granted;
        if (last.uid() != uid || last.gid() != gid || System.nanoTime() - last.atNs() > KEPT_NS) {
            last = query("the groups of user " + uid, () -> {
                long nowNs = System.nanoTime();
                Optional<Pointer> entry = Optional.ofNullable(LibC.CALLS.getpwuid(uid));
                return new Granted(
                        uid,
                        gid,
                        entry.map(found -> groupsOf(found.getPointer(0).getString(0), gid, USUAL_GROUPS)),
                        nowNs);
            });
            granted = last;
        }
        return last.groups();
    }

    private static Set<Integer> groupsOf(String name, int gid, int most) {
        int[] groups = new int[most];
        int[] count = {most};
        if (LibC.CALLS.getgrouplist(name, gid, groups, count) < 0) {
            return groupsOf(name, gid, Math.max(count[0], 2 * most));
        }
        return Arrays.stream(groups, 0, count[0]).boxed().collect(Collectors.toUnmodifiableSet());
    }

    private static Optional<User> userAt(Pointer entry) {
        return Optional.ofNullable(entry)
                .map(found -> new User(found.getInt(ID_OFFSET), found.getInt(GROUP_OF_USER_OFFSET)));
    }

    static <T> T query(String what, Callable<T> question) throws IOException {
        Future<T> answer = QUERIES.submit(question);
        try {
            return answer.get(LIMIT_S, TimeUnit.SECONDS);
        } catch (TimeoutException e) {
            throw new IOException("the user database has not answered within " + LIMIT_S + " s about " + what, e);
        } catch (ExecutionException e) {
            throw new IOException(what + " cannot be looked up: " + e.getCause(), e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw (IOException) new InterruptedIOException(what + " was not looked up: interrupted").initCause(e);
        } finally {
            answer.cancel(false);
        }
    }

    private static Thread thread(Runnable task) {
        Thread thread = new Thread(null, task, "ppmr-accounts", STACK_BYTES);
        thread.setDaemon(true);
        return thread;
    }
}
