package io.ppmr.checkpoint;

import io.ppmr.linux.LogContext;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.linux.UninterruptedWait;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds the processes that have the marks of restarts in their environment. It searches only marks that are requested
 * now, and only in processes of root, of this service's user and of the restart's user. Other users' environments are
 * not read. Simultaneous requests share a scan, as in {@link SharedScan}.
 *
 * <p>A user decides how many processes there are, how large their environments are, and whether they can be read at
 * all. Therefore environments are read in pieces and up to a limit. Each user's environments are read by one thread,
 * which is abandoned after five seconds. A process whose environment was not read by then is not found. Neither is one
 * that has changed its environment. For any thread.
 */
final class MarkSearch {
    private static final Logger LOG = LoggerFactory.getLogger(MarkSearch.class);

    /** Three quarters of 8 MiB, the kernel's limit of arguments and environment together. */
    private static final int MAX_ENVIRONMENT_BYTES = 6 << 20;

    private static final int PIECE_BYTES = 16 << 10;

    /** Time limit for the environments of one user's processes in one scan. */
    private static final Duration LIMIT = Duration.ofSeconds(5);

    private static final String PROC = "/proc";
    private static final int ROOT = 0;

    private final ProcessTable table;
    private final int ownUid = JobUser.ofService().uid();
    private final Map<RestartMark, Integer> wanted = new ConcurrentHashMap<>();
    private final SharedScan<Map<RestartMark, List<ProcessIdentity>>> sharedScan = new SharedScan<>(this::scan);

    MarkSearch(ProcessTable table) {
        this.table = table;
    }

    /** Returns the living processes that have a mark, from a scan that begins after this call. */
    List<ProcessIdentity> find(RestartMark mark) {
        wanted.merge(mark, 1, Integer::sum);
        try {
            return sharedScan.scan().getOrDefault(mark, List.of());
        } finally {
            wanted.computeIfPresent(mark, (same, askers) -> askers == 1 ? null : askers - 1);
        }
    }

    private Map<RestartMark, List<ProcessIdentity>> scan() {
        Map<String, RestartMark> marks = new HashMap<>();
        Map<Integer, Search> searches = new HashMap<>();
        searches.put(ROOT, new Search(ROOT, marks));
        for (RestartMark mark : wanted.keySet()) {
            marks.put(mark.token(), mark);
            searches.computeIfAbsent(mark.uid(), uid -> new Search(uid, marks));
        }
        for (int pid : ProcessTable.numbers(PROC)) {
            Optional<ProcStat> process = ProcessTable.known(PROC + "/" + pid + "/stat");
            Search search = searches.get(owner(pid));
            if (process.isPresent() && search != null) {
                search.processes.add(process.get());
            }
        }
        Map<RestartMark, List<ProcessIdentity>> found = new HashMap<>();
        for (Search search : searches.values()) {
            for (Found one : search.found()) {
                // Its PID may belong to another process by now.
                table.find(one.process().pid())
                        .filter(now -> now.startTimeTicks() == one.process().startTimeTicks())
                        .ifPresent(now -> found.computeIfAbsent(one.mark(), any -> new ArrayList<>())
                                .add(now));
            }
        }
        return found;
    }

    /**
     * Returns the user of a process, from its real, effective, saved and filesystem user. Root also stands for this
     * service's user. Otherwise it is the only other user among them, or -1 if there are two others or the process is
     * gone.
     */
    private int owner(int pid) {
        int owner = ROOT;
        try {
            Optional<String> uids = ProcStat.field(Path.of(PROC, Integer.toString(pid), "status"), "Uid");
            for (String word : uids.orElse("-1").split("\\s+", -1)) {
                int uid = word.matches("\\d{1,10}") ? (int) Long.parseLong(word) : -1;
                boolean another = uid != ROOT && uid != ownUid && uid != owner;
                if (uid == -1 || (another && owner != ROOT)) {
                    return -1;
                }
                owner = another ? uid : owner;
            }
            return owner;
        } catch (IOException e) {
            LOG.debug("process {} is gone: {}", pid, e.toString());
            return -1;
        }
    }

