package io.ppmr.migration.source;

import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/**
 * Decides when the copy of a running job's memory ends, and the job is stopped. Pure.
 *
 * @param goal the pause that is short enough
 * @param deadline time after which the copy ends, however much is written
 * @param mostRounds number of rounds after which it ends
 */
record PreCopyRule(Duration goal, Duration deadline, int mostRounds) {
    static final PreCopyRule DEFAULT = new PreCopyRule(Duration.ofSeconds(1), Duration.ofMinutes(10), 30);

    /** The pause's parts that rounds do not change: a fixed one, and those of CRIU's dump and of the filling. */
    private static final double FIXED_SECONDS = 0.1;

    private static final double SECONDS_A_GIB = 0.35;
    private static final double GIB = 1 << 30;
    private static final double NS_A_SECOND = 1e9;
    /** A part of the pause below this share of the rest is not worth a round. */
    private static final double NEGLIGIBLE = 0.1;
    /** A round that leaves more than this share of the one before gains little. Two of them end the copy. */
    private static final double OUTRUN = 0.8;

    private static final int MOST_IMAGES = 3;
    private static final int MOST_FAILED = 3;

    /**
     * A round of all ranks.
     *
     * @param sentBytes bytes that it sent
     * @param writtenBytes bytes that were written since it found the sent ones
     * @param durationNs its duration
     * @param stoppedNs time for which threads were stopped
     * @param useful whether it was made, and tracks a process
     * @param why why a process is not tracked, or why the round was not made; else empty
     */
    record Rounds(long sentBytes, long writtenBytes, long durationNs, long stoppedNs, boolean useful, String why) {}

    /**
     * Returns why the copy ends, with the expected pause, or empty if another round is worth it.
     *
     * @param history the rounds so far, at least one
     * @param elapsedNs time since the first one began
     * @param imageBytes the ranks' memory
     */
    Optional<String> whyEnd(List<Rounds> history, long elapsedNs, long imageBytes) {
        Rounds last = history.get(history.size() - 1);
        int failed = 0;
        while (failed < history.size()
                && !history.get(history.size() - 1 - failed).useful()) {
            failed++;
        }
        if (failed == MOST_FAILED) {
            return Optional.of("no further round could be made: " + last.why());
        }
        if (failed > 0) {
            return elapsedNs < deadline.toNanos() ? Optional.empty() : Optional.of("its deadline of " + deadline);
        }
        long sentBytes = history.stream().mapToLong(Rounds::sentBytes).sum();
        long sendingNs = history.stream().mapToLong(Rounds::durationNs).sum();
        if (sentBytes == 0 && last.writtenBytes() > 0 && history.size() < mostRounds) {
            return Optional.empty();
        }
        double rest = sentBytes == 0 ? 0 : last.writtenBytes() * (sendingNs / NS_A_SECOND) / sentBytes;
        double unchanged = FIXED_SECONDS + imageBytes / GIB * SECONDS_A_GIB;
        String pause = String.format(Locale.ROOT, "the expected pause is %.1f s", unchanged + rest);
        if (unchanged + rest <= goal.toNanos() / NS_A_SECOND || rest <= unchanged * NEGLIGIBLE) {
            return Optional.of(pause);
        }
        if (outruns(history)) {
            return Optional.of(pause + ", for the job writes faster than its memory is sent");
        }
        if (history.size() >= mostRounds || elapsedNs >= deadline.toNanos() || sentBytes > MOST_IMAGES * imageBytes) {
            return Optional.of(pause + ", for the copy has reached its limit");
        }
        return Optional.empty();
    }

    private static boolean outruns(List<Rounds> history) {
        int count = history.size();
        return count > 2
                && history.get(count - 1).writtenBytes()
                        > OUTRUN * history.get(count - 2).writtenBytes()
                && history.get(count - 2).writtenBytes()
                        > OUTRUN * history.get(count - 3).writtenBytes();
    }
}
