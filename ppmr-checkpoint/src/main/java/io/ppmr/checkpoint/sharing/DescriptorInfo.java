package io.ppmr.checkpoint.sharing;

import io.ppmr.linux.ProcFiles;
import io.ppmr.linux.ProcFolder;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * The lines of {@code /proc/PID/fdinfo/N}, proc_pid_fdinfo(5). Immutable.
 *
 * @param flags flags of open(2)
 * @param text all lines
 */
public record DescriptorInfo(long flags, String text) {
    private static final int MOST_BYTES = 64 << 20;
    private static final int OCTAL = 8;
    private static final long ACCESS = 3;
    private static final long WRITE_ONLY = 1;
    private static final long READ_ONLY = 0;
    private static final long APPENDS = 02000;
    private static final long PATH_ONLY = 010000000;

    /** Reads the lines, or empty if the descriptor or its process is gone. */
    public static Optional<DescriptorInfo> read(int pid, String number) throws IOException {
        return ProcFiles.text("/proc/" + pid + "/fdinfo/" + number, MOST_BYTES).map(DescriptorInfo::of);
    }

    /**
     * Reads the lines, or empty if the descriptor or its process is gone.
     *
     * @param folder the {@code fdinfo} of a process
     */
    public static Optional<DescriptorInfo> read(ProcFolder folder, String number) throws IOException {
        return folder.text(number, MOST_BYTES).map(DescriptorInfo::of);
    }

    private static DescriptorInfo of(String text) {
        long flags =
                value(text, "flags:").map(octal -> Long.parseLong(octal, OCTAL)).orElse(0L);
        return new DescriptorInfo(flags, text);
    }

    public boolean reads() {
        return (flags & ACCESS) != WRITE_ONLY;
    }

    public boolean writes() {
        return (flags & ACCESS) != READ_ONLY;
    }

    public boolean appends() {
        return (flags & APPENDS) != 0;
    }

    public boolean isPathOnly() {
        return (flags & PATH_ONLY) != 0;
    }

    /** Returns the value of a line, or empty if there is none of that name. */
    public Optional<String> value(String name) {
        return value(text, name);
    }

    private static Optional<String> value(String text, String name) {
        int start = text.startsWith(name) ? 0 : text.indexOf("\n" + name) + 1;
        if (start == 0 && !text.startsWith(name)) {
            return Optional.empty();
        }
        int end = text.indexOf('\n', start);
        return Optional.of(text.substring(start + name.length(), end < 0 ? text.length() : end)
                .strip());
    }

    /** Returns the first words of all lines of that name. */
    public List<String> values(String name) {
        List<String> found = new ArrayList<>();
        for (int at = text.indexOf("\n" + name); at >= 0; at = text.indexOf("\n" + name, at + 1)) {
            int start = at + 1 + name.length();
            while (start < text.length() && text.charAt(start) == ' ') {
                start++;
            }
            int end = start;
            while (end < text.length() && text.charAt(end) > ' ') {
                end++;
            }
            found.add(text.substring(start, end));
        }
        return found;
    }
}
