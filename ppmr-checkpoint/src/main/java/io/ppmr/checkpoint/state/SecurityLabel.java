package io.ppmr.checkpoint.state;

import io.ppmr.checkpoint.sharing.EscapedName;
import io.ppmr.linux.ProcFiles;
import java.io.IOException;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The label by which a security module, such as AppArmor, SELinux or Smack, confines a process. A target without that
 * module or its policy would restore the copy without it. Immutable.
 *
 * @param pid the process, in its own PID namespace
 * @param label the label in printable characters
 */
public record SecurityLabel(int pid, String label) {
    private static final Logger LOG = LoggerFactory.getLogger(SecurityLabel.class);
    private static final int MOST_BYTES = 4096;
    /** The label of this service. It is empty if no module gives labels, and then threads are not checked for one. */
    private static final String OWN = read("self");

    /**
     * Reads the label of a process, or empty if it is not confined more than this service.
     *
     * @param process the process, in this service's PID namespace
     * @param pid the process, in its own PID namespace
     */
    public static Optional<SecurityLabel> ofConfined(int process, int pid) {
        String label = OWN.isEmpty() ? "" : read(Integer.toString(process));
        return isFree(label) || label.equals(OWN) ? Optional.empty() : Optional.of(new SecurityLabel(pid, label));
    }

    /** Returns true if a security module gives labels to a process, confined or not. */
    public static boolean isGivenTo(int process) {
        return !read(Integer.toString(process)).isEmpty();
    }

    /** Reads a label. A kernel without a module that gives labels returns an error. */
    private static String read(String process) {
        try {
            String text = ProcFiles.text("/proc/" + process + "/attr/current", MOST_BYTES)
                    .orElse("");
            return EscapedName.text(text.replace('\0', ' ').strip());
        } catch (IOException e) {
            LOG.trace("no label of process {}", process, e);
            return "";
        }
    }

    /**
     * Returns true for a label without confinement. AppArmor shows that no profile, or one of that mode, applies.
     * SELinux has types without limits.
     */
    private static boolean isFree(String label) {
        return label.isEmpty()
                || label.equals("unconfined")
                || label.endsWith(" (unconfined)")
                || label.contains(":unconfined_t:")
                || label.contains(":unconfined_service_t:");
    }

    /**
     * Returns a copy's different label, or empty if it has this one.
     *
     * @param copy its process, in this service's PID namespace
     */
    public Optional<String> otherOf(int copy) {
        String other = read(Integer.toString(copy));
        return other.equals(label)
                ? Optional.empty()
                : Optional.of(
                        "process " + pid + " has " + (other.isEmpty() ? "no security label" : "the label " + other)
                                + ", but its original was confined as " + label);
    }

    /** Returns the label as words, the process's number first. */
    public String words() {
        return pid + " " + label;
    }

    /** Parses the text of {@link #words}. Throws IllegalArgumentException if it is invalid. */
    public static SecurityLabel parse(String text) {
        int blank = text.indexOf(' ');
        if (blank < 0) {
            throw new IllegalArgumentException("'" + text + "' has no label");
        }
        return new SecurityLabel(Integer.parseInt(text.substring(0, blank)), text.substring(blank + 1));
    }
}
