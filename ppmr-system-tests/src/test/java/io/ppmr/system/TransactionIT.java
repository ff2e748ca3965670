package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.SiteCommand;
import io.ppmr.migration.source.Cancellation;
import io.ppmr.migration.source.Job;
import io.ppmr.migration.source.JobHooks;
import io.ppmr.migration.source.MigrationOrder;
import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.migration.source.SourceService;
import io.ppmr.migration.target.TargetService;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A migration as a transaction between real services: several targets, further attempts, hooks, calling off. */
@Timeout(value = 180, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class TransactionIT {
    private static final Duration LONG_PAUSE = Duration.ofMinutes(5);
    private static final long WAIT_S = Patience.of(90);

    @TempDir
    private Path directory;

    private LedgerJob job(String name, int ranks) throws Exception {
        return new LedgerJob(directory.resolve(name), ranks);
    }

    private static CompletableFuture<MigrationReport> begin(SourceService source, Job job, InetSocketAddress... to) {
        return begin(source, job, new Cancellation(), to);
    }

    private static CompletableFuture<MigrationReport> begin(
            SourceService source, Job job, Cancellation cancellation, InetSocketAddress... to) {
        return begin(source, job, cancellation, step -> {}, to);
    }

    private static CompletableFuture<MigrationReport> begin(
            SourceService source,
            Job job,
            Cancellation cancellation,
            Consumer<MigrationProgress.SourceStep> reached,
            InetSocketAddress... to) {
        return CompletableFuture.supplyAsync(() -> {
            try {
                return source.migrate(
                        "m" + System.nanoTime(),
                        new MigrationOrder(job, List.of(to), "a test"),
                        cancellation,
                        progress -> reached.accept(progress.step()));
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException(e);
            }
        });
    }

    /** Makes a mark as soon as every original is held. */
    private static Consumer<MigrationProgress.SourceStep> whenHeld(LedgerJob job, String mark) {
        AtomicBoolean made = new AtomicBoolean();
        return step -> {
            if (step == MigrationProgress.SourceStep.RESTART && made.compareAndSet(false, true)) {
                try {
                    job.set(mark);
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
            }
        };
    }

    private static MigrationReport ends(CompletableFuture<MigrationReport> migration, Outcome outcome, String... words)
            throws Exception {
        MigrationReport report = migration.get(WAIT_S, TimeUnit.SECONDS);
        assertEquals(outcome, report.outcome(), report.reason());
        for (String word : words) {
            assertTrue(report.reason().contains(word), "'" + report.reason() + "' does not say '" + word + "'");
        }
        return report;
    }

    /** The ranks that a target has voted for. */
    private static List<Integer> votedFor(Nodes nodes, String target) throws IOException {
        List<Integer> ranks = new ArrayList<>();
        for (TransactionRecord record : nodes.journal(target)) {
            if (record instanceof TransactionRecord.PreparedHere prepared) {
                prepared.copies().stream().map(PlannedRank::rank).sorted().forEach(ranks::add);
            }
        }
        return ranks;
    }

    private static List<Integer> attempts(Nodes nodes, String source) throws IOException {
        return nodes.journal(source).stream()
                .filter(TransactionRecord.Begun.class::isInstance)
                .map(TransactionRecord::attempt)
                .toList();
    }

    @Test
    void shouldSpreadTheRanksWhenTwoTargetsAreNamed() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = job("job", 3)) {
            TargetService first = nodes.target("first", job.checkpointer());
            TargetService second = nodes.target("second", job.checkpointer());
            SourceService source = nodes.source("source", LONG_PAUSE);
            MigrationReport report =
                    ends(begin(source, job.job(), first.address(), second.address()), Outcome.COMMITTED);
            assertEquals(3, report.ranks().size());
            job.runsThere();
            assertEquals(List.of(0), votedFor(nodes, "first"));
            assertEquals(List.of(1, 2), votedFor(nodes, "second"));
        }
    }

    @Test
    void shouldEndEveryCopyWhenOneOfTwoTargetsFails() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = job("job", 2)) {
            job.restartsBy("failing", 1, "await " + job.mark("first-has-voted"), "open missing r");
            TargetService first = nodes.target("first", job.checkpointer());
            TargetService second = nodes.target("second", job.checkpointer("failing", true));
            SourceService source = nodes.source("source", LONG_PAUSE);
            var migration = begin(source, job.job(), first.address(), second.address());
            Conditions.until(
                    "the first target votes", () -> !votedFor(nodes, "first").isEmpty());
            job.set("first-has-voted");
            ends(migration, Outcome.ROLLED_BACK, "rank 1", "could not be restarted");
            job.runsHere();
        }
    }

    @Tag("soak")
    @Test
    void shouldServeTwoSourcesWhenBothMoveAtTheSameTime() throws Exception {
        // The target has one checkpointer, which finds the scripts of both jobs by their ranks.
        try (Nodes nodes = new Nodes(directory);
                LedgerJob one = job("job", 2);
                LedgerJob two = new LedgerJob(directory.resolve("job"), 2, 1)) {
            one.restarts(0, "touch " + one.mark("reads"), "await " + one.mark("go"), "read 1m");
            TargetService target = nodes.target("target", one.checkpointer());
            SourceService first = nodes.source("source-1", LONG_PAUSE, target.address());
            SourceService second = nodes.source("source-2", LONG_PAUSE, target.address());
            var moving = begin(first, one.job());
            one.awaitMark("reads");
            ends(begin(second, two.job()), Outcome.COMMITTED);
            two.runsThere();
            assertFalse(moving.isDone(), "the first source's migration is under way all the time");
            one.set("go");
            ends(moving, Outcome.COMMITTED);
            one.runsThere();
        }
    }

    @Tag("soak")
    @Test
    void shouldGoToTheNextSpareWhenOneRefusesAndOneIsNotThere() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = job("job", 2)) {
            TargetService refuses = nodes.target("refuses");
            TargetService takes = nodes.target("takes", job.checkpointer());
            SourceService source =
                    nodes.source("source", LONG_PAUSE, refuses.address(), Nodes.unusedAddress(), takes.address());
            ends(begin(source, job.job()), Outcome.COMMITTED);
            job.runsThere();
            assertEquals(1, job.saved(0).size(), "nothing was done to the originals before one took them");
        }
    }

    @Test
    void shouldHoldTheOriginalsAndGoToTheNextSpareWhenARestartFails() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = job("job", 2)) {
            job.restartsBy("failing", 0, "read 1m", "await " + job.mark("held"), "open missing r");
            job.restartsBy("failing", 1, "read 1m");
            TargetService fails = nodes.target("fails", job.checkpointer("failing", true));
            TargetService takes = nodes.target("takes", job.checkpointer());
            SourceService source = nodes.source("source", LONG_PAUSE, fails.address(), takes.address());
            ends(begin(source, job.job(), new Cancellation(), whenHeld(job, "held")), Outcome.COMMITTED);
            job.runsThere();
            assertEquals(List.of(1, 2), attempts(nodes, "source"));
            assertEquals(2, job.saved(0).size(), "it was checkpointed twice");
            assertEquals(job.saved(0).get(0), job.saved(0).get(1), "it was held in between");
        }
    }

    @Tag("soak")
    @Test
    void shouldHoldTheOriginalsAndGoToTheNextSpareWhenATargetEndsInMidTransfer() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = job("job", 1)) {
            job.restartsBy("waiting", 0, "touch " + job.mark("reads"), "await " + job.mark("never"));
            TargetService ends = nodes.target("ends", job.checkpointer("waiting", true));
            TargetService takes = nodes.target("takes", job.checkpointer());
            SourceService source = nodes.source("source", LONG_PAUSE, ends.address(), takes.address());
            var migration = begin(source, job.job());
            job.awaitMark("reads");
            ends.close();
            ends(migration, Outcome.COMMITTED);
            job.runsThere();
            assertEquals(List.of(1, 2), attempts(nodes, "source"));
        }
    }

    @Tag("soak")
    @Test
    void shouldRollBackWhenARestartFailsAndAHeldRankCannotBeCheckpointed() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = job("job", 1)) {
            job.restartsBy("failing", 0, "read 1m", "await " + job.mark("held"), "open missing r");
            TargetService fails = nodes.target("fails", job.checkpointer("failing", false));
            TargetService takes = nodes.target("takes", job.checkpointer());
            SourceService source = nodes.source("source", LONG_PAUSE, fails.address(), takes.address());
            ends(
                    begin(
                            source,
                            job.job(job.checkpointer("restart", false), Map.of(), JobHooks.NONE),
                            new Cancellation(),
                            whenHeld(job, "held")),
                    Outcome.ROLLED_BACK,
                    "could not be restarted");
            job.runsHere();
            assertEquals(List.of(1), attempts(nodes, "source"));
        }
    }

    @Test
    void shouldRollBackWhenThePauseBudgetIsUsedUp() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = job("job", 2)) {
            job.restarts(1, "await " + job.mark("never"));
            TargetService target = nodes.target("target", job.checkpointer());
            TargetService next = nodes.target("next", job.checkpointer());
            SourceService source = nodes.source("source", Duration.ofSeconds(2), target.address(), next.address());
            MigrationReport report = ends(begin(source, job.job()), Outcome.ROLLED_BACK, "pause budget");
            assertTrue(
                    report.times().pauseSeconds() >= 2,
                    "the pause of " + report.times().pauseSeconds() + " s is reported");
            job.runsHere();
            assertEquals(List.of(1), attempts(nodes, "source"));
        }
    }

    private SiteCommand hook(String name, String script) {
        return new SiteCommand(name, List.of("sh", "-c", script), Optional.of(ReplayJob.USER), Duration.ofSeconds(60));
    }

    private JobHooks hooks(String suspend) {
        Path at = directory.resolve("job");
        return new JobHooks(
                Optional.of(hook("suspend", suspend)),
                Optional.of(hook("resume", "env > " + at + "/resume.env")),
                Optional.of(hook("reconnect", "cat $PPMR_MAP > " + at + "/map && env > " + at + "/reconnect.env")));
    }

    @Tag("soak")
    @Test
    void shouldTellTheLibraryWhereItsRanksAreWhenTheJobHasMoved() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = job("job", 2)) {
            Path at = directory.resolve("job");
            TargetService target = nodes.target("target", job.checkpointer());
            SourceService source = nodes.source("source", LONG_PAUSE, target.address());
            ends(
                    begin(
                            source,
                            job.job(
                                    job.checkpointer(),
                                    Map.of(2, "elsewhere"),
                                    hooks("env > " + at + "/suspend.env && ls " + at + " > " + at + "/before"))),
                    Outcome.COMMITTED);
            job.runsThere();
            String before = Files.readString(at.resolve("before"));
            assertFalse(before.contains(".saved"), "suspend comes before any checkpoint: " + before);
            String suspended = Files.readString(at.resolve("suspend.env"));
            assertTrue(suspended.contains("PPMR_JOB=ledger\n"), suspended);
            assertTrue(suspended.contains("PPMR_RANKS=0 1\n"), suspended);
            String node = target.address().getHostString();
            assertEquals(List.of("0 " + node, "1 " + node, "2 elsewhere"), Files.readAllLines(at.resolve("map")));
            String reconnected = Files.readString(at.resolve("reconnect.env"));
            assertTrue(reconnected.contains("PPMR_SHARED=" + node + ":0,1 elsewhere:2\n"), reconnected);
            assertFalse(Files.exists(at.resolve("resume.env")), "nothing is to be undone");
        }
    }

    @Test
    void shouldResumeWhenTheMigrationIsRolledBack() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = job("job", 1)) {
            job.restarts(0, "read 1m", "open missing r");
            TargetService target = nodes.target("target", job.checkpointer());
            SourceService source = nodes.source("source", LONG_PAUSE, target.address());
            ends(
                    begin(source, job.job(job.checkpointer(), Map.of(), hooks("true"))),
                    Outcome.ROLLED_BACK,
                    "could not be restarted");
            job.runsHere();
            Path at = directory.resolve("job");
            assertTrue(Files.readString(at.resolve("resume.env")).contains("PPMR_JOB=ledger\n"));
            assertFalse(Files.exists(at.resolve("reconnect.env")), "nothing has moved");
        }
    }

    @Test
    void shouldCallOffAndResumeWhenSuspendFails() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = job("job", 1)) {
            TargetService target = nodes.target("target", job.checkpointer());
            SourceService source = nodes.source("source", LONG_PAUSE, target.address());
            ends(
                    begin(source, job.job(job.checkpointer(), Map.of(), hooks("echo endpoints are stuck; exit 3"))),
                    Outcome.ROLLED_BACK,
                    "suspend",
                    "endpoints are stuck");
            job.runsHere();
            assertTrue(job.saved(0).isEmpty(), "no checkpoint was made");
            assertTrue(Files.exists(directory.resolve("job/resume.env")), "what suspend has begun is undone");
        }
    }

    @Test
    void shouldRollBackWhenARankEndsByItselfBeforeItIsStopped() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = job("job", 2)) {
            TargetService target = nodes.target("target", job.checkpointer());
            SourceService source = nodes.source("source", LONG_PAUSE, target.address());
            // The hook runs in the moment in which the rank ends.
            String ends = "kill -9 " + job.pid(0) + "; while kill -0 " + job.pid(0) + "; do sleep 0.01; done";
            ends(
                    begin(source, job.job(job.checkpointer(), Map.of(), hooks(ends))),
                    Outcome.ROLLED_BACK,
                    "the originals of ranks [0] are gone",
                    "they ended by themselves");
            job.runsHere(1);
            assertTrue(job.saved(1).isEmpty(), "no checkpoint was made");
            assertFalse(nodes.journal("source").stream().anyMatch(TransactionRecord.Broken.class::isInstance));
        }
    }

    @Test
    void shouldRollBackWhenCancelledWhileWriting() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = job("job", 2)) {
            job.checkpoints(1, "write 1m", "touch " + job.mark("half"), "await " + job.mark("never"), "write 1m");
            cancelledAt("half", nodes, job);
        }
    }

    @Test
    void shouldRollBackWhenCancelledWhileRestarting() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = job("job", 2)) {
            job.restarts(1, "read 1m", "eof", "touch " + job.mark("read"), "await " + job.mark("never"));
            cancelledAt("read", nodes, job);
        }
    }

    private void cancelledAt(String mark, Nodes nodes, LedgerJob job) throws Exception {
        TargetService target = nodes.target("target", job.checkpointer());
        TargetService next = nodes.target("next", job.checkpointer());
        SourceService source = nodes.source("source", LONG_PAUSE, target.address(), next.address());
        Cancellation cancellation = new Cancellation();
        var migration = begin(source, job.job(), cancellation);
        job.awaitMark(mark);
        assertTrue(cancellation.cancel("somebody has changed their mind"));
        ends(migration, Outcome.ROLLED_BACK, "somebody has changed their mind");
        job.runsHere();
        assertEquals(List.of(1), attempts(nodes, "source"));
        Conditions.until(
                "no checkpoint or restart is left", () -> job.programs().size() == 2);
    }

    @Tag("soak")
    @Test
    void shouldHoldTheRestWhenAnOriginalDiesBeforeAllHaveVoted() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = job("job", 2)) {
            // Its image ends when the source has rank 1 held.
            job.restarts(1, "read 1m", "eof", "touch " + job.mark("read"), "await " + job.mark("go"), "open missing r");
            TargetService target = nodes.target("target", job.checkpointer());
            SourceService source = nodes.source("source", LONG_PAUSE, target.address());
            var migration = begin(source, job.job());
            job.awaitMark("read");
            job.killOriginal(0);
            job.set("go");
            ends(migration, Outcome.IN_DOUBT);
            job.standsStill();
            assertTrue(nodes.journal("source").stream().anyMatch(TransactionRecord.Broken.class::isInstance));
        }
    }

    private static List<Integer> stoppedBy(Nodes nodes, String service) throws IOException {
        return nodes.journal(service).stream()
                .filter(TransactionRecord.JobStopped.class::isInstance)
                .flatMap(record -> ((TransactionRecord.JobStopped) record).ranks().stream())
                .map(PlannedRank::rank)
                .toList();
    }

    @Tag("soak")
    @Test
    void shouldLeaveTheCopyStoppedWhenTheJobItselfHadStoppedTheRank() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = job("job", 2)) {
            TargetService target = nodes.target("target", job.checkpointer());
            SourceService source = nodes.source("source", LONG_PAUSE, target.address());
            LedgerJob.stop(job.pid(0));
            int before = job.stepsOf(0);
            ends(begin(source, job.job()), Outcome.COMMITTED);
            job.runsThere(1);
            assertTrue(LedgerJob.isStopped(job.copy(0)), "the job had stopped it");
            assertEquals(before, job.stepsOf(0));
            assertEquals(List.of(0), stoppedBy(nodes, "source"));
            assertEquals(List.of(0), stoppedBy(nodes, "target"));
            LedgerJob.goOn(job.copy(0));
            job.runsThere();
        }
    }

    @Tag("soak")
    @Test
    void shouldLeaveTheOriginalStoppedWhenTheJobItselfHadStoppedTheRankAndItIsRolledBack() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = job("job", 2)) {
            job.restarts(1, "read 1m", "await " + job.mark("held"), "open missing r");
            TargetService target = nodes.target("target", job.checkpointer());
            SourceService source = nodes.source("source", LONG_PAUSE, target.address());
            LedgerJob.stop(job.pid(0));
            int before = job.stepsOf(0);
            ends(begin(source, job.job(), new Cancellation(), whenHeld(job, "held")), Outcome.ROLLED_BACK, "rank 1");
            job.runsHere(1);
            assertTrue(LedgerJob.isStopped(job.pid(0)), "the job had stopped it");
            assertEquals(before, job.stepsOf(0));
            LedgerJob.goOn(job.pid(0));
            job.runsHere();
        }
    }

    @Tag("soak")
    @Test
    void shouldStopNothingAgainWhenASuspendHookHasStoppedTheJob() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = job("job", 1)) {
            TargetService target = nodes.target("target", job.checkpointer());
            SourceService source = nodes.source("source", LONG_PAUSE, target.address());
            JobHooks hooks = new JobHooks(
                    Optional.of(hook("suspend", "kill -STOP " + job.pid(0))), Optional.empty(), Optional.empty());
            ends(begin(source, job.job(job.checkpointer(), Map.of(), hooks)), Outcome.COMMITTED);
            job.runsThere();
        }
    }

    /** A held rank continues, on its user's request, before the copies are restored. */
    private void continuedWhileHeld(boolean stoppedBefore, boolean stoppedAgain, String words) throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = job("job", 2)) {
            job.restarts(1, "await " + job.mark("go"), "read 1m");
            TargetService target = nodes.target("target", job.checkpointer());
            SourceService source = nodes.source("source", LONG_PAUSE, target.address());
            if (stoppedBefore) {
                LedgerJob.stop(job.pid(0));
            }
            var migration = begin(source, job.job(), new Cancellation(), whenHeld(job, "held"));
            job.awaitMark("held");
            int before = job.stepsOf(0);
            LedgerJob.goOn(job.pid(0));
            Conditions.until("the held rank continues", () -> job.stepsOf(0) >= before + 3);
            if (stoppedAgain) {
                LedgerJob.stop(job.pid(0));
            }
            job.set("go");
            ends(migration, Outcome.ROLLED_BACK, "rank 0", words);
            job.runsHere();
            assertTrue(nodes.journal("source").stream().noneMatch(TransactionRecord.CommitDecided.class::isInstance));
        }
    }

    @Test
    void shouldRollBackWhenAHeldRankIsContinued() throws Exception {
        continuedWhileHeld(false, false, "is not held");
    }

    @Tag("soak")
    @Test
    void shouldRollBackWhenAHeldRankWasContinuedAndStoppedAgain() throws Exception {
        continuedWhileHeld(false, true, "has run while it was held");
    }

    @Tag("soak")
    @Test
    void shouldLetItRunWhenTheJobHadStoppedTheRankAndContinuesItWhileItIsHeld() throws Exception {
        continuedWhileHeld(true, false, "is not held");
    }
}
