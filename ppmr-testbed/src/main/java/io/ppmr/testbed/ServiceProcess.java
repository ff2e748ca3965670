package io.ppmr.testbed;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.OrphanedCommand;
import io.ppmr.daemon.service.JavaCommand;
import io.ppmr.linux.Command;
import io.ppmr.linux.UninterruptedWait;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * A ppmr service as an operator runs it, here or in a {@link TestNode}. It is a JVM of its own with a configuration
 * file, and its output is in a log. Its files, including its journal, are in the folder that it gets. Its owner closes
 * it.
 */
public final class ServiceProcess implements AutoCloseable {
    private static final Duration END_LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final Duration READY_LIMIT = Patience.of(Duration.ofSeconds(60));

    /** The services that move jobs. A part's services have no mount. */
    private static final Set<String> SIDES = Set.of("source", "target");

    /** Statuses of a JVM that ran out of memory, aborted, or got a SIGBUS or SIGSEGV. */
    private static final Set<Integer> CRASHED = Set.of(3, 134, 135, 139);

    private final String name;
    private final Path folder;
    private final Path kept;
    private final Path log;
    private final Process process;
    private final ProcessHandle service;

    private ServiceProcess(String name, Path folder, Path kept, Process process, ProcessHandle service) {
        this.name = name;
        this.folder = folder;
        this.kept = kept;
        this.log = folder.resolve(name + ".log");
        this.process = process;
        this.service = service;
    }

    /**
     * Starts a service on this machine and waits until it reports that it is ready.
     *
     * @param role {@code source} or {@code target}
     * @param settings see {@link #begin}
     */
    public static ServiceProcess start(String role, Path folder, String... settings) throws Exception {
        return startIn(null, role, role, folder, settings);
    }

    /** Starts a service in a node, and waits until it reports that it is ready. */
    public static ServiceProcess startIn(TestNode node, String role, String name, Path folder, String... settings)
            throws Exception {
        return startIn(node, java(), role, name, folder, settings);
    }

    /**
     * Starts a service in a node, and waits until it reports that it is ready.
     *
     * @param java the command that starts it, which may be of another release
     */
    public static ServiceProcess startIn(
            TestNode node, JavaCommand java, String role, String name, Path folder, String... settings)
            throws Exception {
        ServiceProcess service = begin(node, java, name, folder, List.of(role), settings);
        try {
            service.awaitReady(READY_LIMIT);
            return service;
        } catch (Exception e) {
            service.close();
            throw e;
        }
    }

    /**
     * Starts a service without waiting for it.
     *
     * @param node the node, or null for this machine itself
     * @param name for its files in the folder: NAME.toml, NAME.log, and what the first lines of its configuration name
     * @param arguments the role, then further arguments
     * @param settings lines of its configuration, behind those about mount, work directory and journal
     */
    public static ServiceProcess begin(
            TestNode node, JavaCommand java, String name, Path folder, List<String> arguments, String... settings)
            throws IOException, InterruptedException {
        return beginKept(node, java, name, folder, folder, arguments, settings);
    }

    /**
     * Begins a service whose own files are in another folder than its configuration and its log.
     *
     * @param kept the folder of its mount, its work directory and its journal; need not exist
     */
    public static ServiceProcess beginKept(
            TestNode node,
            JavaCommand java,
            String name,
            Path folder,
            Path kept,
            List<String> arguments,
            String... settings)
            throws IOException, InterruptedException {
        List<String> lines = new ArrayList<>();
        if (SIDES.contains(arguments.get(0))) {
            lines.add("mount = '" + kept.resolve(name + "-mount") + "'");
            lines.add("work_directory = '" + kept.resolve(name + "-work") + "'");
            lines.add("journal = '" + kept.resolve(name + "-journal") + "'");
        }
        lines.addAll(List.of(settings));
        Path config = Files.write(folder.resolve(name + ".toml"), lines);
        List<String> words = new ArrayList<>(List.of(arguments.get(0), "--config", config.toString()));
        words.addAll(arguments.subList(1, arguments.size()));
        List<String> command = new ArrayList<>(node == null ? List.of() : node.beforeService(arguments.get(0)));
        String role = arguments.get(0).toUpperCase(Locale.ROOT);
        command.addAll(java.withOptions(System.getenv().getOrDefault("PPMR_" + role + "_OPTIONS", ""))
                .with(words));
        ProcessBuilder builder = node == null ? new ProcessBuilder(command) : node.command(command);
        // The launcher sets this locale, too, independently of the caller's.
        builder.environment().put("LC_ALL", "C.UTF-8");
        Process process = builder.redirectErrorStream(true)
                .redirectOutput(folder.resolve(name + ".log").toFile())
                .start();
        process.getOutputStream().close();
        // The process that was started in a node is nsenter(1), which ends with the service.
        ProcessHandle service = node == null
                ? process.toHandle()
                : ProcessHandle.of(TestNode.inside(process).pid()).orElse(process.toHandle());
        return new ServiceProcess(name, folder, kept, process, service);
    }

