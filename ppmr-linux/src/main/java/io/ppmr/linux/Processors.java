package io.ppmr.linux;

import java.io.IOException;
import java.lang.ref.Reference;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.List;
import java.util.Optional;
import jnr.ffi.Memory;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;

/** Sets of this node's processors, in the kernel's list format: {@code 0-3,8}. Stateless, for any thread. */
public final class Processors {
    private static final Path ONLINE = Path.of("/sys/devices/system/cpu/online");
    /** Higher than the limit of any kernel build. */
    private static final int MOST = 1 << 16;

    /** The number of sched_setaffinity(2), which differs between x86-64 and AArch64. */
    private static final long SET_AFFINITY = System.getProperty("os.arch").equals("aarch64") ? 122 : 203;

    private static final String CGROUPS = "/sys/fs/cgroup";
    private static final String CPUSET = "cpuset";
    private static final int LONGEST_FILE = 1 << 16;

    private Processors() {}

    /** Parses a set. Throws IllegalArgumentException if the text has another form. */
    public static BitSet parse(String list) {
        BitSet set = new BitSet();
        for (String part : list.split(",", -1)) {
            String[] ends = part.split("-", 2);
            int first = Integer.parseInt(ends[0]);
            int last = Integer.parseInt(ends[ends.length - 1]);
            if (first < 0 || last < first || last >= MOST) {
                throw new IllegalArgumentException("'" + list + "' is not a list of processors");
            }
            set.set(first, last + 1);
        }
        return set;
    }

    /** Returns the online processors of this node. */
    public static BitSet online() throws IOException {
        return parse(Files.readString(ONLINE).strip());
    }

    /**
     * Returns the online processors that the cpuset of a process's cgroup allows, cgroups(7). A cpuset belongs to the
     * node, so it is not a setting of the process.
     */
    public static BitSet usableBy(int pid) throws IOException {
        BitSet usable = online();
        String groups = ProcFiles.text("/proc/" + pid + "/cgroup", LONGEST_FILE).orElse("");
        for (String line : groups.split("\n", -1)) {
            String[] fields = line.split(":", 3);
            if (fields.length < 3) {
                continue;
            }
            boolean unified = fields[0].equals("0") && fields[1].isEmpty();
            String file = unified ? "cpuset.cpus.effective" : "cpuset.effective_cpus";
            String root = unified ? CGROUPS : CGROUPS + "/" + CPUSET;
            if (unified || List.of(fields[1].split(",", -1)).contains(CPUSET)) {
                text(root + fields[2] + "/" + file)
                        .filter(text -> !text.isBlank())
                        .ifPresent(text -> usable.and(parse(text.strip())));
            }
        }
        return usable;
    }

    /** Empty if the file does not exist: the cgroup has no cpuset, or is mounted elsewhere. */
    private static Optional<String> text(String file) {
        try {
            return ProcFiles.text(file, LONGEST_FILE);
        } catch (IOException e) {
            return Optional.empty();
        }
    }

    /** Restricts a thread to these processors. Returns false if the kernel refuses. */
    public static boolean setAffinity(int thread, BitSet processors) {
        byte[] bytes = processors.toByteArray();
        // The kernel expects a mask of whole words.
        int maskBytes = (processors.length() + Long.SIZE - 1) / Long.SIZE * Long.BYTES;
        Pointer mask = Memory.allocateDirect(Runtime.getSystemRuntime(), maskBytes, true);
        mask.put(0, bytes, 0, bytes.length);
        try {
            return LibC.CALLS.syscall(SET_AFFINITY, thread, maskBytes, mask.address(), 0) == 0;
        } finally {
            // Keeps the memory alive during the call, which receives only its address.
            Reference.reachabilityFence(mask);
        }
    }
}
