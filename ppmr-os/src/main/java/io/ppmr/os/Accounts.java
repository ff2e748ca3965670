package io.ppmr.os;

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
 * Users and groups by way of the C library, which also asks the site's directory service; nsswitch.conf(5). A service
 * that does not answer holds up one thread of ours, never a caller: each waits ten seconds at most. Any thread.
 */
public final class Accounts {
    private static final String NUMBER = "\\d{1,9}|[1-3]\\d{9}|4[01]\\d{8}";
    private static final long LIMIT_S = 10;
    private static final long IDLE_S = 1;
    /** The C library's modules for directory services are not written for the JVM's small stacks. */
    private static final long STACK_BYTES = 8 << 20;

    /** The offset of the number in {@code struct passwd} and in {@code struct group}: it stands after two pointers. */
    private static final int ID_OFFSET = 16;

    private static final int GROUP_OF_USER_OFFSET = 20;
    private static final int USUAL_GROUPS = 64;
    private static final long KEPT_NS = TimeUnit.SECONDS.toNanos(1);

    /** One thread, since the C library answers in static memory. */
    private static final ThreadPoolExecutor ASKING =
            new ThreadPoolExecutor(1, 1, IDLE_S, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), Accounts::thread);

    static {
        ASKING.allowCoreThreadTimeOut(true);
    }

    /** A user's number and that of its own group. */
    public record User(int uid, int gid) {}

    private record Granted(int uid, int gid, Optional<Set<Integer>> groups, long atNs) {}

    private static volatile Granted granted = new Granted(-1, -1, Optional.empty(), System.nanoTime());

    private Accounts() {}

    /** The user of a name, if there is one; throws if that cannot be told within ten seconds. */
    public static Optional<User> user(String name) throws IOException {
        return ask("user " + name, () -> userAt(LibC.CALLS.getpwnam(name)));
    }

    /**
     * The number of a user, by name or number as the kernel's word was turned into text.
     *
     * @throws IOException if there is no user of that name, or that cannot be told within ten seconds
     */
    public static int uidOf(String user) throws IOException {
        return user.matches(NUMBER)
                ? Integer.parseUnsignedInt(user)
                : user(user)
                        .orElseThrow(() -> new IOException(
                                "user " + user + " is not in this node's user database: add the user there"))
                        .uid();
    }

    /** The user of a number, if there is one; throws if that cannot be told within ten seconds. */
    public static Optional<User> user(int uid) throws IOException {
        return ask("user " + uid, () -> userAt(LibC.CALLS.getpwuid(uid)));
    }

    /** The number of a group, if there is one; throws if that cannot be told within ten seconds. */
    public static OptionalInt group(String name) throws IOException {
        return ask("group " + name, () -> {
            Pointer group = LibC.CALLS.getgrnam(name);
            return group == null ? OptionalInt.empty() : OptionalInt.of(group.getInt(ID_OFFSET));
        });
    }

    /** All groups of a user, none where it is not known; throws if that cannot be told within ten seconds. */
    public static Set<Integer> groupsOf(String name) throws IOException {
        return ask("the groups of user " + name, () -> {
            Optional<User> user = userAt(LibC.CALLS.getpwnam(name));
            return user.isEmpty() ? Set.of() : groupsOf(name, user.get().gid(), USUAL_GROUPS);
        });
    }

    /**
     * Returns all groups that the database grants a user, empty where it knows no such user; throws if that cannot be
     * told within ten seconds.
     */
    public static Optional<Set<Integer>> groupsOf(int uid) throws IOException {
        return ask("the groups of user " + uid, () -> {
            Pointer entry = LibC.CALLS.getpwuid(uid);
            // Copied at once: the next call may overwrite the entry.
            return Optional.ofNullable(entry)
                    .map(found -> groupsOf(
                            found.getPointer(0).getString(0), found.getInt(GROUP_OF_USER_OFFSET), USUAL_GROUPS));
        });
    }

    /**
     * The same with this group in place of the database's own for that user, as initgroups(3) takes it. Asked again
     * within a second it says the same: a job of a thousand ranks asks as often.
     */
    public static Optional<Set<Integer>> groupsOf(int uid, int gid) throws IOException {
        Granted last = granted;
        if (last.uid() != uid || last.gid() != gid || System.nanoTime() - last.atNs() > KEPT_NS) {
            last = ask("the groups of user " + uid, () -> {
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

    static <T> T ask(String what, Callable<T> question) throws IOException {
        Future<T> answer = ASKING.submit(question);
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