    /** A process that has a mark. */
    private record Found(ProcStat process, RestartMark mark) {}

    /** The search of one user's processes. The scanning thread fills it, and its own thread does the work. */
    private static final class Search {
        private final int uid;
        private final Map<String, RestartMark> marks;
        private final List<ProcStat> processes = new ArrayList<>();
        /** The results so far. Guarded by this list, because an abandoned search may still add to it. */
        private final List<Found> found = new ArrayList<>();

        private final CountDownLatch done = new CountDownLatch(1);
        private volatile boolean over;

        Search(int uid, Map<String, RestartMark> marks) {
            this.uid = uid;
            this.marks = marks;
        }

        /** Returns the results within the limit. */
        List<Found> found() {
            LogContext.thread(this::run, "ppmr-marks").start();
            if (!UninterruptedWait.of(() -> done.await(LIMIT.toNanos(), TimeUnit.NANOSECONDS))) {
                LOG.warn(
                        "the environments of the {} processes of user {} were not all read within {} s: restarted"
                                + " processes among them may remain. Remedy: end that user's processes",
                        processes.size(),
                        Integer.toUnsignedString(uid),
                        LIMIT.toSeconds());
            }
            over = true;
            synchronized (found) {
                return List.copyOf(found);
            }
        }

        private void run() {
            for (ProcStat process : processes) {
                if (over) {
                    return;
                }
                for (RestartMark mark : marksOf(process)) {
                    synchronized (found) {
                        found.add(new Found(process, mark));
                    }
                }
            }
            done.countDown();
        }

        /** Finds the marks in a process's environment, or none if it ended or cannot be read. */
        private Set<RestartMark> marksOf(ProcStat process) {
            Set<RestartMark> there = new HashSet<>();
            try (InputStream environment = Files.newInputStream(Path.of(PROC, process.pid() + "", "environ"))) {
                tokens(environment, token -> {
                    RestartMark mark = marks.get(token);
                    if (mark != null && (uid == ROOT || uid == mark.uid())) {
                        there.add(mark);
                    }
                });
            } catch (IOException e) {
                LOG.debug("the environment of PID {} is not read: {}", process.pid(), e.toString());
            }
            return there;
        }
    }

    /**
     * Finds possible tokens of marks in an environment, whose variables end with a zero byte each. A process can turn
     * any part of its memory into its environment. Therefore this reads at most as much as execve(2) accepts, and keeps
     * none of it.
     *
     * @param found receives each value of the variable that has the length of a token
     */
    static void tokens(InputStream environment, Consumer<String> found) throws IOException {
        byte[] variable = RestartMark.VARIABLE.getBytes(StandardCharsets.US_ASCII);
        byte[] token = new byte[RestartMark.TOKEN_CHARS];
        byte[] piece = new byte[PIECE_BYTES];
        // Number of characters of the variable that were read, its name first; -1 for another variable.
        int at = 0;
        long left = MAX_ENVIRONMENT_BYTES;
        for (int read = environment.read(piece); read > 0 && left > 0; read = environment.read(piece)) {
            for (int i = 0; i < read && left > 0; i++, left--) {
                byte one = piece[i];
                if (one == 0) {
                    if (at == variable.length + token.length) {
                        found.accept(new String(token, StandardCharsets.ISO_8859_1));
                    }
                    at = 0;
                } else if (at >= variable.length && at < variable.length + token.length) {
                    token[at - variable.length] = one;
                    at++;
                } else {
                    at = at >= 0 && at < variable.length && one == variable[at] ? at + 1 : -1;
                }
            }
        }
        if (at == variable.length + token.length) {
            found.accept(new String(token, StandardCharsets.ISO_8859_1));
        }
    }
}
