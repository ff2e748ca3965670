package io.ppmr.checkpoint.state;

import io.ppmr.linux.LibC;
import io.ppmr.linux.ProcFiles;
import io.ppmr.linux.Processors;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Optional;

/**
 * The settings of a thread that CRIU leaves out: its processors, its I/O priority, and the slack of its timers. For a
 * process's first thread, they include the core filter. Immutable.
 *
 * @param id the thread's number in its own PID namespace
 * @param processors its processors, as a list; empty for all
 * @param ioPriority its I/O priority from ioprio_get(2), or 0 if it has none of its own
 * @param slackNs slack of its timers; 0 for the default
 * @param coreFilter core(5), in hexadecimal; empty for the default, or if it is not the process's first thread
 */
public record ThreadSettings(int id, String processors, int ioPriority, long slackNs, String coreFilter) {
    private static final String NONE = "-";
    private static final int FIELDS = 5;
    private static final long USUAL_SLACK_NS = 50_000;
    private static final String USUAL_CORE_FILTER = "33";
    private static final int TEXT_BYTES = 4096;

    private static final boolean IS_AARCH64 = System.getProperty("os.arch").equals("aarch64");
    private static final long IOPRIO_SET = IS_AARCH64 ? 30 : 251;
    private static final long IOPRIO_GET = IS_AARCH64 ? 31 : 252;
    private static final int OF_A_PROCESS = 1;
    private static final int CLASS_SHIFT = 13;
    private static final int BEST_EFFORT = 2;
    private static final int NICE_VALUES = 20;
    private static final int NICE_VALUES_A_LEVEL = 5;

    /**
     * Reads the settings of a thread, or empty if all are default.
     *
     * @param thread its number in this service's PID namespace
     * @param id its number in its own PID namespace
     * @param allowed {@code Cpus_allowed_list} of its status
     * @param nice its nice value
     * @param isFirst whether it is its process's first thread
     * @param usable processors that its cgroup permits
     */
    public static Optional<ThreadSettings> read(
            int thread, int id, String allowed, int nice, boolean isFirst, BitSet usable) throws IOException {
        String own = "/proc/" + thread;
        String processors = allowed.isEmpty() || hasAll(allowed, usable) ? "" : allowed;
        long slackNs = slackNs(own);
        String filter = isFirst
                ? ProcFiles.text(own + "/coredump_filter", TEXT_BYTES)
                        .map(text -> text.strip().replaceFirst("^0+(?=.)", ""))
                        .filter(text -> !text.equals(USUAL_CORE_FILTER))
                        .orElse("")
                : "";
        ThreadSettings read = new ThreadSettings(id, processors, ioPriority(thread, nice), slackNs, filter);
        return read.areUsual() ? Optional.empty() : Optional.of(read);
    }

    /**
     * Returns the slack. Reading needs the right to change it. Without CAP_SYS_NICE the copy's timers have the default
     * slack.
     */
    private static long slackNs(String own) throws IOException {
        try {
            return ProcFiles.text(own + "/timerslack_ns", TEXT_BYTES)
                    .map(text -> Long.parseLong(text.strip()))
                    .filter(ns -> ns != USUAL_SLACK_NS)
                    .orElse(0L);
        } catch (AccessDeniedException e) {
            return 0;
        }
    }

    private boolean areUsual() {
        return processors.isEmpty() && ioPriority == 0 && slackNs == 0 && coreFilter.isEmpty();
    }

    private static boolean hasAll(String allowed, BitSet online) {
        BitSet missing = (BitSet) online.clone();
        missing.andNot(Processors.parse(allowed));
        return missing.isEmpty();
    }

    /**
     * Returns the I/O priority. Some kernels report the one that follows from the nice value if there is none of its
     * own.
     */
    private static int ioPriority(int thread, int nice) {
        long value = LibC.CALLS.syscall(IOPRIO_GET, OF_A_PROCESS, thread, 0, 0);
        int ofNice = BEST_EFFORT << CLASS_SHIFT | (nice + NICE_VALUES) / NICE_VALUES_A_LEVEL;
        return value < 0 || value == ofNice || value >> CLASS_SHIFT == 0 ? 0 : (int) value;
    }

    /**
     * Sets these settings for a copy's thread.
     *
     * @param thread its number in this service's PID namespace
     * @return settings that could not be set, in words, or empty if all could
     */
    public List<String> set(int thread) throws IOException {
        List<String> failed = new ArrayList<>();
        if (!processors.isEmpty()) {
            BitSet wanted = Processors.parse(processors);
            BitSet here = Processors.online();
            here.and(wanted);
            if (here.isEmpty() || !Processors.setAffinity(thread, here)) {
                failed.add("runs on other processors than " + processors
                        + ", which this node does not have, or does not permit");
            } else if (!here.equals(wanted)) {
                failed.add("runs on " + here.cardinality() + " of the processors " + processors
                        + ", because this node has no others of them");
            }
        }
        if (ioPriority != 0 && LibC.CALLS.syscall(IOPRIO_SET, OF_A_PROCESS, thread, ioPriority, 0) != 0) {
            failed.add("does not have the I/O priority " + Integer.toHexString(ioPriority) + " (hexadecimal)");
        }
        if (slackNs != 0) {
            write(thread, "timerslack_ns", Long.toString(slackNs), failed);
        }
        if (!coreFilter.isEmpty()) {
            write(thread, "coredump_filter", "0x" + coreFilter, failed);
        }
        return failed;
    }

    private static void write(int thread, String file, String text, List<String> failed) {
        Path path = Path.of("/proc", Integer.toString(thread), file);
        try {
            Files.writeString(path, text);
        } catch (IOException e) {
            failed.add("has another " + file + " than " + text + " (" + e.getMessage() + ")");
        }
    }

    /** Returns the settings as words, the number first. */
    public String words() {
        return String.join(
                " ",
                Integer.toString(id),
                processors.isEmpty() ? NONE : processors,
                Integer.toString(ioPriority),
                Long.toString(slackNs),
                coreFilter.isEmpty() ? NONE : coreFilter);
    }

    /** Parses the text of {@link #words}. Throws IllegalArgumentException if it is invalid. */
    public static ThreadSettings parse(String text) {
        String[] words = text.split(" ", -1);
        if (words.length != FIELDS || !words[4].matches(NONE + "|[0-9a-f]{1,8}")) {
            throw new IllegalArgumentException("'" + text + "' must have " + FIELDS + " settings");
        }
        if (!words[1].equals(NONE)) {
            Processors.parse(words[1]);
        }
        return new ThreadSettings(
                Integer.parseInt(words[0]),
                words[1].equals(NONE) ? "" : words[1],
                Integer.parseInt(words[2]),
                Long.parseLong(words[3]),
                words[4].equals(NONE) ? "" : words[4]);
    }
}
