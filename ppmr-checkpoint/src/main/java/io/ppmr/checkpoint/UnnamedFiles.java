package io.ppmr.checkpoint;

import io.ppmr.linux.MappingLine;
import io.ppmr.linux.ProcFiles;
import io.ppmr.linux.ProcFiles.FileStatus;
import io.ppmr.linux.ProcMaps;
import io.ppmr.linux.ProcessIdentity;
import java.io.File;
import java.io.IOException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * Sums the open files of a job without a path. They are completely in its images, and are not part of its processes'
 * memory. Each file counts once, however often it is open. No filesystem's server is queried. For one thread.
 */
public final class UnnamedFiles {
    private static final String UNNAMED = " (deleted)";
    private static final String MEMFD = "/memfd:";

    private final Set<String> seen = new HashSet<>();

    /**
     * Returns the size of a process's open unnamed files that were not counted before. Mapped parts of in-memory files
     * are resident memory, and count there.
     *
     * @throws IOException if they cannot be inspected; a process that ended has none
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

    /** Returns the mapped size of each unnamed in-memory file, by its number. */
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
