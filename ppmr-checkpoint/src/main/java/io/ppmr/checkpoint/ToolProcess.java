package io.ppmr.checkpoint;

import io.ppmr.checkpoint.SignalSender.Signal;
import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A started checkpoint or restart tool. It has a session of its own and files as standard streams, so that neither it
 * nor what it restores depends on this service's life. Owned by the thread of its {@link RunningCommand}.
 */
final class ToolProcess {
    static final File NULL = new File("/dev/null");

    private static final Logger LOG = LoggerFactory.getLogger(ToolProcess.class);
    private static final int TAIL_BYTES = 2000;

    private final String name;
    private final Process process;
    private final int pid;
    private final Path output;
    private final long startedNotBeforeTicks;
    private final ProcessTable table;
    private long lastLook = ProcessTable.NO_LOOK;

    private ToolProcess(
            String name, CommandStarter.Started started, Path output, long startedNotBeforeTicks, ProcessTable table) {
        this.name = name;
        this.process = started.client();
        this.pid = started.pid();
        this.output = output;
        this.startedNotBeforeTicks = startedNotBeforeTicks;
        this.table = table;
    }

    /**
     * Starts a command.
     *
     * @param name for messages and for the name of its output file
     * @param command the whole command, with whatever enters namespaces and changes the user
     * @param workDirectory where its output goes; made if missing
     * @param starter by whom it is started
     */
    static ToolProcess start(
            String name, List<String> command, Path workDirectory, ProcessTable table, CommandStarter starter)
            throws CheckpointException {
        Path output = workDirectory.resolve(name + ".out");
        long nowTicks;
        try {
            Files.createDirectories(workDirectory);
            nowTicks = ProcessTable.nowTicks();
        } catch (IOException e) {
            throw new CheckpointException(
                    name + " cannot be started: " + e.getMessage() + ". Remedy: check the work directory "
                            + workDirectory,
                    e);
        }
        CommandStarter.Started started = starter.start(name, command, workDirectory, output);
        LOG.debug("{} started as PID {}: {}", name, started.pid(), command);
        return new ToolProcess(name, started, output, nowTicks, table);
    }

    /** Ends when the tool ends, with its exit status. */
    Process process() {
        return process;
    }

    /** In the unit and from the zero of {@link ProcessIdentity#startTimeTicks}: nothing that it made is older. */
    long startedNotBeforeTicks() {
        return startedNotBeforeTicks;
    }

    int pid() {
        return pid;
    }

    Optional<ProcessIdentity> identity() {
        return process.isAlive() ? table.find(pid()) : Optional.empty();
    }

    /** The exit status, if it has ended. */
    Optional<Integer> exitCode() {
        return process.isAlive() ? Optional.empty() : Optional.of(process.exitValue());
    }

    /** What it has written so far. */
    String output() throws CheckpointException {
        return tail(output, Integer.MAX_VALUE);
    }

    /** The tool and all that descends from it or shares its session. */
    List<ProcessIdentity> members() {
        Set<ProcessIdentity> members = new LinkedHashSet<>();
        Optional<ProcessIdentity> own = identity();
        own.ifPresent(root -> members.addAll(table.tree(root)));
        // A session's number stays taken as long as it has members. A process of that PID after the tool's end is a
        // stranger, and then so is the session.
        if (own.isPresent() || table.find(pid()).isEmpty()) {
            members.addAll(table.inSession(pid()));
        }
        return new ArrayList<>(members);
    }

    /** Those of {@link #members} that were not there before, as far as was looked: cheap enough to ask often. */
    List<ProcessIdentity> newMembers() {
        ProcessTable.Look look = table.lately();
        boolean alive = process.isAlive();
        if (alive && look.number() == lastLook) {
            return List.of();
        }
        lastLook = look.number();
        Optional<ProcessIdentity> own = alive ? identity() : Optional.empty();
        return own.map(root -> table.family(root, look)).orElseGet(this::members);
    }

    /** How it ended, with the end of its output and of its log, in one line. */
    String describeEnd(Path log) throws CheckpointException {
        String words = tail(output, TAIL_BYTES);
        String logged = Files.isReadable(log) ? tail(log, TAIL_BYTES) : "";
        StringBuilder text = new StringBuilder(name);
        text.append(exitCode().map(code -> " ended with exit status " + code).orElse(" is still running"));
        if (!words.isBlank()) {
            text.append("; it says: ").append(oneLine(words));
        }
        if (!logged.isBlank()) {
            text.append("; its log ").append(log).append(" ends: ").append(oneLine(logged));
        }
        return text.toString();
    }

    /**
     * Ends the tool and everything that descends from it, in steps: time to end by itself, SIGTERM, SIGKILL. A
     * checkpointer that is killed in the middle can leave its process with foreign code in it, hence the patience.
     */
    void end(Duration grace, Duration terminateGrace, SignalSender signals) throws CheckpointException {
        if (Patience.until(grace, () -> members().isEmpty())) {
            return;
        }
        LOG.warn("{} (PID {}) has not ended by itself within {}: sending SIGTERM", name, pid(), grace);
        signals.sendAll(Signal.TERM, members());
        if (Patience.until(terminateGrace, () -> members().isEmpty())) {
            return;
        }
        LOG.error(
                "{} (PID {}) does not end on SIGTERM: sending SIGKILL. If it was writing a checkpoint, the process"
                        + " may be left damaged",
                name,
                pid());
        kill(terminateGrace, signals);
    }

    /** Kills the tool and everything that descends from it. */
    void kill(Duration limit, SignalSender signals) throws CheckpointException {
        boolean gone = Patience.until(limit, () -> {
            List<ProcessIdentity> left = members();
            signals.sendAll(Signal.KILL, left);
            return left.isEmpty();
        });
        if (!gone) {
            throw new CheckpointException(name + " (PID " + pid()
                    + ") does not even end on SIGKILL. Remedy: it waits for"
                    + " its filesystem; abort that mount");
        }
    }

    /** Whether a log contains some words; false if there is no log. */
    static boolean contains(Path log, String words) throws CheckpointException {
        return Files.isReadable(log) && tail(log, Integer.MAX_VALUE).contains(words);
    }

    private static String tail(Path file, int bytes) throws CheckpointException {
        try (RandomAccessFile input = new RandomAccessFile(file.toFile(), "r")) {
            long start = Math.max(0, input.length() - bytes);
            byte[] end = new byte[(int) (input.length() - start)];
            input.seek(start);
            int length = input.read(end);
            return new String(end, 0, Math.max(length, 0), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new CheckpointException("cannot read " + file, e);
        }
    }

    private static String oneLine(String text) {
        return text.strip().replaceAll("\\s*\\R\\s*", " | ").replaceAll("\\p{Cntrl}", "?");
    }
}
