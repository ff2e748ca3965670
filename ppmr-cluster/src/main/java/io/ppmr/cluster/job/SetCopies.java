package io.ppmr.cluster.job;

import io.ppmr.cluster.job.JobQuestion.Answer;
import io.ppmr.cluster.job.JobQuestion.AskCopy;
import io.ppmr.linux.RareLog;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The copies of sets to their second places, as the active controller coordinates them. Nodes with images query what to
 * do until the set is safe, so a new controller knows all soon. The controller's thread owns it.
 */
final class SetCopies {
    private static final Logger LOG = LoggerFactory.getLogger(SetCopies.class);
    /** A node that copies repeats its query within this time, or its turn is over. */
    private static final Duration TURN = Duration.ofSeconds(30);
    /** A copy without progress ends after this time. */
    private static final Duration STUCK = Duration.ofMinutes(10);
    /** A node that could not copy tries again after this time. */
    private static final Duration FAILED_WAIT = Duration.ofSeconds(60);
    /** A set that no node sees whole is checked again after this time, and then after longer ones. */
    private static final Duration CHECK_AGAIN = Duration.ofSeconds(20);

    private static final Duration LONGEST_CHECK_WAIT = Duration.ofMinutes(10);
    private static final long LEAST_WAIT_S = 2;
    private static final long MOST_WAIT_S = 60;
    /** The queries of nodes that wait, in a second. */
    private static final long QUERIES = 20;

    /**
     * The limits of copies.
     *
     * @param atOnce how many nodes copy at a time
     * @param rateBytes the bytes that a node copies in a second
     */
    record CopyLimits(int atOnce, long rateBytes) {}

    /** A node's turn: it copies for one job at a time, so that its rate is kept. */
    private record Turn(String key, long endNs) {}

    /** A set whose copy is under way. */
    private static final class Copy {
        private final String set;
        private final Map<String, String> digests = new TreeMap<>();
        private final Map<String, Long> copiedBytes = new HashMap<>();
        private final Map<String, Long> queriedNs = new HashMap<>();
        private final Map<String, Long> failedNs = new HashMap<>();
        private final Set<String> reported = new HashSet<>();
        /** The nodes that copy once more, because others do not see their images. */
        private final Set<String> again = new HashSet<>();

        private long progressNs;
        private boolean isChecking;
        private long nextCheckNs;
        private long checkWaitNs = CHECK_AGAIN.toNanos();

        private Copy(String set, long nowNs) {
            this.set = set;
            this.progressNs = nowNs;
            this.nextCheckNs = nowNs;
        }
    }

    private final CopyLimits limits;
    private final RareLog log = new RareLog(LOG::warn);
    private final Map<String, Turn> turns = new HashMap<>();
    private final Map<String, Copy> copies = new HashMap<>();

    SetCopies(CopyLimits limits) {
        this.limits = limits;
    }

    /** Forgets all, since this controller is no longer the active one. */
    void end() {
        turns.clear();
        copies.clear();
    }

    /**
     * Answers a node.
     *
     * @param key the job's record
     * @param whole receives the set if all nodes have reported their images of it; {@link #checked} follows
     */
    Answer answer(String key, AskCopy ask, JobState state, long nowNs, Consumer<JobSet> whole) {
        Optional<JobSet> copying = SetRules.copying(state.sets());
        if (copying.isEmpty()) {
            copies.remove(key);
            leave(key, ask.host());
            return Answer.OK;
        }
        JobSet set = copying.get();
        Copy copy = copyOf(key, set, nowNs);
        copy.queriedNs.put(ask.host(), nowNs);
        boolean isOfSet = set.id().equals(ask.set());
        if (isOfSet && ask.copiedBytes() > copy.copiedBytes.getOrDefault(ask.host(), 0L)) {
            copy.copiedBytes.put(ask.host(), ask.copiedBytes());
            copy.progressNs = nowNs;
        }
        if (isOfSet && ask.failure() != null) {
            leave(key, ask.host());
            copy.failedNs.put(ask.host(), nowNs);
            log.write(
                    "failed",
                    "job " + state.record().name() + ": node " + ask.host() + " cannot copy its images of set "
                            + set.id() + ": " + ask.failure());
            return Answer.numbered(FAILED_WAIT.toSeconds());
        }
        if (isOfSet && ask.digests() != null && !copy.again.contains(ask.host())) {
            leave(key, ask.host());
            report(copy, ask, set, nowNs, whole);
            return Answer.numbered(waitSeconds(copy, nowNs));
        }
        boolean mayTry =
                nowNs - copy.failedNs.getOrDefault(ask.host(), nowNs - FAILED_WAIT.toNanos()) >= FAILED_WAIT.toNanos();
        if (mayTry && mayCopy(key, ask.host(), nowNs)) {
            copy.again.remove(ask.host());
            return Answer.ofCopy(set.id(), limits.rateBytes(), TURN.toSeconds() / 3);
        }
        return Answer.numbered(waitSeconds(copy, nowNs));
    }

