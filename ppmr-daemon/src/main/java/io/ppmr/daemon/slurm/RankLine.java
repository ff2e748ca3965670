package io.ppmr.daemon.slurm;

import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What a {@code ppmr-slurm-task} says of its rank, a line each on the standard output of srun; see its source. */
sealed interface RankLine {
    /** The form of the lines. */
    Pattern WORDS = Pattern.compile("ppmr-rank (\\d{1,9}) ([a-z]+)(| .*)");

    /** The rank's number in the step. */
    int rank();

    /** It runs. */
    record Started(int rank, String job, String node) implements RankLine {}

    /** Its original is gone, and it goes on at that address. */
    record Moved(int rank, String address, List<Integer> pids) implements RankLine {
        public Moved {
            pids = List.copyOf(pids);
        }
    }

    /** It is watched after its move. */
    record Kept(int rank) implements RankLine {}

    /** It has ended; {@code known} says whether the status is its own. */
    record Ended(int rank, int status, boolean known) implements RankLine {}

    /** The line's meaning; empty if it is none of these, but words of srun or of somebody else. */
    static Optional<RankLine> parse(String line) {
        Matcher words = WORDS.matcher(line);
        if (!words.matches()) {
            return Optional.empty();
        }
        int rank = Integer.parseInt(words.group(1));
        List<String> rest = List.of(words.group(3).strip().split(" ", -1));
        try {
            return switch (words.group(2)) {
                case "started" -> Optional.of(new Started(rank, rest.get(0), rest.get(1)));
                case "moved" -> Optional.of(new Moved(rank, rest.get(0), pids(rest.get(1))));
                case "kept" -> Optional.of(new Kept(rank));
                case "ended" -> Optional.of(new Ended(rank, Integer.parseInt(rest.get(0)), true));
                case "unknown" -> Optional.of(new Ended(rank, Integer.parseInt(rest.get(0)), false));
                default -> Optional.empty();
            };
        } catch (IndexOutOfBoundsException | NumberFormatException e) {
            return Optional.empty();
        }
    }

    private static List<Integer> pids(String text) {
        return Arrays.stream(text.split(",", -1)).map(Integer::valueOf).toList();
    }
}
