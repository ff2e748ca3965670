package io.ppmr.system.guest;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Checkpointer.CheckpointTask;
import io.ppmr.checkpoint.Checkpointer.RestartTask;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.CheckpointerSettings.NamespacePolicy;
import io.ppmr.checkpoint.CheckpointerSettings.PagePolicy;
import io.ppmr.checkpoint.HeldRank;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.PrivilegeCheck;
import io.ppmr.checkpoint.ProcessPrivileges;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.RankCommand;
import io.ppmr.checkpoint.RightsBounds;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.linux.Command;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.source.Job;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.system.ServicePair;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.Timeout;

/**
 * Tests what CRIU moves when it runs as the job's user with CAP_CHECKPOINT_RESTORE alone, and what a user gains. The
 * guest's root has every capability, which that of a container has not.
 */
@Timeout(value = 900, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class CriuAsUserInGuest {
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final JobUser USER = new JobUser(41_234, 41_234);
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final int TURNS_AFTER = 25;
    private static final long STAGING_BYTES = 64L << 20;
    private static final String CAPABILITY = "CAP_CHECKPOINT_RESTORE";
    private static final List<String> AS_USER = List.of("setpriv", "--reuid=41234", "--regid=41234", "--clear-groups");
    private static final List<String> DUMP_ARGUMENTS =
            List.of("--tcp-established", "--network-lock", "nftables", "--file-locks");
    private static final String MOVES = "moves";
    private static final String NO_IPC = "checkpoint: Task ";

    /** Returns the line of CRIU's log with the failure, without its time and place. */
    private static final Pattern REASON = Pattern.compile("Error \\([^)]*\\): (.*?)(?: \\||$)");

    private static final Pattern OWN = Pattern.compile("(lacks [0-9a-f]+ in its bounding set|kept " + CAPABILITY + ")");

    private static List<String> installed;
    private static Path install;

    private final ProcessTable table = new ProcessTable();
    private final NativePrograms programs = new NativePrograms(HOME.resolve("ppmr-checkpoint/target/native"));
    private final Map<String, Process> started = new LinkedHashMap<>();
    private Path base;
    private Path program;
    private Checkpointer asUser;
    private Checkpointer asRoot;
    private int attempts;

    /**
     * A kind of job.
     *
     * @param name its name in kinds-job
     * @param what it, for people
     * @param prefix what starts it, to which kinds-job is appended
     * @param asUser its expected outcome with CRIU as the user
     * @param asRoot its expected outcome with CRIU as root
     */
    private record Kind(String name, String what, List<String> prefix, String asUser, String asRoot) {
        /**
         * Those whose copy cannot be beside its original on one node, because they have a port, a lock or a number of
         * it.
         */
        private static final Set<String> ALONE = Set.of("tcp-listening", "tcp-established", "udp", "locks", "terminal");

        boolean alone() {
            return ALONE.contains(name);
        }

        static Kind moves(String name, String what) {
            return new Kind(name, what, AS_USER, MOVES, MOVES);
        }

        static Kind fails(String name, String what, String asUser, String asRoot) {
            return new Kind(name, what, AS_USER, asUser, asRoot);
        }
    }

    private static List<String> with(String... words) {
        List<String> all = new ArrayList<>(List.of(words));
        all.addAll(all.indexOf("AS_USER"), AS_USER);
        all.remove("AS_USER");
        return all;
    }

    private static List<Kind> kinds() {
        return List.of(
                Kind.moves("memory", "private memory"),
                Kind.moves("threads", "threads"),
                Kind.moves("children", "child processes, with process groups and sessions of their own"),
                Kind.moves("zombie", "a child that has ended and was not waited for"),
                Kind.moves("file", "a file of the user's, open for reading and writing"),
                Kind.moves("unlinked", "a file that was unlinked after it was opened"),
                Kind.moves("roots-file", "a file of root's that the user can read, open for reading"),
                Kind.fails(
                        "inherited",
                        "a file of root's, opened by root for writing and inherited",
                        "restart: Can't open file",
                        MOVES),
                Kind.moves("locks", "a lock by flock(2), with --file-locks"),
                Kind.moves("pipe", "pipes to a child, with bytes in them"),
                Kind.moves("fifo", "a FIFO with bytes in it"),
                Kind.moves("socketpair", "a pair of Unix sockets, with bytes in it"),
                Kind.moves("unix", "a listening Unix socket with a name, and a connection to it within the rank"),
                Kind.moves("tcp-listening", "a listening TCP socket"),
                Kind.fails(
                        "tcp-established",
                        "an established TCP connection, with --tcp-established",
                        "checkpoint: Locking connection failed",
                        MOVES),
                Kind.moves("udp", "a bound UDP socket"),
                Kind.moves("shared", "anonymous shared memory of parent and child"),
                Kind.moves("shm", "a file in /dev/shm, mapped by parent and child"),
                Kind.moves("memfd", "memory by memfd_create(2), mapped by parent and child"),
                Kind.fails("sysv", "System V shared memory in the node's IPC namespace", NO_IPC, NO_IPC),
                Kind.moves("events", "eventfd, epoll, timerfd, signalfd"),
                Kind.fails("inotify", "inotify on a directory", "checkpoint: fsnotify: ", MOVES),
                Kind.moves("timers", "interval timers and POSIX timers"),
                Kind.moves("pending", "a blocked signal that is pending"),
                Kind.moves("terminal", "a pseudoterminal, both ends within the rank"),
                Kind.fails("seccomp", "a seccomp filter", "checkpoint: suspending seccomp failed", MOVES),
                Kind.moves("no-new-privs", "no_new_privs"),
                Kind.fails("undumpable", "a process that is not dumpable", "checkpoint: ", MOVES),
                Kind.moves("nice", "a nice value above the service's"),
                Kind.moves("locked", "locked memory"),
                Kind.moves("limit", "a hard limit below the service's"),
                new Kind(
                        "plain",
                        "a hard limit above the service's (whether the copy has it too is not looked at)",
                        with("prlimit", "--msgqueue=2000:2000", "AS_USER"),
                        MOVES,
                        MOVES),
                new Kind(
                        "plain",
                        "a supplementary group that the user database does not give the user",
                        List.of("setpriv", "--reuid=41234", "--regid=41234", "--groups=41234,41777"),
                        "restart: Can't setgroups",
                        MOVES),
                new Kind(
                        "plain",
                        "a bounding set of capabilities that is not full",
                        with("setpriv", "--bounding-set=-sys_nice", "AS_USER"),
                        "checkpoint: lacks 800000 in its bounding set",
                        MOVES),
                new Kind(
                        "plain",
                        "a network namespace of its own",
                        with("unshare", "--net", "AS_USER"),
                        "checkpoint: Can't setns",
                        ""),
                new Kind(
                        "plain",
                        CAPABILITY + " of its own",
                        List.of(
                                "setpriv",
                                "--reuid=41234",
                                "--regid=41234",
                                "--clear-groups",
                                "--inh-caps=+checkpoint_restore",
                                "--ambient-caps=+checkpoint_restore"),
                        "restart: kept " + CAPABILITY,
                        MOVES));
    }

    @BeforeEach
    void setUp() throws Exception {
        base = Files.createTempDirectory(Path.of("/dev/shm"), "ppmr-kinds");
        Files.setPosixFilePermissions(base, PosixFilePermissions.fromString("rwxr-xr-x"));
        program = Files.copy(
                HOME.resolve("ppmr-checkpoint/target/native-test/kinds-job"),
                base.resolve("kinds-job"),
                StandardCopyOption.COPY_ATTRIBUTES);
        asUser = criu(true);
        asRoot = criu(false);
    }

    private Checkpointer criu(boolean jobUser) throws Exception {
        return new CheckpointerSettings.Criu(
                        installed, DUMP_ARGUMENTS, DUMP_ARGUMENTS, PagePolicy.IMAGES, jobUser, NamespacePolicy.AUTO)
                .create("criu", programs);
    }

    /** Installs CRIU where every user can start it, because the launcher's own copy may be in a home of root's. */
    @BeforeAll
    static void install() throws Exception {
        List<String> words =
                System.getenv().getOrDefault("PPMR_CRIU", "criu").lines().toList();
        int inside = words.get(0).indexOf("/lib");
        if (inside < 0) {
            installed = words;
            return;
        }
        String root = words.get(0).substring(0, inside);
        // The folder is not in /tmp, which is an overlay here.
        install = Files.createTempDirectory(Path.of("/dev/shm"), "ppmr-criu");
        Files.setPosixFilePermissions(install, PosixFilePermissions.fromString("rwxr-xr-x"));
        Path copy = install.resolve("criu");
        run("cp", "-a", root, copy.toString());
        run("chmod", "-R", "go+rX", copy.toString());
        installed =
                words.stream().map(word -> word.replace(root, copy.toString())).toList();
    }

    /** This allows a job to have a hard limit above the service's. */
    @BeforeAll
    static void lowerALimit() throws Exception {
        run("prlimit", "--pid", "" + ProcessHandle.current().pid(), "--msgqueue=1000:1000");
    }

    @AfterAll
    static void uninstall() throws Exception {
        if (install != null) {
            run("rm", "-rf", install.toString());
        }
    }

    private static void run(String... command) throws IOException {
        Command.CommandResult result = Command.of(List.of(command)).runUninterruptibly(LIMIT);
        assertTrue(result.succeeded(), result.describe());
    }

    @AfterEach
    void tearDown() throws Exception {
        endAll();
        try (Stream<Path> files = Files.walk(base)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }

    /** Ends all processes of the test's user. No other process has that number in the guest. */
    private void endAll() throws Exception {
        Conditions.until("the user's processes have ended", () -> {
            List<ProcessHandle> left = ProcessHandle.allProcesses()
                    .filter(ProcessHandle::isAlive)
                    .filter(process -> isUsers(process.pid()))
                    .toList();
            left.forEach(ProcessHandle::destroyForcibly);
            return left.isEmpty();
        });
    }

    private static boolean isUsers(long pid) {
        try {
            return Files.readAllLines(Path.of("/proc/" + pid + "/status")).stream()
                    .anyMatch(line -> line.matches("Uid:\\s+" + USER.uid() + "\\s.*"));
        } catch (IOException gone) {
            return false;
        }
    }

    // ---- moving one job ----------------------------------------------------------------------------------------

    private Path usersDirectory(Path directory) throws IOException {
        Files.createDirectory(directory);
        Files.setAttribute(directory, "unix:uid", USER.uid());
        Files.setAttribute(directory, "unix:gid", USER.gid());
        return directory;
    }

    /** One job, in a directory of its own. */
    private final class Trial {
        private final Path directory;
        private final Path images;
        private final Checkpointer tool;
        private final ProcessIdentity root;

        Trial(String kind, List<String> prefix, Checkpointer tool) throws Exception {
            this.tool = tool;
            Path all = Files.createDirectory(base.resolve("t" + attempts++));
            directory = usersDirectory(all.resolve("job"));
            images = tool == asUser
                    ? usersDirectory(all.resolve("images"))
                    : Files.createDirectory(all.resolve("images"));
            Path inherited = Files.createFile(all.resolve("roots-output"));
            List<String> command = new ArrayList<>(List.of("setsid"));
            command.addAll(prefix);
            command.addAll(List.of(program.toString(), kind, directory.toString()));
            boolean withOutput = kind.equals("inherited");
            Process process = new ProcessBuilder(command)
                    .directory(directory.toFile())
                    .redirectInput(Path.of("/dev/null").toFile())
                    .redirectOutput((withOutput ? inherited : Path.of("/dev/null")).toFile())
                    .redirectError(Path.of("/dev/null").toFile())
                    .start();
            started.put(directory.toString(), process);
            requireTurns(2);
            root = table.of((int) process.pid());
        }

        private long turns() throws IOException {
            Path file = directory.resolve("turns");
            String text = Files.exists(file) ? Files.readString(file).strip() : "";
            return text.isEmpty() ? -1 : Long.parseLong(text);
        }

        /** Waits until this number of further turns is done, or one failed. */
        void requireTurns(long more) throws Exception {
            long before = turns();
            Path failed = directory.resolve("failed");
            Conditions.until(LIMIT, directory + " continues", () -> Files.exists(failed) || turns() >= before + more);
            assertFalse(Files.exists(failed), () -> {
                try {
                    return Files.readString(failed);
                } catch (IOException e) {
                    return e.toString();
                }
            });
        }

        private Path work(String name) throws IOException {
            return WorkDirectories.create(directory.resolveSibling(name), 0);
        }

        HeldRank checkpoint() throws Exception {
            return finish(tool.checkpoint(new CheckpointTask(
                    0, new ProcessTable().tree(root), USER, images, work("d"), LIMIT, Set.of(), Optional.empty())));
        }

        HeldRank restart() throws Exception {
            return finish(tool.restart(new RestartTask(0, USER, images, work("r"), LIMIT)));
        }

        /**
         * Returns {@link #MOVES}, or the place and the reason of the failure.
         *
         * @param alone whether the original ends before the restart, which could not be undone in a migration
         */
        String move(boolean alone) throws Exception {
            HeldRank original;
            ProcessPrivileges rights;
            try {
                original = checkpoint();
                rights = ProcessPrivileges.read("rank 0", original.processes(), bounds());
            } catch (CheckpointException e) {
                requireTurns(1);
                return "checkpoint: " + reason(e);
            }
            if (alone) {
                original.end(LIMIT);
            }
            HeldRank copy;
            try {
                copy = restart();
            } catch (CheckpointException e) {
                if (alone) {
                    return "restart: " + reason(e);
                }
                original.requireHeld();
                original.release();
                requireTurns(1);
                return "restart: " + reason(e);
            }
            try {
                new PrivilegeCheck(programs, USER, directory.getParent(), bounds()).requireNoEscalation(copy, rights);
            } catch (CheckpointException e) {
                return "rights: " + e.getMessage();
            }
            if (!alone) {
                original.end(LIMIT);
            }
            copy.release();
            try {
                requireTurns(TURNS_AFTER);
            } catch (AssertionError e) {
                return "the copy: " + e.getMessage().strip();
            }
            return MOVES;
        }
    }

    private static HeldRank finish(RankCommand command) throws Exception {
        HeldRank held = command.await(LIMIT.plusSeconds(20));
        assertTrue(held != null, "the command has not ended");
        return held;
    }

    private static String reason(CheckpointException e) {
        Matcher own = OWN.matcher(e.getMessage());
        if (own.find()) {
            return own.group();
        }
        Matcher criu = REASON.matcher(e.getMessage());
        return criu.find() ? criu.group(1).strip() : e.getMessage();
    }

    // ---- the tests ---------------------------------------------------------------------------------------------

    @Test
    void shouldBeAvailableToAUserWithTheOneCapability() {
        assertTrue(asUser.probe().available(), asUser.probe().toString());
        assertTrue(
                asUser.probe().detail().contains("as the job's user"),
                asUser.probe().toString());
    }

    /** This is last, because it takes minutes. */
    @Order(Integer.MAX_VALUE)
    @Test
    void shouldMoveTheseKindsAndFailByNameWithTheOthers() throws Exception {
        List<String> wrong = new ArrayList<>();
        for (Kind kind : kinds()) {
            String users = new Trial(kind.name(), kind.prefix(), asUser).move(kind.alone());
            endAll();
            String roots = kind.asUser().equals(MOVES)
                    ? "-"
                    : new Trial(kind.name(), kind.prefix(), asRoot).move(kind.alone());
            endAll();
            System.out.println("seen: | " + kind.what() + " | " + users + " | " + roots + " |");
            if (!users.startsWith(kind.asUser()) || (!roots.equals("-") && !roots.startsWith(kind.asRoot()))) {
                wrong.add(kind + ": as the user '" + users + "', as root '" + roots + "'");
            }
        }
        assertEquals(List.of(), wrong, () -> String.join("\n", wrong));
    }

    private RightsBounds bounds() {
        return RightsBounds.standard(base.resolve("rights"));
    }

    /** Root's CRIU opens the replacement of the job's file. The user's CRIU can open it only as the user. */
    @Test
    void shouldOpenNothingOfRootsWhenAFileIsExchangedForALinkMeanwhile() throws Exception {
        Path secret = Files.writeString(base.resolve("roots"), "0123456789");
        Files.setPosixFilePermissions(secret, PosixFilePermissions.fromString("rw-r--r--"));
        for (Checkpointer tool : List.of(asRoot, asUser)) {
            Trial trial = new Trial("file", AS_USER, tool);
            HeldRank original = trial.checkpoint();
            ProcessPrivileges rights = ProcessPrivileges.read("rank 0", original.processes(), bounds());
            Path own = trial.directory.resolve("own");
            Files.delete(own);
            Files.createSymbolicLink(own, secret);
            Files.setAttribute(own, "unix:uid", USER.uid(), LinkOption.NOFOLLOW_LINKS);
            if (tool == asRoot) {
                HeldRank copy = trial.restart();
                assertTrue(hasOpen(copy, secret), "the attack does what it is to do where CRIU runs as root");
                CheckpointException e = assertThrows(CheckpointException.class, () -> new PrivilegeCheck(
                                programs, USER, base.resolve("none"), bounds())
                        .requireNoEscalation(copy, rights));
                assertTrue(e.getMessage().contains(secret + " (of user 0) open for reading and writing"), e.toString());
                copy.end(LIMIT);
            } else {
                CheckpointException e = assertThrows(CheckpointException.class, trial::restart);
                assertTrue(e.getMessage().contains("Permission denied"), e.getMessage());
            }
            original.end(LIMIT);
            assertEquals("0123456789", Files.readString(secret));
        }
    }

    private static boolean hasOpen(HeldRank rank, Path file) throws IOException {
        for (ProcessIdentity process : rank.processes()) {
            try (DirectoryStream<Path> all = Files.newDirectoryStream(Path.of("/proc/" + process.pid() + "/fd"))) {
                for (Path one : all) {
                    if (Files.readSymbolicLink(one).equals(file)) {
                        return true;
                    }
                }
            }
        }
        return false;
    }

    /**
     * The image belongs to the user, who can write into it that the copy has the capability. A job that has the
     * capability makes an image with it.
     */
    @Test
    void shouldSetNothingGoingThatHasKeptTheCapability() throws Exception {
        Trial trial = new Trial(
                "threads",
                List.of(
                        "setpriv",
                        "--reuid=41234",
                        "--regid=41234",
                        "--clear-groups",
                        "--inh-caps=+checkpoint_restore",
                        "--ambient-caps=+checkpoint_restore"),
                asUser);
        HeldRank original = trial.checkpoint();
        CheckpointException e = assertThrows(CheckpointException.class, trial::restart);
        assertTrue(e.getMessage().contains("has kept " + CAPABILITY + " in [CapInh, CapPrm, CapEff"), e.getMessage());
        original.end(LIMIT);
        assertEquals(
                List.of(),
                ProcessHandle.allProcesses()
                        .filter(process -> process.isAlive() && isUsers(process.pid()))
                        .map(ProcessHandle::pid)
                        .toList(),
                "nothing is left of it");
    }

    /** Another process of the user can neither trace CRIU nor look into it: it lacks a capability that CRIU has. */
    @Test
    void shouldNotLetTheUserTraceWhatHasTheCapability() throws Exception {
        Trial trial = new Trial("plain", AS_USER, asUser);
        Process holder = new ProcessBuilder(
                        programs.launch().toString(),
                        "--uid",
                        "41234",
                        "--gid",
                        "41234",
                        "--capability",
                        "40",
                        "--",
                        "sleep",
                        "100")
                .start();
        started.put("holder", holder);
        Conditions.until("it runs", () -> Files.readString(Path.of("/proc/" + holder.pid() + "/comm"))
                .strip()
                .equals("sleep"));
        assertEquals(0, lookInto(trial.root.pid()), "an ordinary process of the user's can be looked into");
        assertTrue(lookInto((int) holder.pid()) != 0, "one that has the capability can be looked into");
    }

    private static int lookInto(int pid) throws Exception {
        List<String> command = new ArrayList<>(AS_USER);
        command.addAll(List.of("sh", "-c", "exec 3<>/proc/" + pid + "/mem"));
        return Command.of(command).runUninterruptibly(LIMIT).exitCode();
    }

    @Test
    void shouldMoveAUsersJobThroughBothServicesAndLeaveItNoCapability() throws Exception {
        Trial trial = new Trial("children", AS_USER, asUser);
        Path folder = Files.createDirectory(base.resolve("services"));
        try (ServicePair pair =
                new ServicePair(folder, ServicePair.Options.with(asUser).staging(STAGING_BYTES))) {
            MigrationReport report = pair.source()
                    .migrate(
                            new Job("kinds", USER, asUser, List.of(new Job.RankProcess(0, trial.root.pid()))),
                            progress -> {});
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            assertFalse(table.isAlive(trial.root), "the original is gone");
            trial.requireTurns(TURNS_AFTER);
            for (int pid : report.ranks().get(0).pids()) {
                assertTrue(isUsers(pid), "process " + pid + " is the user's");
                for (String set : List.of("CapInh", "CapPrm", "CapEff", "CapAmb")) {
                    assertEquals(0, ProcStat.capabilities(Integer.toString(pid), set), pid + " " + set);
                }
            }
            endAll();
        }
    }

    /** CRIU then runs as root in both services, because the operator trusts the user on that target. */
    @Test
    void shouldStreamATrustedUsersJobThroughBothServices() throws Exception {
        Checkpointer streamed = new CheckpointerSettings.Criu(
                        installed, List.of(), List.of(), PagePolicy.STREAMED, false, NamespacePolicy.AUTO)
                .create("criu", programs);
        Trial trial = new Trial("children", AS_USER, streamed);
        Path folder = Files.createDirectory(base.resolve("services"));
        ServicePair.Options options = ServicePair.Options.with(streamed).staging(STAGING_BYTES);
        Job job = new Job("kinds", USER, streamed, List.of(new Job.RankProcess(0, trial.root.pid())));
        try (ServicePair untrusting = new ServicePair(Files.createDirectory(folder.resolve("untrusting")), options);
                ServicePair pair =
                        new ServicePair(Files.createDirectory(folder.resolve("trusting")), options.trusts(USER))) {
            MigrationReport refused = untrusting.source().migrate(job, progress -> {});
            assertFalse(refused.moved(), "a user who is not trusted");
            trial.requireTurns(1);
            MigrationReport report = pair.source().migrate(job, progress -> {});
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            assertTrue(report.pages().startsWith("streamed: "), report.pages());
            assertFalse(table.isAlive(trial.root), "the original is gone");
            trial.requireTurns(TURNS_AFTER);
            for (int pid : report.ranks().get(0).pids()) {
                assertTrue(isUsers(pid), "process " + pid + " is the user's");
            }
            endAll();
        }
    }

    @Test
    void shouldMoveOnceMoreWhatWasMoved() throws Exception {
        Trial trial = new Trial("children", AS_USER, asUser);
        HeldRank first = trial.checkpoint();
        HeldRank second = trial.restart();
        first.end(LIMIT);
        second.release();
        trial.requireTurns(TURNS_AFTER);
        Path images = usersDirectory(trial.directory.resolveSibling("images-again"));
        ProcessIdentity root = second.processes().get(0);
        HeldRank held = finish(asUser.checkpoint(new CheckpointTask(
                0, new ProcessTable().tree(root), USER, images, trial.work("d2"), LIMIT, Set.of(), Optional.empty())));
        HeldRank third = finish(asUser.restart(new RestartTask(0, USER, images, trial.work("r2"), LIMIT)));
        held.end(LIMIT);
        third.release();
        trial.requireTurns(TURNS_AFTER);
    }
}
