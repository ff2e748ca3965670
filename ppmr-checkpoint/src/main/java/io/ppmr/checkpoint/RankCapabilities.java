package io.ppmr.checkpoint;

import io.ppmr.linux.ProcFields;
import io.ppmr.linux.ProcFolder;
import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.nio.file.NoSuchFileException;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Finds ranks that would lose capabilities by a restart as their user: processes of an ordinary user with capabilities,
 * for example from file capabilities. Only root can give these to a copy. For a copy that root has restored, the target
 * checks for excess ({@link PrivilegeCheck}). Immutable, for any thread. capabilities(7).
 *
 * @param processes table of the ranks' processes
 */
public record RankCapabilities(ProcessTable processes) {
    /** The sets that give a thread, or a program that it starts, its capabilities. */
    private static final List<String> SETS = List.of("CapPrm", "CapEff", "CapAmb");

    private static final int HEX = 16;
    private static final int STATUS_BYTES = 1 << 20;

    /**
     * Throws if a rank has capabilities that its restart cannot restore. The message names the process, the cause and
     * the remedy.
     *
     * @param trees the processes of each rank, from one scan of all ranks
     */
    public void require(Checkpointer checkpointer, Map<Integer, List<ProcessIdentity>> trees, JobUser user)
            throws CheckpointException {
        if (user.uid() == 0 || checkpointer.runAs().restartsAsRoot()) {
            return;
        }
        for (Map.Entry<Integer, List<ProcessIdentity>> rank : trees.entrySet()) {
            for (ProcessIdentity process : rank.getValue()) {
                long has = capabilitiesOf(process);
                if (has != 0 && processes.isAlive(process)) {
                    throw new CheckpointException("rank " + rank.getKey() + ": PID " + process.pid() + " ("
                            + processes.name(process).orElse("?") + ") has the capabilities "
                            + Long.toHexString(has) + " (CapPrm, in hexadecimal), as a program with file capabilities"
                            + " has, and checkpointer " + checkpointer.name() + " restarts it as user " + user.uid()
                            + ", which cannot have them. Remedy: run the program without them (getcap shows, setcap -r"
                            + " removes them), or move the job by a CRIU that runs as root (as_job_user = false,"
                            + " trusted_users at the target)");
                }
            }
        }
    }

    private static long capabilitiesOf(ProcessIdentity process) throws CheckpointException {
        long[] all = {0};
        try {
            FolderScan.threads(process.pid(), RankCapabilities::capabilitiesOf, has -> {
                all[0] |= has;
                return true;
            });
        } catch (NoSuchFileException gone) {
            return 0;
        } catch (IOException e) {
            throw new CheckpointException(
                    "the capabilities of PID " + process.pid() + " cannot be read: " + e
                            + ". Remedy: run the service as root",
                    e);
        }
        return all[0];
    }

    private static Optional<Long> capabilitiesOf(ProcFolder threads, String thread) throws IOException {
        return threads.text(thread + "/status", STATUS_BYTES)
                .map(ProcFields::new)
                .map(status -> SETS.stream()
                        .map(set -> status.value(set).orElse("0"))
                        .mapToLong(value -> Long.parseUnsignedLong(value, HEX))
                        .reduce(0, (one, other) -> one | other));
    }
}
