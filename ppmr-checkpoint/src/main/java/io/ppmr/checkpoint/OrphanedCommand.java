package io.ppmr.checkpoint;

import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;

/**
 * A checkpoint or restart whose service has died. The tool continues without the service, because it has its own
 * session. It is identified by {@link RankCommand#started} and the records of {@link #note}. Immutable, for any thread.
 */
public final class OrphanedCommand {

    private static final RankCommand.Timing TIMING = RankCommand.Timing.defaults();

    private static final String FILE = "started";
    private static final int WORDS = 4;

    private final List<ProcessIdentity> started;
    private final ProcessTable table = new ProcessTable();
    private final SignalSender signals = new SignalSender(table);

    public OrphanedCommand(List<ProcessIdentity> started) {
        this.started = List.copyOf(started);
    }

    /** Kills a command with all processes that it started or restored. */
    public void endAll() throws CheckpointException {
        requireEnd(signals.killAll(TIMING.rollback(), this::members));
    }

    /**
     * Ends a checkpoint command as after a cancellation: it gets time to end without a signal, then SIGTERM, then
     * SIGKILL.
     *
     * @throws CheckpointException if it does not even end after SIGKILL
     */
    public void endPatiently() throws CheckpointException {
        requireEnd(signals.endPatiently(
                "a checkpoint command of the previous service run, of " + started,
                this::members,
                TIMING.cancelGrace(),
                TIMING.terminateGrace(),
                TIMING.rollback()));
    }

    private void requireEnd(boolean gone) throws CheckpointException {
        if (!gone) {
            throw new CheckpointException("processes of a command of the previous service run do not end: " + members()
                    + ". Remedy: a process in state D waits for its filesystem; abort that mount");
        }
    }

    /**
     * Kills the processes that an attempt's restarts have started in sessions of their own. They are identified by
     * their environment. Each restart was noted in the attempt's work directory before it was started.
     */
    public static void endMarked(Path workDirectory) throws IOException, CheckpointException {
        ProcessTable table = new ProcessTable();
        SignalSender signals = new SignalSender(table);
        for (RestartMark mark : RestartMark.noted(workDirectory)) {
            mark.endAll(table, signals, TIMING.rollback());
        }
    }

    /** Kills such processes of all attempts that have directories in a service's work directory. */
    public static void endAllMarked(Path serviceDirectory) throws IOException, CheckpointException {
        List<Path> attempts;
        try (Stream<Path> found = Files.list(serviceDirectory)) {
            attempts = found.toList();
        }
        for (Path attempt : attempts) {
            endMarked(attempt);
        }
    }

    /**
     * Continues the ranks' processes, except for those that the job itself had stopped, and makes sure that they stay
     * so. All have one deadline.
     *
     * @return for each rank that could not be continued, the reason, or empty if all were
     */
    public static Map<Integer, String> resumeAll(Collection<HeldRank> ranks) {
        SignalSender signals = new SignalSender(new ProcessTable());
        long deadlineNs = System.nanoTime() + TIMING.rollback().toNanos();
        Map<Integer, String> failures = new TreeMap<>();
        // All are signalled first. Then each is checked to run.
        for (boolean signalled : List.of(false, true)) {
            for (HeldRank rank : ranks) {
                List<ProcessIdentity> wanted = new ArrayList<>(rank.processes());
                wanted.removeAll(rank.stoppedByJob());
                failures.remove(rank.rank());
                try {
                    if (signalled) {
                        long leftNs = Math.max(0, deadlineNs - System.nanoTime());
                        signals.requireRunning(rank.rank(), wanted, Duration.ofNanos(leftNs));
                    } else {
                        signals.letRun(wanted);
                    }
                } catch (CheckpointException | RuntimeException e) {
                    failures.put(rank.rank(), String.valueOf(e.getMessage()));
                }
            }
        }
        return failures;
    }

    /**
     * Returns its living processes: the tools with all processes in their sessions, and all processes in the
     * namespaces.
     */
    private List<ProcessIdentity> members() {
        Set<ProcessIdentity> members = new LinkedHashSet<>();
        ProcessSnapshot now = table.snapshot();
        for (ProcessIdentity process : started) {
            boolean alive = table.isAlive(process);
            if (alive) {
                members.addAll(now.tree(process));
            }
            boolean sameBoot = table.bootId().equals(process.bootId());
            if (sameBoot && (alive || table.find(process.pid()).isEmpty())) {
                members.addAll(now.inSession(process.pid()));
            }
            if (alive && table.isNamespaceInit(process)) {
                members.addAll(now.inNamespace(process.pidNamespace()));
            }
        }
        return new ArrayList<>(members);
    }

    /** Returns whether an attempt's work directory has a note of started commands, or of planned restarts. */
    public static boolean isNoted(Path workDirectory) throws IOException {
        return hasStarted(workDirectory) || !RestartMark.noted(workDirectory).isEmpty();
    }

    private static boolean hasStarted(Path workDirectory) {
        return Files.exists(workDirectory.resolve(FILE));
    }

    /**
     * Adds the processes that this service has started for an attempt to the note in its work directory. If this
     * service dies, its next run kills them. A torn line is ignored.
     */
    public static void note(Path workDirectory, List<ProcessIdentity> started) throws IOException {
        List<String> lines = started.stream()
                .map(process -> process.bootId() + " " + process.pidNamespace() + " " + process.pid() + " "
                        + process.startTimeTicks())
                .toList();
        Files.write(workDirectory.resolve(FILE), lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    /** Returns the noted processes; none without a note. */
    public static List<ProcessIdentity> read(Path workDirectory) throws IOException {
        List<ProcessIdentity> started = new ArrayList<>();
        if (!hasStarted(workDirectory)) {
            return started;
        }
        String text = Files.readString(workDirectory.resolve(FILE));
        for (String line : text.substring(0, text.lastIndexOf('\n') + 1).lines().toList()) {
            String[] words = line.split(" ", -1);
            if (words.length != WORDS) {
                throw new IOException(workDirectory.resolve(FILE) + " has a line that names no process: '" + line
                        + "'. Remedy: make sure that no process of this attempt runs, and remove the folder");
            }
            started.add(new ProcessIdentity(
                    words[0], Long.parseLong(words[1]), Integer.parseInt(words[2]), Long.parseLong(words[3])));
        }
        return started;
    }

    /** Removes both notes. */
    public static void forget(Path workDirectory) throws IOException {
        RestartMark.forget(workDirectory);
        Files.deleteIfExists(workDirectory.resolve(FILE));
    }
}
