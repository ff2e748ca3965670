package io.ppmr.cluster.job;

import io.ppmr.cluster.job.JobQuestion.Answer;
import io.ppmr.cluster.job.JobQuestion.AskCopy;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.stream.Collectors;

/**
 * The copies of sets to their second places, as the active controller coordinates them. Nodes with images query what to
 * do until the set is safe, so a new controller knows all soon. The controller's thread owns it.
 */
final class SetCopies {
    /** A node that copies repeats its query within this time, or its turn is over. */
    private static final Duration TURN = Duration.ofSeconds(30);
    /** A copy without progress gives its place to a newer set after this time. */
    private static final Duration STUCK = Duration.ofMinutes(10);

    /** A set that is not recorded as safe by then is checked again. */
    private static final Duration CHECK_AGAIN = Duration.ofSeconds(20);

    private static final long LEAST_WAIT_S = 2;
    private static final long MOST_WAIT_S = 60;
    /** The questions of nodes that wait, in a second. */
    private static final long QUESTIONS = 20;

    /**
     * The limits of copies.
     *
     * @param atOnce how many nodes copy at a time
     * @param rateBytes the bytes that a node copies in a second
     */
    record CopyLimits(int atOnce, long rateBytes) {}

    /** A set whose copy is under way. */
    private static final class Copy {
        private final String set;
        private final Map<String, String> digests = new TreeMap<>();
        private final Set<String> reported = new HashSet<>();
        /** The nodes that copy once more, because others do not see their images. */
        private final Set<String> again = new HashSet<>();

        private long progressNs;
        private long nextCheckNs;

        private Copy(String set, long nowNs) {
            this.set = set;
            this.progressNs = nowNs;
            this.nextCheckNs = nowNs;
        }
    }

    private final CopyLimits limits;
    /** The end of each copying node's turn. */
    private final Map<String, Long> turns = new HashMap<>();

    private final Map<String, Long> waiting = new HashMap<>();
    private final Map<String, Copy> copies = new HashMap<>();

    SetCopies(CopyLimits limits) {
        this.limits = limits;
    }

    /** Forgets all, since this controller is no longer the active one. */
    void end() {
        turns.clear();
        waiting.clear();
        copies.clear();
    }

    /**
     * Answers a node.
     *
     * @param key the job's record
     * @param whole receives the set if all nodes have reported their images of it, and again as long as it is not safe
     */
    Answer answer(String key, AskCopy ask, JobState state, long nowNs, Consumer<JobSet> whole) {
        Optional<JobSet> copying = SetRules.copying(state.sets());
        if (copying.isEmpty()) {
            copies.remove(key);
            leave(ask.host());
            return Answer.OK;
        }
        JobSet set = copying.get();
        Copy copy = copies.computeIfAbsent(key, unused -> new Copy(set.id(), nowNs));
        if (!copy.set.equals(set.id())) {
            copy = new Copy(set.id(), nowNs);
            copies.put(key, copy);
        }
        boolean isDone = set.id().equals(ask.set()) && ask.digests() != null && !copy.again.contains(ask.host());
        if (isDone) {
            leave(ask.host());
            copy.progressNs = copy.digests.keySet().containsAll(ask.digests().keySet()) ? copy.progressNs : nowNs;
            copy.digests.putAll(ask.digests());
            copy.reported.add(ask.host());
            if (nowNs - copy.nextCheckNs >= 0 && set.isOf(copy.digests)) {
                copy.nextCheckNs = nowNs + CHECK_AGAIN.toNanos();
                whole.accept(set);
            }
            return Answer.numbered(waitSeconds());
        }
        return mayCopy(ask.host(), nowNs) ? grant(copy, set, ask.host(), nowNs) : Answer.numbered(waitSeconds());
    }

    private Answer grant(Copy copy, JobSet set, String host, long nowNs) {
        copy.progressNs = nowNs;
        copy.again.remove(host);
        return Answer.ofCopy(set.id(), limits.rateBytes(), TURN.toSeconds() / 3);
    }

    private boolean mayCopy(String host, long nowNs) {
        turns.values().removeIf(endNs -> nowNs - endNs > 0);
        waiting.values()
                .removeIf(sinceNs ->
                        nowNs - sinceNs > 2 * Duration.ofSeconds(MOST_WAIT_S).toNanos());
        boolean mayCopy = turns.containsKey(host) || turns.size() < limits.atOnce();
        if (mayCopy) {
            waiting.remove(host);
            turns.put(host, nowNs + TURN.toNanos());
        } else {
            waiting.put(host, nowNs);
        }
        return mayCopy;
    }

    private void leave(String host) {
        turns.remove(host);
        waiting.remove(host);
    }

    private long waitSeconds() {
        return Math.max(LEAST_WAIT_S, Math.min(MOST_WAIT_S, waiting.size() / QUESTIONS));
    }

    /** Has all nodes look at their copies of a set once more: no node sees them all. */
    void repeat(String key) {
        Optional.ofNullable(copies.get(key)).ifPresent(copy -> {
            copy.again.addAll(copy.reported);
            copy.reported.clear();
            copy.digests.clear();
        });
    }

    /** Returns the copies that do not advance, by their jobs' records. */
    Map<String, String> stuck(Set<String> keys, long nowNs) {
        copies.keySet().retainAll(keys);
        return copies.entrySet().stream()
                .filter(copy -> nowNs - copy.getValue().progressNs > STUCK.toNanos())
                .collect(Collectors.toMap(Map.Entry::getKey, copy -> copy.getValue().set));
    }
}
