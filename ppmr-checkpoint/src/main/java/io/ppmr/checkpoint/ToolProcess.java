package io.ppmr.checkpoint;

import io.ppmr.linux.ProcessIdentity;
import io.ppmr.linux.SecretWords;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A started checkpoint or restart tool. It has its own session, and files as standard streams, so that neither the tool
 * nor the restored processes depend on this service's life. Owned by the thread of its command.
 */
final class ToolProcess {
    static final File NULL = new File("/dev/null");

    private static final Logger LOG = LoggerFactory.getLogger(ToolProcess.class);
    private static final int TAIL_BYTES = 2000;
    private static final int PIECE_BYTES = 8192;
    /** Maximum size of the output that is read. A command can write, or show by a hole, any size. */
    private static final int OUTPUT_BYTES = 256 << 10;

    /** Repeated scans of all processes take at most this fraction (1/n) of one core. */
    private static final int SCAN_SHARE = 50;

    /**
     * The meaning of a failed tool's log, for people.
     *
     * @param sentence the cause
     * @param remedy the remedy
     */
    record Explanation(String sentence, String remedy) {}

    /** Explains a tool's log. */
    @FunctionalInterface
    interface LogWords {
        /** Explains no log. */
        LogWords UNKNOWN = log -> Optional.empty();

        /** Returns the meaning of the end of a log, if it is known. */
        Optional<Explanation> explain(String log);
    }

    private final String name;
    private final Process process;
    private final int pid;
    private final Path output;
    private final long startedNotBeforeTicks;
    private final ProcessTable table;
    private ProcessSnapshot lastScan;

