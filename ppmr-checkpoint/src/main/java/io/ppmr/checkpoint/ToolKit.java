package io.ppmr.checkpoint;

import io.ppmr.os.LibC;
import io.ppmr.os.ProcessIdentity;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * What every adapter works with. Immutable, for any thread.
 *
 * @param programs the native helpers
 * @param table the process table
 * @param signals sends signals by identity
 * @param timing the waits
 * @param starter by whom commands are started
 * @param versions what tools say of their version
 */
record ToolKit(
        NativePrograms programs,
        ProcessTable table,
        SignalSender signals,
        CommandTiming timing,
        CommandStarter starter,
        ToolVersions versions) {
    static ToolKit of(NativePrograms programs, CommandTiming timing) {
        return of(programs, timing, CommandStarter.of(System.getenv()));
    }

    /** One whose commands are children of this service. */
    static ToolKit direct(NativePrograms programs) {
        return of(programs, CommandTiming.defaults(), new DirectCommands());
    }

    private static ToolKit of(NativePrograms programs, CommandTiming timing, CommandStarter starter) {
        ProcessTable table = new ProcessTable();
        return new ToolKit(programs, table, new SignalSender(table), timing, starter, new ToolVersions());
    }

    /** What to put before a command: a session of its own and, where the service may, the job's user. */
    List<String> launch(Optional<JobUser> user) {
        List<String> prefix = new ArrayList<>(List.of(programs.launch().toString()));
        if (user.isPresent() && LibC.isRoot()) {
            prefix.addAll(List.of(
                    "--uid",
                    Integer.toString(user.get().uid()),
                    "--gid",
                    Integer.toString(user.get().gid())));
        }
        prefix.add("--");
        return prefix;
    }

    /** The processes of a rank that is to be checkpointed; throws if one is not the user's, or the root is gone. */
    List<ProcessIdentity> requireTree(CheckpointTask task) throws CheckpointException {
        if (!table.isAlive(task.root())) {
            throw new CheckpointException(
                    "rank " + task.rank() + ": PID " + task.root().pid()
                            + " is gone, or it is another process by now. Remedy: correct the job's list of processes");
        }
        List<ProcessIdentity> tree = table.tree(task.root());
        for (ProcessIdentity process : tree) {
            table.requireOwner(process, task.user());
        }
        return tree;
    }

    /**
     * What to put before a checkpoint command: a session of its own, the rank's namespaces where it lives in ones that
     * an earlier restart made, and the job's user.
     */
    List<String> launchFor(CheckpointTask task, Optional<JobUser> user) throws CheckpointException {
        if (!livesElsewhere(task)) {
            return launch(user);
        }
        List<String> prefix = new ArrayList<>(launch(Optional.empty()));
        prefix.addAll(RankNamespace.enter(task.root(), task.imageDirectory()));
        prefix.addAll(launch(user));
        return prefix;
    }

    /** The root's PID as a command sees it that was started by {@link #launchFor}. */
    int pidFor(CheckpointTask task) throws CheckpointException {
        return livesElsewhere(task) ? table.pidInside(task.root()) : task.root().pid();
    }

    /** Whether the rank lives in a PID namespace other than this service's: it was moved here before. */
    boolean livesElsewhere(CheckpointTask task) throws CheckpointException {
        return task.root().pidNamespace() != table.ownPidNamespace();
    }

    /**
     * Returns the folder in which a tool runs and has its files: a scratch folder of the user as whom it runs, or the
     * service's own folder. It is made if it is missing.
     */
    Path toolDirectory(Path workDirectory, Optional<JobUser> user) throws CheckpointException {
        try {
            return user.isPresent()
                    ? WorkDirectories.scratch(workDirectory, user.get())
                    : WorkDirectories.own(workDirectory);
        } catch (IOException e) {
            throw unusable(workDirectory, e);
        }
    }

    /** The place of a file in {@link #toolDirectory}, without what an earlier attempt may have left there. */
    Path freshFile(Path workDirectory, Optional<JobUser> user, String name) throws CheckpointException {
        Path file = toolDirectory(workDirectory, user).resolve(name);
        try {
            Files.deleteIfExists(file);
            return file;
        } catch (IOException e) {
            throw unusable(workDirectory, e);
        }
    }

    private static CheckpointException unusable(Path workDirectory, IOException cause) {
        return new CheckpointException(
                "the work directory " + workDirectory + " cannot be used: " + cause
                        + ". Remedy: see that it is on a local disk with room, and the service's own",
                cause);
    }

    /** Where a program is: itself if its name holds a slash, else the first of that name in PATH. */
    static Optional<Path> find(String program) {
        if (program.contains("/")) {
            return Optional.of(Path.of(program)).filter(Files::isExecutable);
        }
        String path = Optional.ofNullable(System.getenv("PATH")).orElse("/usr/sbin:/usr/bin:/sbin:/bin");
        for (String directory : path.split(":", -1)) {
            Path candidate = Path.of(directory.isEmpty() ? "." : directory, program);
            if (Files.isExecutable(candidate) && Files.isRegularFile(candidate)) {
                return Optional.of(candidate);
            }
        }
        return Optional.empty();
    }

    /** Whether a process, by PID or "self", has a capability in effect, by its number in capabilities(7). */
    static boolean hasCapability(String process, int number) {
        try {
            for (String line : Files.readAllLines(Path.of("/proc", process, "status"), StandardCharsets.ISO_8859_1)) {
                if (line.startsWith("CapEff:")) {
                    return (Long.parseUnsignedLong(
                                                    line.substring("CapEff:".length())
                                                            .trim(),
                                                    16)
                                            >> number
                                    & 1)
                            == 1;
                }
            }
            return false;
        } catch (IOException e) {
            return false;
        }
    }
}
