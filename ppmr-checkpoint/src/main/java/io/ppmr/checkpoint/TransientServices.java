package io.ppmr.checkpoint;

import io.ppmr.linux.Command;
import io.ppmr.linux.Folders;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.UninterruptedWait;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;

/**
 * Runs commands in transient services of their own, which PID 1 starts through systemd-run(1). A scope does not
 * suffice, because its processes are children of this service, with its hardening. The services have
 * {@code KillMode=process}, because a restart leaves the job behind. When its main process ends, or the unit is
 * stopped, the processes in the unit's group stay.
 */
final class TransientServices implements CommandStarter {
    private static final long START_LIMIT_NS = TimeUnit.SECONDS.toNanos(60);
    private static final long POLL_MS = 5;
    /** Maximum lifetime of a helper program. Every migration is shorter. */
    private static final long CONVERSATION_S = TimeUnit.HOURS.toSeconds(2);

    /** Maximum length of a line, which is a PID or an error of systemd-run. */
    private static final int LINE_BYTES = 4096;
    /** Variables that describe this service and would be wrong for another. */
    private static final Set<String> OUR_OWN = Set.of(
            "NOTIFY_SOCKET",
            "WATCHDOG_USEC",
            "WATCHDOG_PID",
            "MAINPID",
            "INVOCATION_ID",
            "JOURNAL_STREAM",
            "SYSTEMD_EXEC_PID",
            "MANAGERPID",
            "LISTEN_PID",
            "LISTEN_FDS",
            "LISTEN_FDNAMES",
            "MEMORY_PRESSURE_WATCH",
            "MEMORY_PRESSURE_WRITE",
            "CREDENTIALS_DIRECTORY",
            "RUNTIME_DIRECTORY",
            "STATE_DIRECTORY",
            "OLDPWD",
            "PWD",
            "SHLVL",
            "_",
            "_JAVA_SR_SIGNUM");

    /** The name of a variable in a shell. The manager accepts no other. */
    private static final Pattern NAME = Pattern.compile("[A-Za-z_][A-Za-z0-9_]*");

    private static final Pattern SPECIAL = Pattern.compile("[\"\\\\`$]");
    private static final String FILE = "environment-";
    private static final FileAttribute<?> OURS_ALONE =
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"));

    private final String environment;
    private final String program;
    private final Path directory;

    /**
     * @param environment variables for commands, except for those that describe this service
     *
     * @param program {@code systemd-run}, by name or path
     * @param directory directory of a file with the environment for the start of each command; only root and the
     *     service's own user may change names in it
     */
    TransientServices(Map<String, String> environment, String program, Path directory) {
        this.program = program;
        this.directory = directory;
        StringBuilder lines = new StringBuilder();
        new TreeMap<>(environment).forEach((name, value) -> {
            if (NAME.matcher(name).matches() && !OUR_OWN.contains(name) && !name.startsWith("PPMR_")) {
                lines.append(name).append("=\"").append(SPECIAL.matcher(value).replaceAll("\\\\$0"));
                lines.append("\"\n");
            }
        });
        this.environment = lines.toString();
    }

