package io.ppmr.migration.node;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.ProcessSnapshot;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.ResidentMemory;
import io.ppmr.checkpoint.UnnamedFiles;
import io.ppmr.linux.KernelFeatures;
import io.ppmr.linux.KernelFeatures.Feature;
import io.ppmr.linux.ProcFiles;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.protocol.control.JobFacts;
import io.ppmr.protocol.data.MemoryWay;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Reads the facts of a job's processes, proc(5). A process that ends in the meantime is left out, because the job's
 * migration itself notices that. Immutable, for any thread.
 */
public final class JobProbe {
    private static final int MAX_PIDS = 2000;
    private static final long KIB = 1024;
    private static final Set<String> OWN_MEMORY = Set.of("Pss_Anon:", "Pss_Shmem:", "SwapPss:");

    private final ProcessTable processes;
    private final Preparation preparation;

    /** @param preparation checked between two processes */
    public JobProbe(ProcessTable processes, Preparation preparation) {
        this.processes = processes;
        this.preparation = preparation;
    }

    /**
     * Returns the facts of processes and all their descendants.
     *
     * @param checkpointer name of the tool at source and target
     * @param roots the ranks' root processes
     */
    public JobFacts facts(String checkpointer, List<ProcessIdentity> roots) throws CheckpointException {
        return facts(checkpointer, roots, processes.snapshot(), new UnnamedFiles());
    }

    private JobFacts facts(String checkpointer, List<ProcessIdentity> roots, ProcessSnapshot now, UnnamedFiles unnamed)
            throws CheckpointException {
        long residentBytes = 0;
        List<Integer> pids = new ArrayList<>();
        for (ProcessIdentity root : roots) {
            for (ProcessIdentity process : now.tree(root)) {
                preparation.requireTime();
                Path proc = Path.of("/proc", Integer.toString(process.pid()));
                try {
                    residentBytes += residentBytes(proc) + unnamed.bytes(process);
                    if (pids.size() < MAX_PIDS) {
                        processes.findPidInside(process).ifPresent(pids::add);
                    }
                } catch (IOException e) {
                    if (!ProcFiles.meansGone(e) && processes.isAlive(process)) {
                        throw new CheckpointException(
                                "the memory of PID " + process.pid() + " cannot be read (" + e
                                        + "). Remedy: run the service as root",
                                e);
                    }
                }
            }
        }
        return new JobFacts(checkpointer, residentBytes, 0, pids);
    }

    /**
     * Returns the facts of each rank, for a job whose ranks may move to several nodes.
     *
     * @param roots the root process of each rank
     */
    public Map<Integer, JobFacts> facts(String checkpointer, Map<Integer, ProcessIdentity> roots)
            throws CheckpointException {
        Map<Integer, JobFacts> facts = new LinkedHashMap<>();
        ProcessSnapshot now = processes.snapshot();
        UnnamedFiles unnamed = new UnnamedFiles();
        for (Map.Entry<Integer, ProcessIdentity> root : roots.entrySet()) {
            facts.put(root.getKey(), facts(checkpointer, List.of(root.getValue()), now, unnamed));
        }
        return facts;
    }

    /** Adds the facts of the ranks that move to one node, up to the number that fits a frame. */
    public static JobFacts together(Map<Integer, JobFacts> facts, List<Integer> ranks) {
        String checkpointer = "";
        long residentBytes = 0;
        long streamableBytes = 0;
        MemoryWay offer = MemoryWay.IMAGES;
        List<Integer> pids = new ArrayList<>();
        for (int rank : ranks) {
            JobFacts one = facts.get(rank);
            offer = one.streamableBytes() > 0 ? one.offer() : offer;
            checkpointer = one.checkpointer();
            residentBytes += one.residentBytes();
            streamableBytes += one.streamableBytes();
            pids.addAll(one.pids().subList(0, Math.min(one.pids().size(), MAX_PIDS - pids.size())));
        }
        return new JobFacts(checkpointer, residentBytes, streamableBytes, pids).sent(offer);
    }

    /** Returns a process's private memory, and its share of shared memory if the kernel calculates that. */
    static long residentBytes(Path proc) throws IOException {
        return residentBytes(proc, KernelFeatures.here());
    }

    /** Returns that memory on a kernel with these features. */
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

    private static List<String> read(Path file) throws IOException {
        return Files.readAllLines(file, StandardCharsets.ISO_8859_1);
    }
}
