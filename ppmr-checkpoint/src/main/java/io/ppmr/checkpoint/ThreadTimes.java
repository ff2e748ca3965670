package io.ppmr.checkpoint;

import io.ppmr.os.KernelFeatures;
import io.ppmr.os.KernelFeatures.Feature;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

/**
 * Counts how much a thread has run so far. A thread that stays stopped leaves both numbers as they are, however often
 * it is looked at; one that is continued changes the second one when it stops again, however short it ran.
 *
 * @param thread its number
 * @param runNs its time on a processor, the first field of {@code schedstat}; 0 on a kernel that does not count it
 * @param switches how often it has left a processor: both {@code ctxt_switches} of {@code status}, see proc(5)
 */
record ThreadTimes(int thread, long runNs, long switches) {
    private static final String SWITCHES = "ctxt_switches:";

    /** Reads those of a thread by its directory in {@code /proc}; empty if it is gone. */
    static Optional<ThreadTimes> read(Path directory) {
        return read(directory, KernelFeatures.here());
    }

    /** The same, on a kernel that has these features. */
    static Optional<ThreadTimes> read(Path directory, KernelFeatures kernel) {
        try {
            long switches = 0;
            for (String line : Files.readAllLines(directory.resolve("status"), StandardCharsets.ISO_8859_1)) {
                int key = line.indexOf(SWITCHES);
                if (key >= 0) {
                    switches += number(line.substring(key + SWITCHES.length()).trim());
                }
            }
            int thread = Integer.parseInt(directory.getFileName().toString());
            return Optional.of(new ThreadTimes(thread, kernel.has(Feature.SCHEDSTAT) ? runNs(directory) : 0, switches));
        } catch (IOException gone) {
            // ENOENT before the open or ESRCH after it: it has ended in between.
            return Optional.empty();
        }
    }

    private static long runNs(Path directory) throws IOException {
        String text = Files.readString(directory.resolve("schedstat"), StandardCharsets.ISO_8859_1);
        int end = text.indexOf(' ');
        if (end < 0) {
            throw new IOException("it has just ended");
        }
        return number(text.substring(0, end));
    }

    private static long number(String text) throws IOException {
        if (!text.matches("\\d{1,18}")) {
            throw new IOException(
                    "the times of a thread have a number that this release does not know: '" + text + "'");
        }
        return Long.parseLong(text);
    }

    /** Describes for people what differs from an earlier look at the same thread. */
    String since(ThreadTimes before) {
        return "thread " + thread + " had run " + before.runNs + " ns and left a processor " + before.switches
                + " times when its command had ended, by now " + runNs + " ns and " + switches + " times";
    }
}
