package io.ppmr.checkpoint;

import io.ppmr.checkpoint.ProcessPrivileges.OpenFile;
import io.ppmr.checkpoint.state.ObjectOwner;
import io.ppmr.checkpoint.state.SecurityLabel;
import io.ppmr.checkpoint.state.SocketSettings;
import io.ppmr.checkpoint.state.ThreadSettings;
import io.ppmr.checkpoint.state.WaitingSignals;
import java.util.Optional;

/**
 * Writes what a rank may do and has open, and what of its state CRIU leaves out, as lines, and reads them. Lines that
 * are compared with each other have the same beginning, {@link #key}, and so stand together in the order of {@link
 * String#compareTo}.
 */
final class RightsLine {
    /** Comes before the lines of threads in the order of lines, as they refer to it. */
    static final String SHARED = "rights ";

    private static final String THREAD = "thread ";
    /** Begins a reference to shared rights; no words of a thread's own begin so. */
    private static final String REFERENCE = " =";

    private static final String FILE = "file ";
    /** Comes after the lines of files and before all others. */
    static final String BEHIND_FILES = "file!";

    private static final String ROOT = "root ";
    private static final String OTHER = "other ";
    private static final String SETTINGS = "settings ";
    private static final String SOCKET = "socket ";
    private static final String OWNER = "owner ";
    private static final String SIGNALS = "signals ";
    private static final String LABEL = "label ";
    /** No path has this character, and it comes before all others. */
    private static final char BEHIND_PATH = '\0';

    private static final int ID_DIGITS = 10;

    private RightsLine() {}

    static String of(ThreadRights thread) {
        return of(thread.id(), thread.words());
    }

    /** Writes the line of a thread with these words of {@link ThreadRights#words}. */
    static String of(int id, String words) {
        return numbered(id) + " " + words;
    }

    /** Writes the line of a thread whose words are shared under a number. */
    static String referring(int id, String sharedNumber) {
        return numbered(id) + REFERENCE + sharedNumber;
    }

    private static String numbered(int id) {
        String digits = Integer.toString(id);
        return THREAD + "0".repeat(ID_DIGITS - digits.length()) + digits;
    }

    static String shared(String number, String words) {
        return SHARED + number + " " + words;
    }

    static boolean isShared(String line) {
        return line.startsWith(SHARED);
    }

    /** Returns its number; throws IllegalArgumentException if it has none. */
    static String sharedNumber(String line) {
        int end = SHARED.length() + SharedRights.DIGITS;
        if (line.length() <= end
                || line.charAt(end) != ' '
                || !line.substring(SHARED.length(), end).chars().allMatch(digit -> digit >= '0' && digit <= '9')) {
            throw new IllegalArgumentException("its rights have no number of " + SharedRights.DIGITS + " digits");
        }
        return line.substring(SHARED.length(), end);
    }

    static String sharedWords(String line) {
        return line.substring(SHARED.length() + SharedRights.DIGITS + 1);
    }

    /** Returns the number of the shared rights that a thread's line refers to; empty if it has words of its own. */
    static Optional<String> reference(String line) {
        int at = THREAD.length() + ID_DIGITS;
        return isNumberedThread(line) && line.startsWith(REFERENCE, at)
                ? Optional.of(line.substring(at + REFERENCE.length()))
                : Optional.empty();
    }

    /** Returns a line with the words that it refers to; throws IllegalArgumentException if these are not known. */
    static String whole(String line, SharedRights shared) {
        Optional<String> reference = reference(line);
        if (reference.isEmpty()) {
            return line;
        }
        String words = shared.words(reference.get())
                .orElseThrow(() -> new IllegalArgumentException("it refers to rights that are not told before it"));
        return line.substring(0, THREAD.length() + ID_DIGITS + 1) + words;
    }

    static String of(OpenFile file) {
        return FILE + file.ownerUid() + " " + file.path() + BEHIND_PATH + (file.reads() ? 'r' : '-')
                + (file.writes() ? 'w' : '-');
    }

    static String root(String directory) {
        return ROOT + directory;
    }

    static String other(String kind) {
        return OTHER + kind;
    }

    static String of(ThreadSettings settings) {
        return SETTINGS + settings.words();
    }

    static String of(SocketSettings settings) {
        return SOCKET + settings.words();
    }

    static String of(ObjectOwner owner) {
        return OWNER + owner.words();
    }

    static String of(WaitingSignals signals) {
        return SIGNALS + signals.word();
    }

    static boolean isWaitingSignals(String line) {
        return line.startsWith(SIGNALS);
    }

