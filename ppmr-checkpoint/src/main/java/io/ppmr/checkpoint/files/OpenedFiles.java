package io.ppmr.checkpoint.files;

import io.ppmr.checkpoint.sharing.DescriptorInfo;
import io.ppmr.linux.ProcFiles;
import io.ppmr.linux.ProcFolder;
import io.ppmr.linux.ProcMaps;
import java.io.IOException;
import java.nio.file.NoSuchFileException;
import java.util.Optional;

/**
 * Lists the files that a process has open or mapped, with its program and its working directory, from {@code /proc}.
 * Each is read once and not kept. For any thread; touches no process, and accesses no file.
 */
public final class OpenedFiles {
    /** Maximum number of times that a descriptor is read again, because it was replaced in the meantime. */
    private static final int ATTEMPTS = 20;

    private static final int FIELDS = 6;
    private static final int HEX = 16;
    private static final int RANGE = 0;
    private static final int PERMISSIONS = 1;
    private static final int INODE = 4;
    private static final int NAME = 5;
    private static final int WRITES = 1;
    private static final int RUNS = 2;
    private static final int SHARED = 3;
    private static final String PROGRAM = "program";
    private static final String LINE_END = "\\012";

    /** Receives files. */
    @FunctionalInterface
    public interface FileSink {
        void accept(OpenedFile file) throws IOException;
    }

    private OpenedFiles() {}

    /**
     * Passes the files of a process, or none if it ended.
     *
     * @param process its name
     */
    public static void read(int pid, String process, FileSink sink) throws IOException {
        String own = "/proc/" + pid;
        try (ProcFolder links = ProcFolder.open(own + "/fd");
                ProcFolder infos = ProcFolder.open(own + "/fdinfo")) {
            links.forEach(number -> {
                descriptor(pid, process, links, infos, number, sink);
                return true;
            });
        } catch (NoSuchFileException e) {
            return;
        }
        linked(pid, process, "working directory", own + "/cwd", sink);
        linked(pid, process, PROGRAM, own + "/exe", sink);
        Mappings mappings = new Mappings(pid, process, sink);
        ProcMaps.read(pid, mappings::add);
        mappings.end();
    }

    /** The mappings of a process. Adjacent mappings of one library are passed as one. */
    private static final class Mappings {
        private final int pid;
        private final String process;
        private final FileSink sink;
        private String[] last;
        private boolean writes;
        private boolean runs;

        Mappings(int pid, String process, FileSink sink) {
            this.pid = pid;
            this.process = process;
            this.sink = sink;
        }

        void add(String line) throws IOException {
            String[] fields = line.split(" +", FIELDS);
            if (fields.length < FIELDS || !fields[NAME].startsWith("/") || isMemory(fields[NAME])) {
                return;
            }
            String permissions = fields[PERMISSIONS];
            boolean written = permissions.charAt(SHARED) == 's' && permissions.charAt(WRITES) == 'w';
            if (last == null
                    || written != writes
                    || !fields[INODE].equals(last[INODE])
                    || !fields[NAME].equals(last[NAME])) {
                end();
                last = fields;
                writes = written;
                runs = false;
            }
            runs |= permissions.charAt(RUNS) == 'x';
        }

        void end() throws IOException {
            if (last != null) {
                mapping(pid, process, last, writes, runs, sink);
                last = null;
            }
        }
    }

    private static void descriptor(
            int pid, String process, ProcFolder links, ProcFolder infos, String number, FileSink sink)
            throws IOException {
        Optional<String> path = links.link(number);
        if (path.isEmpty() || !path.get().startsWith("/") || isMemory(path.get())) {
            return;
        }
        Optional<DescriptorInfo> info = DescriptorInfo.read(infos, number);
        // A shell, for example, replaces its standard output for the time of one command.
        for (int attempt = 0; attempt < ATTEMPTS && !links.link(number).equals(path); attempt++) {
            path = links.link(number);
            info = path.isEmpty() || !path.get().startsWith("/") || isMemory(path.get())
                    ? Optional.empty()
                    : DescriptorInfo.read(infos, number);
        }
        if (info.isPresent() && path.isPresent()) {
            boolean opened = !info.get().isPathOnly();
            sink.accept(new OpenedFile(
                    pid,
                    process,
                    "descriptor " + number,
                    links + "/" + number,
                    path.get(),
                    info.get().value("ino:").orElse(""),
                    opened && info.get().reads(),
                    opened && info.get().writes(),
                    false));
        }
    }

    private static void linked(int pid, String process, String place, String link, FileSink sink) throws IOException {
        Optional<String> path = ProcFiles.link(link);
        if (path.isPresent() && path.get().startsWith("/")) {
            sink.accept(new OpenedFile(pid, process, place, link, path.get(), "", true, false, place.equals(PROGRAM)));
        }
    }

    private static void mapping(int pid, String process, String[] fields, boolean writes, boolean runs, FileSink sink)
            throws IOException {
        sink.accept(new OpenedFile(
                pid, process, "a mapping", "", mappedPath(pid, fields), fields[INODE], true, writes, runs));
    }

    /**
     * Reads a mapping's name. In a line of mappings the kernel writes a newline as a backslash and digits, but a name
     * can contain these itself. The link of the mapping shows the real name.
     */
    private static String mappedPath(int pid, String[] fields) throws IOException {
        String shown = fields[NAME];
        if (!shown.contains(LINE_END)) {
            return shown;
        }
        int dash = fields[RANGE].indexOf('-');
        String link = "/proc/" + pid + "/map_files/" + plain(fields[RANGE].substring(0, dash)) + "-"
                + plain(fields[RANGE].substring(dash + 1));
        return ProcFiles.link(link).filter(path -> written(path).equals(shown)).orElse(shown.replace(LINE_END, "\n"));
    }

    /**
     * Removes leading zeros of an address. {@code map_files} does not have the zeros that {@code maps} puts before
     * addresses.
     */
    private static String plain(String address) {
        return Long.toHexString(Long.parseUnsignedLong(address, HEX));
    }

    /** Returns a name in the form of a line of mappings. */
    private static String written(String path) {
        return path.replace("\n", LINE_END);
    }

    /** Returns true for memory that no path leads to. */
    private static boolean isMemory(String path) {
        return path.startsWith("/memfd:")
                || path.startsWith("/SYSV")
                || path.startsWith("/dev/zero (deleted)")
                || path.startsWith("/anon_hugepage (deleted)")
                || path.startsWith("/[");
    }

    /** Returns true if the process still has the file at that place. */
    public static boolean isStillThere(OpenedFile file) throws IOException {
        if (BoundNames.isOne(file)) {
            return BoundNames.isStillThere(file);
        }
        if (file.link().startsWith("/proc/")) {
            return ProcFiles.link(file.link()).filter(file.path()::equals).isPresent();
        }
        boolean[] found = {false};
        String end = " " + written(file.path());
        ProcMaps.read(file.pid(), line -> found[0] |= line.endsWith(end));
        return found[0];
    }
}
