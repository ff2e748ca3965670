package io.ppmr.checkpoint;

import io.ppmr.checkpoint.limits.CriuLooks;
import io.ppmr.checkpoint.sharing.HolderScan;
import io.ppmr.checkpoint.sharing.JobHolds;
import io.ppmr.checkpoint.sharing.MemberLook;
import io.ppmr.checkpoint.sharing.Refusal;
import io.ppmr.checkpoint.sharing.SharingRules;
import io.ppmr.os.ProcStat;
import io.ppmr.os.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.LongFunction;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Refuses ranks that share an object of the kernel with a process that is not moved with them: the copy would have one
 * side of a pipe, a socket or a terminal whose other side stayed behind, or a file position or memory of its own. The
 * same look finds what CRIU does not write. One look at {@code /proc} serves all ranks of a job. A job changes while
 * it is looked at, so what is found is looked for again, and it counts if a quarter of the looks find it. For any
 * thread; touches no process.
 *
 * @param table finds the processes
 * @param externalSockets paths of Unix sockets whose connections are dealt with otherwise
 * @param looks for what CRIU does not write
 * @param patience how long a job is looked at in which something was found, at least
 * @param limit how long one look may take; a filesystem that does not answer could hold it up for ever
 */
record SharingCheck(
        ProcessTable table, List<String> externalSockets, CriuLooks looks, Duration patience, Duration limit) {
    private static final Logger LOG = LoggerFactory.getLogger(SharingCheck.class);
    private static final int LEAST_LOOKS = 8;
    private static final int COUNTS_IF_ONE_IN = 4;

    /** With the times of a service. */
    SharingCheck(ProcessTable table, List<String> externalSockets, CriuLooks looks) {
        this(table, externalSockets, looks, Duration.ofMillis(300), Duration.ofSeconds(30));
    }

    /**
     * Throws if a rank shares something; names the process, the shared object, the other process and the remedy.
     *
     * @param ownMounts whether files must be open through mounts of their processes' mount namespaces
     */
    void require(Map<Integer, ProcessIdentity> roots, boolean ownMounts) throws CheckpointException {
        Map<Integer, List<Refusal>> found = look(roots, ownMounts, looks::beforeStop);
        if (found.isEmpty()) {
            return;
        }
        Map<Integer, Integer> sightings = new TreeMap<>();
        Map<Integer, List<Refusal>> last = new HashMap<>();
        int sights = 0;
        long beganNs = System.nanoTime();
        while (true) {
            sights++;
            found.keySet().forEach(rank -> sightings.merge(rank, 1, Integer::sum));
            last.putAll(found);
            long tookNs = System.nanoTime() - beganNs;
            if ((sights >= LEAST_LOOKS && tookNs >= patience.toNanos()) || tookNs >= limit.toNanos()) {
                break;
            }
            found = look(roots, ownMounts, looks::beforeStop);
        }
        for (Map.Entry<Integer, Integer> rank : sightings.entrySet()) {
            if (rank.getValue() * COUNTS_IF_ONE_IN >= sights) {
                throw new CheckpointException(
                        "rank " + rank.getKey() + " was not stopped: " + worded(last.get(rank.getKey())));
            }
        }
    }

    /** The same for ranks that are held: one look decides, since their state no longer changes. */
    void requireHeld(Map<Integer, ProcessIdentity> roots) throws CheckpointException {
        Map<Integer, List<Refusal>> found = new TreeMap<>(look(roots, false, looks::whileHeld));
        for (Map.Entry<Integer, List<Refusal>> rank : found.entrySet()) {
            throw new CheckpointException("rank " + rank.getKey() + " has come to share something, or to have what CRIU"
                    + " does not write, while it was being moved: " + worded(rank.getValue()));
        }
    }

    private static String worded(List<Refusal> refusals) {
        Refusal first = refusals.get(0);
        long more = refusals.stream().map(Refusal::reason).distinct().count() - 1;
        return first.reason()
                + (more == 0 ? "" : "; the same holds for " + more + " more of what it has open")
                + ". Remedy: " + first.remedy();
    }

    private Map<Integer, List<Refusal>> look(
            Map<Integer, ProcessIdentity> roots, boolean ownMounts, LongFunction<List<MemberLook>> further)
            throws CheckpointException {
        Map<Integer, ProcStat> all = new TreeMap<>();
        table.snapshot().all().forEach(process -> all.put(process.pid(), process));
        Map<Integer, Integer> ranks = ranks(roots, all);
        long deadlineNs = System.nanoTime() + limit.toNanos();
        List<MemberLook> members = further.apply(deadlineNs);
        FutureTask<JobHolds> looking =
                new FutureTask<>(() -> HolderScan.look(all, ranks, externalSockets, ownMounts, members, deadlineNs));
        Thread thread = new Thread(looking, "shared-objects");
        // A filesystem that never answers keeps it in the kernel.
        thread.setDaemon(true);
        thread.start();
        try {
            JobHolds holds = looking.get(limit.toNanos(), TimeUnit.NANOSECONDS);
            if (holds.unseen() > 0) {
                LOG.debug(
                        "{} processes may not be looked at; what they share with the job is not seen", holds.unseen());
            }
            Map<Integer, List<Refusal>> found = SharingRules.refusals(holds);
            for (MemberLook member : members) {
                for (Refusal refusal : member.refusals()) {
                    found.computeIfAbsent(refusal.rank(), unknown -> new ArrayList<>())
                            .add(0, refusal);
                }
            }
            return found;
        } catch (ExecutionException e) {
            throw unreadable(e.getCause());
        } catch (TimeoutException e) {
            throw unreadable(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw unreadable(e);
        }
    }

    private CheckpointException unreadable(Throwable cause) {
        String why = cause instanceof IOException ? cause.getMessage() : "it takes longer than " + limit + ": " + cause;
        return new CheckpointException(
                "the job was not stopped: what its processes share with others cannot be looked at: " + why
                        + ". Remedy: run the service as root, with CAP_SYS_PTRACE; where a file's server does not"
                        + " answer, repair that first",
                cause);
    }

    /** The rank of each process: that of the nearest root from which it descends. */
    private static Map<Integer, Integer> ranks(Map<Integer, ProcessIdentity> roots, Map<Integer, ProcStat> all) {
        Map<Integer, Integer> ranks = new HashMap<>();
        roots.forEach((rank, root) -> {
            ProcStat stat = all.get(root.pid());
            if (stat != null && stat.startTimeTicks() == root.startTimeTicks()) {
                ranks.put(root.pid(), rank);
            }
        });
        Map<Integer, List<Integer>> children = new HashMap<>();
        all.values().forEach(process -> children.computeIfAbsent(process.parent(), unknown -> new ArrayList<>())
                .add(process.pid()));
        ArrayDeque<Integer> open = new ArrayDeque<>(ranks.keySet());
        while (!open.isEmpty()) {
            int parent = open.remove();
            for (int child : children.getOrDefault(parent, List.of())) {
                if (ranks.putIfAbsent(child, ranks.get(parent)) == null) {
                    open.add(child);
                }
            }
        }
        return ranks;
    }
}
