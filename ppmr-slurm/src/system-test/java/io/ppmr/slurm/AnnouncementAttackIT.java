package io.ppmr.slurm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.daemon.control.ControlAccess;
import io.ppmr.daemon.control.ControlRequest;
import io.ppmr.daemon.control.ControlServer;
import io.ppmr.daemon.control.SourceRequests;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.daemon.jobs.JobSources;
import io.ppmr.daemon.part.ServicePart;
import io.ppmr.daemon.service.Migrations;
import io.ppmr.daemon.service.MoveOptions;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.Cancellation;
import io.ppmr.migration.source.MigrationOrder;
import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationQueue;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.transaction.operator.Resolution;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * There are two ordinary users of a node. One has a Slurm job, whose ranks real tasks start and announce. The other
 * tries to prevent its move. The control socket, the folders and the migrations' order are the service's own. The mover
 * only records the job.
 */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class AnnouncementAttackIT {
    private static final int VICTIM = 20_003;
    private static final int ATTACKER = 20_002;
    private static final long LIMIT_S = Patience.of(60);

    @TempDir
    private Path directory;

    private final LinkedBlockingQueue<Integer> moved = new LinkedBlockingQueue<>();
    private final List<Process> started = new ArrayList<>();
    private final CountDownLatch mayEnd = new CountDownLatch(1);
    private volatile boolean attackersWait;
    private volatile boolean attackersAreSlow;
    private AnnouncedJobs jobs;
    private Migrations migrations;
    private ControlServer server;

    @BeforeEach
    void serve() throws Exception {
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwx--x--x"));
        Checkpointer checkpointer =
                CheckpointerSettings.Blcr.installed().create("blcr", NativePrograms.fromSystemProperty());
        jobs = new AnnouncedJobs(directory.resolve("announced"), Map.of("blcr", checkpointer), Set.of("blcr"));
        jobs.prepare();
        JobSources sources = new JobSources(List.of(jobs), true);
        migrations = new Migrations(Map.of(), Optional.empty(), new MigrationQueue(this::move), sources);
        Map<String, ControlRequest<?>> requests = new HashMap<>(new SourceRequests(
                        migrations,
                        () -> null,
                        () -> null,
                        List::of,
                        (id, word, carryOut, by) ->
                                new Resolution(id, Resolution.ResolutionResult.REFUSED, "not known here"))
                .requests());
        requests.putAll(new SlurmPart.Taking(ServicePart.Side.SOURCE, Optional.of(jobs)).requests());
        server = new ControlServer(directory.resolve("sock"), ControlAccess.OWNER.withJobOwners(), requests);
    }

    @AfterEach
    void end() throws Exception {
        mayEnd.countDown();
        for (Process process : started) {
            process.descendants().forEach(ProcessHandle::destroyForcibly);
            process.destroyForcibly().waitFor();
        }
        assertTrue(migrations.close(Duration.ofSeconds(LIMIT_S)));
        server.close();
    }

    private MigrationReport move(
            String id, MigrationOrder order, Cancellation cancellation, Consumer<MigrationProgress> watcher)
            throws InterruptedException {
        int uid = order.job().user().uid();
        if (uid == ATTACKER && attackersWait) {
            mayEnd.await();
        }
        moved.add(uid);
        MigrationReport.Outcome outcome =
                uid == VICTIM ? MigrationReport.Outcome.COMMITTED : MigrationReport.Outcome.ROLLED_BACK;
        List<MigrationReport.MovedRank> ranks = List.of(new MigrationReport.MovedRank(0, List.of(uid)));
        return new MigrationReport(
                id,
                "blcr",
                "",
                outcome,
                "",
                MigrationReport.MovedImages.NONE,
                MigrationReport.MigrationTimes.NONE,
                MigrationReport.ServiceMemory.NONE,
                ranks,
                null,
                uid == ATTACKER && attackersAreSlow);
    }

    private Process as(int uid, String... words) throws Exception {
        List<String> command =
                new ArrayList<>(List.of("setpriv", "--reuid", "" + uid, "--regid", "" + uid, "--clear-groups"));
        command.addAll(List.of(words));
        ProcessBuilder builder = new ProcessBuilder(command)
                .directory(Path.of("/").toFile())
                .redirectErrorStream(true)
                .redirectOutput(directory.resolve("said-" + started.size()).toFile());
        builder.environment()
                .putAll(Map.of(
                        "SLURM_JOB_ID", "7", "SLURM_STEP_ID", "0", "SLURM_PROCID", "0", "SLURMD_NODENAME", "n1"));
        Process process = builder.start();
        started.add(process);
        return process;
    }

    private String said(Process process) throws Exception {
        return Files.readString(directory.resolve("said-" + started.indexOf(process)), StandardCharsets.UTF_8);
    }

    /** Starts a rank as srun does. */
    private Process task(int uid) throws Exception {
        Process task = as(
                uid,
                NativePrograms.fromSystemProperty().of("ppmr-slurm-task").toString(),
                "run",
                "--announce",
                directory.resolve("announced").toString(),
                "--socket",
                directory.resolve("sock").toString(),
                "--checkpointer",
                "blcr",
                "--",
                "sleep",
                "100");
        Conditions.until("the rank is started", () -> said(task).contains("ppmr-rank 0 started"));
        return task;
    }

    private String shell(int uid, String script) throws Exception {
        Process process =
                as(uid, "sh", "-c", script, directory.resolve("announced").toString());
        assertTrue(process.waitFor(LIMIT_S, TimeUnit.SECONDS), script);
        return said(process);
    }

    private MigrationQueue.Event trigger() throws Exception {
        CompletableFuture<MigrationQueue.Event> ended = new CompletableFuture<>();
        migrations.trigger("a test", Optional.empty(), ended::complete);
        return ended.get(LIMIT_S, TimeUnit.SECONDS);
    }

    @Test
    void shouldAnnounceAndMoveAJobWhenAnotherUserHasTakenItsNameBefore() throws Exception {
        shell(ATTACKER, "mkdir $0/jobs/slurm-7.0 $0/jobs/20003 $0/jobs/20003/slurm-7.0; ln -s /tmp $0/jobs/20003");
        task(ATTACKER);
        Process task = task(VICTIM);
        assertFalse(said(task).contains("cannot be"), said(task));
        JobName name = new JobName(VICTIM, "slurm-7.0");
        assertEquals(VICTIM, jobs.find(name).orElseThrow().user().uid());
        assertTrue(jobs.isOwnedBy("slurm-7.0", "" + VICTIM));
        assertFalse(jobs.isOwnedBy("20003/slurm-7.0", "" + ATTACKER));
        // Each user means the own job. The access rules decide who may control the service.
        JobSources sources = new JobSources(List.of(jobs), true);
        assertEquals(Optional.of(name), sources.named("slurm-7.0", Optional.of("" + VICTIM)));
        assertEquals(Optional.empty(), sources.named("20003/slurm-7.0", Optional.of("" + ATTACKER)));
        RequestException which =
                assertThrows(RequestException.class, () -> sources.named("slurm-7.0", Optional.empty()));
        assertTrue(which.getMessage().contains("20002/slurm-7.0, 20003/slurm-7.0"), which.getMessage());
        assertEquals(Optional.of(name), sources.named("20003/slurm-7.0", Optional.empty()));
        String log = shell(
                ATTACKER, "touch $0/jobs/20003/slurm-7.0/rank-1; rm -r $0/jobs/20003; mv $0/jobs/20003 $0/jobs/x 2>&1");
        assertEquals(
                3,
                log.lines().filter(line -> line.contains("Permission denied")).count(),
                log);
        assertEquals(1, jobs.find(name).orElseThrow().ranks().size());
    }

    @Tag("soak")
    @Test
    void shouldTellATaskOfItsOwnMigrationWhenAnotherUsersJobOfThatNameHasMoved() throws Exception {
        Process task = task(VICTIM);
        task(ATTACKER);
        assertEquals(
                "Permission denied",
                shell(ATTACKER, "mkdir -p $0/moves/20003; echo x >$0/moves/slurm-7.0")
                        .lines()
                        .findFirst()
                        .map(line -> line.substring(line.lastIndexOf(": ") + 2))
                        .orElseThrow());
        trigger();
        // The victim's record contains a move of its job, and the attacker's record contains none.
        Path moves = directory.resolve("announced/moves");
        assertTrue(Files.readString(moves.resolve("20003/slurm-7.0")).startsWith("committed "));
        assertTrue(Files.readString(moves.resolve("20002/slurm-7.0")).startsWith("rolled-back"));
        int rank = jobs.find(new JobName(VICTIM, "slurm-7.0"))
                .orElseThrow()
                .ranks()
                .get(0)
                .pid();
        ProcessHandle.of(rank).orElseThrow().destroyForcibly();
        assertTrue(task.waitFor(LIMIT_S, TimeUnit.SECONDS));
        assertEquals(0, task.exitValue(), said(task));
        assertTrue(said(task).contains("ppmr-rank 0 moved unknown 20003"), said(task));
    }

    @Test
    void shouldMoveAJobByATriggerWhenAnotherUserAnnouncesMany() throws Exception {
        Process task = task(ATTACKER);
        assertEquals(
                "",
                shell(
                        ATTACKER,
                        "cd $0/jobs/20002 && for i in $(seq 1 400); do cp -r slurm-7.0 a-$i || exit; done;"
                                + " cd slurm-7.0 && for i in $(seq 1 5000); do : >rank-x$i; done"));
        assertTrue(task.isAlive());
        task(VICTIM);
        MigrationQueue.Event end = trigger();
        List<Integer> order = List.copyOf(moved);
        int place = order.indexOf(VICTIM);
        assertTrue(place == 0 || place == 1, "the victim's came as number " + place + " of " + order.size());
        assertTrue(order.size() > 1 && order.size() <= 1 + AnnouncedJobs.MAX_JOBS, order.size() + " were moved");
        assertTrue(
                end instanceof MigrationQueue.Event.Ended ended
                        && !ended.report().moved(),
                "the attacker's did not");
    }

    @Tag("soak")
    @Test
    void shouldTryAJobOnceMoreAfterAllOthersWhenItsCheckpointsWereTooSlow() throws Exception {
        task(ATTACKER);
        task(VICTIM);
        attackersAreSlow = true;
        MigrationQueue.Event end = trigger();
        assertEquals(List.of(ATTACKER, VICTIM, ATTACKER), List.copyOf(moved));
        assertTrue(
                end instanceof MigrationQueue.Event.Ended ended
                        && ended.report().slow(),
                "it is told of in the end");
    }

    /** A user with many announcements delays no other user's request while they are read. */
    @Test
    @Tag("soak")
    void shouldAnswerAtOnceWhileAnnouncementsAreRead() throws Exception {
        Process task = task(ATTACKER);
        assertEquals(
                "",
                shell(
                        ATTACKER,
                        "cd $0/jobs/20002 && for i in $(seq 1 200); do cp -r slurm-7.0 a-$i || exit; done;"
                                + " for i in $(seq 1 250); do for n in $(seq 1 15); do"
                                + " cp a-1/rank-0 a-$((i % 200 + 1))/rank-$n; done; done"));
        assertTrue(task.isAlive());
        attackersWait = true;
        CompletableFuture<Long> triggered = CompletableFuture.supplyAsync(() -> {
            long startNs = System.nanoTime();
            try {
                migrations.trigger("a test", Optional.empty(), event -> {});
            } catch (RequestException e) {
                throw new IllegalStateException(e);
            }
            return System.nanoTime() - startNs;
        });
        long longestNs = 0;
        while (!triggered.isDone()) {
            long startNs = System.nanoTime();
            migrations.state();
            longestNs = Math.max(longestNs, System.nanoTime() - startNs);
        }
        long readNs = triggered.get(LIMIT_S, TimeUnit.SECONDS);
        assertTrue(longestNs < readNs / 2, longestNs + " ns of the " + readNs + " ns of a trigger");
    }

    @Test
    void shouldMoveAJobByATriggerAsSoonAsItCanWhenAnotherUserHasOneMovedJustNow() throws Exception {
        task(ATTACKER);
        task(VICTIM);
        attackersWait = true;
        migrations.start("slurm-7.0", Optional.of("" + ATTACKER), MoveOptions.NONE, "its user", event -> {});
        CompletableFuture<MigrationQueue.Event> ended = new CompletableFuture<>();
        migrations.trigger("a test", Optional.empty(), ended::complete);
        assertThrows(RequestException.class, () -> migrations.trigger("a second one", Optional.empty(), event -> {}));
        assertThrows(
                RequestException.class,
                () -> migrations.start(
                        "slurm-7.0", Optional.of("" + ATTACKER), MoveOptions.NONE, "its user", event -> {}));
        mayEnd.countDown();
        ended.get(LIMIT_S, TimeUnit.SECONDS);
        assertEquals(List.of(ATTACKER, ATTACKER, VICTIM), List.copyOf(moved));
    }
}
