package io.ppmr.checkpoint.state;

import io.ppmr.linux.ProcFiles;
import java.io.IOException;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The signals that wait for a stopped process, or that its own timers may send. A process can request a signal for its
 * parent's end (PR_SET_PDEATHSIG of prctl(2)), which the kernel shows nowhere. The tool that restores a copy is its
 * parent, and ends. Then the copy gets a signal that its original never got. The signal waits for the copy, or its
 * handler is about to run. In that case the signal is blocked, and the stack is another. Immutable.
 *
 * @param waiting a bit for each signal, the lowest for signal 1
 * @param blocked the same bits for signals that the process blocks
 * @param stack stack pointer of its first thread, or 0 if the kernel does not show it
 */
public record WaitingSignals(long waiting, long blocked, long stack) {
    private static final int FIELDS = 3;
    private static final int HEX = 16;
    private static final int MOST_BYTES = 1 << 20;
    private static final Pattern SHARED = Pattern.compile("(?m)^ShdPnd:\\t([0-9a-f]{16})$");
    private static final Pattern BLOCKED = Pattern.compile("(?m)^SigBlk:\\t([0-9a-f]{16})$");
    private static final Pattern STACK = Pattern.compile(" 0x([0-9a-f]{1,16}) 0x[0-9a-f]{1,16}\\s*$");
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

    /** Reads the signals that wait for a process, and those that its timers may send. */
    public static WaitingSignals ofOriginal(int process) throws IOException {
        WaitingSignals now = now(process);
        long mask = now.waiting();
        Matcher timers = OF_TIMER.matcher(text(process, "timers"));
        while (timers.find()) {
            mask |= mask(Integer.parseInt(timers.group(1)));
        }
        return new WaitingSignals(mask, now.blocked(), now.stack());
    }

    private static WaitingSignals now(int process) throws IOException {
        String status = text(process, "status");
        return new WaitingSignals(
                number(SHARED, status), number(BLOCKED, status), number(STACK, text(process, "syscall")));
    }

    private static String text(int process, String file) throws IOException {
        return ProcFiles.text("/proc/" + process + "/" + file, MOST_BYTES).orElse("");
    }

    private static long number(Pattern pattern, String text) {
        Matcher found = pattern.matcher(text);
        return found.find() ? Long.parseUnsignedLong(found.group(1), HEX) : 0;
    }

    /** Returns the number of a signal that a copy has and this original does not, or empty if there is none. */
    public Optional<Integer> foreignSignalOf(int copy) throws IOException {
        WaitingSignals now = now(copy);
        long strange = now.waiting & ~waiting;
        long held = now.blocked & ~blocked;
        // A handler of an expected signal blocks others as well.
        boolean explained = (held & (waiting | USUAL)) != 0;
        if (stack != 0 && now.stack != 0 && stack != now.stack && !explained) {
            strange |= held;
        }
        strange &= ~USUAL;
        return strange == 0 ? Optional.empty() : Optional.of(Long.numberOfTrailingZeros(strange) + 1);
    }

    /** Returns the signals as a word. */
    public String word() {
        return Long.toHexString(waiting) + "/" + Long.toHexString(blocked) + "/" + Long.toHexString(stack);
    }

    /** Parses the text of {@link #word}. Throws IllegalArgumentException if it is invalid. */
    public static WaitingSignals parse(String word) {
        String[] fields = word.split("/", -1);
        if (fields.length != FIELDS) {
            throw new IllegalArgumentException("'" + word + "' must have " + FIELDS + " fields");
        }
        return new WaitingSignals(
                Long.parseUnsignedLong(fields[0], HEX),
                Long.parseUnsignedLong(fields[1], HEX),
                Long.parseUnsignedLong(fields[2], HEX));
    }
}
