package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.CheckpointerSettings.PagePolicy;
import io.ppmr.daemon.config.KeyFile;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.linux.Command;
import io.ppmr.linux.ProcStat;
import io.ppmr.migration.source.Cancellation;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.TwoNodes;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.TransactionJournal;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Jobs whose memory is streamed from the held original into the held copy by real CRIU. The result of the job depends
 * on every byte of its memory, so that a lost, doubled or zero page shows.
 */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class StreamedCriuIT {
    private static final Duration LIMIT = Duration.ofSeconds(90);
    private static final long PRIVATE_BYTES = 96 << 20;
    /** Much less than the job has: an image that waits as a whole is refused. */
    private static final long STAGING_BYTES = 64 << 20;

    private static final int PASSES = 40;

    private static String expected;

    @TempDir
    private Path directory;

    private static List<String> job(int passes, String... more) {
        List<String> words = new ArrayList<>(List.of(
                System.getProperty("ppmr.demo.dir") + "/plain-job",
                "--size",
                Long.toString(PRIVATE_BYTES),
                "--passes",
                Integer.toString(passes),
                "--seed",
                "7",
                "--threads",
                "4"));
        words.addAll(List.of(more));
        return words;
    }

    /** Finds the result of an undisturbed run. */
    @BeforeAll
    static void runUndisturbed() throws Exception {
        expected = undisturbed(PASSES);
    }

    private static String undisturbed(int passes) throws Exception {
        Command.CommandResult result = Command.of(job(passes, "--expect")).run(LIMIT.multipliedBy(2));
        assertTrue(result.succeeded(), result.output());
        return result.output().strip();
    }

    private CriuJob start() throws Exception {
        return start(PASSES);
    }

    private CriuJob start(int passes) throws Exception {
        return start("setsid ", passes);
    }

    private CriuJob start(String before, int passes) throws Exception {
        CriuJob job = CriuJob.start(
                directory,
                before
                        + String.join(
                                " ",
                                job(passes, "--out", "out", "--progress", "turns", "--pace", "100", "--until", "cue")));
        Conditions.until(
                LIMIT,
                "the job computes",
                () -> Files.exists(job.file("turns"))
                        && !Files.readAllLines(job.file("turns")).isEmpty());
        return job;
    }

    private static ServicePair.Options options(Checkpointer criu) {
        return ServicePair.Options.with(criu).alsoRootsJobs().staging(STAGING_BYTES);
    }

    /** Returns options for a job that never continues, so that it fails soon. */
    private static ServicePair.Options impatient(Checkpointer criu) {
        return options(criu).stall(Duration.ofSeconds(5));
    }

    private static void requireResult(CriuJob job) throws Exception {
        requireResult(job, LIMIT, expected);
    }

    private static void requireResult(CriuJob job, Duration limit, String result) throws Exception {
        Files.writeString(job.file("cue"), "");
        try {
            Conditions.until(limit, "the job has ended", () -> Files.exists(job.file("out")));
        } catch (IOException e) {
            StringBuilder states = new StringBuilder(e.getMessage());
            for (long pid : job.pids()) {
                states.append("; ").append(ProcStat.read("/proc/" + pid + "/stat"));
            }
            throw new IOException(states.toString(), e);
        }
        assertEquals(result, Files.readString(job.file("out")).strip());
    }

    @Test
    void shouldKeepNothingOfTheMemoryWaitingWhenPagesAreStreamed() throws Exception {
        Checkpointer criu = CriuJob.criu(PagePolicy.STREAMED);
        try (ServicePair pair = new ServicePair(directory, options(criu));
                CriuJob job = start()) {
            MigrationReport report = job.migrate(pair, criu);
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            assertTrue(report.pages().startsWith("streamed: "), report.pages());
            assertTrue(
                    MappedJournal.read(directory.resolve("source-journal/journal")).stream()
                            .map(TransactionJournal.JournalEntry::record)
                            .anyMatch(record -> record instanceof TransactionRecord.PagesChosen chosen
                                    && chosen.sentence().equals(report.pages())),
                    "the journal says how the pages travelled");
            requireResult(job);
        }
    }

    /** Its private memory is shared with its child since the fork, and is sent twice. */
    @Tag("soak")
    @Test
    void shouldStreamAndSayWhatIsNotSharedAnyMoreWhenProcessesShareTheirMemorySinceAFork() throws Exception {
        Checkpointer criu = CriuJob.criu(PagePolicy.AUTO);
        try (ServicePair pair = new ServicePair(directory, options(criu));
                CriuJob job = forked()) {
            MigrationReport report = job.migrate(pair, criu);
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            assertTrue(
                    report.pages().matches("streamed: 2.. MiB, of which 1.. MiB are shared since a fork .*"),
                    report.pages());
        }
    }

    /**
     * One in 256 such processes has its stack pointer where CRIU streams nothing. Then the test uses another process.
     */
    private CriuJob forked() throws Exception {
        CriuJob job = null;
        for (int number = 0; job == null; number++) {
            Path folder = Files.createDirectory(directory.resolve("forked-" + number));
            job = CriuJob.start(folder, "setsid perl -e '$n = 100 << 20; $memory = \"x\" x $n; fork; sleep 600'");
            long pid = job.pid();
            Conditions.until(
                    LIMIT, "the job has forked and sleeps", () -> stacks(pid).size() == 2);
            if (stacks(pid).stream().anyMatch(stack -> stack.endsWith("000"))) {
                job.close();
                job = null;
            }
        }
        return job;
    }

    /** The stack pointers of a process and its children that wait in system calls. */
    private static List<String> stacks(long pid) throws IOException {
        List<String> pids = new ArrayList<>(List.of("" + pid));
        pids.addAll(List.of(Files.readString(Path.of("/proc/" + pid + "/task/" + pid + "/children"))
                .strip()
                .split(" ", -1)));
        List<String> stacks = new ArrayList<>();
        for (String one : pids) {
            String[] words = one.isEmpty()
                    ? new String[0]
                    : Files.readString(Path.of("/proc/" + one + "/syscall")).split(" ", -1);
            if (words.length > 2) {
                stacks.add(words[words.length - 2]);
            }
        }
        return stacks;
    }

    /** One in 256 waiting processes has its stack there, so many a job of many ranks has one. */
    @Tag("soak")
    @ParameterizedTest
    @EnumSource(names = {"AUTO", "STREAMED"})
    void shouldStreamTheOthersWhenTheStackPointerOfAChildIsAtTheFirstByteOfAPage(PagePolicy pages) throws Exception {
        Checkpointer criu = CriuJob.criu(pages);
        String child = System.getProperty("ppmr.demo.dir") + "/aligned-stack 40";
        try (ServicePair pair = new ServicePair(directory, options(criu).staging(PRIVATE_BYTES - 1));
                CriuJob job = start("setsid sh -c '" + child + " & exec \"$@\"' sh ", PASSES)) {
            List<Long> waiting = new ArrayList<>();
            Conditions.until(LIMIT, "the child waits", () -> waiting.addAll(aligned(job)));
            MigrationReport report = job.migrate(pair, criu);
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            assertTrue(
                    report.pages()
                            .matches(
                                    "streamed: [0-9]+ MiB.*; all memory of 1 more process goes into the images: thread "
                                            + waiting.get(0) + " of PID " + waiting.get(0)
                                            + " has its stack pointer at .*"),
                    report.pages());
            assertTrue(report.images().bytes() > PRIVATE_BYTES + (40 << 20), report.toString());
            Conditions.until(LIMIT, "the child's copy waits", () -> aligned(job).size() == 1);
            requireResult(job);
        }
    }

    /** Returns the PIDs of a job's processes that wait as aligned-stack does. */
    private static List<Long> aligned(CriuJob job) {
        return job.pids().stream()
                .filter(pid -> {
                    try {
                        return Files.readString(Path.of("/proc/" + pid + "/comm"))
                                        .startsWith("aligned-stack")
                                && Files.readString(Path.of("/proc/" + pid + "/syscall"))
                                        .startsWith("34 ");
                    } catch (IOException gone) {
                        return false;
                    }
                })
                .toList();
    }

    /** CRIU would write all of its memory into the images, but streaming promises a small staging. */
    @Test
    void shouldNotBeStreamedWhenAStackPointerIsAtTheFirstByteOfAPage() throws Exception {
        Checkpointer auto = CriuJob.criu(PagePolicy.AUTO);
        Checkpointer streamed = CriuJob.criu(PagePolicy.STREAMED);
        String why = "has its stack pointer at the first byte of a page now";
        try (ServicePair pair = new ServicePair(
                        directory,
                        ServicePair.Options.with(auto).alsoRootsJobs().staging(256 << 20));
                CriuJob job = CriuJob.start(
                        directory, "setsid " + System.getProperty("ppmr.demo.dir") + "/aligned-stack 100")) {
            Conditions.until(LIMIT, "it waits", () -> Files.readString(Path.of("/proc/" + job.pid() + "/syscall"))
                    .startsWith("34 "));
            MigrationReport refused = job.migrate(pair, streamed);
            assertEquals(Outcome.REFUSED, refused.outcome(), refused.reason());
            assertTrue(
                    refused.reason().contains("is not moved")
                            && refused.reason().contains(why),
                    refused.reason());
            MigrationReport report = job.migrate(pair, auto);
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            assertTrue(
                    report.pages().startsWith("as images: ") && report.pages().contains(why), report.pages());
        }
    }

    @Tag("soak")
    @Test
    void shouldMoveTenTimesToAndFroWhenPagesAreStreamed() throws Exception {
        moveToAndFro(10, 200);
    }

    @Test
    @Tag("soak")
    @Timeout(value = 1200, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldMoveAHundredTimesToAndFroWhenPagesAreStreamed() throws Exception {
        moveToAndFro(100, 2000);
    }

    /** The copy of one move is the original of the next. The job continues between them. */
    private void moveToAndFro(int times, int passes) throws Exception {
        Checkpointer criu = CriuJob.criu(PagePolicy.STREAMED);
        try (ServicePair pair = new ServicePair(directory, options(criu));
                CriuJob job = start(passes)) {
            int pid = job.pid();
            for (int i = 0; i < times; i++) {
                assertFalse(Files.exists(job.file("out")), "the job ended before it was moved for the last time");
                MigrationReport report = migrate(job, pair, criu, pid, "move-" + i, new Cancellation());
                assertEquals(Outcome.COMMITTED, report.outcome(), "move " + i + ": " + report.reason());
                pid = report.ranks().get(0).pids().get(0);
                job.requireTurns();
            }
            requireResult(job, LIMIT.multipliedBy(times), undisturbed(passes));
        }
    }

    /** The programs of a streamed migration, by words of their command lines. */
    enum Program {
        SOURCE_RELAY("ppmr-pages source"),
        DUMP("criu dump"),
        TARGET_RELAY("ppmr-pages target"),
        HOLDER("ppmr-pages target"),
        RESTORE("criu restore");

        private final String words;

        Program(String words) {
            this.words = words;
        }

        /** The holder is a child of the filler, with its command line and another name. */
        boolean hasName(String name) {
            return this == HOLDER ? name.equals("ppmr-holder") : !name.equals("ppmr-holder");
        }
    }

    @Tag("soak")
    @ParameterizedTest
    @CsvSource({
        "KILL, SOURCE_RELAY",
        "KILL, DUMP",
        "KILL, TARGET_RELAY",
        "STOP, SOURCE_RELAY",
        "STOP, DUMP",
        "STOP, TARGET_RELAY"
    })
    void shouldGoOnWithEveryByteWhereItWasWhenAProgramIsKilledOrStoppedWhilePagesTravel(String signal, Program victim)
            throws Exception {
        Checkpointer criu = CriuJob.criu(PagePolicy.STREAMED);
        try (ServicePair pair = new ServicePair(directory, impatient(criu));
                CriuJob job = start()) {
            CompletableFuture<MigrationReport> moved =
                    CompletableFuture.supplyAsync(() -> migrate(job, pair, criu, job.pid(), new Cancellation()));
            holdPages(moved);
            // A program that waits in a call to the mount ends when that is answered: after the stall limit at last.
            signal(signal, await(victim));
            MigrationReport report = moved.get(LIMIT.toSeconds(), TimeUnit.SECONDS);
            assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
            requireResult(job);
            requireNoProgramLeft();
        }
    }

    @Tag("soak")
    @Test
    void shouldGoOnWithEveryByteWhereItWasWhenTheHolderIsKilledWhilePagesTravel() throws Exception {
        killOnTheWay((job, before) -> running(Program.HOLDER));
    }

    /** It runs for milliseconds, and what it has made is half of a copy. If it was missed the copy is moved on. */
    @Test
    void shouldGoOnWithEveryByteWhereItWasWhenTheRestoreIsKilledWhilePagesTravel() throws Exception {
        killOnTheWay((job, before) -> running(Program.RESTORE));
    }

    /** All processes of the copy but one are killed. */
    @Tag("soak")
    @Test
    void shouldGoOnWithEveryByteWhereItWasWhenAProcessOfTheCopyIsKilledWhilePagesTravel() throws Exception {
        killOnTheWay((job, before) -> {
            List<Long> copies =
                    job.pids().stream().filter(pid -> !before.contains(pid)).toList();
            return copies.size() > 1 ? copies.subList(1, copies.size()) : List.of();
        });
    }

    /** Finds what must be killed, as soon as it is there. {@code before}: the PIDs of the job before the move. */
    private interface Victims {
        List<Long> find(CriuJob job, Set<Long> before);
    }

    /**
     * Kills the processes that appear while a job moves. If the copy was complete before they were found, the copy
     * moves again.
     */
    private void killOnTheWay(Victims victims) throws Exception {
        Checkpointer criu = CriuJob.criu(PagePolicy.STREAMED);
        try (ServicePair pair = new ServicePair(directory, options(criu));
                CriuJob job = start()) {
            int pid = job.pid();
            MigrationReport report;
            int tries = 0;
            do {
                int moving = pid;
                String id = "try-" + tries++;
                Set<Long> before = job.pids();
                CompletableFuture<MigrationReport> moved =
                        CompletableFuture.supplyAsync(() -> migrate(job, pair, criu, moving, id, new Cancellation()));
                List<Long> found = new ArrayList<>();
                Conditions.until(LIMIT, "what must be killed is there, or was missed", () -> {
                    found.addAll(victims.find(job, before));
                    return !found.isEmpty() || moved.isDone();
                });
                // Once the copy is handed over its processes are the job.
                for (long victim : moved.isDone() ? List.<Long>of() : found) {
                    Command.of(List.of("kill", "-KILL", Long.toString(victim))).run(LIMIT);
                }
                report = moved.get(LIMIT.toSeconds(), TimeUnit.SECONDS);
                pid = report.outcome() == Outcome.COMMITTED
                        ? report.ranks().get(0).pids().get(0)
                        : pid;
            } while (report.outcome() == Outcome.COMMITTED && tries < 5);
            assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
            requireResult(job);
        }
    }

    /** Its CRIU then runs in the rank's namespace, and in a session that the service does not track. */
    @Tag("soak")
    @Test
    void shouldGoOnWhereItIsWhenASecondMoveIsCalledOffWhilePagesTravel() throws Exception {
        Checkpointer criu = CriuJob.criu(PagePolicy.STREAMED);
        try (ServicePair pair = new ServicePair(directory, options(criu));
                CriuJob job = start()) {
            MigrationReport first = job.migrate(pair, criu);
            assertEquals(Outcome.COMMITTED, first.outcome(), first.reason());
            int copy = first.ranks().get(0).pids().get(0);
            Cancellation cancellation = new Cancellation();
            CompletableFuture<MigrationReport> moved =
                    CompletableFuture.supplyAsync(() -> migrate(job, pair, criu, copy, cancellation));
            holdPages(moved);
            assertTrue(cancellation.cancel("a test"));
            MigrationReport report = moved.get(LIMIT.toSeconds(), TimeUnit.SECONDS);
            assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
            requireResult(job);
        }
    }

    @Test
    void shouldGoOnWhenItIsCalledOffWhilePagesTravel() throws Exception {
        Checkpointer criu = CriuJob.criu(PagePolicy.STREAMED);
        try (ServicePair pair = new ServicePair(directory, options(criu));
                CriuJob job = start()) {
            Cancellation cancellation = new Cancellation();
            CompletableFuture<MigrationReport> moved =
                    CompletableFuture.supplyAsync(() -> migrate(job, pair, criu, job.pid(), cancellation));
            holdPages(moved);
            assertTrue(cancellation.cancel("a test"));
            MigrationReport report = moved.get(LIMIT.toSeconds(), TimeUnit.SECONDS);
            assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
            requireResult(job);
        }
    }

    /** Starts a service of its own process. Its files are in this test's folder. */
    private ServiceProcess service(String role, int port) throws Exception {
        String common = """
                key_file = "%1$s/key"
                warm_up_migrations = 0
                control_socket = "%1$s/%2$s.sock"
                """.formatted(directory, role);
        String own = role.equals("target") ? """
                listen = "127.0.0.1:%d"
                allow_root_jobs = true
                [staging]
                limit = "64m"
                """.formatted(port) : """
                [target]
                address = "127.0.0.1:%d"
                [jobs.job]
                user = 0
                checkpointer = "criu"
                ranks = [{rank = 0, pid_file = "%s/pid"}]
                """.formatted(port, directory);
        String tool = TwoNodes.criu("streamed") + (role.equals("target") ? "trusted_users = [0]\n" : "");
        return ServiceProcess.start(role, directory, common, own, tool);
    }

    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {"source", "target"})
    void shouldGoOnWithEveryByteWhereItWasWhenAServiceIsKilledWhilePagesTravel(String role) throws Exception {
        KeyFile.create(directory.resolve("key"));
        int port = Nodes.unusedAddress().getPort();
        Map<String, ServiceProcess> services = new HashMap<>();
        try {
            for (String one : List.of("target", "source")) {
                services.put(one, service(one, port));
            }
            try (CriuJob job = start()) {
                Files.writeString(directory.resolve("pid"), job.pid() + "\n");
                try (ControlClient client = new ControlClient(directory.resolve("source.sock"))) {
                    client.start("job", false);
                }
                signal("STOP", await(Program.TARGET_RELAY));
                services.get(role).kill();
                services.put(role, service(role, port));
                requireResult(job);
                requireNoProgramLeft();
            }
        } catch (IOException e) {
            StringBuilder logs = new StringBuilder(e.getMessage());
            for (ServiceProcess service : services.values()) {
                logs.append('\n').append(service.logEnd(20));
            }
            throw new IOException(logs.toString(), e);
        } finally {
            for (ServiceProcess service : services.values()) {
                service.close();
            }
        }
    }

    /** Any user may have what looks like the marks of restarts, in any number. */
    @Tag("soak")
    @Test
    void shouldLeaveNothingOfARestoreBeforeTheNextStartIsReadyWhenAnotherUserHasManyMarks() throws Exception {
        KeyFile.create(directory.resolve("key"));
        int port = Nodes.unusedAddress().getPort();
        String marks = System.getProperty("ppmr.demo.dir") + "/many-marks";
        String making = "for my $i (1..30) { my $pid = fork; if (!$pid) { exec '" + marks + "', 20000 or die }"
                + " my $name = ''; until ($name eq \"sleep\\n\") { select(undef,undef,undef,0.01);"
                + " open(my $f, '<', \"/proc/$pid/comm\") or die; $name = <$f>; } }";
        try (Neighbour neighbour = Neighbour.start(directory.resolve("neighbour"), making, "");
                ServiceProcess target = service("target", port);
                ServiceProcess source = service("source", port);
                CriuJob job = start()) {
            Set<Long> originals = job.pids();
            Files.writeString(directory.resolve("pid"), job.pid() + "\n");
            try (ControlClient client = new ControlClient(directory.resolve("source.sock"))) {
                client.start("job", false);
            }
            // Its processes exist as soon as pages can arrive, and the last page arrives much later.
            Conditions.until(LIMIT, "a copy is being made", () -> job.pids().size() > originals.size());
            target.kill();
            try (ServiceProcess next = service("target", port)) {
                assertEquals(originals, job.pids(), next.logEnd(20));
                for (Program program : List.of(Program.TARGET_RELAY, Program.HOLDER, Program.RESTORE)) {
                    assertEquals(List.of(), running(program), program + "\n" + next.logEnd(20));
                }
                requireResult(job);
            }
        }
    }

    /**
     * The copy needs more memory than the target has. The kernel kills a process of the target, or one of its children.
     */
    @Tag("soak")
    @Test
    void shouldGoOnWithEveryByteWhereItWasWhenTheTargetRunsOutOfMemoryWhilePagesTravel() throws Exception {
        Optional<MemoryLimit> possible = MemoryLimit.of(PRIVATE_BYTES / 2);
        Assumptions.assumeTrue(possible.isPresent(), "no memory cgroup can be made here");
        KeyFile.create(directory.resolve("key"));
        int port = Nodes.unusedAddress().getPort();
        try (MemoryLimit limit = possible.get();
                ServiceProcess target = service("target", port);
                ServiceProcess source = service("source", port);
                CriuJob job = start()) {
            limit.add(target.process().pid());
            Files.writeString(directory.resolve("pid"), job.pid() + "\n");
            try (ControlClient client = new ControlClient(directory.resolve("source.sock"))) {
                client.start("job", true);
                MigrationReport report = client.awaitReport(LIMIT, progress -> {});
                assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
                assertTrue(limit.kills() > 0, report.reason() + "\n" + source.logEnd(20));
            }
            requireResult(job);
            if (!target.process().isAlive()) {
                // A child of the killed CRIU may have stopped itself. The next service ends what the last one had
                // begun.
                try (ServiceProcess next = service("target", port)) {
                    Conditions.until(LIMIT, limit + " is empty", limit::isEmpty);
                    assertTrue(next.process().isAlive());
                }
            }
        }
    }

    /** Connections are closed, or nothing passes. The target ends its part of the copy without a request. */
    @Tag("soak")
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void shouldGoOnWithEveryByteWhereItWasWhenTheNetworkIsLostWhilePagesTravel(boolean closed) throws Exception {
        KeyFile.create(directory.resolve("key"));
        int port = Nodes.unusedAddress().getPort();
        try (Relay network = new Relay(port);
                ServiceProcess target = service("target", port);
                ServiceProcess source = service("source", network.port());
                CriuJob job = start()) {
            Files.writeString(directory.resolve("pid"), job.pid() + "\n");
            try (ControlClient client = new ControlClient(directory.resolve("source.sock"))) {
                client.start("job", true);
                signal("STOP", await(Program.TARGET_RELAY));
                if (closed) {
                    network.lose();
                } else {
                    network.cut();
                }
                MigrationReport report = client.awaitReport(LIMIT, progress -> {});
                assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason() + "\n" + source.logEnd(20));
            }
            requireResult(job);
            requireNoProgramLeft();
            assertTrue(target.process().isAlive(), target.logEnd(20));
        }
    }

    private static MigrationReport migrate(
            CriuJob job, ServicePair pair, Checkpointer criu, int pid, Cancellation cancellation) {
        return migrate(job, pair, criu, pid, "called-off", cancellation);
    }

    private static MigrationReport migrate(
            CriuJob job, ServicePair pair, Checkpointer criu, int pid, String id, Cancellation cancellation) {
        try {
            return job.migrate(pair, criu, pid, id, cancellation);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Stops the copy's relay before it reads a page, and waits until pages arrive. Not all of them can arrive then. */
    private void holdPages(CompletableFuture<MigrationReport> moved) throws Exception {
        Conditions.until(
                LIMIT,
                "the copy's relay runs, or the migration ended",
                () -> moved.isDone() || !running(Program.TARGET_RELAY).isEmpty());
        assertFalse(moved.isDone(), () -> "the migration ended before its pages: " + moved.join());
        signal("STOP", await(Program.TARGET_RELAY));
        Path list = directory.resolve("source/called-off.1/rank-0/pages.list");
        Conditions.until(LIMIT, "pages come", () -> Files.exists(list));
    }

    private static void signal(String name, long pid) throws Exception {
        Command.CommandResult result =
                Command.of(List.of("kill", "-" + name, Long.toString(pid))).run(LIMIT);
        assertTrue(result.succeeded(), result.output());
    }

    private void requireNoProgramLeft() throws Exception {
        Conditions.until(LIMIT, "no program of the migration is left", () -> Stream.of(Program.values())
                .allMatch(program -> running(program).isEmpty()));
    }

    /** Waits until a program of this test's services runs, and returns its PID. */
    private long await(Program program) throws Exception {
        List<Long> found = new ArrayList<>();
        Conditions.until(LIMIT, program + " runs", () -> {
            found.addAll(running(program));
            return !found.isEmpty();
        });
        return found.get(0);
    }

    private List<Long> running(Program program) {
        return ProcessHandle.allProcesses()
                .map(ProcessHandle::pid)
                .filter(pid -> isOurs(pid, program))
                .toList();
    }

    /** It is found by its own words, which precede those of its children, and by the folder of this test's services. */
    private boolean isOurs(long pid, Program program) {
        try {
            String line = Files.readString(Path.of("/proc/" + pid + "/cmdline"), StandardCharsets.ISO_8859_1)
                    .replace('\0', ' ');
            int own = line.indexOf(program.words);
            boolean inner = line.contains("ppmr-launch") || line.contains("nsenter") || line.contains("ppmr-rank-init");
            boolean relay = line.contains("ppmr-pages");
            return own >= 0
                    && !inner
                    && program.hasName(
                            Files.readString(Path.of("/proc/" + pid + "/comm")).strip())
                    && relay == program.words.startsWith("ppmr-pages")
                    && line.contains(directory.toString());
        } catch (IOException gone) {
            return false;
        }
    }
}
