package io.ppmr.checkpoint;

import io.ppmr.linux.KernelFeatures;
import io.ppmr.linux.KernelFeatures.Feature;
import io.ppmr.linux.ProcFields;
import io.ppmr.linux.ProcFolder;
import java.io.IOException;
import java.util.Optional;

/**
 * The run time of a thread so far. Both numbers stay constant while it is stopped, however often they are read.
 * Continuing the thread changes the second one, however short it ran.
 *
 * @param thread its number
 * @param runNs its time on a processor, the first field of {@code schedstat}; 0 on a kernel that does not count it
 * @param turns number of its starts on a processor, the third field of {@code schedstat}. If the kernel does not
 *     count these, it is the number of its ends: both {@code ctxt_switches} of {@code status}, see proc(5).
 */
record ThreadTimes(int thread, long runNs, long turns) {
    private static final int STATUS_BYTES = 1 << 20;
    private static final int FIELDS = 3;
    private static final int LONGEST_NUMBER = 18;

    /** Reads the times of a thread by its name in its process's folder of threads, or empty if it is gone. */
    static Optional<ThreadTimes> read(ProcFolder threads, String name) throws IOException {
        return read(threads, name, KernelFeatures.here());
    }

    /** Reads the times on a kernel with these features. */
    static Optional<ThreadTimes> read(ProcFolder threads, String name, KernelFeatures kernel) throws IOException {
        int thread = Integer.parseInt(name);
        if (kernel.has(Feature.SCHEDSTAT)) {
            Optional<String> text = threads.beginning(name + "/schedstat");
            String[] fields = text.orElse("").strip().split(" ", -1);
            if (fields.length != FIELDS) {
                // The thread has just ended.
                return Optional.empty();
            }
            ThreadTimes times = new ThreadTimes(thread, number(fields[0]), number(fields[2]));
            if (times.turns > 0) {
                return Optional.of(times);
            }
        }
        Optional<ProcFields> status =
                threads.text(name + "/status", STATUS_BYTES).map(ProcFields::new);
        return status.isEmpty()
                ? Optional.empty()
                : Optional.of(new ThreadTimes(
                        thread,
                        0,
                        switches(status.get(), "voluntary_ctxt_switches")
                                + switches(status.get(), "nonvoluntary_ctxt_switches")));
    }

    private static long switches(ProcFields status, String name) throws IOException {
        Optional<String> value = status.value(name);
        return value.isPresent() ? number(value.get()) : 0;
    }

    private static long number(String text) throws IOException {
        // The number is parsed by hand, because a process may have thousands of threads, and a pattern takes longer
        // than the file.
        boolean is = !text.isEmpty() && text.length() <= LONGEST_NUMBER;
        for (int at = 0; is && at < text.length(); at++) {
            is = text.charAt(at) >= '0' && text.charAt(at) <= '9';
        }
        if (!is) {
            throw new IOException("the times of a thread have an invalid number: '" + text + "'");
        }
        return Long.parseLong(text);
    }

    /** Returns true if it shows a turn as soon as that begins. Otherwise it shows it when the turn ends. */
    boolean showsTurnsAtOnce() {
        return runNs > 0;
    }

    /** Describes for people the difference to an earlier reading of the same thread. */
    String since(ThreadTimes before) {
        return "thread " + thread + " had run " + before.runNs + " ns in " + before.turns
                + " turns when its command ended, and now " + runNs + " ns in " + turns;
    }
}