    /** Reads those of a rank's first process; throws IllegalArgumentException if it is none. */
    static WaitingSignals waitingSignals(String line) {
        return WaitingSignals.parse(line.substring(SIGNALS.length()));
    }

    static String of(SecurityLabel label) {
        return LABEL + label.words();
    }

    static boolean isSecurityLabel(String line) {
        return line.startsWith(LABEL);
    }

    /** Reads one; throws IllegalArgumentException if it is none. */
    static SecurityLabel securityLabel(String line) {
        return SecurityLabel.parse(line.substring(LABEL.length()));
    }

    static boolean isObjectOwner(String line) {
        return line.startsWith(OWNER);
    }

    /** Reads one; throws IllegalArgumentException if it is none. */
    static ObjectOwner objectOwner(String line) {
        return ObjectOwner.parse(line.substring(OWNER.length()));
    }

    static boolean isThreadSettings(String line) {
        return line.startsWith(SETTINGS);
    }

    static boolean isSocketSettings(String line) {
        return line.startsWith(SOCKET);
    }

    /** Reads one; throws IllegalArgumentException if it is none. */
    static ThreadSettings threadSettings(String line) {
        return ThreadSettings.parse(line.substring(SETTINGS.length()));
    }

    /** Reads one; throws IllegalArgumentException if it is none. */
    static SocketSettings socketSettings(String line) {
        return SocketSettings.parse(line.substring(SOCKET.length()));
    }

    static boolean isThread(String line) {
        return line.startsWith(THREAD);
    }

    /** Returns true if it is about a thread, and begins with a number as {@link #of(ThreadRights)} writes it. */
    static boolean isNumberedThread(String line) {
        int end = THREAD.length() + ID_DIGITS;
        boolean is = isThread(line) && line.length() > end && line.charAt(end) == ' ';
        for (int at = THREAD.length(); is && at < end; at++) {
            is = line.charAt(at) >= '0' && line.charAt(at) <= '9';
        }
        return is;
    }

    static boolean isFile(String line) {
        return line.startsWith(FILE);
    }

    static boolean isRoot(String line) {
        return line.startsWith(ROOT);
    }

    static boolean isOther(String line) {
        return line.startsWith(OTHER);
    }

    /** Returns the beginning that a line shares with those that it is compared with: a file, a thread's number. */
    static String key(String line) {
        if (isFile(line)) {
            return line.substring(0, line.lastIndexOf(BEHIND_PATH));
        }
        return isThread(line) ? line.substring(0, THREAD.length() + ID_DIGITS) : line;
    }

    /** Returns what a thread may do, without its number. */
    static String withoutNumber(String line) {
        return line.substring(THREAD.length() + ID_DIGITS);
    }

    /** Returns what a line of a root or of another descriptor names. */
    static String named(String line) {
        return line.substring(line.indexOf(' ') + 1);
    }

    /** Reads one; throws IllegalArgumentException or IndexOutOfBoundsException if it is none. */
    static ThreadRights thread(String line) {
        return ThreadRights.parse(line.substring(THREAD.length()));
    }

    /** Reads one; throws IllegalArgumentException or IndexOutOfBoundsException if it is none. */
    static OpenFile file(String line) {
        int owner = line.indexOf(' ', FILE.length());
        int mode = line.lastIndexOf(BEHIND_PATH);
        return new OpenFile(
                line.substring(owner + 1, mode),
                Integer.parseInt(line.substring(FILE.length(), owner)),
                line.charAt(mode + 1) == 'r',
                line.charAt(mode + 2) == 'w');
    }

    /**
     * Reads a line and adds it to a summary; throws IllegalArgumentException or IndexOutOfBoundsException if it is
     * none.
     */
    static void check(String line, RightsSummary summary) {
        if (isThread(line)) {
            ThreadRights thread = thread(line);
            if (!of(thread).startsWith(key(line))) {
                throw new IllegalArgumentException("its number has not " + ID_DIGITS + " digits");
            }
            summary.add(thread);
        } else if (isFile(line)) {
            summary.add(file(line));
        } else if (isThreadSettings(line)) {
            threadSettings(line);
            summary.addSettings();
        } else if (isSocketSettings(line)) {
            socketSettings(line);
            summary.addSettings();
        } else if (isObjectOwner(line)) {
            objectOwner(line);
            summary.addSettings();
        } else if (isWaitingSignals(line)) {
            waitingSignals(line);
            summary.addSettings();
        } else if (isSecurityLabel(line)) {
            securityLabel(line);
            summary.addSettings();
        } else if (!isRoot(line) && !isOther(line)) {
            throw new IllegalArgumentException("it begins with no known word");
        }
    }
}
