package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Checkpointer.RunAs;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.CheckpointerSettings.NamespacePolicy;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.linux.Command;
import io.ppmr.migration.source.Cancellation;
import io.ppmr.migration.source.Job;
import io.ppmr.migration.source.MigrationOrder;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.migration.source.SourceService;
import io.ppmr.protocol.data.ReadingMode;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A job's user gains nothing by a migration. The job is a process of an ordinary user. Its checkpointer is two scripts
 * that run as root, as CRIU does. The first writes an image and stops the process. The second reads the image and
 * starts the copy that the test requires.
 */
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class JobUserIT {
    private static final JobUser USER = new JobUser(20001, 20001);
    private static final Map<String, Set<Integer>> TRUSTED = Map.of("command", Set.of(USER.uid()));
    private static final Path NATIVE =
            Path.of(System.getProperty("ppmr.home")).resolve("ppmr-checkpoint/target/native");
    private static final String AS_USER = "setpriv --reuid 20001 --regid 20001 --clear-groups ";

    @TempDir
    private Path directory;

    private final ProcessTable processes = new ProcessTable();
    private final List<Integer> copies = new ArrayList<>();
    private Path shared;
    private Nodes nodes;
    private Process original;

    @BeforeEach
    void start() throws Exception {
        nodes = new Nodes(directory);
        shared = Files.createDirectory(directory.resolve("shared"));
        Files.setPosixFilePermissions(shared, PosixFilePermissions.fromString("rwxrwxrwx"));
        original(AS_USER);
        copy(AS_USER, "");
    }

    @AfterEach
    void end() throws Exception {
        copies.forEach(pid -> ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly));
        original.destroyForcibly();
        nodes.close();
    }

    // ---- the image ---------------------------------------------------------------------------------------------

    @Test
    void shouldKeepTheUserOutOfBothMountsWhenRootWritesTheImage() throws Exception {
        Path go = shared.resolve("go");
        checkpoint("printf first >&3; touch %s/written; while [ ! -e %s ]; do sleep 0.05; done".formatted(shared, go));
        SourceService source = pair(RunAs.ROOT, TRUSTED);
        CompletableFuture<MigrationReport> moved = CompletableFuture.supplyAsync(() -> migrate(source, RunAs.ROOT));
        try {
            Conditions.until("the image is being written", () -> Files.exists(shared.resolve("written")));
            for (String mount : List.of("source", "target")) {
                Path rank = ServicePair.rankDirectory(directory.resolve(mount), 0);
                assertEquals(0, Files.getAttribute(rank, "unix:uid"), rank + " is not root's");
                for (String attack : List.of(
                        "mv {}/image.0 {}/mine",
                        "rm -f {}/image.0 && ! ls {}/image.0",
                        "echo hers >{}/image.0",
                        "echo hers >>{}/image.0",
                        "truncate -s 0 {}/image.0",
                        "cp /etc/hostname {}/other && mv {}/other {}/image.0",
                        "ln -s /etc/hostname {}/other",
                        "mkdir {}/other",
                        "chmod 0777 {}",
                        "cat {}/image.0",
                        "ls {}")) {
                    String said = asUser(attack.replace("{}", rank.toString()));
                    assertTrue(
                            said.contains("Permission denied") || said.contains("Operation not permitted"),
                            mount + ": '" + attack + "' as the job's user: " + said);
                }
            }
        } finally {
            Files.createFile(go);
        }
        MigrationReport report = moved.get(Patience.of(120), TimeUnit.SECONDS);
        assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
    }

    @Tag("soak")
    @Test
    void shouldRestartAsTheUserWhenTheUserWritesTheImage() throws Exception {
        checkpoint("");
        Path image = directory.resolve("checkpoint");
        // Root's command has the user write, as runuser does.
        Files.writeString(image, """
                #!/bin/sh
                id -u >%1$s/checkpoint-uid
                %2$s sh -c 'head -c 300000 /dev/zero >"$0"' "$2" || exit 1
                kill -STOP "$1"
                """.formatted(shared, AS_USER));
        restart("id -u >%s/restart-uid".formatted(shared), "");
        MigrationReport report = migrate(pair(RunAs.ROOT_THEN_JOB_USER, Map.of()), RunAs.ROOT_THEN_JOB_USER);
        assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
        assertEquals("0", Files.readString(shared.resolve("checkpoint-uid")).trim());
        assertEquals("20001", Files.readString(shared.resolve("restart-uid")).trim());
    }

    // ---- trusted users -----------------------------------------------------------------------------------------

    @Test
    void shouldRefuseAUserWhoIsNotTrustedWhenTheRestartRunsAsRoot() throws Exception {
        MigrationReport report = migrate(pair(RunAs.ROOT, Map.of("command", Set.of(20002))), RunAs.ROOT);
        assertEquals(Outcome.REFUSED, report.outcome(), report.reason());
        assertTrue(report.reason().contains("does not trust user 20001"), report.reason());
        assertTrue(report.reason().contains("trusted_users of [checkpointers.command]"), report.reason());
        assertTrue(report.reason().contains("a checkpointer that runs as the job's user"), report.reason());
        assertTrue(report.reason().contains("as_job_user = true at both nodes"), report.reason());
        requireOriginalRuns();
    }

    @Test
    void shouldMoveTheUserWhoIsTrusted() throws Exception {
        MigrationReport report = migrate(pair(RunAs.ROOT, TRUSTED), RunAs.ROOT);
        assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
        assertTrue(processes.find(copies.get(0)).map(processes::isRunning).orElse(false), "the copy does not run");
    }

    // ---- what the copy may do ----------------------------------------------------------------------------------

    @Test
    void shouldRollBackWhenTheCopyIsRoots() throws Exception {
        copy("", "");
        rollsBack("belongs to user 0");
    }

    @Tag("soak")
    @Test
    void shouldRollBackWhenTheCopyIsInMoreGroups() throws Exception {
        copy("setpriv --reuid 20001 --regid 20001 --groups 20001,4 ", "");
        rollsBack("it is in the groups [4]");
    }

    /** Returns the words that start sleep(1) as the job's user, by a program with that file capability. */
    private String capable(String name, String capability) throws Exception {
        Path folder = Files.createDirectory(directory.resolve(name));
        Path program = Files.copy(Path.of("/bin/sleep"), folder.resolve("sleep"));
        Files.setPosixFilePermissions(program, PosixFilePermissions.fromString("rwxr-xr-x"));
        run("setcap", capability + "+ep", program.toString());
        return "env PATH=" + folder + ":/usr/bin:/bin " + AS_USER;
    }

    private static String permitted(int pid) throws IOException {
        return Files.readAllLines(Path.of("/proc", Integer.toString(pid), "status")).stream()
                .filter(line -> line.startsWith("CapPrm:"))
                .findFirst()
                .orElseThrow()
                .replaceAll("CapPrm:\\s*0*", "");
    }

    /** The user's copy could not have them: it would continue with less than its original had. */
    @Test
    void shouldBeRefusedByNameBeforeItIsStoppedWhenItHasFileCapabilitiesAndItsUserRestartsIt() throws Exception {
        original(capable("raw", "cap_net_raw"));
        Conditions.until("it has them", () -> permitted((int) original.pid()).equals("2000"));
        checkpoint("touch " + shared.resolve("written"));
        MigrationReport report = migrate(pair(RunAs.JOB_USER, Map.of()), RunAs.JOB_USER);
        assertEquals(Outcome.REFUSED, report.outcome(), report.reason());
        assertTrue(
                report.reason().contains("PID " + original.pid() + " (sleep) has the capabilities 2000"),
                report.reason());
        assertFalse(Files.exists(shared.resolve("written")), "its checkpoint has begun");
        requireOriginalRuns();
    }

    @Test
    void shouldMoveWithWhatItHadWhenItHasFileCapabilitiesAndRootRestartsIt() throws Exception {
        String raw = capable("raw", "cap_net_raw");
        original(raw);
        Conditions.until("it has them", () -> permitted((int) original.pid()).equals("2000"));
        script("restart", """
                #!/bin/sh
                cat "$1" >/dev/null || exit 1
                cd /
                setsid %s sleep 600 </dev/null >/dev/null 2>&1 &
                until grep -q 'CapPrm:.*2000$' /proc/$!/status; do sleep 0.05; done
                kill -STOP $!
                echo $! >"$2"
                """.formatted(raw));
        MigrationReport report = migrate(pair(RunAs.ROOT, TRUSTED), RunAs.ROOT);
        assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
        assertEquals("2000", permitted(copies.get(0)));
    }

    @Test
    void shouldRollBackWhenTheCopysProgramHasAFileCapabilityMore() throws Exception {
        String raw = capable("raw", "cap_net_raw");
        original(raw);
        Conditions.until("it has them", () -> permitted((int) original.pid()).equals("2000"));
        script("restart", """
                #!/bin/sh
                cat "$1" >/dev/null || exit 1
                cd /
                setsid %s sleep 600 </dev/null >/dev/null 2>&1 &
                until grep -q 'CapPrm:.*202000$' /proc/$!/status; do sleep 0.05; done
                kill -STOP $!
                echo $! >"$2"
                """.formatted(capable("more", "cap_net_raw,cap_sys_admin")));
        rollsBack("its capabilities CapPrm have 200000");
    }

    @Test
    void shouldRollBackWhenTheCopyHasACapability() throws Exception {
        copy(AS_USER + "--inh-caps +net_raw --ambient-caps +net_raw ", "");
        rollsBack("its capabilities CapInh have 2000");
    }

    @Tag("soak")
    @Test
    void shouldRollBackWhenTheCopyCanGainPrivilegesAndItsOriginalCouldNot() throws Exception {
        original(AS_USER + "--no-new-privs ");
        rollsBack("NoNewPrivs 0");
    }

    /**
     * Another process's securebits are not readable, so they are not compared. They grant no privilege alone, and a
     * restart of the user's starts without them and cannot set them.
     */
    @Tag("soak")
    @Test
    void shouldLetTheCopyHaveNoSecurebitsWhenTheUsersRestartAsksForThem() throws Exception {
        Path bits = shared.resolve("bits");
        // PR_GET_SECUREBITS. PR_SET_SECUREBITS of SECBIT_NO_SETUID_FIXUP, with which setuid(2) drops no capabilities.
        copy(
                "perl -e 'my $prctl = qx{uname -m} =~ /aarch64/ ? 167 : 157; my $had = syscall $prctl, 27;"
                        + " my $set = syscall $prctl, 28, 4; open my $told, q{>}, q{" + bits + "};"
                        + " print $told qq{$had $set }, syscall $prctl, 27; close $told; exec @ARGV' ",
                "");
        MigrationReport report = migrate(pair(RunAs.JOB_USER, Map.of()), RunAs.JOB_USER);
        assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
        assertEquals("0 -1 0", Files.readString(bits));
    }

    @Tag("soak")
    @Test
    void shouldRollBackWhenTheCopyLeavesItsOriginalsNetwork() throws Exception {
        original("unshare --net " + AS_USER);
        rollsBack("the node's own namespaces [net]");
    }

    @Test
    void shouldRollBackWhenTheCopyHasRootsFileOpenForWriting() throws Exception {
        Path secret = Files.writeString(directory.resolve("roots"), "root's\n");
        copy(AS_USER, "exec 9>>" + secret);
        rollsBack("it has " + secret + " (of user 0) open for writing", "user 20001 cannot open it in this mode");
        assertEquals("root's\n", Files.readString(secret));
    }

    @Tag("soak")
    @Test
    void shouldRollBackWhenRootsReadableFileIsOpenForWriting() throws Exception {
        // Reading it is the user's right, and its original does: writing is not.
        original(AS_USER, "exec 9</etc/hostname");
        copy(AS_USER, "exec 9<>/etc/hostname");
        rollsBack("it has /etc/hostname (of user 0) open for reading and writing");
    }

    @Tag("soak")
    @Test
    void shouldRollBackWhenTheCopyStandsInRootsDirectory() throws Exception {
        Path closed = Files.createDirectory(directory.resolve("closed"));
        Files.setPosixFilePermissions(closed, PosixFilePermissions.fromString("rwx------"));
        copy(AS_USER, "cd " + closed);
        rollsBack("it has " + closed + " (of user 0) open for looking up");
    }

    @Tag("soak")
    @Test
    void shouldRollBackWhenTheCopyHasAnotherRootDirectory() throws Exception {
        Path root = Files.createDirectory(directory.resolve("root"));
        for (String program : List.of("/bin/sh", "/bin/sleep")) {
            put(Path.of(program), root);
            // ldd(1) names the libraries and the loader.
            Matcher library = Pattern.compile("/\\S+").matcher(run("ldd", program));
            while (library.find()) {
                put(Path.of(library.group()), root);
            }
        }
        copy("chroot --userspec=20001:20001 --groups=20001 " + root + " ", "");
        rollsBack("its root directory is " + root + ", but its original's was [/]");
    }

    private static void put(Path file, Path root) throws IOException {
        Path to = root.resolve(Path.of("/").relativize(file));
        Files.createDirectories(to.getParent());
        if (!Files.exists(to)) {
            Files.copy(file, to, StandardCopyOption.COPY_ATTRIBUTES);
        }
    }

    @Tag("soak")
    @Test
    void shouldRollBackWhenTheCopyHasADescriptorOfAKindThatItsOriginalHadNot() throws Exception {
        // pidfd_open(2) of init, and F_SETFD. Its holder may query the kernel about that process.
        copy(
                "perl -e 'my $pidfd = syscall 434, 1, 0; $pidfd >= 0 or exit 1; open my $file, qq{<&=$pidfd};"
                        + " fcntl $file, 2, 0; exec @ARGV' " + AS_USER,
                "");
        rollsBack("it has a descriptor of kind ", "pidfd", ", but its original had none");
    }

    /** Starts as root, maps a file shared, closes it, becomes the user and stops. */
    private static String mapping(Path file, int protection) {
        return "perl -e 'open my $file, qq{+<}, qq{" + file + "} or exit 1;"
                + " my $call = qx{uname -m} =~ /aarch64/ ? 222 : 9;"
                + " syscall($call, 0, 4096, " + protection + ", 1, fileno $file, 0) != -1 or exit 1;"
                + " close $file; $( = $) = qq{20001 20001}; $< = $> = 20001; kill STOP => $$; sleep 600' ";
    }

    @ParameterizedTest
    // Two cases: the memory is writable now, or it is writable after an mprotect(2), because it was opened for that.
    @ValueSource(ints = {3, 1})
    void shouldRollBackWhenTheCopyHasRootsFileMappedSharedAndWritable(int protection) throws Exception {
        Path file = Files.writeString(directory.resolve("roots"), "root's\n".repeat(1000));
        copy(mapping(file, protection), "");
        rollsBack(
                "it has " + file + " (of user 0) open for reading and writing",
                "user 20001 cannot open it in" + " this mode");
    }

    @Tag("soak")
    @Test
    void shouldRollBackWhenTheCopyRunsAProgramThatOnlyRootCanRead() throws Exception {
        Path program = directory.resolve("roots-perl");
        Files.copy(Path.of("/usr/bin/perl").toRealPath(), program);
        Files.setPosixFilePermissions(program, PosixFilePermissions.fromString("rwx------"));
        copy(program + " -e '$( = $) = qq{20001 20001}; $< = $> = 20001; kill STOP => $$; sleep 600' ", "");
        rollsBack("it has " + program + " (of user 0) open for reading", "user 20001 cannot open it in this mode");
    }

    /** Returns what a shell does before it becomes the copy, with mounts of its own. */
    private static String inMountsOfItsOwn(String before) {
        return "unshare --mount sh -c '" + before + "; exec \"$@\"' sh " + AS_USER;
    }

    @Test
    void shouldRollBackWhenTheCopyHasInMountsOfItsOwnRootsFileInThePlaceOfOneThatAllCanRead() throws Exception {
        Path secret = Files.writeString(directory.resolve("roots"), "root's\n");
        Files.setPosixFilePermissions(secret, PosixFilePermissions.fromString("rw-------"));
        copy(inMountsOfItsOwn("mount --bind " + secret + " /etc/hostname; exec 9</etc/hostname"), "");
        rollsBack("it has /etc/hostname (of user 0) open for reading;", "user 20001 cannot open it in this mode");
    }

    @Tag("soak")
    @Test
    void shouldMoveACopyThatHasInMountsOfItsOwnWhatItsUserCanRead() throws Exception {
        Path open = Files.writeString(directory.resolve("everybodys"), "all may read it\n");
        Files.setPosixFilePermissions(open, PosixFilePermissions.fromString("rw-r--r--"));
        copy(inMountsOfItsOwn("mount --bind " + open + " /etc/hostname; exec 9</etc/hostname"), "");
        MigrationReport report = migrate(pair(RunAs.ROOT, TRUSTED), RunAs.ROOT);
        assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
    }

    @Tag("soak")
    @Test
    void shouldMoveACopyThatKeepsWhatItsOriginalHadOpen() throws Exception {
        Path log = Files.writeString(directory.resolve("job.log"), "");
        original(AS_USER, "exec 9>>" + log);
        copy(AS_USER, "exec 9>>" + log);
        MigrationReport report = migrate(pair(RunAs.ROOT, TRUSTED), RunAs.ROOT);
        assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
    }

    @Tag("soak")
    @Test
    void shouldLowerLimitsAndNicenessToTheOriginalsWhenTheRestartDoesNot() throws Exception {
        original("prlimit --nofile=120:240 nice -n 5 " + AS_USER);
        String niceness = niceness(original.pid());
        MigrationReport report = migrate(pair(RunAs.ROOT, TRUSTED), RunAs.ROOT);
        assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
        Path proc = Path.of("/proc", copies.get(0).toString());
        assertTrue(
                Files.readAllLines(proc.resolve("limits")).stream()
                        .anyMatch(line -> line.matches("Max open files +120 +240 .*")),
                "the limit is not the original's");
        assertEquals(niceness, niceness(copies.get(0)), "the nice value is not the original's");
    }

    private static String niceness(long pid) throws IOException {
        String stat = Files.readString(Path.of("/proc", Long.toString(pid), "stat"));
        return stat.substring(stat.lastIndexOf(')') + 2).split(" ", -1)[16];
    }

    // ---- the job and its checkpointer --------------------------------------------------------------------------

    private void original(String prefix, String... before) throws Exception {
        if (original != null) {
            original.destroyForcibly();
        }
        String script = String.join("; ", before) + (before.length == 0 ? "" : "; ") + "exec " + prefix + "sleep 600";
        original = new ProcessBuilder("sh", "-c", script)
                .directory(Path.of("/").toFile())
                .redirectInput(Path.of("/dev/null").toFile())
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        Conditions.until("the original is the user's", () -> Files.readAllLines(
                        Path.of("/proc", Long.toString(original.pid()), "status"))
                .contains("Uid:\t20001\t20001\t20001\t20001"));
        checkpoint("");
    }

    /**
     * Makes the copy.
     *
     * @param prefix what starts it
     * @param before what the shell that starts it does before
     */
    private void copy(String prefix, String before) throws IOException {
        restart(before.isEmpty() ? "cd /" : "cd /; " + before, prefix);
    }

    private void checkpoint(String between) throws IOException {
        script("checkpoint", """
                #!/bin/sh
                exec 3>"$2" || exit 1
                %s
                head -c 300000 /dev/zero >&3 || exit 1
                exec 3>&-
                kill -STOP "$1"
                """.formatted(between));
    }

    private void restart(String before, String prefix) throws IOException {
        script("restart", """
                #!/bin/sh
                cat "$1" >/dev/null || exit 1
                %s
                setsid %s sh -c 'kill -STOP $$; exec sleep 600' </dev/null >/dev/null 2>&1 &
                echo $! >"$2"
                """.formatted(before, prefix));
    }

    private void script(String name, String text) throws IOException {
        Path script = Files.writeString(directory.resolve(name), text);
        Files.setPosixFilePermissions(script, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    private Checkpointer checkpointer(RunAs runAs) {
        return new CheckpointerSettings.CommandTool(
                        List.of(directory + "/checkpoint", "{pid}", "{file}"),
                        List.of(directory + "/restart", "{file}", "{pidfile}"),
                        ReadingMode.STREAMED,
                        "image.{rank}",
                        List.of("image.{rank}"),
                        List.of(),
                        Map.of(),
                        runAs,
                        false,
                        false,
                        NamespacePolicy.NEVER)
                .create("command", new NativePrograms(NATIVE));
    }

    private SourceService pair(RunAs runAs, Map<String, Set<Integer>> trusted) throws Exception {
        return nodes.source(
                "source",
                Duration.ofMinutes(5),
                nodes.target("target", trusted, checkpointer(runAs)).address());
    }

    private MigrationReport migrate(SourceService source, RunAs runAs) {
        Job job = new Job("job", USER, checkpointer(runAs), List.of(new Job.RankProcess(0, (int) original.pid())));
        try {
            MigrationReport report = source.migrate(
                    UUID.randomUUID().toString(),
                    new MigrationOrder(job, List.of(), "a test"),
                    new Cancellation(),
                    progress -> {});
            report.ranks().forEach(rank -> copies.addAll(rank.pids()));
            return report;
        } catch (InterruptedException e) {
            throw new IllegalStateException("the test was interrupted", e);
        }
    }

    /** Moves the job, which must fail with these words. The original continues, and no copy remains. */
    private void rollsBack(String... words) throws Exception {
        MigrationReport report = migrate(pair(RunAs.ROOT, TRUSTED), RunAs.ROOT);
        assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
        for (String word : words) {
            assertTrue(report.reason().contains(word), "'" + report.reason() + "' does not say '" + word + "'");
        }
        requireOriginalRuns();
        Conditions.until("no copy is left", () -> copies.stream()
                .noneMatch(pid -> processes.find(pid).isPresent()));
    }

    private void requireOriginalRuns() throws Exception {
        Conditions.until("the original runs", () -> processes
                .find((int) original.pid())
                .map(processes::isRunning)
                .orElse(false));
        assertFalse(original.waitFor(0, TimeUnit.SECONDS), "the original is gone");
    }

    private static String run(String... command) throws Exception {
        return Command.of(List.of(command)).run(Duration.ofSeconds(20)).requireOutput();
    }

    /** Returns the output of a shell of the job's user for a command that must fail. */
    private static String asUser(String command) throws Exception {
        List<String> words = new ArrayList<>(List.of(AS_USER.trim().split(" ")));
        words.addAll(List.of("sh", "-c", command));
        Process process = new ProcessBuilder(words).redirectErrorStream(true).start();
        try {
            String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            return process.waitFor() == 0 ? "it succeeded" : said;
        } finally {
            process.destroyForcibly();
        }
    }
}
