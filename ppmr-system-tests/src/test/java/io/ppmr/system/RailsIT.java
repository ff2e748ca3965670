package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.linux.Command;
import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.testbed.ComputingJob;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.TestNode;
import io.ppmr.testbed.Testbed;
import io.ppmr.testbed.TwoNodes;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Rails between two nodes, beside the veth pair of the control connection. Each rail is a veth pair of its own with a
 * rate of 200 or 500 Mbit/s. A veth pair that is set down loses the packets on their way, and resets nothing.
 */
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class RailsIT {
    private static final Logger LOG = LoggerFactory.getLogger(RailsIT.class);
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final Duration SILENCE_LIMIT = Duration.ofSeconds(90);
    private static final JobUser ROOT = new JobUser(0, 0);
    private static final int PORT = 7412;
    private static final int PROCESSES = 2;
    private static final long PROCESS_BYTES = 160L << 20;
    /** The minimum part of a rail's rate that an undisturbed transfer over one of them reaches. */
    private static final double FULL_RAIL = 0.93;

    private static final int MOST_TRIES = 4;
    private static final double DETECTION_S = 2;
    /** The maximum additional time after the detection and the other rail's transfer, on an idle machine. */
    private static final double SLACK_S = 0.5;
    /**
     * The maximum additional time on a busy machine, over rails that are slow enough to limit the transfer there, too.
     */
    private static final double BUSY_SLACK_S = 2.5;

    private static final double FLAPPING_S = 100;

    /** Two nodes with rails, their services, and a job that computes in the first one. */
    private static final class Scene implements AutoCloseable {
        private final Testbed testbed = Testbed.create("rails");
        private final TwoNodes nodes;
        private final ComputingJob job;
        private final int megabits;
        private double firstArrivedS;
        private double lastArrivedS;
        private long arrivedBytes;

        /** @param priorities of the rails, as many as there are */
        private Scene(int passes, long processBytes, int... priorities) throws Exception {
            this(500, false, passes, processBytes, priorities);
        }

        /**
         * @param megabits the rate of a veth pair in megabits a second
         * @param controlIsOnARail whether the cable of the control connection is a rail, too, in name "own" and beside
         *     the others
         */
        private Scene(int megabits, boolean controlIsOnARail, int passes, long processBytes, int... priorities)
                throws Exception {
            this.megabits = megabits;
            String rate = megabits + "mbit";
            nodes = new TwoNodes(testbed, controlIsOnARail ? rate : "");
            StringBuilder source = new StringBuilder();
            StringBuilder target = new StringBuilder();
            if (controlIsOnARail) {
                source.append("[[rails]]\nname = \"own\"\naddress = \"%s\"\n".formatted(TwoNodes.ADDRESS_A));
                target.append("[[rails]]\nname = \"own\"\naddress = \"%s:%d\"\n"
                        .formatted(TwoNodes.ADDRESS_B, TwoNodes.PORT));
            }
            for (int rail = 0; rail < priorities.length; rail++) {
                String cable = "rail" + rail;
                TestNode.cable(nodes.a(), cable, nodes.b(), cable);
                nodes.a().raise(cable, address(rail, 1) + "/30");
                nodes.b().raise(cable, address(rail, 2) + "/30");
                for (TestNode node : List.of(nodes.a(), nodes.b())) {
                    node.run(
                            LIMIT, "tc", "qdisc", "add", "dev", cable, "root", "tbf", "rate", rate, "burst", "256kb",
                            "latency", "50ms");
                }
                source.append("[[rails]]\nname = \"r%d\"\naddress = \"%s\"\npriority = %d\n"
                        .formatted(rail, address(rail, 1), priorities[rail]));
                target.append(
                        "[[rails]]\nname = \"r%d\"\naddress = \"%s:%d\"\n".formatted(rail, address(rail, 2), PORT));
            }
            job = new ComputingJob(
                    nodes.bin().resolve("selfckpt-job"), ROOT, testbed.folder("job"), PROCESSES, processBytes);
            nodes.startServices(
                    "services",
                    "connections = 2\n" + job.toml("job", "blcr") + source,
                    "allow_root_jobs = true\n" + target,
                    nodes.blcr(nodes.bin().resolve("cr_restart")));
            job.start(nodes.a(), new NativePrograms(nodes.bin()).launch(), passes, 400, 1);
            job.markBefore();
        }

        private static String address(int rail, int node) {
            return "169.254." + (80 + rail) + "." + node;
        }

        /** Pulls the cable of a rail at the target, or plugs it in. */
        private void cable(int rail, boolean in) throws IOException, InterruptedException {
            nodes.b().run(LIMIT, "ip", "link", "set", "rail" + rail, in ? "up" : "down");
        }

        private MigrationReport migrate(Consumer<MigrationProgress> watcher) throws Exception {
            try (ControlClient client = new ControlClient(nodes.socket())) {
                client.start("job", true);
                MigrationReport report = client.awaitReport(SILENCE_LIMIT, progress -> {
                    note(progress);
                    watcher.accept(progress);
                });
                LOG.info(
                        "{} in {} s, bytes came for {} s",
                        report.outcome(),
                        report.times().seconds(),
                        transferSeconds());
                return report;
            }
        }

        private void note(MigrationProgress progress) {
            firstArrivedS = firstArrivedS == 0 && progress.arrivedBytes() > 0 ? progress.seconds() : firstArrivedS;
            if (progress.arrivedBytes() > arrivedBytes) {
                arrivedBytes = progress.arrivedBytes();
                lastArrivedS = progress.seconds();
            }
        }

        private double transferSeconds() {
            return lastArrivedS - firstArrivedS;
        }

        /** Moves it, and waits until its processes ended with the result of an undisturbed run. */
        private MigrationReport commit(Consumer<MigrationProgress> watcher) throws Exception {
            MigrationReport report = migrate(watcher);
            assertEquals(MigrationReport.Outcome.COMMITTED, report.outcome(), report.reason() + nodes.logEnds());
            job.markMoved(
                    nodes.b(),
                    report.ranks().stream()
                            .collect(Collectors.toMap(
                                    MigrationReport.MovedRank::rank, MigrationReport.MovedRank::pids)));
            return report;
        }

        /** Returns the part of the status about rails. */
        private String status() throws IOException {
            try (ControlClient client = new ControlClient(nodes.socket())) {
                return client.status().transport();
            }
        }

        private String statusNow() {
            try {
                return status();
            } catch (IOException e) {
                throw new AssertionError(e);
            }
        }

        /** One of two rails was cut. The rest arrived within the other one's time, the detection, and the slack. */
        private void requireInTime(double cutS, double leftBytes, double slackS) throws IOException {
            double took = lastArrivedS - cutS;
            double remaining = leftBytes * 1.045 / (megabits * 1e6 / 8);
            LOG.info("the rest of {} MB took {} s, of which one rail needs {} s", leftBytes / 1e6, took, remaining);
            Duration limit = Patience.of(Duration.ofMillis(Math.round(1000 * (remaining + DETECTION_S + slackS))));
            assertTrue(took <= limit.toMillis() / 1e3, took + " s, at most " + limit + nodes.logEnds());
        }

        private String history(String id) throws IOException, InterruptedException {
            String config = nodes.source().folder().resolve("source.toml").toString();
            return Command.of(nodes.java().with(List.of("show", id, "--config", config)))
                    .run(LIMIT)
                    .requireOutput();
        }

        private void requireResults() throws Exception {
            job.startExpectations();
            for (ComputingJob.ProcessOutcome outcome : job.finish(Duration.ofMinutes(3))) {
                assertTrue(outcome.continued() && outcome.resultOk(), outcome + nodes.logEnds());
            }
        }

        @Override
        public void close() throws Exception {
            job.stopExpectations();
            testbed.close();
        }
    }

    /** Slow ones, which are what limits the transfer on a busy machine, too. */
    @Tag("soak")
    @Test
    void shouldCarryNearlyTwiceAsMuchWhenThereAreTwoRails() throws Exception {
        requireNearlyTwice(200, PROCESS_BYTES / 3);
    }

    @Test
    @Tag("soak")
    void shouldCarryNearlyTwiceAsMuchWhenThereAreTwoFastRails() throws Exception {
        requireNearlyTwice(500, PROCESS_BYTES);
    }

    private static void requireNearlyTwice(int megabits, long processBytes) throws Exception {
        List<Double> ratios = new ArrayList<>();
        // Other load here can slow two rails down, but not speed them up.
        while (ratios.size() < MOST_TRIES && ratios.stream().noneMatch(ratio -> ratio >= 1.9)) {
            double one = bytesASecond(megabits, processBytes, 0);
            double two = bytesASecond(megabits, processBytes, 0, 0);
            LOG.info("one rail: {} MB/s, two: {} MB/s, ratio {}", one / 1e6, two / 1e6, two / one);
            // A rail that was slower than its network proves nothing.
            ratios.add(two / Math.max(one, FULL_RAIL * megabits * 1e6 / 8));
        }
        assertTrue(ratios.stream().anyMatch(ratio -> ratio >= 1.9), ratios + " times as much");
    }

    private static double bytesASecond(int megabits, long processBytes, int... priorities) throws Exception {
        try (Scene scene = new Scene(megabits, false, 1000, processBytes, priorities)) {
            scene.commit(progress -> {});
            return scene.arrivedBytes / scene.transferSeconds();
        }
    }

    @Tag("soak")
    @Test
    void shouldCommitInTimeWhenARailIsCutAtHalfOfTheImage() throws Exception {
        commitsInTimeWhenARailIsCut(200, PROCESS_BYTES / 3, BUSY_SLACK_S);
    }

    @Test
    @Tag("soak")
    void shouldCommitInTimeWhenAFastRailIsCutAtHalfOfTheImage() throws Exception {
        commitsInTimeWhenARailIsCut(500, PROCESS_BYTES, SLACK_S);
    }

    private static void commitsInTimeWhenARailIsCut(int megabits, long processBytes, double slackS) throws Exception {
        try (Scene scene = new Scene(megabits, false, 60, processBytes, 0, 0)) {
            AtomicBoolean isCut = new AtomicBoolean();
            double[] left = new double[2];
            MigrationReport report = scene.commit(progress -> {
                if (progress.arrivedBytes() >= PROCESSES * processBytes / 2 && !isCut.getAndSet(true)) {
                    left[0] = progress.seconds();
                    left[1] = PROCESSES * (double) processBytes - progress.arrivedBytes();
                    cut(scene, 1);
                }
            });
            assertTrue(isCut.get(), "the rail was cut");
            scene.requireInTime(left[0], left[1], slackS);
            assertTrue(scene.nodes.logEnds().contains("rail r1 failed: "), scene.nodes.logEnds());
            String status = scene.status();
            assertTrue(status.startsWith("rails: rails r0, r1; r0 up"), status);
            assertTrue(status.matches(".*r1 (down|connecting).*, lost 1 times, \\d+ chunks retransmitted.*"), status);
            String history = scene.history(report.migrationId());
            assertTrue(history.contains("rail r0") && history.contains("rail r1"), history);
            scene.requireResults();
        }
    }

    @Tag("soak")
    @Test
    void shouldCommitInTimeWhenTheRailOfTheControlConnectionIsCutAtHalfOfTheImage() throws Exception {
        commitsInTimeWhenTheControlsRailIsCut(200, PROCESS_BYTES / 3, BUSY_SLACK_S);
    }

    @Test
    @Tag("soak")
    void shouldCommitInTimeWhenTheFastRailOfTheControlConnectionIsCutAtHalfOfTheImage() throws Exception {
        commitsInTimeWhenTheControlsRailIsCut(500, PROCESS_BYTES, SLACK_S);
    }

    private static void commitsInTimeWhenTheControlsRailIsCut(int megabits, long processBytes, double slackS)
            throws Exception {
        try (Scene scene = new Scene(megabits, true, 60, processBytes, 0)) {
            AtomicBoolean isCut = new AtomicBoolean();
            AtomicReference<CompletableFuture<String>> asked = new AtomicReference<>();
            double[] left = new double[2];
            MigrationReport report = scene.commit(progress -> {
                // Runs beside this thread, because a late answer must not delay the cut.
                if (progress.arrivedBytes() > 0 && asked.get() == null) {
                    asked.set(CompletableFuture.supplyAsync(scene::statusNow));
                }
                if (progress.arrivedBytes() >= PROCESSES * processBytes / 2 && !isCut.getAndSet(true)) {
                    left[0] = progress.seconds();
                    left[1] = PROCESSES * (double) processBytes - progress.arrivedBytes();
                    cutControl(scene);
                }
            });
            assertTrue(isCut.get(), "the cable was cut");
            scene.requireInTime(left[0], left[1], slackS);
            String log = scene.nodes.source().log();
            assertTrue(log.contains("resumed via /" + Scene.address(0, 1)), log);
            assertTrue(log.contains("rail own failed: "), log);
            String before = asked.get().get(LIMIT.toSeconds(), TimeUnit.SECONDS);
            assertTrue(before.contains("; own up, used by the control connection, "), before);
            assertFalse(before.contains("failovers of the control connection to it"), before);
            String status = scene.status();
            assertTrue(status.matches(".*; r0 up[^;]*, 1 failovers of the control connection to it(;.*)?"), status);
            assertFalse(status.contains("used by the control connection"), "no migration is under way: " + status);
            String history = scene.history(report.migrationId());
            assertTrue(history.contains("control by own") && history.contains("control by r0"), history);
            scene.requireResults();
        }
    }

    private static void cutControl(Scene scene) {
        try {
            scene.nodes.b().cable(false);
        } catch (IOException e) {
            throw new AssertionError(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AssertionError(e);
        }
    }

    private static void cut(Scene scene, int rail) {
        try {
            scene.cable(rail, false);
        } catch (IOException e) {
            throw new AssertionError(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AssertionError(e);
        }
    }

    @Tag("soak")
    @Test
    void shouldFailByNameAndGoOnWhenAllRailsAreCut() throws Exception {
        try (Scene scene = new Scene(1000, PROCESS_BYTES, 0, 0)) {
            AtomicBoolean isCut = new AtomicBoolean();
            MigrationReport report = scene.migrate(progress -> {
                if (progress.arrivedBytes() >= PROCESS_BYTES / 2 && !isCut.getAndSet(true)) {
                    cut(scene, 0);
                    cut(scene, 1);
                }
            });
            assertNotEquals(MigrationReport.Outcome.COMMITTED, report.outcome());
            assertTrue(report.reason().contains("no rail to the target works (r0: "), report.reason());
            String before = scene.job.passes();
            Conditions.until("the originals continue", () -> !scene.job.passes().equals(before));
        }
    }

    @Tag("soak")
    @Test
    void shouldTakeTheOtherRailWhenTheOneOfHigherPriorityIsCut() throws Exception {
        try (Scene scene = new Scene(60, PROCESS_BYTES / 4, 10, 1)) {
            AtomicBoolean isCut = new AtomicBoolean();
            scene.commit(progress -> {
                if (progress.arrivedBytes() > 0 && !isCut.getAndSet(true)) {
                    cut(scene, 0);
                }
            });
            assertTrue(scene.nodes.logEnds().contains("rail r1 is connected"), scene.nodes.logEnds());
            scene.requireResults();
        }
    }

    /** The job is large enough to move for two minutes by the one rail that stays. */
    @Test
    @Tag("soak")
    @Timeout(value = 900, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldLoseAndDoubleNothingWhenARailComesAndGoesForTwoMinutes() throws Exception {
        long processBytes = 1L << 30;
        try (Scene scene = new Scene(100, false, 20, processBytes, 0, 0)) {
            AtomicBoolean isOver = new AtomicBoolean();
            Thread flapping = new Thread(() -> flap(scene, isOver), "flapping");
            flapping.start();
            try {
                scene.commit(progress -> {});
            } finally {
                isOver.set(true);
                flapping.join();
            }
            assertTrue(scene.lastArrivedS > FLAPPING_S, "it moved for " + scene.lastArrivedS + " s only");
            scene.requireResults();
        }
    }

    private static void flap(Scene scene, AtomicBoolean isOver) {
        boolean in = true;
        while (!isOver.get()) {
            LockSupport.parkNanos(TimeUnit.SECONDS.toNanos(5));
            in = !in;
            try {
                scene.cable(1, in);
            } catch (IOException e) {
                throw new AssertionError(e);
            } catch (InterruptedException e) {
                return;
            }
        }
    }
}
