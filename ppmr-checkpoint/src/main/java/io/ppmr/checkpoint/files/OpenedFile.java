package io.ppmr.checkpoint.files;

import io.ppmr.checkpoint.sharing.EscapedName;

/**
 * A file that a process of a rank has open, mapped, or as a directory or program. Immutable.
 *
 * @param pid the process
 * @param process its name
 * @param place place in the process: {@code descriptor 5}
 * @param link a more reliable way to it than the path: its link in {@code /proc}, or another reading of its path;
 *     may be empty
 * @param path a character from 0 to 255 for each byte
 * @param inode its number, if the kernel shows it with the path; otherwise empty
 * @param reads whether it is read
 * @param writes whether it can be written
 * @param runs whether it is a program or a library with running code, so that its build ID identifies it
 */
public record OpenedFile(
        int pid,
        String process,
        String place,
        String link,
        String path,
        String inode,
        boolean reads,
        boolean writes,
        boolean runs) {
    private static final String UNNAMED = " (deleted)";
    private static final String PROC = "/proc/";

    /** Returns true if the kernel marks the name as removed. A real name can also have this end. */
    public boolean seemsUnnamed() {
        return path.endsWith(UNNAMED);
    }

    /** Returns the path without the kernel's mark of a removed name. */
    public String pathBefore() {
        return seemsUnnamed() ? path.substring(0, path.length() - UNNAMED.length()) : path;
    }

    /**
     * Returns the path of the file for another node.
     *
     * @param which 1 if {@link #link}, 2 if {@link #path} led to it here
     */
    public String pathElsewhere(int which) {
        return which == 1 && !link.startsWith(PROC) ? link : path;
    }

    /** Returns the path for people, in one line. */
    public String shown() {
        return EscapedName.text(path);
    }

    @Override
    public String toString() {
        String mode = writes ? reads ? "reading and writing" : "writing" : "reading";
        return "PID " + pid + " (" + process + ") has " + shown() + " as " + place
                + (place.startsWith("descriptor") ? ", open for " + mode : "");
    }
}
