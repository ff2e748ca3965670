package io.ppmr.checkpoint;

import io.ppmr.os.MappingLine;
import io.ppmr.os.ProcFiles;
import io.ppmr.os.ProcFiles.FileStatus;
import io.ppmr.os.ProcMaps;
import io.ppmr.os.ProcessIdentity;
import java.io.File;
import java.io.IOException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * Adds up the open files of a job that no path leads to: they go into its images as a whole, and the memory of its
 * processes does not count them. Each is counted once, however often it is open. No server of a filesystem is asked.
 * For one thread.
 */
public final class UnnamedFiles {
    private static final String UNNAMED = " (deleted)";
    private static final String MEMFD = "/memfd:";

    private final Set<String> seen = new HashSet<>();

    /**
     * Returns the bytes of those that a process has open and that were not counted before. What it has mapped of files
     * in memory is its resident memory, and counts there.
     *
     * @throws IOException if they may not be looked at; a process that has ended has none
     */
    public long bytes(ProcessIdentity process) throws IOException {
        String folder = "/proc/" + process.pid() + "/fd";
        String[] numbers = new File(folder).list();
        Map<Long, Long> mapped = null;
        long bytes = 0;
        for (String number : numbers == null ? new String[0] : numbers) {
            String link = folder + "/" + number;
            Optional<String> path = ProcFiles.link(link);
            if (path.isEmpty() || !path.get().startsWith("/") || !path.get().endsWith(UNNAMED)) {
                continue;
            }
            Optional<FileStatus> file = ProcFiles.status(link);
            if (file.isPresent()
                    && file.get().isRegular()
                    && file.get().links() == 0
                    && seen.add(file.get().device() + " " + file.get().inode())) {
                mapped = mapped == null ? mapped(process.pid()) : mapped;
                boolean inMemory = path.get().startsWith(MEMFD) || path.get().startsWith("/dev/shm/");
                long counted = inMemory ? mapped.getOrDefault(file.get().inode(), 0L) : 0;
                bytes += Math.max(0, file.get().allocatedBytes() - counted);
            }
        }
        return bytes;
    }

    /** Returns how much is mapped of each file in memory without a name, by its number. */
    private static Map<Long, Long> mapped(int pid) throws IOException {
        Map<Long, Long> mapped = new HashMap<>();
        ProcMaps.read(pid, line -> {
            if (line.endsWith(UNNAMED)) {
                MappingLine.parse(line).ifPresent(one -> mapped.merge(one.inode(), one.to() - one.from(), Long::sum));
            }
        });
        return mapped;
    }
}
