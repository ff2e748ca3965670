package io.ppmr.checkpoint.files;

import io.ppmr.checkpoint.sharing.DescriptorInfo;
import io.ppmr.checkpoint.sharing.EscapedName;
import io.ppmr.checkpoint.sharing.MappingScan;
import io.ppmr.checkpoint.sharing.Refusal;
import io.ppmr.linux.ProcFiles;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import java.io.File;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * Finds processes outside of a rank that use files which move with it. The copy has its own files, so later writes of
 * those processes would not reach it. It reads the descriptors and the shared mappings in {@code /proc} once, and
 * touches no process. For one thread.
 */
public final class OutsideHolders {
    private static final String REMEDY = "share the folder between both nodes, or have one of them close the file";

    private static final int MOST_ANCESTORS = 64;

    private record Carried(int rank, CarriedFile file) {}

    private final Map<String, List<Carried>> carried = new HashMap<>();
    /** The rank of each process of the job. */
    private final Map<Integer, Integer> ranks = new HashMap<>();

    /**
     * @param carried each rank's files, by the paths that its processes have open
     *
     * @param trees processes of all ranks of the job
     */
    public OutsideHolders(Map<Integer, Map<String, CarriedFile>> carried, Map<Integer, List<ProcessIdentity>> trees) {
        carried.forEach((rank, files) -> files.forEach((path, file) ->
                this.carried.computeIfAbsent(path, unknown -> new ArrayList<>()).add(new Carried(rank, file))));
        trees.forEach((rank, tree) -> tree.forEach(process -> ranks.put(process.pid(), rank)));
    }

    /** Returns a process of this node that has one of these files open, or empty if there is none. */
    public static Optional<String> holderOf(Set<String> paths) throws IOException {
        String[] names = paths.isEmpty() ? null : new File("/proc").list();
        for (String name : names == null ? new String[0] : names) {
            String[] numbers =
                    name.chars().allMatch(Character::isDigit) ? new File("/proc/" + name + "/fd").list() : null;
            for (String number : numbers == null ? new String[0] : numbers) {
                try {
                    Optional<String> link = ProcFiles.link("/proc/" + name + "/fd/" + number);
                    if (link.filter(paths::contains).isPresent()) {
                        return Optional.of("PID " + name + " has the file open that would be replaced: "
                                + EscapedName.text(link.get()));
                    }
                } catch (AccessDeniedException e) {
                    // A process with more capabilities than the service is not visible, as in every other scan.
                    break;
                }
            }
        }
        return Optional.empty();
    }

    /** Checks all processes. Returns why a rank cannot be moved, or empty if there is no obstacle. */
    public Optional<Refusal> find() throws IOException {
        String[] names = new File("/proc").list();
        for (String name : names == null ? new String[0] : names) {
            if (name.chars().allMatch(Character::isDigit)) {
                Optional<Refusal> found = of(Integer.parseInt(name));
                if (found.isPresent()) {
                    return found;
                }
            }
        }
        return Optional.empty();
    }

    private Optional<Refusal> of(int pid) throws IOException {
        Optional<Refusal> open = opened(pid);
        return open.isPresent() ? open : mapped(pid);
    }

    /** Checks the mappings, because one outlives the descriptor that it was made with. */
    private Optional<Refusal> mapped(int pid) throws IOException {
        List<Carried> found = new ArrayList<>();
        try {
            MappingScan.read(pid, mapping -> {
                for (Carried one : carried.getOrDefault(mapping.name(), List.of())) {
                    boolean same = one.file().inode().equals(Long.toString(mapping.inode()));
                    if (same && isInTheWay(one, mapping.writes(), ranks.get(pid))) {
                        found.add(one);
                    }
                }
            });
        } catch (AccessDeniedException e) {
            return Optional.empty();
        }
        if (found.isEmpty()) {
            return Optional.empty();
        }
        noteNewProcess(pid);
        return found.stream()
                .filter(one -> isAlive(pid) && isOutside(one, ranks.get(pid)))
                .findFirst()
                .map(one -> refusal(one, pid, "mapped, and may write to it through that"));
    }

    private Optional<Refusal> opened(int pid) throws IOException {
        String[] numbers = new File("/proc/" + pid + "/fd").list();
        try {
            for (String number : numbers == null ? new String[0] : numbers) {
                List<Carried> same = ProcFiles.link("/proc/" + pid + "/fd/" + number)
                        .map(carried::get)
                        .orElse(List.of());
                Optional<DescriptorInfo> info = same.isEmpty() ? Optional.empty() : DescriptorInfo.read(pid, number);
                for (Carried one : same) {
                    if (info.isPresent() && isInTheWay(one, info.get(), ranks.get(pid))) {
                        noteNewProcess(pid);
                        if (isAlive(pid) && isInTheWay(one, info.get(), ranks.get(pid))) {
                            return Optional.of(refusal(one, pid, "open as descriptor " + number));
                        }
                    }
                }
            }
        } catch (AccessDeniedException e) {
            // A process with more capabilities than the service is not visible, as in every other scan.
            return Optional.empty();
        }
        return Optional.empty();
    }

    /** Assigns a new process to its rank, because a rank's process may have forked it since they were listed. */
    private void noteNewProcess(int pid) {
        int ancestor = pid;
        Integer rank = ranks.get(ancestor);
        for (int steps = 0; rank == null && ancestor > 1 && steps < MOST_ANCESTORS; steps++) {
            ancestor = ProcStat.read(Path.of("/proc", Integer.toString(ancestor), "stat"))
                    .map(ProcStat::parent)
                    .orElse(0);
            rank = ranks.get(ancestor);
        }
        if (rank != null) {
            ranks.put(pid, rank);
        }
    }

    private static boolean isAlive(int pid) {
        return ProcStat.read(Path.of("/proc", Integer.toString(pid), "stat")).isPresent();
    }

    /**
     * Returns true for an obstacle. A reader outside of the job only misses later writes. Another rank would have an
     * older file.
     */
    private static boolean isInTheWay(Carried one, DescriptorInfo info, Integer holder) {
        boolean same = !info.isPathOnly()
                && info.value("ino:").map(one.file().inode()::equals).orElse(true);
        return same && isInTheWay(one, info.writes(), holder);
    }

    private static boolean isInTheWay(Carried one, boolean writes, Integer holder) {
        return isOutside(one, holder)
                && (writes || (holder != null && one.file().file().writes()));
    }

    private static boolean isOutside(Carried one, Integer holder) {
        return holder == null || holder != one.rank();
    }

    private Refusal refusal(Carried one, int pid, String how) {
        Integer other = ranks.get(pid);
        String process = ProcStat.read(Path.of("/proc", Integer.toString(pid), "stat"))
                .map(ProcStat::name)
                .orElse("ended");
        return new Refusal(
                one.rank(),
                one.file().file() + ", which moves with the rank (files.copy), and PID " + pid + " (" + process
                        + ") has the same file " + how
                        + (other == null
                                ? ", which is outside of the rank and stays on this node"
                                : ", which belongs to rank " + other + ", and each rank is moved separately"),
                REMEDY);
    }
}
