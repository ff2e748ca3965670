package io.ppmr.protocol.control;

import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The interval of the checkpoints of a job over several nodes, as its user ordered it. Controllers may lengthen it.
 * Immutable.
 *
 * @param isAuto whether controllers derive it from the time of a checkpoint and the nodes' failures
 * @param seconds its length; 0 if it is derived, or if there are no regular checkpoints
 */
public record CheckpointInterval(boolean isAuto, long seconds) {
    /** The job is checkpointed by order only. */
    public static final CheckpointInterval NONE = new CheckpointInterval(false, 0);

    /** Controllers derive the interval. */
    public static final CheckpointInterval AUTO = new CheckpointInterval(true, 0);

    private static final Pattern FORM = Pattern.compile("([1-9]\\d{0,7})([smhd])");
    private static final Map<String, Duration> UNITS = Map.of(
            "s", Duration.ofSeconds(1), "m", Duration.ofMinutes(1), "h", Duration.ofHours(1), "d", Duration.ofDays(1));
    private static final Duration LONGEST = Duration.ofDays(100);

    /**
     * Reads an interval: "auto", a time such as 90s, 10m, 2h or 1d, or "" for none. Returns empty if it has another
     * form or is longer than 100 days.
     */
    public static Optional<CheckpointInterval> parse(String text) {
        if (text.isEmpty()) {
            return Optional.of(NONE);
        }
        if ("auto".equals(text)) {
            return Optional.of(AUTO);
        }
        Matcher form = FORM.matcher(text);
        if (!form.matches()) {
            return Optional.empty();
        }
        Duration length = UNITS.get(form.group(2)).multipliedBy(Integer.parseInt(form.group(1)));
        return length.compareTo(LONGEST) > 0
                ? Optional.empty()
                : Optional.of(new CheckpointInterval(false, length.toSeconds()));
    }

    /** Returns true if the job is checkpointed regularly. */
    public boolean isRegular() {
        return isAuto || seconds > 0;
    }

    /** Returns the interval in the form that {@link #parse} reads. */
    public String text() {
        return isAuto ? "auto" : seconds > 0 ? seconds + "s" : "";
    }
}
