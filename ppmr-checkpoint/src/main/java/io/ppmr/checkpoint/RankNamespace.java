package io.ppmr.checkpoint;

import io.ppmr.checkpoint.SignalSender.Signal;
import io.ppmr.os.Command;
import io.ppmr.os.KernelFeatures;
import io.ppmr.os.KernelFeatures.Feature;
import io.ppmr.os.ProcessIdentity;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * The PID and mount namespace of one restored rank, by its init, {@code ppmr-rank-init}. The namespace outlives this
 * service and ends with its last process. Immutable, for any thread.
 *
 * @param init its init, as this service sees it
 */
record RankNamespace(ProcessIdentity init) {
    /** The name by which the kernel shows an init of ours; 15 bytes at most. */
    private static final String INIT_NAME = "ppmr-rank-init";

    private static final Duration START_LIMIT = Duration.ofSeconds(10);
    private static final int FIELD_MOUNT_POINT = 4;

    /** Says why ranks cannot have namespaces of their own on this node; empty if they can. */
    static Optional<String> whyNone(KernelFeatures kernel) {
        return kernel.has(Feature.NSPID)
                ? Optional.empty()
                : Optional.of("ranks cannot live in PID namespaces of their own here: " + kernel.lacks(Feature.NSPID));
    }

    /**
     * Makes one.
     *
     * @param imageDirectory a directory of the image filesystem, whose mount is taken out of the new namespace: it is
     *     entered through a descriptor, and a copy of the mount would keep the filesystem alive after its end
     */
    static RankNamespace create(ToolKit kit, Path imageDirectory) throws CheckpointException {
        Optional<String> none = whyNone(KernelFeatures.here());
        if (none.isPresent()) {
            throw new CheckpointException(none.get() + ". Remedy: set the namespace policy to never");
        }
        List<String> command = new ArrayList<>();
        command.add(kit.programs().launch().toString());
        command.add("--");
        command.add(kit.programs().rankInit().toString());
        Optional<Path> mount = fuseMountOf(imageDirectory);
        if (mount.isPresent()) {
            command.add("--detach");
            command.add(mount.get().toString());
        }
        Command.Result result = kit.starter().run(command, START_LIMIT);
        if (result.exitCode() != 0) {
            throw new CheckpointException("no namespace could be made for the rank (" + result.describe()
                    + "). Remedy: run the service as root, or set its namespace policy to never");
        }
        return new RankNamespace(kit.table().of(Integer.parseInt(result.output())));
    }

    /** The namespace that an earlier restart made for a process, if it lives in one. */
    static Optional<RankNamespace> around(ProcessTable table, ProcessIdentity process) {
        if (process.pidNamespace() == table.ownPidNamespace()) {
            return Optional.empty();
        }
        for (ProcessIdentity candidate : table.inNamespace(process.pidNamespace())) {
            if (table.isNamespaceInit(candidate)) {
                // Another init is a container's, with more in it than this rank: not ours to end.
                return table.name(candidate).filter(INIT_NAME::equals).map(name -> new RankNamespace(candidate));
            }
        }
        return Optional.empty();
    }

    /** What to put before a command that is to run in the namespaces of a process, see nsenter(1). */
    static List<String> enter(ProcessIdentity process, Path directory) {
        return List.of(
                "nsenter", "--target", Integer.toString(process.pid()), "--pid", "--mount", "--wd=" + directory, "--");
    }

    /** All processes in it but the init. */
    List<ProcessIdentity> members(ProcessTable table) {
        return table.inNamespace(init.pidNamespace()).stream()
                .filter(process -> !process.equals(init))
                .toList();
    }

    /** Ends it with everything in it: the kernel kills what is left in a namespace whose init dies. */
    void end(ProcessTable table, SignalSender signals, Duration limit) throws CheckpointException {
        signals.send(Signal.KILL, init);
        if (!Polling.until(limit, () -> !table.isAlive(init) && members(table).isEmpty())) {
            throw new CheckpointException("the namespace of PID " + init.pid() + " has not ended within " + limit
                    + ". Remedy: a process in state D waits for its filesystem; abort that mount");
        }
    }

    /** The mount point of the FUSE filesystem that a directory is in; proc_pid_mountinfo(5). */
    private static Optional<Path> fuseMountOf(Path directory) throws CheckpointException {
        Path best = Path.of("/");
        boolean fuse = false;
        try {
            for (String line : Files.readAllLines(Path.of("/proc/self/mountinfo"), StandardCharsets.ISO_8859_1)) {
                Path point = Path.of(unescape(line.split(" ", -1)[FIELD_MOUNT_POINT]));
                if (directory.toAbsolutePath().startsWith(point) && point.startsWith(best)) {
                    best = point;
                    fuse = line.substring(line.indexOf(" - ") + 3).startsWith("fuse");
                }
            }
        } catch (IOException e) {
            throw new CheckpointException("cannot read /proc/self/mountinfo", e);
        }
        return fuse ? Optional.of(best) : Optional.empty();
    }

    private static String unescape(String field) {
        return field.replace("\\040", " ")
                .replace("\\011", "\t")
                .replace("\\012", "\n")
                .replace("\\134", "\\");
    }
}
