package io.ppmr.checkpoint;

import io.ppmr.checkpoint.Checkpointer.RestartTask;
import io.ppmr.checkpoint.SignalSender.Signal;
import io.ppmr.linux.KernelFeatures;
import io.ppmr.linux.KernelFeatures.Feature;
import io.ppmr.linux.MountEntry;
import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The PID and mount namespace of one restored rank, identified by its init, {@code ppmr-rank-init}. The namespace
 * outlives this service and ends with its last process. Immutable, for any thread.
 *
 * @param init its init, in this service's PID namespace
 */
record RankNamespace(ProcessIdentity init) {
    private static final Duration START_LIMIT = Duration.ofSeconds(10);

    /** Returns why ranks cannot have namespaces of their own on this node, or empty if they can. */
    static Optional<String> whyNone(KernelFeatures kernel) {
        return kernel.has(Feature.NSPID)
                ? Optional.empty()
                : Optional.of("ranks cannot live in PID namespaces of their own here: "
                        + kernel.describeMissing(Feature.NSPID));
    }

    /**
     * A namespace that a restart's own start makes, so that one program is started for both.
     *
     * @param pidFile a file in the service's own folder, which receives the PID of its init
     * @param mount mount of the image filesystem, which is removed from the new namespace. The image directory is
     *     entered through a descriptor, and a copy of the mount would keep the filesystem alive after its end.
     */
    record Planned(Path pidFile, Optional<Path> mount) {
        /** Plans a namespace for a restart. Throws if this node has none. */
        static Planned of(ToolKit kit, RestartTask task, String name) throws CheckpointException {
            Optional<String> none = whyNone(KernelFeatures.here());
            if (none.isPresent()) {
                throw new CheckpointException(none.get() + ". Remedy: set the namespace policy to never");
            }
            Path pidFile = kit.freshFile(task.workDirectory(), Optional.empty(), name + ".init");
            return new Planned(pidFile, fuseMountOf(task.imageDirectory()));
        }

        /** Returns the words before a command that enters the namespace by {@link RankNamespace#enter}. */
        List<String> make(ToolKit kit) {
            List<String> words = new ArrayList<>();
            words.add(kit.programs().rankInit().toString());
            mount.ifPresent(path -> words.addAll(List.of("--detach", path.toString())));
            words.addAll(List.of("--pid-file", pidFile.toString(), "--"));
            return words;
        }

        /** Returns the words of {@link RankNamespace#enter} for the planned namespace. */
        static List<String> enter(List<String> launched, Path directory, List<String> programs) {
            return RankNamespace.enter("{init}", launched, directory, programs);
        }

        /** Waits until a started command has made the namespace. Throws with the command's output if it fails. */
        RankNamespace made(ToolKit kit, ToolProcess tool) throws CheckpointException {
            int[] pid = new int[1];
            Polling.until(START_LIMIT, () -> {
                // The exit code is read first, so that the file contains all that was written before the end.
                boolean over = tool.exitCode().isPresent();
                pid[0] = pid();
                return pid[0] != 0 || over;
            });
            if (pid[0] == 0) {
                String end = tool.describeEnd(pidFile.resolveSibling("no-log"), Map.of(), ToolProcess.LogWords.UNKNOWN);
                tool.kill(kit.timing().rollback(), kit.signals());
                throw new CheckpointException("no namespace could be made for the rank: " + end
                        + ". Remedy: run the service as root, or set its namespace policy to never");
            }
            return new RankNamespace(kit.table().of(pid[0]));
        }

        private int pid() throws CheckpointException {
            try {
                String text = Files.readString(pidFile, StandardCharsets.US_ASCII);
                return text.endsWith("\n") ? Integer.parseInt(text.strip()) : 0;
            } catch (NoSuchFileException notYet) {
                return 0;
            } catch (IOException e) {
                throw new CheckpointException("the PID of a rank's init cannot be read: " + e.getMessage(), e);
            }
        }
    }

