package io.ppmr.testbed;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.linux.Command;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.linux.UninterruptedWait;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * An isolated node on this machine. It has PIDs, mounts, network, host name and IPC of its own (unshare(1)). It also
 * has its own {@code /tmp}, {@code /dev/shm}, {@code /run}, terminals and {@link #DISK}, which no other node sees. Its
 * other files are this machine's, as on a cluster with a shared filesystem. This includes the folders of the testbeds
 * that existed when the node was made. Its init reaps orphans and waits on a pipe from this process. So the node, with
 * all its processes and mounts, ends with this process at most.
 *
 * <p>It needs root. Its owner closes it. Until then, any thread may call the other methods.
 */
public final class TestNode implements AutoCloseable {
    private static final Duration START_LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final Duration END_LIMIT = Patience.of(Duration.ofSeconds(60));

    /**
     * A disk of the node's own. It is empty at first, and every user may write there, as on a node's scratch disk. Each
     * node has it at this place, and no node sees another's.
     */
    public static final Path DISK = Path.of("/mnt");

    /** Each node has its own contents in these places. */
    private static final List<Path> OWN_PLACES = List.of(Path.of("/tmp"), Path.of("/dev/shm"), Path.of("/run"), DISK);

    /** Mounts made in one namespace of the node must be seen in those that are made of it later. */
    private static final String INIT_SCRIPT = """
            set -e
            name=$1 last=$2 network=$3
            shift 3
            mount --make-rprivate /
            mkdir -p /mnt /dev/shm
            mount -t tmpfs -o mode=1777 ppmr-node /run
            n=0
            for kept; do
                n=$((n + 1))
                mkdir /run/$n
                mount --rbind "$kept" /run/$n
            done
            for place in /tmp /dev/shm /mnt; do
                mount -t tmpfs -o mode=1777 ppmr-node $place
            done
            mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 ppmr-node /dev/pts
            mount --bind /dev/pts/ptmx /dev/ptmx
            n=0
            for kept; do
                n=$((n + 1))
                mkdir -p "$kept"
                mount --move /run/$n "$kept"
                rmdir /run/$n
            done
            chmod 755 /run
            mount --make-rshared /
            printf %s "$name" >/proc/sys/kernel/hostname
            [ -z "$last" ] || echo "$last" >/proc/sys/kernel/ns_last_pid
            [ -z "$network" ] || ip link set lo up
            echo ready
            read -r program || exit 0
            exec $program
            """;

    private static final String LINK = "node0";

    private final String name;
    private final Process holder;
    private final ProcessIdentity init;
    private final boolean ownNetwork;
    private volatile List<String> launcher = List.of();
    private volatile ServiceLauncher serviceLauncher = role -> List.of();

    private TestNode(String name, Process holder, ProcessIdentity init, boolean ownNetwork) {
        this.name = name;
        this.holder = holder;
        this.init = init;
        this.ownNetwork = ownNetwork;
    }

    /**
     * Makes a node with a network of its own.
     *
     * @param name its host name
     * @throws IOException if it cannot be made; then everything of it is removed
     */
    public static TestNode create(String name) throws IOException, InterruptedException {
        return create(name, 0, true);
    }

    /**
     * Makes a node.
     *
     * @param firstPid the approximate first PID, so that those of two nodes differ, or 0 for any
     * @param ownNetwork whether it has a network of its own, or this machine's
     */
    public static TestNode create(String name, int firstPid, boolean ownNetwork)
            throws IOException, InterruptedException {
        List<String> words = Command.words("setsid unshare --fork --kill-child --pid --mount --uts --ipc --mount-proc");
        if (ownNetwork) {
            words.add("--net");
        }
        words.addAll(Command.words(
                "bash -c %s ppmr-node %s %s %s",
                INIT_SCRIPT, name, firstPid == 0 ? "" : firstPid, ownNetwork ? "network" : ""));
        kept().forEach(path -> words.add(path.toString()));
        Process holder = new ProcessBuilder(words).redirectErrorStream(true).start();
        boolean made = false;
        try {
            String answer = firstLine(holder);
            if (!"ready".equals(answer)) {
                throw new IOException("node " + name + " cannot be made: "
                        + (answer == null ? "it sent nothing within " + START_LIMIT : answer)
                        + " (unshare(1), ip(8), bash; needs root)");
            }
            TestNode node = new TestNode(name, holder, inside(holder), ownNetwork);
            made = true;
            return node;
        } finally {
            if (!made) {
                holder.destroyForcibly();
            }
        }
    }

    /**
     * Lists the directories below one of the node's own places that stay visible in it. They are this run's folders,
     * and the folders of started programs. The outer ones are first.
     */
    private static List<Path> kept() {
        Set<Path> all = new TreeSet<>(Testbed.openFolders());
        String started = String.join(
                File.pathSeparator,
                System.getProperty("ppmr.home", ""),
                System.getProperty("java.home"),
                System.getProperty("java.class.path"),
                System.getProperty("ppmr.native.dir", ""),
                System.getenv().getOrDefault("PPMR_CLASSPATH", ""),
                System.getenv().getOrDefault("PPMR_CRIU", "").lines().collect(Collectors.joining(File.pathSeparator)));
        for (String word : started.split(File.pathSeparator, -1)) {
            Path path = Path.of(word.endsWith("/*") ? word.substring(0, word.length() - 2) : word);
            if (path.isAbsolute() && Files.exists(path)) {
                all.add(Files.isDirectory(path) ? path : path.getParent());
            }
        }
        return all.stream()
                .filter(path -> OWN_PLACES.stream().anyMatch(path::startsWith))
                .toList();
    }

    /** Returns the first line of a process's output, or null if there is none in time. */
    private static String firstLine(Process process) throws IOException, InterruptedException {
        long deadlineNs = System.nanoTime() + START_LIMIT.toNanos();
        BufferedReader reader =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        while (!reader.ready()) {
            if (System.nanoTime() - deadlineNs > 0 || process.waitFor(10, TimeUnit.MILLISECONDS)) {
                return reader.ready() ? reader.readLine() : null;
            }
        }
        return reader.readLine();
    }

    /**
     * Connects two nodes by a veth(4) pair of their own. No other peer reaches either. A node has one veth pair at
     * most.
     *
     * @param addressA the one's IPv4 address
     * @param addressB the address of the other node, in the same network of 4 addresses
     */
    public static void connect(TestNode a, String addressA, TestNode b, String addressB)
            throws IOException, InterruptedException {
        cable(a, LINK, b, LINK);
        a.raise(LINK, addressA + "/30");
        b.raise(LINK, addressB + "/30");
    }

    /** Lays a cable between two nodes: a network interface of these names in each, which are down. */
    public static void cable(TestNode a, String nameA, TestNode b, String nameB)
            throws IOException, InterruptedException {
        String line = "ip link add %s netns %s type veth peer name %s netns %s";
        Command.of(Command.words(line, nameA, a.pid(), nameB, b.pid()))
                .run(START_LIMIT)
                .requireOutput();
    }

    /** Sets the address of a network interface, such as 10.0.0.1/24, and activates the interface. */
    public void raise(String link, String address) throws IOException, InterruptedException {
        run(START_LIMIT, "ip", "address", "add", address, "dev", link);
        run(START_LIMIT, "ip", "link", "set", link, "up");
    }

    /** Lets a network interface send no more than a rate, such as 1gbit, as tc(8) writes it. */
    public void shape(String link, String rate) throws IOException, InterruptedException {
        String line = "tc qdisc add dev " + link + " root tbf rate " + rate + " burst 256kb latency 50ms";
        run(START_LIMIT, line.split(" ", -1));
    }

    /** Sets its end of the veth pair up or down. Packets on their way are lost, and nothing is reset. */
    public void cable(boolean in) throws IOException, InterruptedException {
        run(START_LIMIT, "ip", "link", "set", LINK, in ? "up" : "down");
    }

    private String pid() {
        return Integer.toString(init.pid());
    }

    public String name() {
        return name;
    }

    /** Returns its init, as this process sees it. All its processes have this PID namespace, or one made in it. */
    public ProcessIdentity init() {
        return init;
    }

    /** Returns the words before a command that have it run in this node, in a session of its own. */
    public List<String> prefix() {
        List<String> words = Command.words("setsid nsenter --target %s --pid --mount --uts --ipc", pid());
        if (ownNetwork) {
            words.add("--net");
        }
        words.add("--");
        words.addAll(launcher);
        return words;
    }

    /**
     * Has a program, such as systemd(1), take the place of the node's init. The node ends with it, so it must end when
     * its standard input is closed. It may be called once.
     *
     * @param words words without blanks
     */
    public void replaceInit(List<String> words) throws IOException {
        OutputStream input = holder.getOutputStream();
        input.write((String.join(" ", words) + "\n").getBytes(StandardCharsets.UTF_8));
        input.flush();
    }

    /** Has everything that is started in this node from now on be started by a launcher, such as old-kernel. */
    public void startBy(List<String> words) {
        launcher = List.copyOf(words);
    }

    /** Finds the words before a service's command. */
    @FunctionalInterface
    public interface ServiceLauncher {
        /**
         * Returns the words.
         *
         * @param role {@code source} or {@code target}
         */
        List<String> wordsFor(String role) throws IOException;
    }

    /** Has the services that start in this node from now on be started by these words. */
    void startServicesBy(ServiceLauncher words) {
        serviceLauncher = words;
    }

    /** Returns the words before the command of a service. */
    List<String> beforeService(String role) throws IOException {
        return serviceLauncher.wordsFor(role);
    }

    /**
     * A command that will run in this node. Its process is the child of the one that is started.
     *
     * <p>Do not use this for processes that will be stopped. nsenter(1) stops itself with them, and then does not reap
     * them. See {@link #startDetached}.
     */
    public ProcessBuilder command(List<String> words) {
        List<String> all = new ArrayList<>(prefix());
        all.addAll(words);
        return new ProcessBuilder(all);
    }

    /**
     * Starts a command as an orphan of this node's init, with {@code /dev/null} as its standard streams, and returns
     * its process. It ends with the node at most.
     *
     * @param pidFile gets the process's PID as this node sees it
     */
    public ProcessIdentity startDetached(Path pidFile, List<String> words) throws IOException, InterruptedException {
        // No descriptor of another mount namespace may be open in a process that CRIU is to write.
        String script = "file=$1; shift; \"$@\" </dev/null >/dev/null 2>&1 & echo $! >\"$file.part\""
                + " && mv \"$file.part\" \"$file\"";
        List<String> all = new ArrayList<>(List.of("sh", "-c", script, "sh", pidFile.toString()));
        all.addAll(words);
        run(START_LIMIT, all.toArray(String[]::new));
        int pid = Integer.parseInt(Files.readString(pidFile).strip());
        ProcessTable table = new ProcessTable();
        try {
            for (ProcessIdentity process : table.inNamespace(init.pidNamespace())) {
                if (table.findPidInside(process).filter(inside -> inside == pid).isPresent()) {
                    return process;
                }
            }
        } catch (CheckpointException e) {
            throw new IOException(name + ": " + e.getMessage(), e);
        }
        throw new IOException("in " + name + " ended at once: " + String.join(" ", words));
    }

    /** Runs a command in this node to its end and returns its output. Throws if it fails. */
    public String run(Duration limit, String... words) throws IOException, InterruptedException {
        return Command.of(command(List.of(words)).command()).run(limit).requireOutput();
    }

    /**
     * The process that a started {@link #command} runs as: the one that nsenter(1) forked into the PID namespace.
     *
     * @throws IOException if it already ended, or does not begin in time
     */
    public static ProcessIdentity inside(Process started) throws IOException, InterruptedException {
        try {
            return new ProcessTable().of(childOf(started));
        } catch (CheckpointException e) {
            throw new IOException("a process in the node ended at once: " + e.getMessage(), e);
        }
    }

    private static int childOf(Process parent) throws IOException, InterruptedException {
        long deadlineNs = System.nanoTime() + START_LIMIT.toNanos();
        while (System.nanoTime() - deadlineNs < 0) {
            Optional<ProcessHandle> child = parent.toHandle().children().findFirst();
            if (child.isPresent()) {
                return Math.toIntExact(child.get().pid());
            }
            if (parent.waitFor(2, TimeUnit.MILLISECONDS)) {
                throw new IOException(
                        "a process ended with status " + parent.exitValue() + " as soon as it was started");
            }
        }
        throw new IOException("a process has not begun within " + START_LIMIT);
    }

    public boolean isAlive() {
        return holder.isAlive();
    }

    /** Kills its init, and thereby everything in it, as the loss of a node does. Returns when all of it is removed. */
    public void kill() throws IOException {
        if (holder.isAlive()) {
            ProcessHandle.of(init.pid()).ifPresent(ProcessHandle::destroyForcibly);
        }
        close();
    }

    /** Ends it with everything in it. It may be called twice. */
    @Override
    public void close() throws IOException {
        holder.getOutputStream().close();
        continueCommands();
        long deadlineNs = System.nanoTime() + END_LIMIT.toNanos();
        boolean killed = false;
        while (holder.isAlive() || anyLeft()) {
            long leftNs = deadlineNs - System.nanoTime();
            if (leftNs < 0) {
                throw new IOException("node " + name + " has not ended within " + END_LIMIT + "; its processes: "
                        + remainingProcesses());
            }
            if (leftNs < END_LIMIT.toNanos() / 2 && !killed) {
                // The kernel kills the node's init with its parent (--kill-child), and all other processes with the
                // init.
                holder.destroyForcibly();
                commands().forEach(ProcessHandle::destroyForcibly);
                killed = true;
            }
            UninterruptedWait.of(() -> holder.waitFor(20, TimeUnit.MILLISECONDS));
        }
    }

    /**
     * The kernel ends a node only when its last process is reaped, and a stopped nsenter(1) does not reap. It is
     * continued and not killed. Otherwise this machine's init would reap its children, without a time limit.
     */
    private void continueCommands() throws IOException {
        List<String> words = new ArrayList<>(List.of("kill", "-CONT"));
        commands().forEach(command -> words.add(Long.toString(command.pid())));
        if (words.size() > 2) {
            try {
                // A command that ended in the meantime is no failure.
                Command.of(words).run(END_LIMIT);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private Stream<ProcessHandle> commands() {
        return ProcessHandle.current()
                .children()
                .filter(child -> child.info().commandLine().orElse("").contains("nsenter --target " + pid() + " "));
    }

    /**
     * The kernel ends the init only after all others of its namespace. The namespace's number is invalid by then,
     * because the kernel assigns it to the next namespace.
     */
    private boolean anyLeft() {
        return new ProcessTable().isAlive(init);
    }

    /** Each process of the node, with its parent, its state, and what it waits for in the kernel. */
    private String remainingProcesses() {
        StringBuilder description = new StringBuilder("holder " + (holder.isAlive() ? "lives" : "ended"));
        for (ProcessIdentity process : new ProcessTable().inNamespace(init.pidNamespace())) {
            Path proc = Path.of("/proc", Integer.toString(process.pid()));
            try (Stream<Path> threads = Files.list(proc.resolve("task"))) {
                for (Path thread : threads.toList()) {
                    description
                            .append("; ")
                            .append(Files.readString(thread.resolve("stat"), StandardCharsets.ISO_8859_1));
                    description.append(Files.readString(thread.resolve("stack")).replace('\n', ' '));
                }
            } catch (IOException | UncheckedIOException e) {
                description.append("; ").append(e);
            }
        }
        return description.toString();
    }
}
