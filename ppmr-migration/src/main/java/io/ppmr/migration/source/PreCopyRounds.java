package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.PreCopy;
import io.ppmr.checkpoint.PreCopy.Round;
import io.ppmr.linux.LogContext;
import io.ppmr.linux.UninterruptedWait;
import io.ppmr.migration.source.PreCopyRule.Rounds;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The rounds in which the memory of a job's running ranks is copied. All ranks make each round at the same time, and
 * end together. Owned by the migration's worker. The tools are started on a thread of their own.
 */
final class PreCopyRounds {
    private static final Logger LOG = LoggerFactory.getLogger(PreCopyRounds.class);
    private static final double NS_A_SECOND = 1e9;
    private static final long MIB = 1 << 20;

    /**
     * The state of the copy.
     *
     * @param isEnded whether the job is stopped next
     * @param words the state in words, empty before the first round ended
     */
    record PreCopyState(boolean isEnded, String words) {}

    /** Starts the copy of one rank, which may take as long as the start of any command. */
    @FunctionalInterface
    interface PreCopyStart {
        PreCopy start() throws CheckpointException, IOException;
    }

    private static final long START_LIMIT_S = 20;
    /** Time after the deadline for the last round to end. */
    private static final Duration ROUND_LIMIT = Duration.ofMinutes(5);

    private final Map<Integer, PreCopyStart> starts;
    private final Map<Integer, PreCopy> copies = new ConcurrentHashMap<>();
    private final CompletableFuture<Void> started = new CompletableFuture<>();
    private volatile boolean isEnded;
    private boolean isOrdered;
    private final long imageBytes;
    private final PreCopyRule rule;
    private final LongSupplier sentBytes;
    private final SourceMetrics metrics;
    private final Map<Integer, Round> results = new HashMap<>();
    private final List<Rounds> history = new ArrayList<>();
    private final long startNs = System.nanoTime();
    private long roundNs = startNs;
    private long sentBeforeBytes;
    private Optional<String> cut = Optional.empty();
    private String state = "";

    /**
     * @param starts starts the copy of each rank
     * @param imageBytes the ranks' streamable memory
     * @param sentBytes returns the bytes of the image that were sent so far
     */
    PreCopyRounds(
            Map<Integer, PreCopyStart> starts,
            long imageBytes,
            PreCopyRule rule,
            LongSupplier sentBytes,
            SourceMetrics metrics) {
        this.starts = Map.copyOf(starts);
        this.imageBytes = imageBytes;
        this.rule = rule;
        this.sentBytes = sentBytes;
        this.metrics = metrics;
    }

    /** Returns the copy of a rank. */
    Optional<PreCopy> of(int rank) {
        return Optional.ofNullable(copies.get(rank));
    }

    /** Begins to start the tools. */
    void begin() {
        LogContext.thread(this::startAll, "ppmr-precopy-start").start();
    }

    private void startAll() {
        try {
            for (Map.Entry<Integer, PreCopyStart> start : starts.entrySet()) {
                if (!isEnded) {
                    copies.put(start.getKey(), start.getValue().start());
                }
            }
            started.complete(null);
        } catch (CheckpointException | IOException | RuntimeException e) {
            started.completeExceptionally(e);
        }
    }

    /** Orders another round. The round before it must be finished. */
    void again() {
        order();
    }

    private void order() {
        roundNs = System.nanoTime();
        sentBeforeBytes = sentBytes.getAsLong();
        copies.values().forEach(PreCopy::order);
    }

