package io.ppmr.checkpoint;

import io.ppmr.os.ProcessIdentity;
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
 * A checkpoint or restart whose service has died: the tool continues without it, since it has a session of its own. It
 * is known by what {@link RankCommand#started} named, and by what {@link #note} has written down. Immutable, for any
 * thread.
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

    /** Ends a command with all that it has started, a restart with what it has restored. */
    public void endAll() throws CheckpointException {
        requireEnd(signals.killAll(TIMING.rollback(), this::members));
    }

    /**
     * Ends a checkpoint command: time to end by itself, SIGTERM, SIGKILL, as for one that is cancelled.
     *
     * @throws CheckpointException if it does not even end on SIGKILL
     */
    public void endPatiently() throws CheckpointException {
        requireEnd(signals.endPatiently(
                "a checkpoint command of the service before, of " + started,
                this::members,
                TIMING.cancelGrace(),
                TIMING.terminateGrace(),
                TIMING.rollback()));
    }

    private void requireEnd(boolean gone) throws CheckpointException {
        if (!gone) {
            throw new CheckpointException("what a command of the service before has started does not end: " + members()
                    + ". Remedy: a process in state D waits for its filesystem; abort that mount");
        }
    }

    /**
     * Ends what the restarts of an attempt have started in sessions of its own, known by its environment. Each restart
     * was noted in the attempt's work directory before it was started.
     */
    public static void endMarked(Path workDirectory) throws IOException, CheckpointException {
        ProcessTable table = new ProcessTable();
        SignalSender signals = new SignalSender(table);
        for (RestartMark mark : RestartMark.noted(workDirectory)) {
            mark.endAll(table, signals, TIMING.rollback());
        }
    }

    /** The same for all attempts that have directories in a service's work directory. */
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
     * Lets the processes of ranks run, except for what the job itself had stopped, and sees that they stay so; there is
     * one deadline for all.
     *
     * @return why a rank could not be continued, by rank; empty if all were
     */
    public static Map<Integer, String> resumeAll(Collection<HeldRank> ranks) {
        SignalSender signals = new SignalSender(new ProcessTable());
        long deadlineNs = System.nanoTime() + TIMING.rollback().toNanos();
        Map<Integer, String> failures = new TreeMap<>();
        // Signalled first, all of them; then each is seen to run.
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
     * Returns its living processes: the tools with all that shares their sessions, and everything in the namespaces.
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

    /** Returns whether an attempt's work directory has a note of commands that were started, or of restarts to be. */
    public static boolean isNoted(Path workDirectory) throws IOException {
        return hasStarted(workDirectory) || !RestartMark.noted(workDirectory).isEmpty();
    }

    private static boolean hasStarted(Path workDirectory) {
        return Files.exists(workDirectory.resolve(FILE));
    }

    /**
     * Adds to the note in an attempt's work directory of the processes that this service has started for it, so that a
     * service that finds this one dead can end them. A line that a crash has torn is not counted.
     */
    public static void note(Path workDirectory, List<ProcessIdentity> started) throws IOException {
        List<String> lines = started.stream()
                .map(process -> process.bootId() + " " + process.pidNamespace() + " " + process.pid() + " "
                        + process.startTimeTicks())
                .toList();
        Files.write(workDirectory.resolve(FILE), lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    /** Returns what is noted; nothing where there is no note. */
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
                        + "'. Remedy: see by hand that nothing of this attempt runs, and take the folder away");
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
