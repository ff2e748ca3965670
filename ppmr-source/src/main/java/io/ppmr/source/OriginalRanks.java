package io.ppmr.source;

import io.ppmr.checkpoint.AbandonedCommand;
import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.HeldProcesses;
import io.ppmr.checkpoint.HeldRank;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.ProcessIdentity;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.ResidentMemory;
import io.ppmr.logging.LogFields;
import io.ppmr.transaction.NamedProcess;
import io.ppmr.transaction.PlannedRank;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.MDC;

/**
 * The processes of a job on the node that is given up, from the order to move them until they are gone or go on. Owned
 * by
 * the migration's thread.
 */
final class OriginalRanks {
    private static final Logger LOG = LoggerFactory.getLogger(OriginalRanks.class);
    private static final Duration END_DEADLINE = Duration.ofSeconds(20);

    private final String migrationId;
    private final ProcessTable processes;
    private final Map<Integer, ProcessIdentity> roots;
    private final Map<Integer, HeldRank> held = new LinkedHashMap<>();
    private NativePrograms recorded;

    OriginalRanks(String migrationId, ProcessTable processes, Map<Integer, ProcessIdentity> roots) {
        this.migrationId = migrationId;
        this.processes = processes;
        this.roots = new LinkedHashMap<>(roots);
    }

    /** What an earlier run of the service has left stopped, or running, by what its journal says. */
    static OriginalRanks recorded(
            String migrationId, ProcessTable processes, List<PlannedRank> ranks, NativePrograms programs)
            throws CheckpointException {
        Map<Integer, ProcessIdentity> roots = new LinkedHashMap<>();
        Map<Integer, HeldRank> held = new LinkedHashMap<>();
        for (PlannedRank rank : ranks) {
            List<ProcessIdentity> all =
                    rank.processes().stream().map(OriginalRanks::identity).toList();
            roots.put(rank.rank(), all.get(0));
            held.put(rank.rank(), HeldProcesses.recorded(rank.rank(), all, programs));
        }
        OriginalRanks originals = new OriginalRanks(migrationId, processes, roots);
        originals.held.putAll(held);
        originals.recorded = programs;
        return originals;
    }

    /** A plan's ranks with the processes that are known: all where a rank is held, else its root. */
    List<PlannedRank> planned(MigrationPlan.Leg leg) {
        return leg.ranks().stream()
                .map(rank -> new PlannedRank(
                        rank,
                        leg.address(),
                        known(rank).stream().map(OriginalRanks::named).toList()))
                .toList();
    }

    /** The processes of each rank that are known: all where it is held, else its root. */
    Map<Integer, List<ProcessIdentity>> processes() {
        Map<Integer, List<ProcessIdentity>> all = new LinkedHashMap<>();
        roots.keySet().forEach(rank -> all.put(rank, known(rank)));
        return all;
    }

    private List<ProcessIdentity> known(int rank) {
        return held.containsKey(rank) ? held.get(rank).processes() : List.of(roots.get(rank));
    }

    /** About how large their images will be. */
    long imageBytes() {
        return roots.values().stream()
                .flatMap(root -> processes.tree(root).stream())
                .mapToLong(process -> ResidentMemory.unfiledBytes(process.pid()))
                .sum();
    }

    /** Whether any of them has been stopped. */
    boolean anyHeld() {
        return !held.isEmpty();
    }

    /** The ranks that are proved to be stopped just now. */
    List<Integer> heldRanks() {
        return held.values().stream()
                .filter(HeldRank::isHeld)
                .map(HeldRank::rank)
                .sorted()
                .toList();
    }

    private static NamedProcess named(ProcessIdentity process) {
        return new NamedProcess(process.bootId(), process.pidNamespace(), process.pid(), process.startTimeTicks());
    }

    private static ProcessIdentity identity(NamedProcess process) {
        return new ProcessIdentity(process.bootId(), process.pidNamespace(), process.pid(), process.startTimeTicks());
    }

    /** The root process of each rank. */
    Map<Integer, ProcessIdentity> roots() {
        return roots;
    }

    /** A rank's checkpoint has left it stopped. */
    void held(HeldRank rank) {
        held.put(rank.rank(), rank);
    }

    /** Which rank is gone, or null if none is. */
    String whyNotAlive() {
        List<Integer> gone = roots.entrySet().stream()
                .filter(root -> !processes.isAlive(root.getValue()))
                .map(Map.Entry::getKey)
                .toList();
        return gone.isEmpty() ? null : "the originals of ranks " + gone + " are gone";
    }

    /** Which rank is not proved to be stopped just now, or null. */
    String whyNotHeld() {
        for (int rank : roots.keySet()) {
            HeldRank original = held.get(rank);
            if (original == null) {
                return "rank " + rank + " has not been stopped";
            }
            try {
                original.requireHeld();
            } catch (CheckpointException e) {
                return e.getMessage();
            }
        }
        return null;
    }

    /** Ends them all; what could not be ended, or null. Ending what is gone already is no failure. */
    String end() {
        List<String> left = new ArrayList<>();
        boolean interrupted = Thread.interrupted();
        for (HeldRank original : held.values()) {
            MDC.put(LogFields.RANK, Integer.toString(original.rank()));
            try {
                original.end(END_DEADLINE);
            } catch (CheckpointException | RuntimeException e) {
                left.add(e.getMessage());
                LOG.error("migration {}: the original of rank {} is left: {}", migrationId, original.rank(), left);
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        MDC.remove(LogFields.RANK);
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        return left.isEmpty() ? null : String.join("; ", left);
    }

    /** Lets all that are held go on. */
    void release() {
        for (HeldRank original : held.values()) {
            MDC.put(LogFields.RANK, Integer.toString(original.rank()));
            try {
                if (recorded == null) {
                    original.release();
                } else {
                    // Its checkpoint may have been under way when the service died, and stop it once more.
                    AbandonedCommand.resume(original, recorded);
                }
            } catch (CheckpointException | RuntimeException e) {
                LOG.error(
                        "migration {}: the original of rank {} cannot be set going: {}",
                        migrationId,
                        original.rank(),
                        e.getMessage());
            }
        }
        MDC.remove(LogFields.RANK);
        held.clear();
    }
}
