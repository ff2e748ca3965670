package io.ppmr.checkpoint.files;

import io.ppmr.checkpoint.sharing.EscapedName;

/**
 * A file that a process of a rank has open, mapped, or as a directory or program. Immutable.
 *
 * @param pid the process
 * @param process its name
 * @param place where it has it: {@code descriptor 5}
 * @param link what leads to it rather than the path: its link in {@code /proc}, or another reading of its path; may be
 *     empty
 * @param path a character from 0 to 255 for each byte
 * @param inode its number, where the kernel shows it with the path; else empty
 * @param reads whether it is read
 * @param writes whether it can be written
 * @param runs whether it is a program or a library whose code is run: what it is tells its build ID then
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

    /** Returns true if the kernel says that the name is gone; a name can also end so. */
    public boolean seemsUnnamed() {
        return path.endsWith(UNNAMED);
    }

    /**
     * Returns the path by which another node has it.
     *
     * @param which of {@link #link} and {@link #path} has led to it here, 1 or 2
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
