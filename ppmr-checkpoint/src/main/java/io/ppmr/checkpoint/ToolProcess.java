package io.ppmr.checkpoint;

import io.ppmr.os.ProcessIdentity;
import io.ppmr.os.SecretWords;
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
 * A started checkpoint or restart tool. It has a session of its own and files as standard streams, so that neither it
 * nor what it restores depends on this service's life. Owned by the thread of its command.
 */
final class ToolProcess {
    static final File NULL = new File("/dev/null");

    private static final Logger LOG = LoggerFactory.getLogger(ToolProcess.class);
    private static final int TAIL_BYTES = 2000;
    private static final int PIECE_BYTES = 8192;
    /** A command can write, or show by a hole, any size. */
    private static final int OUTPUT_BYTES = 256 << 10;

    /** Repeated scans of all processes take at most this fraction (1/n) of one core. */
    private static final int LOOKING_SHARE = 50;

    /**
     * The meaning of a failed tool's log, for people.
     *
     * @param sentence what was in its way
     * @param remedy what to do
     */
    record Explanation(String sentence, String remedy) {}

    /** Knows what a tool's log means. */
    @FunctionalInterface
    interface LogWords {
        /** One that knows nothing. */
        LogWords UNKNOWN = log -> Optional.empty();

        /** Returns what the end of a log means, if that is known. */
        Optional<Explanation> explain(String log);
    }

    private final String name;
    private final Process process;
    private final int pid;
    private final Path output;
    private final long startedNotBeforeTicks;
    private final ProcessTable table;
    private ProcessSnapshot lastLook;

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
     * @param name for messages and for the name of its output file
     * @param command the whole command, with whatever enters namespaces and changes the user
     * @param workDirectory made if missing; its output goes to the service's own folder in there
     * @param user the user that it runs as: its working directory is that user's scratch folder in there, without one
     *     the service's own folder
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

    /** Reads what it has written so far; of much, the end. */
    String output() throws CheckpointException {
        try {
            return UserPath.tail(output, OUTPUT_BYTES).orElse("");
        } catch (IOException e) {
            throw new CheckpointException("the output of " + name + " cannot be read: " + e.getMessage(), e);
        }
    }

    /** The tool's tree, itself first; empty if it has ended. */
    List<ProcessIdentity> tree(ProcessSnapshot now) {
        return identity().map(now::tree).orElse(List.of());
    }

    /** The tool and all that descends from it or shares its session. */
    List<ProcessIdentity> members() {
        return members(table.snapshot());
    }

    /** The same, as a look has found them. */
    List<ProcessIdentity> members(ProcessSnapshot now) {
        Set<ProcessIdentity> members = new LinkedHashSet<>();
        Optional<ProcessIdentity> own = identity();
        own.ifPresent(root -> members.addAll(now.tree(root)));
        // A session's number stays taken as long as it has members. A later process of that PID is another one, and so
        // is its session.
        if (own.isPresent() || table.find(pid()).isEmpty()) {
            members.addAll(now.inSession(pid()));
        }
        return new ArrayList<>(members);
    }

    /**
     * Those of {@link #members} that were not there before, as far as was looked: cheap enough to ask often. None once
     * the tool has ended.
     */
    List<ProcessIdentity> newMembers() {
        if (!process.isAlive()) {
            return List.of();
        }
        ProcessSnapshot recent = table.recentSnapshot(LOOKING_SHARE);
        if (recent == lastLook) {
            return List.of();
        }
        lastLook = recent;
        return identity().map(recent::family).orElse(List.of());
    }

    /**
     * Describes in one line how it ended, with the end of its output and of its log, if it has one, which is kept.
     *
     * @param remedies what is to be done about an exit status
     * @param meaning what is known of its log
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
            text.append("; it says: ").append(oneLine(words));
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

    /** Ends the tool and everything that descends from it, patiently. */
    void end(Duration grace, Duration terminateGrace, SignalSender signals) throws CheckpointException {
        requireEnd(signals.endPatiently(describe(), this::members, grace, terminateGrace, terminateGrace));
    }

    /** Kills the tool and everything that descends from it. */
    void kill(Duration limit, SignalSender signals) throws CheckpointException {
        requireEnd(signals.killAll(limit, this::members));
    }

    private void requireEnd(boolean gone) throws CheckpointException {
        if (!gone) {
            throw new CheckpointException(describe() + " does not even end on SIGKILL. Remedy: it waits for its"
                    + " filesystem; abort that mount");
        }
    }

    private String describe() {
        return name + " (PID " + pid + ")";
    }

    /** Returns true if a log in the service's own folder contains some ASCII words; false if there is no log. */
    static boolean contains(Path log, String words) throws CheckpointException {
        // In pieces, since a line may be as long as the file.
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

    /** Part of a message, so what cannot be read is said in it. */
    private static String tail(Path file) {
        try {
            return UserPath.tail(file, TAIL_BYTES).orElse("");
        } catch (IOException e) {
            return "(cannot be read: " + e.getMessage() + ")";
        }
    }

    /** CRIU says first that it cannot raise a limit of its own, which does it no harm: what follows is the reason. */
    private static String oneLine(String text) {
        return text.replaceAll("(?m)^.*Can't setup RLIMIT_NOFILE for self.*\\R?", "")
                .strip()
                .replaceAll("\\s*\\R\\s*", " | ")
                .replaceAll("\\p{Cntrl}", "?");
    }
}