    /**
     * Writes the environment into a file that only root can read, systemd.exec(5). Every user could read it on a
     * command line or as a property of a unit. The caller removes it when the command has begun.
     */
    private Path environmentFile() throws CheckpointException {
        try {
            // The jobs' users pass through it to the mounts.
            Folders.create(directory, Folders.PASSABLE);
            removeOfTheDead();
            Path file = Files.createTempFile(
                    directory, FILE + ProcessHandle.current().pid() + "-", "", OURS_ALONE);
            return Files.writeString(file, environment, StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new CheckpointException(
                    "the environment of a command cannot be written: " + e.getMessage() + ". Remedy: make room in "
                            + directory,
                    e);
        }
    }

    /** Removes the files of services that were killed while a command began. */
    private void removeOfTheDead() throws IOException {
        try (DirectoryStream<Path> files = Files.newDirectoryStream(directory, FILE + "*")) {
            for (Path file : files) {
                String[] parts = file.getFileName().toString().split("-", -1);
                if (parts[1].matches("\\d{1,9}")
                        && ProcessHandle.of(Long.parseLong(parts[1])).isEmpty()) {
                    Files.deleteIfExists(file);
                }
            }
        } catch (DirectoryIteratorException e) {
            throw e.getCause();
        }
    }

    private static void remove(Path file) throws CheckpointException {
        try {
            Files.deleteIfExists(file);
        } catch (IOException e) {
            throw new CheckpointException(
                    "the environment of a command could not be removed from " + file + ": " + e.getMessage()
                            + ". Remedy: remove that file",
                    e);
        }
    }

    /** Returns the words before a command that run it in a transient service. */
    private List<String> words(String name, Path workDirectory, Path environmentFile) {
        List<String> words = Command.words(
                "%s --quiet --collect --wait --pipe --unit=%s --description=%s --property=KillMode=process"
                        + " --property=OOMPolicy=continue --property=TasksMax=infinity"
                        + " --property=WorkingDirectory=%s --property=EnvironmentFile=%s",
                program,
                "ppmr-" + name + "-" + UUID.randomUUID().toString().substring(0, 8),
                "ppmr " + name,
                workDirectory,
                environmentFile);
        words.add("--");
        return words;
    }

    @Override
    public StartedCommand start(String name, List<String> command, Path workDirectory, Path output)
            throws CheckpointException {
        Path variables = environmentFile();
        try {
            List<String> whole = words(name, workDirectory, variables);
            whole.add(escape(command.get(0)));
            whole.addAll(List.of("--report", escape(output.toString())));
            command.subList(1, command.size()).forEach(word -> whole.add(escape(word)));
            Process client = new ProcessBuilder(whole)
                    .redirectInput(ToolProcess.NULL)
                    .redirectErrorStream(true)
                    .start();
            String line = firstLine(client);
            if (line.matches("[1-9][0-9]{0,9}")) {
                return new StartedCommand(client, Integer.parseInt(line));
            }
            String end = client.isAlive() ? "no output for 60 s" : "exit status " + client.exitValue();
            client.destroyForcibly();
            throw new CheckpointException(name + " could not be started in a service of its own: "
                    + (line.isEmpty() ? end : line)
                    + ". Remedy: see systemctl status, and the journal of PID 1");
        } catch (IOException e) {
            throw new CheckpointException(
                    program + " cannot be started: " + e.getMessage() + ". Remedy: install systemd, or set " + VARIABLE
                            + " to direct if systemd does not run the service",
                    e);
        } finally {
            remove(variables);
        }
    }

    /** Escapes a word, because the manager would expand variables; systemd.service(5), "Command lines". */
    private static String escape(String word) {
        return word.replace("$", "$$");
    }

    /** Reads the first line of the service's main process, or of systemd-run on a failure. */
    private static String firstLine(Process client) throws IOException {
        StringBuilder line = new StringBuilder();
        InputStream from = client.getInputStream();
        long deadlineNs = System.nanoTime() + START_LIMIT_NS;
        boolean over = false;
        while (line.indexOf("\n") < 0 && line.length() < LINE_BYTES && !over && System.nanoTime() - deadlineNs < 0) {
            // The output before its end is read once more after the end.
            over = UninterruptedWait.of(() -> client.waitFor(POLL_MS, TimeUnit.MILLISECONDS));
            line.append(
                    new String(from.readNBytes(Math.min(from.available(), LINE_BYTES)), StandardCharsets.ISO_8859_1));
        }
        return line.toString().lines().findFirst().orElse("").strip();
    }

    /**
     * Starts a helper, which needs no environment. If its client is killed in vain because it hangs, the manager ends
     * it later.
     */
    @Override
    public Process converse(List<String> command) throws CheckpointException {
        List<String> whole = Command.words(
                "%s --quiet --collect --wait --pipe --unit=%s --description=%s --property=RuntimeMaxSec=%s"
                        + " --property=WorkingDirectory=/ --",
                program, "ppmr-look-" + UUID.randomUUID().toString().substring(0, 8), "ppmr look", CONVERSATION_S);
        command.forEach(word -> whole.add(escape(word)));
        return CommandStarter.piped(whole);
    }

    @Override
    public Command.CommandResult run(List<String> command, Duration limit, OutputLimit output)
            throws CheckpointException {
        Path variables = environmentFile();
        try {
            List<String> whole = words("helper", Path.of("/"), variables);
            command.forEach(word -> whole.add(escape(word)));
            return CommandStarter.call(whole, limit.plusNanos(START_LIMIT_NS), output);
        } finally {
            remove(variables);
        }
    }

    @Override
    public boolean givesCapability(int number) {
        return ProcStat.hasCapability("1", number);
    }
}
