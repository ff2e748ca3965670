package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.linux.Command;
import io.ppmr.testbed.ComputingJob;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.NodeSystemd;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.TestNode;
import io.ppmr.testbed.Testbed;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * An upgrade of the package on one of two nodes, each with a systemd, a {@code /usr} and a {@code /var} of its own.
 * Real CRIU moves the job. A script around it blocks at the moment of the upgrade. The older package is of the same
 * code.
 */
@Tag("soak")
@Timeout(value = 900, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class PackageUpgradeIT {
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final Duration LIMIT = Patience.of(Duration.ofMinutes(3));
    private static final JobUser USER = new JobUser(20001, 20001);
    private static final String OLD = "0.0.9";
    private static final Pattern COPY = Pattern.compile("/var/lib/ppmr/running/([^/]+)/lib/");
    private static final int PASSES = 200;
    private static final int PACE_MS = 100;

    /** Makes what a node has for itself. */
    private static final String PREPARE = """
            set -e
            for place in etc usr var; do
                mkdir -p /mnt/$place/upper /mnt/$place/work
                mount -t overlay -o lowerdir=/$place,upperdir=/mnt/$place/upper,workdir=/mnt/$place/work node /$place
            done
            """;

    /** CRIU, which ends a dump or a restore only when it may, with the status that the mark contains, if one does. */
    private static final String WAITING_CRIU = """
            #!/bin/sh
            PATH=/usr/bin:/bin
            for word; do
                case $word in
                dump | restore)
                    [ -e "%1$s/$word.waits" ] || continue
                    %2$s "$@"
                    status=$?
                    : >"%1$s/$word.begun"
                    n=0
                    while [ ! -e "%1$s/$word.go" ]; do
                        n=$((n + 1))
                        [ "$n" -lt 6000 ] || exit 1
                        sleep 0.1
                    done
                    read -r other <"%1$s/$word.go" || other=$status
                    exit "$other"
                    ;;
                esac
            done
            exec %2$s "$@"
            """;

    /** Has each JVM of a node write down the classes that it loads, and where they are from. */
    private static final String CLASS_LOG = "JAVA_TOOL_OPTIONS=-Xlog:class+load:file=/var/lib/ppmr/classes-%%p.log\\n";

    private static final Pattern LOADED = Pattern.compile(" (io\\.ppmr\\.\\S+) source: (?:file|jrt):(\\S+)");

    private static final String TOOL = """
            key_file = "/etc/ppmr/key"
            transport = "tcp"
            warm_up_migrations = 0
            """;
    private static final String CRIU = """
            [checkpointers.criu]
            type = "criu"
            program = ["/usr/local/sbin/waiting-criu"]
            """;

    private Testbed testbed;
    private Path marks;
    private TestNode compute;
    private TestNode spare;
    private ComputingJob job;
    private Path jobMayEnd;
    private Path newDeb;
    private Path oldDeb;
    private String newVersion;

    // ---- the nodes -------------------------------------------------------------------------------------------------

    @BeforeEach
    void startServicesOfTheOldVersion() throws Exception {
        JobNodes.assumePossible();
        Assumptions.assumeTrue(NodeSystemd.isPossible(), "needs systemd (package systemd; it need not run)");
        testbed = Testbed.create("upgrade");
        newDeb = testbed.folder().resolve("new.deb");
        oldDeb = testbed.folder().resolve("old.deb");
        Files.copy(BuiltPackages.deb(), newDeb);
        newVersion = run("dpkg-deb", "-f", newDeb.toString(), "Version").strip();
        run(
                HOME.resolve("ppmr-system-tests/src/test/sh/package-older.sh").toString(),
                newDeb.toString(),
                OLD,
                oldDeb.toString());
        marks = testbed.folder("marks");
        Path bin = testbed.programs();
        jobMayEnd = marks.resolve("job.go");
        job = new ComputingJob(
                bin.resolve("plain-job"),
                USER,
                testbed.folder("job", USER),
                1,
                32 << 20,
                "--pace",
                "1",
                "--until",
                jobMayEnd.toString());
        compute = node("compute");
        spare = node("spare");
        TestNode.connect(compute, "192.0.2.21", spare, "192.0.2.22");
        type(spare, "ppmr keygen /etc/ppmr/key && cp /etc/ppmr/key " + testbed.folder());
        type(compute, "cp " + testbed.folder() + "/key /etc/ppmr/key");
        configure(spare, "target", """
                listen = "192.0.2.22:7411"
                mount = "/run/ppmr/target"
                stall_limit = "10m"
                unknown_users = true
                """ + TOOL + CRIU + "trusted_users = [20001]\n");
        configure(compute, "source", "mount = \"/run/ppmr/source\"\n" + TOOL + """
                        [migration]
                        min_rate = "0"
                        [target]
                        address = "192.0.2.22:7411"
                        """ + CRIU + job.toml("solver", "criu"));
        job.start(compute, new NativePrograms(bin).launch(), PASSES, PACE_MS, 2);
    }

    @AfterEach
    void removeTheNodes() throws Exception {
        if (job != null) {
            job.stopExpectations();
        }
        if (testbed != null) {
            testbed.close();
        }
    }

    private TestNode node(String name) throws Exception {
        NodeSystemd systemd = new NodeSystemd(testbed, "upgrade-" + name);
        TestNode node = testbed.add(TestNode.create(name));
        node.run(LIMIT, "bash", "-c", PREPARE);
        systemd.boot(node);
        Path script = testbed.folder().resolve("waiting-criu");
        String real = System.getenv("PPMR_CRIU").lines().collect(Collectors.joining(" "));
        Files.writeString(script, WAITING_CRIU.formatted(marks, real));
        Files.setPosixFilePermissions(script, PosixFilePermissions.fromString("rwxr-xr-x"));
        type(node, "cp " + script + " /usr/local/sbin/ && dpkg -i " + oldDeb);
        type(node, "printf '" + CLASS_LOG + "' >/etc/ppmr/environment");
        return node;
    }

    private void configure(TestNode node, String role, String text) throws Exception {
        Path file = testbed.folder().resolve(role + ".toml");
        Files.writeString(file, text);
        type(node, "cp " + file + " /etc/ppmr/ && ppmr config check /etc/ppmr/" + role + ".toml");
        type(node, "systemctl start ppmr-" + role);
        assertEquals(OLD, runningVersion(node, role));
    }

    private static String run(String... words) throws Exception {
        return Command.of(List.of(words)).run(LIMIT).requireOutput();
    }

    private static Command.CommandResult attempt(TestNode node, String command) throws Exception {
        return Command.of(node.command(List.of("bash", "-c", command)).command())
                .run(LIMIT);
    }

    /** Runs a command as root, requires that it succeeds, and returns what it prints. */
    private static String type(TestNode node, String command) throws Exception {
        Command.CommandResult result = attempt(node, command);
        assertEquals(0, result.exitCode(), () -> node.name() + "# " + command + "\n" + result.output());
        return result.output();
    }

    private static void requireRefused(TestNode node, String command, String... words) throws Exception {
        Command.CommandResult result = attempt(node, command);
        assertNotEquals(0, result.exitCode(), result.output());
        requireWords(result.output(), words);
    }

    private static void requireWords(String text, String... words) {
        for (String word : words) {
            assertTrue(text.contains(word), () -> "no '" + word + "' in: " + text);
        }
    }

    private static String mainPid(TestNode node, String role) throws Exception {
        return type(node, "systemctl show --property=MainPID --value ppmr-" + role)
                .strip();
    }

    /** Returns the version of the files that a service runs out of. */
    private static String runningVersion(TestNode node, String role) throws Exception {
        String pid = mainPid(node, role);
        Matcher copy = COPY.matcher(type(node, "tr '\\0' ' ' </proc/" + pid + "/cmdline"));
        assertTrue(copy.find(), "ppmr-" + role + " does not run out of a copy");
        return copy.group(1);
    }

    private static boolean isInstalled(TestNode node, String version) throws Exception {
        return type(node, "dpkg-query -W -f='${db:Status-Status} ${Version}' ppmr")
                .strip()
                .equals("installed " + version);
    }

    /** Upgrades a node whose service has something to do, so that the service continues. */
    private void upgradeUnder(TestNode node, String role) throws Exception {
        String pid = mainPid(node, role);
        requireWords(
                type(node, "dpkg -i " + newDeb + " 2>&1"),
                "ppmr-" + role + " runs on in the version that it was started in",
                "systemctl restart ppmr-" + role);
        assertTrue(isInstalled(node, newVersion));
        assertEquals(pid, mainPid(node, role), "the service was restarted");
        requireWaiting(node, role);
    }

    /** Requires that the new version's commands reach the old service, and that both name the version that waits. */
    private void requireWaiting(TestNode node, String role) throws Exception {
        assertEquals(OLD, runningVersion(node, role));
        String config = " --config /etc/ppmr/" + role + ".toml";
        requireWords(type(node, "ppmr status" + config), "version " + newVersion + " is installed, and waits");
        requireWords(type(node, "ppmr status --json" + config), "\"role\":\"" + role + "\"");
        Command.CommandResult doctor = attempt(node, "ppmr doctor" + config);
        assertTrue(
                Pattern.compile("version .*and " + Pattern.quote(newVersion) + " is installed")
                        .matcher(doctor.output())
                        .find(),
                doctor.output());
    }

    private static void restart(TestNode node, String role, String version) throws Exception {
        type(node, "systemctl restart ppmr-" + role);
        assertEquals(version, runningVersion(node, role));
    }

    /** Returns the versions of which a node has a copy. */
    private static List<String> copies(TestNode node) throws Exception {
        return type(node, "ls /var/lib/ppmr/running 2>/dev/null || true")
                .lines()
                .filter(name -> !name.equals("lock"))
                .toList();
    }

    /**
     * Removes the package, and requires that nothing of it is left but what purge removes.
     *
     * @param used the versions whose copies a restored job's helper still runs out of
     */
    private static void remove(TestNode node, List<String> used) throws Exception {
        type(node, "dpkg -r ppmr");
        assertEquals("", type(node, "ls -d /usr/lib/ppmr /usr/bin/ppmr /run/ppmr 2>/dev/null || true"));
        assertEquals(used, copies(node));
        assertEquals("", type(node, "systemctl list-units --all --plain --no-legend 'ppmr-source*' 'ppmr-target*'"));
        assertEquals("", type(node, "grep ' /run/ppmr' /proc/self/mounts || true"));
    }

    // ---- the job ---------------------------------------------------------------------------------------------------

    /** Moves the job until CRIU has carried out a command. The command does not end yet. */
    private void migrateUntil(String command) throws Exception {
        Files.createFile(marks.resolve(command + ".waits"));
        job.markBefore();
        type(compute, "systemctl kill --kill-who=main --signal=USR2 ppmr-source");
        Conditions.until(LIMIT, command + " was made", () -> Files.exists(marks.resolve(command + ".begun")));
    }

    /**
     * Lets CRIU's command end.
     *
     * @param status its exit status and a line's end, or empty for its own
     */
    private void allow(String command, String status) throws Exception {
        Path mark = marks.resolve(command + ".go.part");
        Files.writeString(mark, status);
        Files.move(mark, marks.resolve(command + ".go"));
    }

    private static boolean isOpen(TestNode node) throws Exception {
        Command.CommandResult held = attempt(node, "ppmr held");
        assertTrue(held.exitCode() == 0 || held.exitCode() == 4, held.output());
        return held.exitCode() == 4;
    }

    private static String history(TestNode node, String role) throws Exception {
        return type(node, "ppmr history --config /etc/ppmr/" + role + ".toml");
    }

    private static List<Integer> pids(TestNode node) throws Exception {
        return type(node, "pgrep -u " + USER.uid() + " -x plain-job || true")
                .lines()
                .map(Integer::valueOf)
                .toList();
    }

    // ---- the upgrades ----------------------------------------------------------------------------------------------

    @Test
    void shouldKeepTheCopiesHeldWhenTheSpareNodeIsUpgradedWhileTheyAreInDoubt() throws Exception {
        migrateUntil("restore");
        // The vote of the target does not arrive.
        compute.cable(false);
        allow("restore", "");
        Conditions.until(LIMIT, "the copies are held", () -> type(spare, "ppmr status --config /etc/ppmr/target.toml")
                .contains("held here: ranks [0]"));
        List<Integer> held = pids(spare);
        assertFalse(held.isEmpty());
        upgradeUnder(spare, "target");
        assertEquals(held, pids(spare));
        requireWords(attempt(spare, "ppmr held").output(), "is open in /var/lib/ppmr/target-journal", "ppmr resolve ");
        requireRefused(spare, "dpkg -r ppmr", "ppmr resolve ", "it is not removed");
        requireRefused(spare, "dpkg -i " + oldDeb, "ppmr resolve ", "may not read the journal");
        assertTrue(isInstalled(spare, newVersion));
        assertEquals(held, pids(spare));
        requireWaiting(spare, "target");
        compute.cable(true);
        for (TestNode node : List.of(compute, spare)) {
            Conditions.until(LIMIT, "it is over on " + node.name(), () -> !isOpen(node));
        }
        requireWords(history(compute, "source"), "rolled back");
        Conditions.until(LIMIT, "no copy is left", () -> pids(spare).isEmpty());
        restart(spare, "target", newVersion);
        assertEquals(List.of(newVersion), copies(spare));
        job.startExpectations();
        Files.createFile(jobMayEnd);
        ComputingJob.ProcessOutcome outcome = job.finish(LIMIT).get(0);
        assertTrue(outcome.resultOk(), "the job on its first node has a wrong result");
    }

    /** Returns the classes of ppmr that a service has loaded, in their order, each with its jar. */
    private static List<String> loaded(TestNode node, String role) throws Exception {
        String pid = mainPid(node, role);
        return LOADED.matcher(type(node, "cat /var/lib/ppmr/classes-" + pid + ".log"))
                .results()
                .map(line -> line.group(1) + " " + line.group(2))
                .toList();
    }

    /** The image is being written, and nothing is decided: with its end the job moves, or it stays where it is. */
    @ParameterizedTest
    @ValueSource(strings = {"committed", "rolled back"})
    void shouldEndTheMigrationInTheOldVersionWhenBothNodesAreUpgradedWhileTheImageIsWritten(String outcome)
            throws Exception {
        boolean isCommitted = outcome.equals("committed");
        migrateUntil("dump");
        int loadedBefore = loaded(spare, "target").size();
        upgradeUnder(compute, "source");
        upgradeUnder(spare, "target");
        requireRefused(spare, "dpkg -r ppmr", "arrives at the service of", "it is not removed");
        requireRefused(compute, "dpkg -r ppmr", "ppmr resolve ", "it is not removed");
        allow("dump", isCommitted ? "" : "1\n");
        for (TestNode node : List.of(compute, spare)) {
            Conditions.until(LIMIT, "it is over on " + node.name(), () -> !isOpen(node));
        }
        requireWords(history(compute, "source"), outcome);
        requireWaiting(compute, "source");
        requireWaiting(spare, "target");
        List<String> loaded = loaded(spare, "target");
        List<String> later = loaded.subList(loadedBefore, loaded.size());
        assertFalse(later.isEmpty(), "no class was used for the first time after the upgrade");
        for (String one : later) {
            assertTrue(one.contains(" /var/lib/ppmr/running/" + OLD + "/lib/"), one);
        }
        if (isCommitted) {
            job.markMoved(spare, Map.of(0, pids(spare)));
        }
        restart(compute, "source", newVersion);
        restart(spare, "target", newVersion);
        assertEquals(List.of(newVersion), copies(compute));
        // A restored job has a helper of the version that restored it.
        List<String> used = isCommitted ? List.of(OLD) : List.of();
        assertEquals(Stream.concat(used.stream(), Stream.of(newVersion)).toList(), copies(spare));
        // Without the package the job continues, wherever it is.
        remove(compute, List.of());
        remove(spare, used);
        job.startExpectations();
        Files.createFile(jobMayEnd);
        ComputingJob.ProcessOutcome result = job.finish(LIMIT).get(0);
        assertTrue(result.resultOk(), "the job has a wrong result");
        assertEquals(isCommitted, result.continued(), "the job continued on the spare node");
    }

    @Test
    void shouldRestartAServiceInTheNewVersionWhenItIsIdle() throws Exception {
        String pid = mainPid(spare, "target");
        type(spare, "dpkg -i " + newDeb);
        assertTrue(isInstalled(spare, newVersion));
        assertNotEquals(pid, mainPid(spare, "target"), "the service was not restarted");
        assertEquals(newVersion, runningVersion(spare, "target"));
        // The old version's source moves the job to the new version's target.
        migrateUntil("dump");
        allow("dump", "");
        Conditions.until(LIMIT, "the job was moved", () -> !isOpen(compute) && !isOpen(spare));
        requireWords(history(compute, "source"), "committed");
        job.markMoved(spare, Map.of(0, pids(spare)));
        job.startExpectations();
        Files.createFile(jobMayEnd);
        ComputingJob.ProcessOutcome result = job.finish(LIMIT).get(0);
        assertTrue(result.resultOk() && result.continued(), result.toString());
    }
}