    /**
     * Returns the namespace that an earlier restart made for a process, if the process is in one. Another init belongs
     * to a container, with more than this rank in it, or to the job's user. ppmr must not enter or end those.
     */
    static Optional<RankNamespace> around(ProcessTable table, ProcessSnapshot now, ProcessIdentity process) {
        if (process.pidNamespace() == table.ownPidNamespace()) {
            return Optional.empty();
        }
        for (ProcessIdentity candidate : now.inNamespace(process.pidNamespace())) {
            if (table.isNamespaceInit(candidate)) {
                return NamespaceRecord.whyNotOurs(table, candidate).isEmpty()
                        ? Optional.of(new RankNamespace(candidate))
                        : Optional.empty();
            }
        }
        return Optional.empty();
    }

    /**
     * Returns the words that make a command of {@code ppmr-launch} run in these namespaces. The launcher proves once
     * more, from its open descriptors, that ppmr made them.
     *
     * @param launched the words of {@code ppmr-launch}
     * @param directory working directory of the command; it need not be visible inside
     * @param programs words of the command that name programs and folders of libraries, which must be equal inside
     */
    List<String> enter(List<String> launched, Path directory, List<String> programs) {
        return enter(Integer.toString(init.pid()), launched, directory, programs);
    }

    private static List<String> enter(String pid, List<String> launched, Path directory, List<String> programs) {
        List<String> words = new ArrayList<>(launched);
        List<String> options = new ArrayList<>(List.of("--enter", pid, "--directory", directory.toString()));
        ToolKit.filesNamedIn(programs).forEach(file -> options.addAll(List.of("--same", file.toString())));
        words.addAll(1, options);
        return words;
    }

    /** Returns all processes in it except the init. */
    List<ProcessIdentity> members(ProcessSnapshot now) {
        return now.inNamespace(init.pidNamespace()).stream()
                .filter(process -> !process.equals(init))
                .toList();
    }

    /**
     * Returns the member with this PID inside the namespace. Other members may be gone since the scan, as a program
     * that fills the copy does when the copy is whole.
     */
    Optional<ProcessIdentity> member(ProcessTable table, int pid, ProcessSnapshot now) throws CheckpointException {
        for (ProcessIdentity process : members(now)) {
            if (table.findPidInside(process).filter(inside -> inside == pid).isPresent()) {
                return Optional.of(process);
            }
        }
        return Optional.empty();
    }

    /** Ends the namespace. The kernel kills all processes in a namespace whose init dies. */
    void end(ProcessTable table, SignalSender signals, Duration limit) throws CheckpointException {
        signals.send(Signal.KILL, init);
        if (!Polling.until(
                limit, () -> !table.isAlive(init) && members(table.snapshot()).isEmpty())) {
            throw new CheckpointException("the namespace of PID " + init.pid() + " has not ended within " + limit
                    + ". Remedy: a process in state D waits for its filesystem; abort that mount");
        }
    }

    /** Returns the mount point of the FUSE filesystem that a directory is in; proc_pid_mountinfo(5). */
    private static Optional<Path> fuseMountOf(Path directory) throws CheckpointException {
        Path absolute = directory.toAbsolutePath();
        String path = MountEntry.bytesOf(absolute);
        MountEntry innermost = null;
        try {
            for (MountEntry entry : MountEntry.of(Path.of("/proc/self"))) {
                boolean deeper = innermost == null
                        || entry.mountPoint().length() >= innermost.mountPoint().length();
                if (deeper && entry.contains(path)) {
                    innermost = entry;
                }
            }
        } catch (IOException e) {
            throw new CheckpointException("cannot read /proc/self/mountinfo", e);
        }
        Path point = absolute;
        while (innermost != null && point != null && !innermost.mountPoint().equals(MountEntry.bytesOf(point))) {
            point = point.getParent();
        }
        return innermost != null && innermost.type().startsWith("fuse") ? Optional.ofNullable(point) : Optional.empty();
    }
}
