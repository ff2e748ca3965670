package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.PreCopy;
import io.ppmr.checkpoint.PreCopy.Round;
import io.ppmr.migration.source.PreCopyRule.Rounds;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The rounds in which the memory of a job's running ranks is copied. All ranks make each round at the same time, and
 * end together. Owned by the migration's worker.
 */
final class PreCopyRounds {
    private static final Logger LOG = LoggerFactory.getLogger(PreCopyRounds.class);
    private static final double NS_A_SECOND = 1e9;
    private static final long MIB = 1 << 20;

    private final Map<Integer, PreCopy> copies;
    private final long imageBytes;
    private final PreCopyRule rule = PreCopyRule.DEFAULT;
    private final Map<Integer, Round> results = new HashMap<>();
    private final List<Rounds> history = new ArrayList<>();
    private final long startNs = System.nanoTime();
    private long roundNs = startNs;

    /**
     * @param copies the copies that have begun, by rank
     *
     * @param imageBytes the ranks' streamable memory
     */
    PreCopyRounds(Map<Integer, PreCopy> copies, long imageBytes) {
        this.copies = Map.copyOf(copies);
        this.imageBytes = imageBytes;
    }

    /** Returns the copy of a rank. */
    Optional<PreCopy> of(int rank) {
        return Optional.ofNullable(copies.get(rank));
    }

    /** Orders the first round. */
    void begin() throws CheckpointException {
        roundNs = System.nanoTime();
        for (PreCopy copy : copies.values()) {
            copy.order();
        }
    }

    /**
     * Handles rounds that ended, and orders the next ones. Returns how the copy ended, or empty as long as it goes on.
     *
     * @throws CheckpointException if a tool ended. Its rank runs as before.
     */
    Optional<String> check() throws CheckpointException {
        for (Map.Entry<Integer, PreCopy> copy : copies.entrySet()) {
            if (!results.containsKey(copy.getKey())) {
                copy.getValue().result().ifPresent(round -> results.put(copy.getKey(), round));
            }
        }
        if (results.size() < copies.size()) {
            return Optional.empty();
        }
        long nowNs = System.nanoTime();
        Rounds round = together(nowNs - roundNs);
        history.add(round);
        LOG.info(
                "round {}: {} MiB sent in {} s, {} MiB written since, threads stopped for {} ms{}",
                history.size(),
                round.sentBytes() / MIB,
                seconds(round.durationNs()),
                round.writtenBytes() / MIB,
                round.stoppedNs() / 1_000_000,
                round.why().isEmpty() ? "" : "; " + round.why());
        Optional<String> end = rule.whyEnd(history, nowNs - startNs, imageBytes);
        results.clear();
        if (end.isPresent()) {
            return Optional.of(summary(end.get(), nowNs - startNs));
        }
        begin();
        return Optional.empty();
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

    private String summary(String end, long durationNs) {
        long sentBytes = history.stream().mapToLong(Rounds::sentBytes).sum();
        return history.size() + (history.size() == 1 ? " round, " : " rounds, ") + sentBytes / MIB + " MiB in "
                + seconds(durationNs) + " s; " + end;
    }

    private static String seconds(long ns) {
        return String.format(Locale.ROOT, "%.2f", ns / NS_A_SECOND);
    }

    /** Ends the tools that no checkpoint took over. Their ranks run as before. */
    void end() {
        for (Map.Entry<Integer, PreCopy> copy : copies.entrySet()) {
            try {
                copy.getValue().close();
            } catch (CheckpointException e) {
                LOG.error("rank {}: {}", copy.getKey(), e.getMessage());
            }
        }
    }
}
