package io.ppmr.migration.source;

import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * Decides whether the copy of a running job's memory is worth its time, and when it ends, so that the job is stopped.
 * Pure.
 *
 * @param goal the pause that is short enough
 * @param deadline time after which the copy ends, however much is written
 * @param mostRounds number of rounds after which it ends
 * @param untilNs the time of System.nanoTime() by which the job should be moved, if there is a limit
 */
record PreCopyRule(Duration goal, Duration deadline, int mostRounds, OptionalLong untilNs) {
    /** The pause's parts that rounds do not change: a fixed one, and those of CRIU's dump and of the filling. */
    private static final double FIXED_SECONDS = 0.1;

    private static final double SECONDS_A_GIB = 0.35;
    /** The time of a streamed GiB where the network is no limit. */
    private static final double STREAMED_SECONDS_A_GIB = 1.8;

    private static final double GIB = 1 << 30;
    private static final double NS_A_SECOND = 1e9;
    /** A part of the pause below this share of the rest is not worth a round. */
    private static final double NEGLIGIBLE = 0.1;
    /** A round that leaves more than this share of the one before gains little. Two of them end the copy. */
    private static final double OUTRUN = 0.8;

    private static final int MOST_IMAGES = 3;
    private static final int MOST_FAILED = 3;
    /** The share of the sent bytes that is written in the meantime, before the first round has measured it. */
    private static final double ASSUMED_WRITES = 0.25;
    /** From this number of bytes on the network's rate is known. */
    private static final long MEASURABLE_BYTES = 16 << 20;

    static PreCopyRule of(MigrationLimits limits, OptionalLong untilNs) {
        return new PreCopyRule(limits.pauseGoal(), limits.precopyDeadline(), limits.precopyRounds(), untilNs);
    }

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
     * The rounds so far, and the one that is being made.
     *
     * @param ended the rounds that ended
     * @param startNs the time of System.nanoTime() at which the first one began
     * @param imageBytes the ranks' memory
     * @param sentBytes bytes that the current round has sent
     * @param currentNs the current round's duration so far
     */
    record History(List<Rounds> ended, long startNs, long imageBytes, long sentBytes, long currentNs) {
        private Rounds last() {
            return ended.get(ended.size() - 1);
        }

        private long allSentBytes() {
            return sentBytes + ended.stream().mapToLong(Rounds::sentBytes).sum();
        }

        /** Returns the time in which these bytes are sent, if the network stays as fast as it was. */
        private double secondsFor(long bytes) {
            long sendingNs =
                    currentNs + ended.stream().mapToLong(Rounds::durationNs).sum();
            return bytes * (sendingNs / NS_A_SECOND) / allSentBytes();
        }

        /** Returns how many bytes are written while one byte is sent, at most one. */
        private double writesABytesSent() {
            return ended.isEmpty() || last().sentBytes() == 0
                    ? ASSUMED_WRITES
                    : Math.min(1, (double) last().writtenBytes() / last().sentBytes());
        }
    }

    /** Returns why the pause of a streamed job is short enough, so that nothing is copied before, or empty if not. */
    Optional<String> whyShortEnough(long imageBytes) {
        double streamed = streamedSeconds(imageBytes);
        return streamed > goalSeconds()
                ? Optional.empty()
                : Optional.of(String.format(
                        Locale.ROOT, "a pause of %.1f s is expected, and pause_goal allows it", streamed));
    }

    /** Returns why there is no time for a round, or empty if there is. */
    Optional<String> whyTooLate(long imageBytes, long nowNs) {
        return secondsLeft(nowNs) < streamedSeconds(imageBytes) + unchanged(imageBytes)
                ? Optional.of(withinTime())
                : Optional.empty();
    }

