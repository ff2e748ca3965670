package io.ppmr.checkpoint;

import io.ppmr.checkpoint.limits.CriuChecks;
import io.ppmr.checkpoint.sharing.HolderScan;
import io.ppmr.checkpoint.sharing.JobHolds;
import io.ppmr.checkpoint.sharing.MemberCheck;
import io.ppmr.checkpoint.sharing.Refusal;
import io.ppmr.checkpoint.sharing.SharingRules;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
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
 * Refuses ranks that share a kernel object with a process that is not moved with them. The copy would have one end of a
 * pipe, a socket or a terminal whose other end stays behind. Or it would have its own file position or memory. The same
 * scan finds state that CRIU does not write. One scan of {@code /proc} serves all ranks of a job. A job changes during
 * a scan, so a finding counts if a quarter of the scans show it. For any thread; touches no process.
 *
 * @param table finds the processes
 * @param externalSockets paths of Unix sockets whose connections are handled elsewhere
 * @param checks checks for state that CRIU does not write
 * @param patience minimum time of the scans of a job with a finding
 * @param limit time limit of one scan, because a filesystem that does not answer could block it for ever
 */
record SharingCheck(
        ProcessTable table, List<String> externalSockets, CriuChecks checks, Duration patience, Duration limit) {
    private static final Logger LOG = LoggerFactory.getLogger(SharingCheck.class);
    private static final int LEAST_SCANS = 8;
    private static final int COUNTS_IF_ONE_IN = 4;

    /** Makes a check with the default times of a service. */
    SharingCheck(ProcessTable table, List<String> externalSockets, CriuChecks checks) {
        this(table, externalSockets, checks, Duration.ofMillis(300), Duration.ofSeconds(30));
    }

    /**
     * Throws if a rank shares an object. The message names the process, the object, the other process and the remedy.
     *
     * @param ownMounts whether files must be open through mounts of their processes' mount namespaces
     */
    void require(Map<Integer, ProcessIdentity> roots, boolean ownMounts) throws CheckpointException {
        Map<Integer, List<Refusal>> found = scan(roots, ownMounts, checks::beforeStop);
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
            if ((sights >= LEAST_SCANS && tookNs >= patience.toNanos()) || tookNs >= limit.toNanos()) {
                break;
            }
            found = scan(roots, ownMounts, checks::beforeStop);
        }
        for (Map.Entry<Integer, Integer> rank : sightings.entrySet()) {
            if (rank.getValue() * COUNTS_IF_ONE_IN >= sights) {
                throw new CheckpointException(
                        "rank " + rank.getKey() + " was not stopped: " + worded(last.get(rank.getKey())));
            }
        }
    }

    /** Checks held ranks. One scan suffices, because their state no longer changes. */
    void requireHeld(Map<Integer, ProcessIdentity> roots) throws CheckpointException {
        Map<Integer, List<Refusal>> found = new TreeMap<>(scan(roots, false, checks::whileHeld));
        for (Map.Entry<Integer, List<Refusal>> rank : found.entrySet()) {
            throw new CheckpointException(
                    "during the migration, rank " + rank.getKey() + " came to share an object, or to"
                            + " have state that CRIU does not write: " + worded(rank.getValue()));
        }
    }

    private static String worded(List<Refusal> refusals) {
        Refusal first = refusals.get(0);
        long more = refusals.stream().map(Refusal::reason).distinct().count() - 1;
        return first.reason()
                + (more == 0 ? "" : "; " + more + " more of its open objects have this problem")
                + ". Remedy: " + first.remedy();
    }

    private Map<Integer, List<Refusal>> scan(
            Map<Integer, ProcessIdentity> roots, boolean ownMounts, LongFunction<List<MemberCheck>> further)
            throws CheckpointException {
        Map<Integer, ProcStat> all = new TreeMap<>();
        table.snapshot().all().forEach(process -> all.put(process.pid(), process));
        Map<Integer, Integer> ranks = ranks(roots, all);
        long deadlineNs = System.nanoTime() + limit.toNanos();
        List<MemberCheck> members = further.apply(deadlineNs);
        FutureTask<JobHolds> looking =
                new FutureTask<>(() -> HolderScan.scan(all, ranks, externalSockets, ownMounts, members, deadlineNs));
        Thread thread = new Thread(looking, "shared-objects");
        // A filesystem that never answers keeps the thread in the kernel.
        thread.setDaemon(true);
        thread.start();
        try {
            JobHolds holds = looking.get(limit.toNanos(), TimeUnit.NANOSECONDS);
            if (holds.unseen() > 0) {
                LOG.debug(
                        "{} processes cannot be inspected; objects that they share with the job are not found",
                        holds.unseen());
            }
            Map<Integer, List<Refusal>> found = SharingRules.refusals(holds);
            for (MemberCheck member : members) {
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
        String why = cause instanceof IOException
                ? cause.getMessage()
                : "the scan takes longer than " + limit + ": " + cause;
        return new CheckpointException(
                "the job was not stopped: the objects that its processes share with others cannot be inspected: " + why
                        + ". Remedy: run the service as root, with CAP_SYS_PTRACE; if a file's server does not"
                        + " answer, repair that first",
                cause);
    }

    /** Returns the rank of each process, which is that of its nearest ancestor among the roots. */
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