    /**
     * Handles rounds that ended, and orders the next ones. Does not block.
     *
     * @throws CheckpointException if a tool ended. Its rank runs as before.
     */
    PreCopyState check() throws CheckpointException {
        if (!isStarted()) {
            return new PreCopyState(false, state);
        }
        if (!isOrdered) {
            isOrdered = true;
            order();
        }
        for (Map.Entry<Integer, PreCopy> copy : copies.entrySet()) {
            if (!results.containsKey(copy.getKey())) {
                copy.getValue().result().ifPresent(round -> results.put(copy.getKey(), round));
            }
        }
        long nowNs = System.nanoTime();
        if (results.size() < copies.size()) {
            if (nowNs - startNs > rule.deadline().plus(ROUND_LIMIT).toNanos()) {
                throw new CheckpointException(
                        "the memory of " + (copies.size() - results.size()) + " running ranks was not sent within "
                                + rule.deadline().plus(ROUND_LIMIT));
            }
            cutIfDue(nowNs);
            return new PreCopyState(false, state);
        }
        Rounds round = together(nowNs - roundNs);
        history.add(round);
        metrics.precopied(round);
        LOG.info(
                "round {}: {} MiB sent in {} s, {} MiB written since, threads stopped for {} ms{}",
                history.size(),
                round.sentBytes() / MIB,
                seconds(round.durationNs()),
                round.writtenBytes() / MIB,
                round.stoppedNs() / 1_000_000,
                round.why().isEmpty() ? "" : "; " + round.why());
        Optional<String> end = cut.or(() -> rule.whyEnd(soFar(0, 0), nowNs));
        results.clear();
        state = summary(end.orElse(writes(round)), nowNs - startNs);
        if (end.isEmpty()) {
            order();
        }
        return new PreCopyState(end.isPresent(), state);
    }

    /** Has the current rounds end at once if the job must be stopped now. */
    private void cutIfDue(long nowNs) throws CheckpointException {
        if (cut.isEmpty()) {
            cut = rule.whyCut(soFar(sentBytes.getAsLong() - sentBeforeBytes, nowNs - roundNs), nowNs);
            if (cut.isPresent()) {
                for (PreCopy copy : copies.values()) {
                    copy.cut();
                }
            }
        }
    }

    private PreCopyRule.History soFar(long currentBytes, long currentNs) {
        return new PreCopyRule.History(history, startNs, imageBytes, currentBytes, currentNs);
    }

    private boolean isStarted() throws CheckpointException {
        if (!started.isDone()) {
            return false;
        }
        try {
            started.join();
            return true;
        } catch (CompletionException e) {
            throw new CheckpointException(String.valueOf(e.getCause().getMessage()), e.getCause());
        }
    }

    private Rounds together(long durationNs) {
        long sentPages = 0;
        long writtenPages = 0;
        long stoppedUs = 0;
        int processes = 0;
        int untracked = 0;
        boolean made = true;
        String why = "";
        for (Round round : results.values()) {
            sentPages += round.sentPages();
            writtenPages += round.writtenPages();
            stoppedUs = Math.max(stoppedUs, round.stoppedUs());
            processes += round.processes();
            untracked += round.untracked();
            made &= round.number() > 0;
            why = round.why().isEmpty() ? why : round.why();
        }
        return new Rounds(
                sentPages * PreCopy.PAGE_BYTES,
                writtenPages * PreCopy.PAGE_BYTES,
                durationNs,
                stoppedUs * 1000,
                made && untracked < processes,
                why);
    }

    private static String writes(Rounds round) {
        double bytesASecond = round.writtenBytes() * NS_A_SECOND / Math.max(1, round.durationNs());
        return String.format(Locale.ROOT, "%.0f MiB/s are written", bytesASecond / MIB);
    }

    private String summary(String end, long durationNs) {
        long allBytes = history.stream().mapToLong(Rounds::sentBytes).sum();
        return history.size() + (history.size() == 1 ? " round, " : " rounds, ") + allBytes / MIB + " MiB in "
                + seconds(durationNs) + " s; " + end;
    }

    private static String seconds(long ns) {
        return String.format(Locale.ROOT, "%.2f", ns / NS_A_SECOND);
    }

    /** Ends the tools that no checkpoint took over. Their ranks run as before. */
    void end() {
        isEnded = true;
        // A tool that is being started now is ended, too.
        boolean known = UninterruptedWait.of(() -> {
            try {
                started.get(START_LIMIT_S, TimeUnit.SECONDS);
            } catch (ExecutionException e) {
                LOG.debug("the tools were not all started", e);
            } catch (TimeoutException e) {
                return false;
            }
            return true;
        });
        if (!known) {
            LOG.error("a tool that copies memory did not start within {} s. Remedy: look for it by ps", START_LIMIT_S);
        }
        for (Map.Entry<Integer, PreCopy> copy : copies.entrySet()) {
            try {
                copy.getValue().close();
            } catch (CheckpointException e) {
                LOG.error("rank {}: {}", copy.getKey(), e.getMessage());
            }
        }
    }
}
