package io.ppmr.checkpoint;

import io.ppmr.checkpoint.Checkpointer.CheckpointTask;
import io.ppmr.linux.Accounts;
import io.ppmr.linux.Command;
import io.ppmr.linux.LibC;
import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * The common tools of every adapter. Immutable, for any thread.
 *
 * @param programs the native helpers
 * @param table the process table
 * @param signals sends signals by identity
 * @param timing the time limits
 * @param starter starts the commands
 * @param versions versions of tools
 */
record ToolKit(
        NativePrograms programs,
        ProcessTable table,
        SignalSender signals,
        RankCommand.Timing timing,
        CommandStarter starter,
        ToolVersions versions) {
    static ToolKit of(NativePrograms programs, RankCommand.Timing timing) {
        return of(programs, timing, CommandStarter.of(System.getenv()));
    }

    /** Makes tools whose commands are children of this service. */
    static ToolKit direct(NativePrograms programs) {
        return of(programs, RankCommand.Timing.defaults(), new CommandStarter.Direct());
    }

    private static ToolKit of(NativePrograms programs, RankCommand.Timing timing, CommandStarter starter) {
        ProcessTable table = new ProcessTable();
        return new ToolKit(programs, table, new SignalSender(table), timing, starter, new ToolVersions());
    }

    /** Returns the words before a command that give it a session of its own and, if the service may, the job's user. */
    List<String> launch(Optional<JobUser> user) throws CheckpointException {
        List<String> prefix = new ArrayList<>(List.of(programs.launch().toString()));
        if (user.isPresent() && LibC.isRoot()) {
            prefix.addAll(Command.words(
                    "--uid %s --gid %s", user.get().uid(), user.get().gid()));
            prefix.addAll(groups(user.get()));
        }
        prefix.add("--");
        return prefix;
    }

    /**
     * Returns the user's groups from the user database, which the launcher does not read; none for a number without a
     * name.
     */
    private static List<String> groups(JobUser user) throws CheckpointException {
        try {
            return Accounts.groupsOf(user.uid(), user.gid())
                    .map(all -> List.of(
                            "--groups",
                            all.stream().map(Integer::toUnsignedString).collect(Collectors.joining(","))))
                    .orElse(List.of());
        } catch (IOException e) {
            throw new CheckpointException(
                    e.getMessage() + ", so no command is started as that user. Remedy: make sure that the user database"
                            + " answers (nsswitch.conf)",
                    e);
        }
    }

    /**
     * Returns the words before a command that runs as an ordinary user with one capability, by its number in
     * capabilities(7). The command passes it on when it starts another program.
     */
    List<String> launch(JobUser user, int capability) throws CheckpointException {
        List<String> prefix = launch(Optional.of(user));
        prefix.addAll(1, List.of("--capability", Integer.toString(capability)));
        return prefix;
    }

    /**
     * Returns the processes of a rank that must be checkpointed. Throws if one belongs to another user, or the root is
     * gone.
     */
    List<ProcessIdentity> requireTree(CheckpointTask task) throws CheckpointException {
        if (!table.isAlive(task.root())) {
            throw new CheckpointException(
                    "rank " + task.rank() + ": PID " + task.root().pid()
                            + " is gone, or it is another process by now. Remedy: correct the job's list of processes");
        }
        for (ProcessIdentity process : task.processes()) {
            table.requireOwner(process, task.user());
        }
        return task.processes();
    }

    /**
     * Returns the words before a restart, in the planned namespace, if there is one.
     *
     * @param launched the words of {@link #launch}
     * @param programs words of the command that name programs and folders of libraries
     */
    List<String> launchInNew(
            Optional<RankNamespace.Planned> namespace, Path directory, List<String> launched, List<String> programs)
            throws CheckpointException {
        if (namespace.isEmpty()) {
            return launched;
        }
        List<String> prefix = launch(Optional.empty());
        prefix.addAll(namespace.get().make(this));
        prefix.addAll(RankNamespace.Planned.enter(launched, directory, programs));
        return prefix;
    }

    /**
     * Returns the words before a checkpoint command, inside the rank's namespaces if it was moved here before. Throws
     * if it is in namespaces that no program of root may enter.
     */
    List<String> launchFor(CheckpointTask task, List<String> launched, List<String> programs)
            throws CheckpointException {
        Optional<RankNamespace> moved =
                RankPlace.of(task.rank(), task.processes(), table).moved();
        return moved.isPresent() ? moved.get().enter(launched, task.imageDirectory(), programs) : launched;
    }

    /** Finds the programs, files and folders that words name, by absolute paths or by {@link #find}. */
    static Set<Path> filesNamedIn(List<String> words) {
        Set<Path> found = new LinkedHashSet<>();
        for (String word : words) {
            if (!word.contains("/")) {
                find(word).map(Path::toAbsolutePath).ifPresent(found::add);
            }
            for (String part : word.split(":", -1)) {
                if (part.startsWith("/") && Files.exists(Path.of(part))) {
                    found.add(Path.of(part));
                }
            }
        }
        return found;
    }

    /** Returns the root's PID from the view of a command that was started by {@link #launchFor}. */
    int pidFor(CheckpointTask task) throws CheckpointException {
        return pidFor(task, task.root());
    }

    /** Returns another process's PID from the view of such a command. */
    int pidFor(CheckpointTask task, ProcessIdentity process) throws CheckpointException {
        return livesElsewhere(task) ? table.pidInside(process) : process.pid();
    }

    /** Returns true if the rank is in another PID namespace than this service, because it was moved here before. */
    boolean livesElsewhere(CheckpointTask task) {
        return task.root().pidNamespace() != table.ownPidNamespace();
    }

    /**
     * Returns the folder in which a tool runs and has its files: a scratch folder of its user, or the service's own
     * folder. It is made if missing.
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

    /** Returns the path of a file in {@link #toolDirectory}, and removes the file of an earlier attempt. */
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
                        + ". Remedy: make sure that it is on a local disk with room, and belongs to the service",
                cause);
    }

    /** Finds a program: its name if that has a slash, otherwise the first of that name in PATH. */
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
}
