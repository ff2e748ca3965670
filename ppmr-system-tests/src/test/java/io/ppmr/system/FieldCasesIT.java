package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.TestNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Nodes and jobs as they are found in the field, and not in a laboratory: each job moves, and is right afterwards. */
@Timeout(value = 180, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class FieldCasesIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final String PATH = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    /** The name's first address is no node's. It is the nearest to one of the source's, so that it is tried first. */
    private static final String OUT_OF_USE = "10.99.9.5 spare\\n" + JobNodes.ADDRESS_B + " spare\\n";

    private static final String SPARE = "spare:" + JobNodes.PORT;

    @BeforeAll
    static void assumePossible() throws IOException {
        JobNodes.assumePossible();
    }

    private static void requireMoved(JobNodes nodes, JobNodes.Running job, String name) throws Exception {
        MigrationReport report = nodes.migrate(name);
        assertEquals(Outcome.COMMITTED, report.outcome(), () -> report.reason() + "\n" + logEnds(nodes));
        job.requireTurns();
    }

    private static String logEnds(JobNodes nodes) {
        try {
            return nodes.logEnds();
        } catch (IOException e) {
            return e.toString();
        }
    }

    private static void move(JobNodes nodes, String... features) throws Exception {
        try (JobNodes.Running job = nodes.job(1, List.of(features))) {
            requireMoved(nodes, job, "one");
        }
    }

    // ---- locale, umask, names --------------------------------------------------------------------------------------

    /** The service runs as one that cron, a container or a minimal node starts. */
    @Tag("soak")
    @Test
    void shouldMoveAJobWhoseProgramHasAForeignNameWhenTheEnvironmentHasNoLocale() throws Exception {
        // The folder is not in /tmp, in which every user may write.
        Path base = Files.createTempDirectory(Path.of("/var/lib"), "ppmr-field-it");
        Files.setPosixFilePermissions(base, PosixFilePermissions.fromString("rwxr-xr-x"));
        try (JobNodes nodes = new JobNodes("locale")) {
            PpmrCommand installed = PpmrCommand.run("install", "--root", base.toString(), "--prefix", "/opt/ppmr");
            assertEquals(0, installed.exitCode(), installed.said());
            nodes.launchedBy(List.of("env", "-i", PATH, base + "/opt/ppmr/ppmr"))
                    .start();
            // The name is in bytes, because the JVM of the tests may not support such names.
            Path folder = nodes.folderOfJob();
            String program = "f=$(printf 'b\\303\\274ro'); mkdir -p $0/$f; cp " + JobNodes.program("feature-job")
                    + " $0/$f/; cd $0/$f; exec ./feature-job $0 /mnt 1 shared-file working";
            try (JobNodes.Running job = nodes.run(folder, List.of("sh", "-c", program, folder.toString()))) {
                requireMoved(nodes, job, "one");
            }
        } finally {
            try (Stream<Path> files = Files.walk(base)) {
                for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(file);
                }
            }
        }
    }

    /** The cases of this class that do not contradict each other, on one pair of nodes. */
    @Tag("soak")
    @Test
    void shouldMoveEachJobWhenNodesAreHardenedAndTheFirstAddressOfTheTargetIsOutOfUse() throws Exception {
        try (JobNodes nodes = new JobNodes("field")) {
            nameTarget(nodes, OUT_OF_USE);
            forbidPrograms(nodes);
            nodes.at(SPARE, JobNodes.ADDRESS_B + ":" + JobNodes.PORT);
            startUnder("077", nodes);
            move(nodes, "shared-file", "unix", "owners", "aio");
            requireModes(nodes);
            move(nodes, "tebibytes");
            refuseForged(nodes);
        }
    }

    private static void startUnder(String umask, JobNodes nodes) throws Exception {
        nodes.startedBy("sh", "-c", "umask " + umask + "; exec \"$@\"", "sh")
                .keptIn(nodes.folder().resolve("a/b"))
                .blcr()
                .start();
    }

    private static void requireModes(JobNodes nodes) throws Exception {
        // A tool that runs as the job's user has to pass the folders to its own.
        try (JobNodes.Running job = nodes.selfCheckpointing()) {
            requireMoved(nodes, job, "own");
        }
        String open = nodes.shell(nodes.a(), "find " + nodes.folder() + "/a -xdev -perm -o+w ! -type l ! -type s");
        assertEquals("", open, "others can write there");
        String closed = nodes.shell(nodes.a(), "stat -c %a " + nodes.folder() + "/a " + nodes.folder() + "/a/b");
        assertEquals("755\n755", closed);
    }

    private static void moveUnder(String umask) throws Exception {
        try (JobNodes nodes = new JobNodes("umask")) {
            startUnder(umask, nodes);
            move(nodes, "shared-file");
            requireModes(nodes);
        }
    }

    @Tag("soak")
    @Test
    void shouldMoveJobsOfUsersWhenRootsUmaskLeavesNothingToOthers() throws Exception {
        moveUnder("077");
    }

    @Tag("soak")
    @Test
    void shouldLeaveNothingThatOthersCanWriteWhenRootsUmaskLeavesThemAll() throws Exception {
        moveUnder("000");
    }

    @Tag("soak")
    @Test
    void shouldWriteNoForgedLineWhenAUsersNamesHaveLineEndsAndEscapes() throws Exception {
        try (JobNodes nodes = new JobNodes("forged").start()) {
            refuseForged(nodes);
        }
    }

    private static void refuseForged(JobNodes nodes) throws Exception {
        try (JobNodes.Running job = nodes.job(1, List.of("forged"))) {
            MigrationReport report = nodes.migrate("one");
            assertEquals(Outcome.REFUSED, report.outcome(), report.reason());
            assertEquals(0, report.times().pauseSeconds(), report.reason());
            assertTrue(report.reason().contains("holds a lock"), report.reason());
            for (String log : List.of(nodes.source().log(), nodes.target().log())) {
                assertFalse(log.contains("\u001b"), log);
                assertTrue(
                        log.lines().noneMatch(line -> line.startsWith("2026-11-28.12:00:00.000Z")), "a line is forged");
            }
            PpmrCommand shown = PpmrCommand.run("status", "--socket", nodes.folder() + "/source.sock");
            assertFalse(shown.said().contains("\u001b"), shown.said());
            job.requireTurns();
        }
    }

    // ---- programs that are installed again while they run ----------------------------------------------------------

    /** CRIU makes the old program again under a name of its own, which is root's as the program was: no false alarm. */
    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {"rm", "rm $0; cp /bin/true"})
    void shouldMoveAJobWhoseProgramWasRemovedOrReplaced(String change) throws Exception {
        try (JobNodes nodes = new JobNodes("replaced").start()) {
            Path folder = nodes.folderOfJob();
            Path program = folder.resolve("solver");
            nodes.shell(nodes.a(), "cp " + JobNodes.program("feature-job") + " " + program + "; strip " + program);
            List<String> words =
                    List.of(program.toString(), folder.toString(), TestNode.DISK.toString(), "1", "plain", "threads");
            try (JobNodes.Running job = nodes.run(folder, words)) {
                String line = change.replace("$0", program.toString()) + " " + program;
                nodes.shell(nodes.a(), line);
                requireMoved(nodes, job, "one");
                String running = nodes.shell(nodes.b(), "readlink /proc/[0-9]*/exe | grep solver | head -n 1");
                assertTrue(running.endsWith(" (deleted)"), running);
            }
        }
    }

    // ---- clocks ----------------------------------------------------------------------------------------------------

    /** The target's node was booted days before the source's, according to its clocks. */
    @Tag("soak")
    @Test
    void shouldKeepTheClocksOfAJobWhenTheTargetsNodeHasRunForDays() throws Exception {
        try (JobNodes nodes = new JobNodes("clocks")) {
            nodes.targetStartedBy("unshare", "--time", "--monotonic", "500000", "--boottime", "500000")
                    .start();
            move(nodes, "clocks", "timerfd", "condition");
        }
    }

    // ---- name services ---------------------------------------------------------------------------------------------

    /** By getpwuid(3) the C library maps the tables of nscd's, of which each node has its own. */
    @Tag("soak")
    @Test
    void shouldMoveAJobThatHasAskedTheNameServiceCacheOfItsNode() throws Exception {
        Optional<Path> nscd = Stream.of(System.getenv("PATH").split(":", -1))
                .map(folder -> Path.of(folder, "nscd"))
                .filter(Files::isExecutable)
                .findFirst();
        Assumptions.assumeTrue(nscd.isPresent(), "needs nscd on the PATH (package nscd; it need not run)");
        try (JobNodes nodes = new JobNodes("nscd")) {
            for (TestNode node : List.of(nodes.a(), nodes.b())) {
                nodes.shell(
                        node,
                        "mount -t tmpfs none /var/cache; mkdir /run/nscd /var/cache/nscd; for line in enable-cache"
                                + " shared persistent; do echo $line passwd yes; done >/run/nscd.conf");
                node.startDetached(
                        nodes.folder().resolve(node.name() + ".nscd"),
                        List.of(nscd.get().toString(), "--foreground", "--config-file", "/run/nscd.conf"));
                Conditions.until(LIMIT, "nscd answers", () -> !nodes.shell(node, "test -S /run/nscd/socket || echo no")
                        .contains("no"));
            }
            nodes.start();
            Path folder = nodes.folderOfJob();
            String program = "my $d = shift; sub note { open(my $o, '>', \"$d/$_[0].part\"); print $o $_[1]; close $o;"
                    + " rename(\"$d/$_[0].part\", \"$d/$_[0]\") } note('pid', $$);"
                    + " for (my $n = 0; !-e \"$d/stop\"; $n++) { getpwuid(0) or note('failed', 'nobody is root');"
                    + " note('turns', $n); select(undef, undef, undef, 0.02) }";
            try (JobNodes.Running job = nodes.run(folder, List.of("perl", "-e", program, folder.toString()))) {
                String pid = Files.readString(folder.resolve("pid"));
                String maps = nodes.shell(nodes.a(), "grep -c /var/cache/nscd/passwd /proc/" + pid + "/maps; true");
                assertEquals("1", maps, "it has mapped no table of nscd's");
                requireMoved(nodes, job, "one");
            }
        }
    }

    // ---- security modules ------------------------------------------------------------------------------------------

    /** The test kernel has no security module that sets labels. Files replace the labels of the job and the service. */
    @Tag("soak")
    @Test
    void shouldGoOnWhenACopyHasNotTheLabelThatConfinedItsOriginal() throws Exception {
        try (JobNodes nodes = new JobNodes("label").start();
                JobNodes.Running job = nodes.job(1, List.of("plain"))) {
            String pid = Files.readString(job.folder().resolve("pid")).strip();
            nodes.shell(
                    nodes.a(),
                    "own=$(pgrep -x java); printf 'unconfined\\n' >/run/own; "
                            + "mount --bind /run/own /proc/$own/attr/current; "
                            + "printf 'solver (enforce)\\n' >/run/label; mount --bind /run/label /proc/" + pid
                            + "/attr/current; mount --bind /run/label /proc/" + pid + "/task/" + pid
                            + "/attr/current");
            MigrationReport report = nodes.migrate("one");
            assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
            assertTrue(
                    report.reason()
                            .contains("has no security label, but its original was confined as solver" + " (enforce)"),
                    report.reason());
            job.requireTurns();
        }
    }

    // ---- addresses -------------------------------------------------------------------------------------------------

    private static void nameTarget(JobNodes nodes, String hosts) throws Exception {
        nodes.shell(
                nodes.a(), "ip -6 address add fd00:99::1/64 dev node0 nodad; ip address add 10.99.9.4/24 dev node0");
        nodes.shell(nodes.b(), "ip -6 address add fd00:99::2/64 dev node0 nodad");
        nodes.shell(
                nodes.a(),
                "{ cat /etc/hosts; printf '" + hosts + "'; } >/run/hosts; mount --bind /run/hosts /etc/hosts");
        String first = hosts.substring(0, hosts.indexOf(' '));
        String asked = nodes.shell(nodes.a(), "getent ahosts spare");
        assertTrue(hosts.startsWith(JobNodes.ADDRESS_B) || asked.startsWith(first + " "), asked);
    }

    private static void moveToNamed(String hosts, String listen) throws Exception {
        try (JobNodes nodes = new JobNodes("addresses")) {
            nameTarget(nodes, hosts);
            nodes.at(SPARE, listen).start();
            move(nodes, "anon");
        }
    }

    @Tag("soak")
    @Test
    void shouldReachTheTargetWhenTheFirstAddressOfItsNameIsOutOfUse() throws Exception {
        moveToNamed(OUT_OF_USE, JobNodes.ADDRESS_B + ":" + JobNodes.PORT);
    }

    @Tag("soak")
    @ParameterizedTest
    @CsvSource({
        "127.0.1.1 spare\\n10.99.7.2 spare\\n, 10.99.7.2:7411",
        "fd00:99::2 spare\\n, [fd00:99::2]:7411",
        "10.99.7.2 spare\\nfd00:99::2 spare\\n, [fd00:99::2]:7411",
    })
    void shouldReachTheTargetByEachAddressOfItsName(String hosts, String listen) throws Exception {
        moveToNamed(hosts, listen);
    }

    // ---- sizes -----------------------------------------------------------------------------------------------------

    /** The time depends on the used memory, and not on the reserved or named memory. */
    @Tag("soak")
    @Test
    void shouldMoveAJobWithTebibytesOfEmptyMemory() throws Exception {
        moveInProportion("tebibytes");
    }

    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {"long-maps", "crowd"})
    void shouldMoveAJobWithMuchOfOneThing(String feature) throws Exception {
        moveInProportion(feature);
    }

    private static void moveInProportion(String feature) throws Exception {
        try (JobNodes nodes = new JobNodes("sizes").start()) {
            move(nodes, "plain");
            try (JobNodes.Running job = nodes.job(1, List.of(feature))) {
                MigrationReport report = nodes.migrate("one");
                assertEquals(Outcome.COMMITTED, report.outcome(), () -> report.reason() + "\n" + logEnds(nodes));
                job.requireTurns(60);
                assertTrue(
                        report.times().pauseSeconds() < Patience.of(20),
                        "it stood for " + report.times().pauseSeconds() + " s");
            }
        }
    }

    /** Without a descriptor 3 the program ends at once. A kernel built without 32 bits refuses to execute it. */
    private static boolean isExecutable(Path program) throws Exception {
        try {
            return new ProcessBuilder(program.toString()).start().waitFor() == 1;
        } catch (IOException e) {
            System.out.println("left out: " + e.getMessage());
            return false;
        }
    }

    /** A program of 32 bits, as the root and as a child of a rank. */
    @Tag("soak")
    @Test
    void shouldMoveAProgramOf32Bits() throws Exception {
        Path program = JobNodes.program("bits32-job");
        Assumptions.assumeTrue(Files.exists(program), "needs a compiler that makes programs of 32 bits");
        Assumptions.assumeTrue(isExecutable(program), "needs a kernel that executes programs of 32 bits");
        try (JobNodes nodes = new JobNodes("bits32").start()) {
            Path folder = nodes.folderOfJob();
            String line = "exec 3>>$0/steps; echo 0 >$0/turns; echo $$ >$0/pid; exec " + program;
            List<String> command = List.of("sh", "-c", line.replace("echo 0", "echo 2"), folder.toString());
            try (JobNodes.Running job = nodes.run(folder, command)) {
                nodes.shell(nodes.a(), "sleep 1");
                MigrationReport report = nodes.migrate("one");
                assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
                long steps = Files.size(job.folder().resolve("steps"));
                Conditions.until(
                        LIMIT, "it continues", () -> Files.size(job.folder().resolve("steps")) > steps + 10);
            } finally {
                nodes.shell(nodes.b(), "pkill -9 -u " + JobNodes.USER + "; true");
            }
        }
    }

    // ---- how a node is set up --------------------------------------------------------------------------------------

    /** Hardening guides require this. */
    @Tag("soak")
    @Test
    void shouldMoveAJobWhenNothingMayBeExecutedInFoldersForTemporaryFiles() throws Exception {
        try (JobNodes nodes = new JobNodes("noexec")) {
            forbidPrograms(nodes);
            nodes.start();
            move(nodes, "unix", "threads");
        }
    }

    private static void forbidPrograms(JobNodes nodes) throws Exception {
        for (TestNode node : List.of(nodes.a(), nodes.b())) {
            nodes.shell(
                    node,
                    "for place in /tmp /dev/shm /run; do mount -o remount,noexec,nosuid,nodev $place; done;"
                            + " mount -t tmpfs -o noexec,nosuid,nodev,mode=1777 ppmr-node /var/tmp");
        }
    }

    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {"<&-", "<&- >&- 2>&-"})
    void shouldMoveAJobWhenTheServicesWereStartedWithoutStandardStreams(String closed) throws Exception {
        try (JobNodes nodes = new JobNodes("closed")) {
            nodes.startedBy("sh", "-c", "exec \"$@\" " + closed, "sh").start();
            move(nodes, "pipe-child", "unlinked");
            for (TestNode node : List.of(nodes.a(), nodes.b())) {
                String streams = nodes.shell(
                        node, "for pid in $(pgrep -f io.ppmr.cli.Main); do readlink /proc/$pid/fd/[012]; done; true");
                assertFalse(streams.contains("journal") || streams.contains("-work"), streams);
            }
        }
    }

    @Tag("soak")
    @Test
    void shouldMoveAJobWhenOneNodesKeyFileCameThroughAnEditor() throws Exception {
        try (JobNodes nodes = new JobNodes("keys")) {
            nodes.startTarget();
            String key = Files.readString(nodes.folder().resolve("key")).strip();
            for (String form : List.of("%s\n\n", "%s\r\n", "%s \n", "%s", "\ufeff%s\r\n")) {
                Path edited = nodes.folder().resolve("key.edited");
                Files.deleteIfExists(edited);
                Files.createFile(
                        edited, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
                Files.writeString(edited, form.formatted(key), StandardCharsets.UTF_8);
                nodes.startSource(edited);
                move(nodes, "plain");
                nodes.stopSource();
            }
        }
    }

    @Tag("soak")
    @Test
    void shouldStartAgainAfterKillsWhenMountsHaveBlanksCommasAndForeignLettersInTheirNames() throws Exception {
        try (JobNodes nodes = new JobNodes("space")) {
            nodes.named("my, \u00fc source=1", "my, \u00fc target=1").start();
            move(nodes, "shared-file");
            List<String> standing = new ArrayList<>();
            for (TestNode node : List.of(nodes.a(), nodes.b())) {
                standing.add(nodes.shell(
                        node, "cd " + nodes.folder() + "/my*-mount; sleep 600 </dev/null >/dev/null 2>&1 & echo $!"));
            }
            nodes.source().kill();
            nodes.target().kill();
            nodes.start();
            move(nodes, "anon");
            assertEquals(2, standing.size());
            for (TestNode node : List.of(nodes.a(), nodes.b())) {
                assertEquals("1", nodes.shell(node, "grep -c 'fuse.ppmr' /proc/mounts"));
            }
        }
    }
}