    /** Returns the command that starts ppmr here: the launcher's, or that of this JVM. */
    public static JavaCommand java() {
        return JavaCommand.from(
                System.getenv(), NativePrograms.fromSystemProperty().directory());
    }

    /** The program ppmr with these arguments. */
    public static List<String> command(String... arguments) {
        return java().with(List.of(arguments));
    }

    /** Waits until the service reports that it is ready. Throws with the end of its log if it does not. */
    public void awaitReady(Duration limit) throws Exception {
        try {
            Conditions.until(limit, "the " + name + " is ready", () -> {
                boolean ready = log().lines().anyMatch(line -> line.startsWith("ready"));
                if (!ready && !process.isAlive()) {
                    throw new IOException("the " + name + " ended with status " + process.exitValue());
                }
                return ready;
            });
        } catch (TimeoutException e) {
            TimeoutException late = new TimeoutException(e.getMessage() + "; its log ends:\n" + logEnd(20));
            late.initCause(e);
            throw late;
        } catch (IOException e) {
            throw new IOException(e.getMessage() + "; its log ends:\n" + logEnd(20), e);
        }
    }

    /** Returns the directory of its files. */
    public Path folder() {
        return folder;
    }

    /** Returns the started process: the service itself, or in a node nsenter(1), which ends with it. */
    public Process process() {
        return process;
    }

    public boolean isAlive() {
        return process.isAlive();
    }

    /** Returns its exit status. The service must have exited. */
    public int exitValue() {
        return process.exitValue();
    }

    /** Returns its log since its last start. */
    public String log() throws IOException {
        return Files.readString(log);
    }

    /** The last lines of that. */
    public String logEnd(int lines) throws IOException {
        List<String> all = Files.readAllLines(log);
        return String.join("\n", all.subList(Math.max(0, all.size() - lines), all.size()));
    }

    /** Returns the resources that it has used so far. */
    public ProcessFigures figures() throws IOException {
        return ProcessFigures.of(service.pid());
    }

    /** Sends it a signal, such as USR2. Its process is a child's child here, so no other process can have its PID. */
    public void signal(String signal) throws IOException, InterruptedException {
        Command.of(List.of("kill", "-" + signal, Long.toString(service.pid())))
                .run(END_LIMIT)
                .requireOutput();
    }

    /** Stops all its threads until {@link #thaw}. Its connections stay up. */
    public void freeze() throws IOException, InterruptedException {
        signal("STOP");
    }

    public void thaw() throws IOException, InterruptedException {
        signal("CONT");
        goOnWaiting();
    }

    /** In a node nsenter(1) stops itself when its child is stopped. */
    private void goOnWaiting() throws IOException, InterruptedException {
        if (process.pid() != service.pid() && process.isAlive()) {
            Command.of(List.of("kill", "-CONT", Long.toString(process.pid()))).run(END_LIMIT);
        }
    }

    /** Ends it as the kernel ends a process. It stops at once, and its mount is dead. */
    public void kill() throws IOException {
        service.destroyForcibly();
        try {
            goOnWaiting();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        if (!hasEnded(process)) {
            throw new IOException("the " + name + ", PID " + service.pid() + ", was killed and has not ended");
        }
    }

    /**
     * Sends it SIGTERM, and kills it if it does not end. Removes the mounts of a service that was killed here. Throws
     * if the service crashed before. A test that was only too slow must not hide that.
     */
    @Override
    public void close() throws IOException {
        boolean crashed = !process.isAlive() && CRASHED.contains(process.exitValue());
        if (process.isAlive()) {
            service.destroy();
            if (!hasEnded(process)) {
                kill();
            }
        }
        for (String left : List.of(name + "-mount", name + "-work/.staging")) {
            Path mount = kept.resolve(left);
            if (Files.readString(Path.of("/proc/self/mountinfo")).contains(" " + mount + " ")
                    && !hasEnded(new ProcessBuilder("umount", "-l", mount.toString()).start())) {
                throw new IOException(mount + " could not be unmounted");
            }
        }
        endCopiesOfWarmUp();
        if (crashed) {
            throw new IOException(
                    "the " + name + " crashed with status " + process.exitValue() + "; its log ends:\n" + logEnd(20));
        }
    }

    /** A service that is killed in its warm-up leaves copies, which its next start would end. */
    private void endCopiesOfWarmUp() throws IOException {
        for (String role : List.of("source", "target")) {
            Path left = kept.toAbsolutePath().resolve(name + "-work/.warm-up-" + role + "/target-work");
            try {
                if (Files.isDirectory(left)) {
                    OrphanedCommand.endAllMarked(left);
                }
            } catch (CheckpointException e) {
                throw new IOException(e);
            }
        }
    }

    /** Returns true if it ends in time. An interrupt is kept for later, because this is mostly clean-up. */
    private static boolean hasEnded(Process process) {
        long deadlineNs = System.nanoTime() + END_LIMIT.toNanos();
        return UninterruptedWait.of(() -> process.waitFor(deadlineNs - System.nanoTime(), TimeUnit.NANOSECONDS));
    }
}
