package io.ppmr.checkpoint.files;

import io.ppmr.checkpoint.sharing.DescriptorInfo;
import io.ppmr.os.ProcFiles;
import io.ppmr.os.ProcFolder;
import io.ppmr.os.ProcMaps;
import java.io.IOException;
import java.nio.file.NoSuchFileException;
import java.util.Optional;

/**
 * Lists the files that a process has open or mapped, with its program and its working directory, out of {@code /proc}.
 * Each is read once and kept nowhere. For any thread; touches no process, and looks at no file.
 */
public final class OpenedFiles {
    private static final int FIELDS = 6;
    private static final int PERMISSIONS = 1;
    private static final int INODE = 4;
    private static final int NAME = 5;
    private static final int WRITES = 1;
    private static final int SHARED = 3;
    private static final String LINE_END = "\\012";

    /** Receives files. */
    @FunctionalInterface
    public interface Sink {
        void accept(OpenedFile file) throws IOException;
    }

    private OpenedFiles() {}

    /**
     * Tells those of a process; none if it has ended.
     *
     * @param process its name
     */
    public static void read(int pid, String process, Sink sink) throws IOException {
        String own = "/proc/" + pid;
        try (ProcFolder links = ProcFolder.open(own + "/fd");
                ProcFolder infos = ProcFolder.open(own + "/fdinfo")) {
            links.each(number -> descriptor(pid, process, links, infos, number, sink));
        } catch (NoSuchFileException e) {
            return;
        }
        linked(pid, process, "working directory", own + "/cwd", sink);
        linked(pid, process, "program", own + "/exe", sink);
        String[] last = {""};
        ProcMaps.read(pid, line -> {
            String[] fields = line.split(" +", FIELDS);
            if (fields.length == FIELDS && fields[NAME].startsWith("/") && !isMemory(fields[NAME])) {
                boolean writes = fields[PERMISSIONS].charAt(SHARED) == 's' && fields[PERMISSIONS].charAt(WRITES) == 'w';
                String key = writes + fields[INODE] + fields[NAME];
                // The parts of a library come one after the other.
                if (!key.equals(last[0])) {
                    last[0] = key;
                    mapping(pid, process, fields, writes, sink);
                }
            }
        });
    }

    private static void descriptor(
            int pid, String process, ProcFolder links, ProcFolder infos, String number, Sink sink) throws IOException {
        Optional<String> path = links.link(number);
        if (path.isEmpty() || !path.get().startsWith("/") || isMemory(path.get())) {
            return;
        }
        Optional<DescriptorInfo> info = DescriptorInfo.read(infos, number);
        if (info.isPresent()) {
            boolean opened = !info.get().isPathOnly();
            sink.accept(new OpenedFile(
                    pid,
                    process,
                    "descriptor " + number,
                    links + "/" + number,
                    path.get(),
                    info.get().value("ino:").orElse(""),
                    opened && info.get().reads(),
                    opened && info.get().writes()));
        }
    }

    private static void linked(int pid, String process, String place, String link, Sink sink) throws IOException {
        Optional<String> path = ProcFiles.link(link);
        if (path.isPresent() && path.get().startsWith("/")) {
            sink.accept(new OpenedFile(pid, process, place, link, path.get(), "", true, false));
        }
    }

    private static void mapping(int pid, String process, String[] fields, boolean writes, Sink sink)
            throws IOException {
        String shown = fields[NAME];
        String plain = shown.replace(LINE_END, "\n");
        String other = plain.equals(shown) ? "" : shown;
        sink.accept(new OpenedFile(pid, process, "a mapping", other, plain, fields[INODE], true, writes));
    }

    /** Memory that no path leads to. */
    private static boolean isMemory(String path) {
        return path.startsWith("/memfd:")
                || path.startsWith("/SYSV")
                || path.startsWith("/dev/zero (deleted)")
                || path.startsWith("/anon_hugepage (deleted)")
                || path.startsWith("/[");
    }

    /** Returns true if the process still has the file there. */
    public static boolean isStillThere(OpenedFile file) throws IOException {
        if (file.link().startsWith("/proc/")) {
            return ProcFiles.link(file.link()).filter(file.path()::equals).isPresent();
        }
        boolean[] found = {false};
        ProcMaps.read(
                file.pid(), line -> found[0] |= line.replace(LINE_END, "\n").endsWith(" " + file.path()));
        return found[0];
    }
}
