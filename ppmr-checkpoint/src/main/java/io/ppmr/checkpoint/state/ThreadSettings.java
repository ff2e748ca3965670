package io.ppmr.checkpoint.state;

import io.ppmr.os.LibC;
import io.ppmr.os.ProcFiles;
import io.ppmr.os.Processors;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Optional;

/**
 * The settings of a thread that CRIU leaves out: on which processors it runs, its I/O priority, how late its timers may
 * be, and, of a process's first thread, what of the process a core file has. Immutable.
 *
 * @param id the thread's number as it sees it itself
 * @param processors on which it may run, as a list; empty if on all
 * @param ioPriority as ioprio_get(2) tells it; 0 if it has none of its own
 * @param slackNs how late its timers may be; 0 if that is the usual
 * @param coreFilter core(5), in hexadecimal; empty if it is the usual one, or the process's first thread is another one
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
     * Reads those of a thread; empty if it has none but the usual.
     *
     * @param thread its number as this service sees it
     * @param id its number as it sees it itself
     * @param allowed {@code Cpus_allowed_list} of its status
     * @param nice its nice value
     * @param isFirst whether it is its process's first thread
     * @param usable the processors that its cgroup lets it use
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

    /** Only who may change it may read it: without CAP_SYS_NICE the copy's timers are as late as usual. */
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

    /** Some kernels tell the priority that follows from the nice value where there is none of its own. */
    private static int ioPriority(int thread, int nice) {
        long told = LibC.CALLS.syscall(IOPRIO_GET, OF_A_PROCESS, thread, 0, 0);
        int ofNice = BEST_EFFORT << CLASS_SHIFT | (nice + NICE_VALUES) / NICE_VALUES_A_LEVEL;
        return told < 0 || told == ofNice || told >> CLASS_SHIFT == 0 ? 0 : (int) told;
    }

    /**
     * Gives a copy's thread these settings.
     *
     * @param thread its number as this service sees it
     * @return what it could not be given, in words; empty if it has all
     */
    public List<String> set(int thread) throws IOException {
        List<String> failed = new ArrayList<>();
        if (!processors.isEmpty()) {
            BitSet wanted = Processors.parse(processors);
            BitSet here = Processors.online();
            here.and(wanted);
            if (here.isEmpty() || !Processors.setAffinity(thread, here)) {
                failed.add(
                        "runs on other processors than " + processors + ", which this node has not, or keeps from it");
            } else if (!here.equals(wanted)) {
                failed.add("runs on " + here.cardinality() + " of the processors " + processors
                        + ", since this node has no others of them");
            }
        }
        if (ioPriority != 0 && LibC.CALLS.syscall(IOPRIO_SET, OF_A_PROCESS, thread, ioPriority, 0) != 0) {
            failed.add("has not the I/O priority " + Integer.toHexString(ioPriority) + " (hexadecimal)");
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

    /** Returns them as words, the number first. */
    public String words() {
        return String.join(
                " ",
                Integer.toString(id),
                processors.isEmpty() ? NONE : processors,
                Integer.toString(ioPriority),
                Long.toString(slackNs),
                coreFilter.isEmpty() ? NONE : coreFilter);
    }

    /** Reads what {@link #words} has written; throws IllegalArgumentException otherwise. */
    public static ThreadSettings parse(String text) {
        String[] words = text.split(" ", -1);
        if (words.length != FIELDS || !words[4].matches(NONE + "|[0-9a-f]{1,8}")) {
            throw new IllegalArgumentException("'" + text + "' has not " + FIELDS + " settings");
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
