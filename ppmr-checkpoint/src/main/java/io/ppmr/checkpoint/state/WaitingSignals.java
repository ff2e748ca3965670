package io.ppmr.checkpoint.state;

import io.ppmr.os.ProcFiles;
import java.io.IOException;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The signals that wait for a stopped process, or may come to wait for it by its own timers. A process can ask for a
 * signal when its parent ends (PR_SET_PDEATHSIG of prctl(2)), which the kernel shows nowhere. The tool that restores a
 * copy is its parent, and ends: such a copy gets a signal that its original never got. Immutable.
 *
 * @param mask a bit for each signal, the lowest of signal 1
 */
public record WaitingSignals(long mask) {
    private static final int HEX = 16;
    private static final int MOST_BYTES = 1 << 20;
    private static final Pattern SHARED = Pattern.compile("(?m)^ShdPnd:\\t([0-9a-f]{16})$");
    private static final Pattern OF_TIMER = Pattern.compile("(?m)^signal: (\\d{1,3})/");

    /**
     * Signals that stop and continue, and those that interval timers, children and open files send: SIGALRM, SIGCHLD,
     * SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGVTALRM, SIGPROF, SIGWINCH, SIGIO.
     */
    private static final long USUAL = mask(14, 17, 18, 19, 20, 21, 22, 23, 26, 27, 28, 29);

    private static long mask(int... signals) {
        long mask = 0;
        for (int signal : signals) {
            mask |= 1L << (signal - 1);
        }
        return mask;
    }

    /** Reads what waits for a process, and what its timers may send. */
    public static WaitingSignals ofOriginal(int process) throws IOException {
        long mask = waiting(process);
        Matcher timers = OF_TIMER.matcher(
                ProcFiles.text("/proc/" + process + "/timers", MOST_BYTES).orElse(""));
        while (timers.find()) {
            mask |= mask(Integer.parseInt(timers.group(1)));
        }
        return new WaitingSignals(mask);
    }

    private static long waiting(int process) throws IOException {
        Matcher waiting = SHARED.matcher(
                ProcFiles.text("/proc/" + process + "/status", MOST_BYTES).orElse(""));
        return waiting.find() ? Long.parseUnsignedLong(waiting.group(1), HEX) : 0;
    }

    /** Returns the number of a signal that waits for a copy and not for this original; empty if none does. */
    public Optional<Integer> strangeOf(int copy) throws IOException {
        long strange = waiting(copy) & ~mask & ~USUAL;
        return strange == 0 ? Optional.empty() : Optional.of(Long.numberOfTrailingZeros(strange) + 1);
    }

    /** Returns it as a word. */
    public String word() {
        return Long.toHexString(mask);
    }

    /** Reads what {@link #word} has written; throws IllegalArgumentException otherwise. */
    public static WaitingSignals parse(String word) {
        return new WaitingSignals(Long.parseUnsignedLong(word, HEX));
    }
}
