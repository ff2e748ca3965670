package io.ppmr.checkpoint;

import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The namespaces of a rank: the service's own, or those that an earlier restart has made for it. Root's programs enter
 * no others, because in a mount namespace of the job's user every path can lead anywhere. Immutable, for any thread.
 *
 * @param moved the namespaces of a rank that was moved here before; empty for one in the service's own PID
 *     namespace
 */
record RankPlace(Optional<RankNamespace> moved) {
    /**
     * Finds the place of a rank. Throws if it is anywhere else. The message names the process, the cause and the
     * remedy.
     *
     * @param processes processes of the rank, the root first
     * @param now all processes
     */
    static RankPlace of(int rank, List<ProcessIdentity> processes, ProcessSnapshot now) throws CheckpointException {
        requireServicesUsers(rank, processes, now.table());
        ProcessIdentity root = processes.get(0);
        if (root.pidNamespace() == now.table().ownPidNamespace()) {
            return new RankPlace(Optional.empty());
        }
        Optional<RankNamespace> moved = RankNamespace.around(now.table(), now, root);
        if (moved.isEmpty()) {
            throw new CheckpointException("rank " + rank + ": PID " + root.pid() + " lives in a PID namespace that no"
                    + " restart of ppmr has made on this node since its boot (" + NamespaceRecord.FOLDER
                    + " has no record of its init), and root's programs enter no other. Remedy: start the job in"
                    + " the node's own PID namespace");
        }
        return new RankPlace(moved);
    }

    /** Finds the place of a rank. It scans all processes only if the rank is not in the service's own PID namespace. */
    static RankPlace of(int rank, List<ProcessIdentity> processes, ProcessTable table) throws CheckpointException {
        if (processes.get(0).pidNamespace() != table.ownPidNamespace()) {
            return of(rank, processes, table.snapshot());
        }
        requireServicesUsers(rank, processes, table);
        return new RankPlace(Optional.empty());
    }

    /** Finds the place of each rank that has not ended, by its number. Throws as {@link #of} does. */
    static Map<Integer, RankPlace> ofAll(Map<Integer, ProcessIdentity> roots, ProcessSnapshot now)
            throws CheckpointException {
        Map<Integer, RankPlace> places = new LinkedHashMap<>();
        for (Map.Entry<Integer, List<ProcessIdentity>> rank : now.trees(roots).entrySet()) {
            // The migration itself notices that the rank is gone.
            if (!rank.getValue().isEmpty()) {
                places.put(rank.getKey(), of(rank.getKey(), rank.getValue(), now));
            }
        }
        return places;
    }

    /**
     * Throws if a process has another user namespace than the service, because there the job's user is root. The
     * message names the process, the cause and the remedy.
     */
    static void requireServicesUsers(int rank, List<ProcessIdentity> processes, ProcessTable table)
            throws CheckpointException {
        Optional<Long> own = userNamespace(rank, ProcessHandle.current().pid());
        for (ProcessIdentity process : processes) {
            Optional<Long> found = userNamespace(rank, process.pid());
            if (!found.equals(own) && table.isAlive(process)) {
                requireFirstThread(rank, process, found);
                throw new CheckpointException(
                        "rank " + rank + ": PID " + process.pid() + " lives in a user namespace of"
                                + " its own. There the job's user is root and controls every path, so no"
                                + " program of root enters it. Remedy: start the job without one (unshare --user,"
                                + " bubblewrap, and Apptainer without its set-user-ID program make them)");
            }
        }
    }

    private static Optional<Long> userNamespace(int rank, long pid) throws CheckpointException {
        try {
            return NamespaceRecord.userNamespace(Long.toString(pid));
        } catch (IOException e) {
            return goneOrThrow(rank, pid, e);
        }
    }

    /**
     * Throws unless each process has the mounts of its place. CRIU would inspect other mounts, and follow their paths,
     * as root. The message names the process, the cause and the remedy.
     */
    void requireMounts(int rank, List<ProcessIdentity> processes, ProcessTable table) throws CheckpointException {
        long place = moved.isPresent()
                ? moved.get().init().pid()
                : ProcessHandle.current().pid();
        Optional<Long> own = mounts(rank, place);
        for (ProcessIdentity process : processes) {
            Optional<Long> found = mounts(rank, process.pid());
            if (!found.equals(own) && table.isAlive(process)) {
                requireFirstThread(rank, process, found);
                throw new CheckpointException(
                        "rank " + rank + ": PID " + process.pid() + " lives in a mount namespace of"
                                + " its own (PrivateTmp, job_container of Slurm, unshare --mount), and CRIU moves only"
                                + " ranks that have the service's mounts. Remedy: start the job without one, or move it"
                                + " as a pod or by another checkpointer");
            }
        }
    }

    /**
     * Requires a living first thread. The kernel shows no namespaces of one that ended, so those of its process are
     * unknown.
     */
    private static void requireFirstThread(int rank, ProcessIdentity process, Optional<Long> found)
            throws CheckpointException {
        if (found.isEmpty()) {
            throw new CheckpointException("rank " + rank + ": the first thread of PID " + process.pid()
                    + " ended and others run, so its namespaces cannot be read, and CRIU cannot write such a"
                    + " process."
                    + " Remedy: have the program's first thread wait for the others (pthread_join(3))");
        }
    }

    private static Optional<Long> mounts(int rank, long pid) throws CheckpointException {
        try {
            return Optional.of(ProcStat.namespace(Path.of("/proc", Long.toString(pid)), "mnt"));
        } catch (IOException e) {
            return goneOrThrow(rank, pid, e);
        }
    }

    /**
     * Returns empty if the process is gone. For a process that is just ending, the kernel has several errors, including
     * EACCES.
     */
    private static Optional<Long> goneOrThrow(int rank, long pid, IOException cause) throws CheckpointException {
        boolean isGone = cause instanceof NoSuchFileException
                || ProcessTable.known("/proc/" + pid + "/stat")
                        .map(ProcStat::isDead)
                        .orElse(true);
        if (isGone) {
            return Optional.empty();
        }
        throw new CheckpointException(
                "rank " + rank + ": the namespaces of PID " + pid + " cannot be read: " + cause.getMessage()
                        + ". Remedy: run the service as root",
                cause);
    }
}
