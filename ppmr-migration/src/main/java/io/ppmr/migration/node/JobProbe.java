package io.ppmr.migration.node;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.ProcessSnapshot;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.ResidentMemory;
import io.ppmr.os.KernelFeatures;
import io.ppmr.os.KernelFeatures.Feature;
import io.ppmr.os.Mapping;
import io.ppmr.os.ProcStat;
import io.ppmr.os.ProcessIdentity;
import io.ppmr.protocol.control.JobFacts;
import io.ppmr.protocol.control.JobFacts.MappedFile;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.Predicate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads what a job's processes are and have, proc(5). A process that ends meanwhile is left out: whoever moves the job
 * notices by itself. Immutable, for any thread.
 */
public final class JobProbe {
    private static final Logger LOG = LoggerFactory.getLogger(JobProbe.class);

    /** Enough for any program, and small enough for one frame. */
    private static final int MAX_FILES = 300;

    private static final int MAX_FILE_TEXT = 40_000;
    private static final int MAX_PIDS = 2000;
    private static final long KIB = 1024;
    private static final int FILE_TYPE = 0170000;
    private static final int REGULAR = 0100000;
    private static final Set<String> OWN_MEMORY = Set.of("Pss_Anon:", "Pss_Shmem:", "SwapPss:");

    private final ProcessTable processes;
    private final Preparation preparation;

    /** @param preparation asked between two processes */
    public JobProbe(ProcessTable processes, Preparation preparation) {
        this.processes = processes;
        this.preparation = preparation;
    }

    /**
     * The facts of processes and of all that descend from them.
     *
     * @param checkpointer by which source and target know the tool
     * @param roots the ranks' root processes
     */
    public JobFacts facts(String checkpointer, List<ProcessIdentity> roots) throws CheckpointException {
        return facts(checkpointer, roots, processes.snapshot());
    }

    private JobFacts facts(String checkpointer, List<ProcessIdentity> roots, ProcessSnapshot now)
            throws CheckpointException {
        long residentBytes = 0;
        List<Integer> pids = new ArrayList<>();
        Map<String, MappedFile> files = new LinkedHashMap<>();
        for (ProcessIdentity root : roots) {
            for (ProcessIdentity process : now.tree(root)) {
                preparation.requireTime();
                Path proc = Path.of("/proc", Integer.toString(process.pid()));
                try {
                    residentBytes += residentBytes(proc);
                    addFiles(proc, files);
                    if (pids.size() < MAX_PIDS) {
                        pids.add(processes.pidInside(process));
                    }
                } catch (CheckpointException e) {
                    if (processes.isAlive(process)) {
                        throw e;
                    }
                } catch (IOException e) {
                    if (processes.isAlive(process)) {
                        throw new CheckpointException(
                                "the memory of PID " + process.pid() + " may not be looked at (" + e
                                        + "). Remedy: run the service as root",
                                e);
                    }
                }
            }
        }
        return new JobFacts(checkpointer, residentBytes, 0, pids, List.copyOf(files.values()));
    }

    /**
     * The facts of each rank, for a job whose ranks may go to several nodes.
     *
     * @param roots the root process of each rank
     */
    public Map<Integer, JobFacts> facts(String checkpointer, Map<Integer, ProcessIdentity> roots)
            throws CheckpointException {
        Map<Integer, JobFacts> facts = new LinkedHashMap<>();
        ProcessSnapshot now = processes.snapshot();
        for (Map.Entry<Integer, ProcessIdentity> root : roots.entrySet()) {
            facts.put(root.getKey(), facts(checkpointer, List.of(root.getValue()), now));
        }
        return facts;
    }

    /** Adds up the facts of the ranks that go to one node; as many of them as fit a frame. */
    public static JobFacts together(Map<Integer, JobFacts> facts, List<Integer> ranks) {
        String checkpointer = "";
        long residentBytes = 0;
        long streamableBytes = 0;
        List<Integer> pids = new ArrayList<>();
        Map<String, MappedFile> files = new LinkedHashMap<>();
        int text = 0;
        for (int rank : ranks) {
            JobFacts one = facts.get(rank);
            checkpointer = one.checkpointer();
            residentBytes += one.residentBytes();
            streamableBytes += one.streamableBytes();
            pids.addAll(one.pids().subList(0, Math.min(one.pids().size(), MAX_PIDS - pids.size())));
            for (MappedFile file : one.files()) {
                if (files.size() < MAX_FILES && text < MAX_FILE_TEXT && files.putIfAbsent(file.path(), file) == null) {
                    text += file.path().length();
                }
            }
        }
        return new JobFacts(checkpointer, residentBytes, streamableBytes, pids, List.copyOf(files.values()));
    }

