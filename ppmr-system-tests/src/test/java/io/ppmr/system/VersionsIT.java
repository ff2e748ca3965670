package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.migration.node.FileComparison;
import io.ppmr.migration.source.Cancellation;
import io.ppmr.migration.source.MigrationOrder;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.migration.source.SourceService;
import io.ppmr.migration.target.TargetService;
import io.ppmr.testbed.Patience;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Moves between services of which one is limited to the protocol of the release before. */
@Timeout(value = 180, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class VersionsIT {
    private static final Duration LONG_PAUSE = Duration.ofMinutes(5);
    private static final long WAIT_S = Patience.of(90);

    @TempDir
    private Path directory;

    private static MigrationReport move(SourceService source, LedgerJob job, InetSocketAddress... to) throws Exception {
        return CompletableFuture.supplyAsync(() -> {
                    try {
                        return source.migrate(
                                "m" + System.nanoTime(),
                                new MigrationOrder(job.job(), List.of(to), "a test"),
                                new Cancellation(),
                                progress -> {});
                    } catch (InterruptedException e) {
                        Thread.currentThread().interrupt();
                        throw new IllegalStateException(e);
                    }
                })
                .get(WAIT_S, TimeUnit.SECONDS);
    }

    /** Returns the agreed version and the boot ID of each peer in the journal of a service. */
    private static List<String> peers(Nodes nodes, String name) throws IOException {
        return nodes.journal(name).stream()
                .filter(TransactionRecord.PeerNode.class::isInstance)
                .map(TransactionRecord.PeerNode.class::cast)
                .map(peer -> peer.protocol() + " " + peer.bootId())
                .toList();
    }

    @Test
    void shouldMoveWhenOneOfTwoTargetsIsOfTheReleaseBefore() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = new LedgerJob(directory.resolve("job"), 2)) {
            TargetService newer = nodes.target("newer", job.checkpointer());
            nodes.versions(9, 8);
            TargetService older = nodes.target("older", job.checkpointer());
            nodes.versions(10, 9);
            SourceService source = nodes.source("source", LONG_PAUSE);
            MigrationReport report = move(source, job, newer.address(), older.address());
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            job.runsThere();
            String kernel = FileComparison.kernel();
            assertEquals(List.of("10 " + kernel, "9 "), peers(nodes, "source"));
            assertEquals(List.of("10 " + kernel), peers(nodes, "newer"));
            assertEquals(List.of("9 "), peers(nodes, "older"));
        }
    }

    @Test
    void shouldMoveAndRollBackWhenTheSourceIsOfTheReleaseBefore() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = new LedgerJob(directory.resolve("job"), 1);
                LedgerJob staying = new LedgerJob(directory.resolve("staying"), 1)) {
            staying.restartsBy("failing", 0, "open missing r");
            TargetService target = nodes.target("target", job.checkpointer());
            TargetService failing = nodes.target("failing", staying.checkpointer("failing", true));
            nodes.versions(9, 8);
            SourceService source = nodes.source("source", LONG_PAUSE);
            assertEquals(Outcome.COMMITTED, move(source, job, target.address()).outcome());
            job.runsThere();
            assertEquals(List.of("9 "), peers(nodes, "target"));
            MigrationReport back = move(source, staying, failing.address());
            assertEquals(Outcome.ROLLED_BACK, back.outcome(), back.reason());
            staying.runsHere();
        }
    }

    @Test
    void shouldRefuseByNameWhenThereIsNoCommonVersion() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = new LedgerJob(directory.resolve("job"), 1)) {
            nodes.versions(8, 7);
            TargetService target = nodes.target("target", job.checkpointer());
            nodes.versions(10, 9);
            SourceService source = nodes.source("source", LONG_PAUSE);
            MigrationReport report = move(source, job, target.address());
            assertTrue(
                    report.reason()
                            .contains("has no version of the protocol in common with this service, which has version"
                                    + " 10 (and 9)"),
                    report.reason());
            job.runsHere();
        }
    }
}