    /** Returns why the copy ends after its last round, with the expected pause, or empty if another one is worth it. */
    Optional<String> whyEnd(History history, long nowNs) {
        List<Rounds> ended = history.ended();
        long elapsedNs = nowNs - history.startNs();
        int failed = 0;
        while (failed < ended.size() && !ended.get(ended.size() - 1 - failed).useful()) {
            failed++;
        }
        if (failed == MOST_FAILED) {
            return Optional.of(
                    "no further round could be made: " + history.last().why());
        }
        if (failed > 0) {
            return secondsLeft(nowNs) <= unchanged(history.imageBytes())
                    ? Optional.of(withinTime())
                    : elapsedNs < deadline.toNanos() ? Optional.empty() : Optional.of("its deadline of " + deadline);
        }
        long sentBytes = history.allSentBytes();
        if (sentBytes == 0 && history.last().writtenBytes() > 0 && ended.size() < mostRounds) {
            return Optional.empty();
        }
        double rest = sentBytes == 0 ? 0 : history.secondsFor(history.last().writtenBytes());
        double unchanged = unchanged(history.imageBytes());
        String pause = words(unchanged + rest);
        if (unchanged + rest <= goalSeconds() || rest <= unchanged * NEGLIGIBLE) {
            return Optional.of(pause);
        }
        if (outruns(ended)) {
            return Optional.of(pause + ", for the job writes faster than its memory is sent");
        }
        if (ended.size() >= mostRounds
                || elapsedNs >= deadline.toNanos()
                || sentBytes > MOST_IMAGES * history.imageBytes()) {
            return Optional.of(pause + ", for the copy has reached its limit");
        }
        return secondsLeft(nowNs) < unchanged + rest * (1 + history.writesABytesSent())
                ? Optional.of(pause + ", for " + withinTime())
                : Optional.empty();
    }

    /** Returns why the current round ends at once, so that the rest is sent in the pause, or empty if not. */
    Optional<String> whyCut(History history, long nowNs) {
        if (nowNs - history.startNs() >= deadline.toNanos()) {
            return Optional.of("the round was cut at the deadline of " + deadline);
        }
        double left = secondsLeft(nowNs);
        if (Double.isInfinite(left)) {
            return Optional.empty();
        }
        double unchanged = unchanged(history.imageBytes());
        if (history.allSentBytes() < MEASURABLE_BYTES) {
            return left < 2 * unchanged ? Optional.of(withinTime()) : Optional.empty();
        }
        long dueBytes = history.ended().isEmpty()
                ? history.imageBytes()
                : history.last().writtenBytes();
        double rest = history.secondsFor(Math.max(0, dueBytes - history.sentBytes()));
        return left < unchanged + rest * (1 + history.writesABytesSent())
                ? Optional.of(words(unchanged + rest) + ", for " + withinTime())
                : Optional.empty();
    }

    private static double streamedSeconds(long imageBytes) {
        return FIXED_SECONDS + imageBytes / GIB * STREAMED_SECONDS_A_GIB;
    }

    private double goalSeconds() {
        return goal.toNanos() / NS_A_SECOND;
    }

    private double secondsLeft(long nowNs) {
        return untilNs.isEmpty() ? Double.POSITIVE_INFINITY : (untilNs.getAsLong() - nowNs) / NS_A_SECOND;
    }

    private static double unchanged(long imageBytes) {
        return FIXED_SECONDS + imageBytes / GIB * SECONDS_A_GIB;
    }

    private static String words(double pauseSeconds) {
        return String.format(Locale.ROOT, "the expected pause is %.1f s", pauseSeconds);
    }

    private static String withinTime() {
        return "the job has to be moved within the time that was given";
    }

    private static boolean outruns(List<Rounds> ended) {
        int count = ended.size();
        return count > 2
                && ended.get(count - 1).writtenBytes()
                        > OUTRUN * ended.get(count - 2).writtenBytes()
                && ended.get(count - 2).writtenBytes()
                        > OUTRUN * ended.get(count - 3).writtenBytes();
    }
}