    /** Returns the memory that is a process's alone; of shared memory its share, where the kernel reckons that. */
    static long residentBytes(Path proc) throws IOException {
        return residentBytes(proc, KernelFeatures.here());
    }

    /** The same, on a kernel that has these features. */
    static long residentBytes(Path proc, KernelFeatures kernel) throws IOException {
        if (!kernel.has(Feature.SMAPS_ROLLUP)) {
            return ResidentMemory.unfiledBytesBySmaps(proc);
        }
        long kib = 0;
        for (String line : read(proc.resolve("smaps_rollup"))) {
            String[] words = line.split("\\s+", -1);
            if (OWN_MEMORY.contains(words[0])) {
                kib += ProcStat.kib(line);
            }
        }
        return kib * KIB;
    }

    private static void addFiles(Path proc, Map<String, MappedFile> files) throws IOException {
        // Line by line: a process can have 65,530 mappings of files with names of 4 KiB.
        try (BufferedReader maps = Files.newBufferedReader(proc.resolve("maps"), StandardCharsets.ISO_8859_1)) {
            for (String line = maps.readLine(); line != null && files.size() < MAX_FILES; line = maps.readLine()) {
                addFile(proc, line, files);
            }
        }
    }

    private static void addFile(Path proc, String line, Map<String, MappedFile> files) {
        Optional<Mapping> mapping = Mapping.parse(line);
        String path = mapping.filter(Mapping::hasFile).map(Mapping::path).orElse("");
        boolean named = path.startsWith("/")
                && !path.startsWith("/dev/")
                && !path.startsWith("/memfd:")
                && !path.startsWith("/SYSV")
                && !path.endsWith(" (deleted)");
        int text = files.keySet().stream().mapToInt(String::length).sum();
        if (named && !files.containsKey(path) && files.size() < MAX_FILES && text < MAX_FILE_TEXT) {
            String name = new String(path.getBytes(StandardCharsets.ISO_8859_1), StandardCharsets.UTF_8);
            lengthBytes(proc, mapping.get(), name)
                    .ifPresent(lengthBytes -> files.put(path, new MappedFile(name, lengthBytes)));
        }
    }

    /**
     * Returns the size of the regular file that is mapped; empty if it is none, or cannot be looked at. The kernel's
     * link in {@code map_files} leads to the very file. The path is the process's own: a user can put a link in its
     * place that leads to another user's file. So where there is no such link the file of that path counts only if it
     * is the one that is mapped.
     */
    static OptionalLong lengthBytes(Path proc, Mapping mapping, String path) {
        Path link = proc.resolve("map_files").resolve(mapping.link());
        Path inside = proc.resolve("root").resolve(path.substring(1));
        return regular(link, found -> true).orElseGet(() -> regular(
                        inside,
                        found -> found.get("ino").equals(mapping.inode())
                                && found.get("dev").equals(mapping.device()))
                .orElse(OptionalLong.empty()));
    }

    /** Returns the size of a file that is the wanted one; nothing in it where it is no regular file of that kind. */
    private static Optional<OptionalLong> regular(Path file, Predicate<Map<String, Object>> wanted) {
        try {
            Map<String, Object> found = Files.readAttributes(file, "unix:dev,ino,mode,size");
            boolean counts = ((int) found.get("mode") & FILE_TYPE) == REGULAR && wanted.test(found);
            return Optional.of(counts ? OptionalLong.of((long) found.get("size")) : OptionalLong.empty());
        } catch (IOException | InvalidPathException e) {
            LOG.debug("{} is not looked at: {}", file, e.toString());
            return Optional.empty();
        }
    }

    private static List<String> read(Path file) throws IOException {
        return Files.readAllLines(file, StandardCharsets.ISO_8859_1);
    }
}