    private ToolProcess(
            String name,
            CommandStarter.StartedCommand started,
            Path output,
            long startedNotBeforeTicks,
            ProcessTable table) {
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
     * @param name name for messages and its output file
     * @param command the whole command, with the words for namespaces and the user
     * @param workDirectory made if missing; its output goes to the service's own folder in it
     * @param user the user that it runs as. Its working directory is that user's scratch folder in the work
     *     directory, or the service's own folder without a user.
     */
    static ToolProcess start(String name, List<String> command, Path workDirectory, Optional<JobUser> user, ToolKit kit)
            throws CheckpointException {
        Path directory = kit.toolDirectory(workDirectory, user);
        Path output;
        long nowTicks;
        try {
            output = WorkDirectories.own(workDirectory).resolve(name + ".out");
            nowTicks = ProcessTable.nowTicks();
        } catch (IOException e) {
            throw new CheckpointException(
                    name + " cannot be started: " + e.getMessage() + ". Remedy: check the work directory "
                            + workDirectory,
                    e);
        }
        CommandStarter.StartedCommand started = kit.starter().start(name, command, directory, output);
        if (LOG.isDebugEnabled()) {
            LOG.debug("{} started as PID {}: {}", name, started.pid(), SecretWords.hidden(command));
        }
        return new ToolProcess(name, started, output, nowTicks, kit.table());
    }

    /** Returns the process, which ends when the tool ends, with its exit status. */
    Process process() {
        return process;
    }

    /**
     * Returns the earliest possible start time of its processes, in the unit and from the zero of
     * {@link ProcessIdentity#startTimeTicks}.
     */
    long startedNotBeforeTicks() {
        return startedNotBeforeTicks;
    }

    int pid() {
        return pid;
    }

    Optional<ProcessIdentity> identity() {
        return process.isAlive() ? table.find(pid()) : Optional.empty();
    }

    /** Returns the exit status, if it ended. */
    Optional<Integer> exitCode() {
        return process.isAlive() ? Optional.empty() : Optional.of(process.exitValue());
    }

    /** Reads its output so far, or the end of a long one. */
    String output() throws CheckpointException {
        try {
            return UserPath.tail(output, OUTPUT_BYTES).orElse("");
        } catch (IOException e) {
            throw new CheckpointException("the output of " + name + " cannot be read: " + e.getMessage(), e);
        }
    }

    /** Returns the tool's tree, itself first, or empty if it ended. */
    List<ProcessIdentity> tree(ProcessSnapshot now) {
        return identity().map(now::tree).orElse(List.of());
    }

    /** Returns the tool with all its descendants and all processes of its session. */
    List<ProcessIdentity> members() {
        return members(table.snapshot());
    }

    /** Returns these processes from a scan. */
    List<ProcessIdentity> members(ProcessSnapshot now) {
        Set<ProcessIdentity> members = new LinkedHashSet<>();
        Optional<ProcessIdentity> own = identity();
        own.ifPresent(root -> members.addAll(now.tree(root)));
        // A session's number stays in use as long as it has members. A later process with that PID is another one, and
        // so is its session.
        if (own.isPresent() || table.find(pid()).isEmpty()) {
            members.addAll(now.inSession(pid()));
        }
        return new ArrayList<>(members);
    }

    /**
     * Returns the {@link #members} that are new since the last call, as far as a recent scan shows. It is cheap enough
     * for frequent calls. There are none once the tool ended.
     */
    List<ProcessIdentity> newMembers() {
        if (!process.isAlive()) {
            return List.of();
        }
        ProcessSnapshot recent = table.recentSnapshot(SCAN_SHARE);
        if (recent == lastScan) {
            return List.of();
        }
        lastScan = recent;
        return identity().map(recent::family).orElse(List.of());
    }

    /**
     * Describes in one line how it ended, with the end of its output and of its log, if it has one, which is kept.
     *
     * @param remedies remedies for exit statuses
     * @param meaning explains its log
     */
    String describeEnd(Path log, Map<Integer, String> remedies, LogWords meaning) {
        String words = tail(output);
        String logged = tail(log);
        Optional<Explanation> explained = meaning.explain(logged);
        StringBuilder text = new StringBuilder();
        explained.ifPresent(known -> text.append(known.sentence()).append("; "));
        text.append(name);
        text.append(exitCode().map(code -> " ended with exit status " + code).orElse(" is still running"));
        if (!words.isBlank()) {
            text.append("; its output: ").append(oneLine(words));
        }
        if (!logged.isBlank()) {
            text.append("; its log ")
                    .append(FailedLogs.keep(log, output.getParent().getParent()))
                    .append(" ends: ")
                    .append(oneLine(logged));
        }
        explained
                .map(Explanation::remedy)
                .or(() -> exitCode().map(remedies::get))
                .ifPresent(remedy -> text.append(". Remedy: ").append(remedy));
        return text.toString();
    }

    /** Ends the tool and all its descendants, with time to end without a signal. */
    void end(Duration grace, Duration terminateGrace, SignalSender signals) throws CheckpointException {
        requireEnd(signals.endPatiently(describe(), this::members, grace, terminateGrace, terminateGrace));
    }

    /** Kills the tool and all its descendants. */
    void kill(Duration limit, SignalSender signals) throws CheckpointException {
        requireEnd(signals.killAll(limit, this::members));
    }

    private void requireEnd(boolean gone) throws CheckpointException {
        if (!gone) {
            throw new CheckpointException(describe() + " does not end after SIGKILL. Remedy: it waits for its"
                    + " filesystem; abort that mount");
        }
    }

    private String describe() {
        return name + " (PID " + pid + ")";
    }

    /** Returns true if a log in the service's own folder contains some ASCII words, or false if there is no log. */
    static boolean contains(Path log, String words) throws CheckpointException {
        // The log is read in pieces, because a line may be as long as the file.
        try (InputStream from = Files.newInputStream(log)) {
            byte[] piece = new byte[PIECE_BYTES];
            String read = "";
            for (int got = from.read(piece); got >= 0; got = from.read(piece)) {
                read = read.substring(Math.max(0, read.length() - words.length()))
                        + new String(piece, 0, got, StandardCharsets.ISO_8859_1);
                if (read.contains(words)) {
                    return true;
                }
            }
            return false;
        } catch (NoSuchFileException none) {
            return false;
        } catch (IOException e) {
            throw new CheckpointException("cannot read " + log + ": " + e.getMessage(), e);
        }
    }

    /** Returns the end of a file for a message. If the file cannot be read, the text is the reason. */
    private static String tail(Path file) {
        try {
            return UserPath.tail(file, TAIL_BYTES).orElse("");
        } catch (IOException e) {
            return "(cannot be read: " + e.getMessage() + ")";
        }
    }

    /**
     * Returns the text in one line. CRIU first reports that it cannot raise its own limit, which is harmless. The
     * reason follows.
     */
    private static String oneLine(String text) {
        return text.replaceAll("(?m)^.*Can't setup RLIMIT_NOFILE for self.*\\R?", "")
                .strip()
                .replaceAll("\\s*\\R\\s*", " | ")
                .replaceAll("\\p{Cntrl}", "?");
    }
}
