package io.ppmr.checkpoint;

import io.ppmr.checkpoint.ProcessPrivileges.OpenFile;
import io.ppmr.checkpoint.state.ObjectOwner;
import io.ppmr.checkpoint.state.SecurityLabel;
import io.ppmr.checkpoint.state.SocketSettings;
import io.ppmr.checkpoint.state.ThreadSettings;
import io.ppmr.checkpoint.state.WaitingSignals;
import java.util.Optional;

/**
 * Writes and reads the lines of a record: a rank's privileges and open files, and its state that CRIU leaves out. Lines
 * that are compared with each other have the same beginning, {@link #key}. Therefore they are neighbours in the order
 * of {@link String#compareTo}.
 */
final class RightsLine {
    /** The beginning of lines with shared rights. They precede the lines of threads, which refer to them. */
    static final String SHARED = "rights ";

    private static final String THREAD = "thread ";
    /** The beginning of a reference to shared rights. No words of a thread's own begin with it. */
    private static final String REFERENCE = " =";

    private static final String FILE = "file ";
    /** A text that comes after the lines of files and before all other lines. */
    static final String BEHIND_FILES = "file!";

    private static final String ROOT = "root ";
    private static final String OTHER = "other ";
    private static final String SETTINGS = "settings ";
    private static final String SOCKET = "socket ";
    private static final String OWNER = "owner ";
    private static final String SIGNALS = "signals ";
    private static final String LABEL = "label ";
    /** A character that is in no path, and that comes before all others. */
    private static final char BEHIND_PATH = '\0';

    private static final int ID_DIGITS = 10;

    private RightsLine() {}

    static String of(ThreadRights thread) {
        return of(thread.id(), thread.words());
    }

    /** Returns the line of a thread with these words of {@link ThreadRights#words}. */
    static String of(int id, String words) {
        return numbered(id) + " " + words;
    }

    /** Returns the line of a thread whose words are shared under a number. */
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

    /** Returns the line's number. Throws IllegalArgumentException if it has none. */
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

    /** Returns the number of the shared rights that a thread's line refers to, or empty if it has words of its own. */
    static Optional<String> reference(String line) {
        int at = THREAD.length() + ID_DIGITS;
        return isNumberedThread(line) && line.startsWith(REFERENCE, at)
                ? Optional.of(line.substring(at + REFERENCE.length()))
                : Optional.empty();
    }

    /** Returns a line with the words that it refers to. Throws IllegalArgumentException if these are unknown. */
    static String whole(String line, SharedRights shared) {
        Optional<String> reference = reference(line);
        if (reference.isEmpty()) {
            return line;
        }
        String words = shared.words(reference.get())
                .orElseThrow(() -> new IllegalArgumentException("it refers to rights that do not precede it"));
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

    /** Reads the signals of a rank's first process. Throws IllegalArgumentException if the line is invalid. */
    static WaitingSignals waitingSignals(String line) {
        return WaitingSignals.parse(line.substring(SIGNALS.length()));
    }

    static String of(SecurityLabel label) {
        return LABEL + label.words();
    }

    static boolean isSecurityLabel(String line) {
        return line.startsWith(LABEL);
    }

    /** Reads a security label. Throws IllegalArgumentException if the line is invalid. */
    static SecurityLabel securityLabel(String line) {
        return SecurityLabel.parse(line.substring(LABEL.length()));
    }

    static boolean isObjectOwner(String line) {
        return line.startsWith(OWNER);
    }

    /** Reads an owner. Throws IllegalArgumentException if the line is invalid. */
    static ObjectOwner objectOwner(String line) {
        return ObjectOwner.parse(line.substring(OWNER.length()));
    }

    static boolean isThreadSettings(String line) {
        return line.startsWith(SETTINGS);
    }

    static boolean isSocketSettings(String line) {
        return line.startsWith(SOCKET);
    }

    /** Reads a thread's settings. Throws IllegalArgumentException if the line is invalid. */
    static ThreadSettings threadSettings(String line) {
        return ThreadSettings.parse(line.substring(SETTINGS.length()));
    }

    /** Reads a socket's settings. Throws IllegalArgumentException if the line is invalid. */
    static SocketSettings socketSettings(String line) {
        return SocketSettings.parse(line.substring(SOCKET.length()));
    }

    static boolean isThread(String line) {
        return line.startsWith(THREAD);
    }

    /**
     * Returns true if the line belongs to a thread, and begins with a number as {@link #of(ThreadRights)} writes it.
     */
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

    /** Returns the beginning that a line shares with those that it is compared with: a file, or a thread's number. */
    static String key(String line) {
        if (isFile(line)) {
            return line.substring(0, line.lastIndexOf(BEHIND_PATH));
        }
        return isThread(line) ? line.substring(0, THREAD.length() + ID_DIGITS) : line;
    }

    /** Returns a thread's privileges, without its number. */
    static String withoutNumber(String line) {
        return line.substring(THREAD.length() + ID_DIGITS);
    }

    /** Returns the name in a line of a root or of another descriptor. */
    static String named(String line) {
        return line.substring(line.indexOf(' ') + 1);
    }

    /** Reads a thread's rights. Throws IllegalArgumentException or IndexOutOfBoundsException if the line is invalid. */
    static ThreadRights thread(String line) {
        return ThreadRights.parse(line.substring(THREAD.length()));
    }

    /** Reads a file. Throws IllegalArgumentException or IndexOutOfBoundsException if the line is invalid. */
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
     * Reads a line and adds it to a summary. Throws IllegalArgumentException or IndexOutOfBoundsException if the line
     * is invalid.
     */
    static void check(String line, RightsSummary summary) {
        if (isThread(line)) {
            ThreadRights thread = thread(line);
            if (!of(thread).startsWith(key(line))) {
                throw new IllegalArgumentException("its number must have " + ID_DIGITS + " digits");
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
            throw new IllegalArgumentException("its first word is unknown");
        }
    }
}