    private Copy copyOf(String key, JobSet set, long nowNs) {
        Copy copy = copies.get(key);
        if (copy == null || !copy.set.equals(set.id())) {
            copy = new Copy(set.id(), nowNs);
            copies.put(key, copy);
        }
        return copy;
    }

    private static void report(Copy copy, AskCopy ask, JobSet set, long nowNs, Consumer<JobSet> whole) {
        boolean isNew = copy.reported.add(ask.host());
        if (isNew) {
            copy.digests.putAll(ask.digests());
            copy.progressNs = nowNs;
        }
        boolean isDue = !copy.isChecking && nowNs - copy.nextCheckNs >= 0;
        if (isDue && set.isOf(copy.digests)) {
            copy.isChecking = true;
            whole.accept(set);
        } else if (isDue) {
            // The next report of another node may complete it.
            copy.nextCheckNs = isNew ? nowNs : nowNs + CHECK_AGAIN.toNanos();
        } else if (isNew) {
            copy.nextCheckNs = Math.min(copy.nextCheckNs, nowNs + copy.checkWaitNs);
        }
    }

    private boolean mayCopy(String key, String host, long nowNs) {
        turns.values().removeIf(turn -> nowNs - turn.endNs() > 0);
        Turn mine = turns.get(host);
        boolean mayCopy =
                mine == null ? turns.size() < limits.atOnce() : mine.key().equals(key);
        if (mayCopy) {
            turns.put(host, new Turn(key, nowNs + TURN.toNanos()));
        }
        return mayCopy;
    }

    private void leave(String key, String host) {
        Turn turn = turns.get(host);
        if (turn != null && turn.key().equals(key)) {
            turns.remove(host);
        }
    }

    /** Returns a time that grows with the number of nodes that repeat their queries. */
    private static long waitSeconds(Copy copy, long nowNs) {
        long longNs = TimeUnit.SECONDS.toNanos(2 * MOST_WAIT_S);
        copy.queriedNs.values().removeIf(atNs -> nowNs - atNs > longNs);
        return Math.max(LEAST_WAIT_S, Math.min(MOST_WAIT_S, copy.queriedNs.size() / QUERIES));
    }

    /**
     * Receives the end of a check. If no node sees all images, each node looks at its copies once more.
     *
     * @param isSafe whether other nodes see all images
     */
    void checked(String key, String set, boolean isSafe, long nowNs) {
        Copy copy = copies.get(key);
        if (copy == null || !copy.set.equals(set)) {
            return;
        }
        copy.isChecking = false;
        copy.nextCheckNs = nowNs + copy.checkWaitNs;
        copy.checkWaitNs = Math.min(2 * copy.checkWaitNs, LONGEST_CHECK_WAIT.toNanos());
        if (!isSafe) {
            copy.again.addAll(copy.reported);
            copy.reported.clear();
            copy.digests.clear();
        }
    }

    /** Returns the sets whose copies do not advance, by their jobs' records. */
    Map<String, String> stuck(Map<String, JobState> states, long nowNs) {
        copies.keySet().retainAll(states.keySet());
        Map<String, String> stuck = new HashMap<>();
        states.forEach((key, state) -> SetRules.copying(state.sets()).ifPresent(set -> {
            Copy copy = copyOf(key, set, nowNs);
            if (nowNs - copy.progressNs > STUCK.toNanos() && !copy.isChecking) {
                Set<String> silent = new TreeSet<>(state.places().keySet());
                silent.removeAll(copy.reported);
                LOG.error(
                        "job {}: set {} is not copied to the second place: no progress for {} s. Nodes without a whole"
                                + " copy: {}. Remedy: read their logs; all nodes need the same copies in the template"
                                + " of the pods, on a filesystem that they share",
                        state.record().name(),
                        set.id(),
                        STUCK.toSeconds(),
                        silent.isEmpty() ? "none of those that have pods now" : String.join(", ", silent));
                copy.progressNs = nowNs;
                stuck.put(key, set.id());
            }
        }));
        return stuck;
    }
}
