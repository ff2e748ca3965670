package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.migration.source.Cancellation;
import io.ppmr.migration.source.JobHooks;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.system.transport.ChunkWay;
import io.ppmr.system.transport.FaultyPuller.Drawn;
import io.ppmr.system.transport.FaultyPuller.PullFault;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.transport.TransportChoice;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntFunction;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Tests what a bad network does to chunks, and when fsync returns. */
@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class FaultIT {
    private static final List<String> CHECKPOINT = List.of("open image wcx", "write 24m 1m", "close");
    private static final List<String> RESTART = List.of("open image r", "read 24m 100000", "eof");

    @TempDir
    private Path directory;

    /**
     * @param way how chunks get to the target
     * @param faultOf the fault of each chunk by its number, from 0
     */
    private ServicePair pair(ReplayJob job, ChunkWay way, IntFunction<Drawn> faultOf) throws Exception {
        return pair(job, way, faultOf, Duration.ofSeconds(6));
    }

    private ServicePair pair(ReplayJob job, ChunkWay way, IntFunction<Drawn> faultOf, Duration stall) throws Exception {
        AtomicInteger chunks = new AtomicInteger();
        TransportChoice choice = new TransportChoice(
                TransportChoice.Preference.RDMA,
                () -> new FaultyTransport(way, () -> faultOf.apply(chunks.getAndIncrement())));
        return new ServicePair(
                directory,
                ServicePair.Options.with(job.checkpointer()).staging(64 << 20).stall(stall),
                choice,
                choice);
    }

    private static Drawn onlyAt(int pull, int at, PullFault fault) {
        return pull == at ? new Drawn(fault, 0) : Drawn.NOTHING;
    }

    @ParameterizedTest(name = "chunk {0}, {1}")
    @CsvSource({"0, PULLED", "17, PULLED", "0, SENT", "17, SENT", "17, WRITTEN"})
    void shouldFailByNameWhenAChunkIsChangedOnTheWay(int chunk, ChunkWay way) throws Exception {
        try (ReplayJob job = new ReplayJob(directory).rank(CHECKPOINT, RESTART);
                ServicePair pair = pair(job, way, pull -> onlyAt(pull, chunk, PullFault.CORRUPT))) {
            job.rollsBack(pair, "/image", "arrived changed (CRC32C", "check memory and network");
        }
    }

    @Tag("soak")
    @ParameterizedTest
    @EnumSource(ChunkWay.class)
    void shouldFailByNameWhenAChunkDoesNotCome(ChunkWay way) throws Exception {
        try (ReplayJob job = new ReplayJob(directory).rank(CHECKPOINT, RESTART);
                ServicePair pair = pair(job, way, pull -> onlyAt(pull, 30, PullFault.FAIL))) {
            job.rollsBack(pair, "a fault was injected");
        }
    }

    @ParameterizedTest(name = "retained {0}, {1}")
    @CsvSource({"true, PULLED", "false, SENT"})
    void shouldMoveEveryByteWhenChunksOvertakeEachOther(boolean retained, ChunkWay way) throws Exception {
        SplittableRandom random = new SplittableRandom(retained ? 7 : 8);
        ReplayJob made = new ReplayJob(directory);
        try (ReplayJob job = (retained ? made.retained() : made)
                        .rank(List.of("open image wcx", "scatter 0 24m 70000 5", "close"), RESTART)
                        .rank(CHECKPOINT, RESTART);
                ServicePair pair = pair(job, way, pull -> new Drawn(PullFault.DELAY, delay(random)))) {
            job.commits(pair);
        }
    }

    /** The rows that the gate leaves out. */
    @Tag("soak")
    @ParameterizedTest(name = "retained {0}, {1}")
    @CsvSource({"true, SENT", "true, WRITTEN", "false, PULLED", "false, WRITTEN"})
    void shouldMoveEveryByteWhenChunksOvertakeEachOtherAsWell(boolean retained, ChunkWay way) throws Exception {
        shouldMoveEveryByteWhenChunksOvertakeEachOther(retained, way);
    }

    private static long delay(SplittableRandom random) {
        synchronized (random) {
            return random.nextLong(40);
        }
    }

    @Tag("soak")
    @Test
    void shouldMoveTheSameProcessesWhenTheirFirstMigrationFailed() throws Exception {
        try (ReplayJob job = new ReplayJob(directory).rank(CHECKPOINT, RESTART);
                ServicePair pair = pair(job, ChunkWay.SENT, pull -> onlyAt(pull, 3, PullFault.CORRUPT))) {
            job.rollsBack(pair, "CRC32C");
            job.commits(pair);
        }
    }

    @Tag("soak")
    @ParameterizedTest
    @EnumSource(ChunkWay.class)
    void shouldReturnFromFsyncWhenTheBytesAreWithTheTarget(ChunkWay way) throws Exception {
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(
                                List.of(
                                        "open image wcxn",
                                        "write 300000",
                                        "least 700 fsync",
                                        "least 0 fsync",
                                        "write 128k",
                                        "least 700 fsync",
                                        "close"),
                                List.of("open image r", "read 431072"));
                ServicePair pair = pair(job, way, pull -> new Drawn(PullFault.DELAY, 750))) {
            MigrationReport report = job.commits(pair);
            assertTrue(report.times().seconds() < 5, "it took " + report.times().seconds() + " s");
        }
    }

    /** A rank is written, and the migration's own thread waits for its last chunk when this happens. */
    @ParameterizedTest
    @ValueSource(strings = {"called off"})
    void shouldRollBackAtOnceWhenTheLastChunkIsStillUnderWay(String what) throws Exception {
        // The delay is longer than the silence limit of ten seconds.
        IntFunction<Drawn> late = chunk -> chunk == 1 ? new Drawn(PullFault.DELAY, 15_000) : Drawn.NOTHING;
        try (ReplayJob job = new ReplayJob(directory)) {
            // A whole chunk, and the last one.
            job.rank(List.of("open image wcx", "write 400000", "close"), List.of("open image r", "read 400000"));
            job.rank(List.of("await " + job.outside("never")), List.of("await " + job.outside("never")));
            try (ServicePair pair = pair(job, ChunkWay.SENT, late, Duration.ofMinutes(1))) {
                Cancellation cancellation = new Cancellation();
                CompletableFuture<MigrationReport> migration = CompletableFuture.supplyAsync(() -> {
                    try {
                        return job.migrateWith(pair, JobHooks.NONE, cancellation);
                    } catch (InterruptedException e) {
                        throw new IllegalStateException(e);
                    }
                });
                Conditions.until("the migration's thread waits for the chunk", FaultIT::anEndWaits);
                if (what.equals("called off")) {
                    assertTrue(cancellation.cancel("a test has called it off"));
                } else {
                    pair.target().close();
                }
                MigrationReport report = migration.get(Patience.of(60), TimeUnit.SECONDS);
                assertEquals(MigrationReport.Outcome.ROLLED_BACK, report.outcome(), report.reason());
                assertFalse(report.reason().contains("accepted no awaited chunk"), report.reason());
                assertEquals(
                        what.equals("called off"),
                        report.reason().contains("a test has called it off"),
                        report.reason());
                assertTrue(job.originalsRun());
            }
        }
    }

    /** The rows that the gate leaves out. */
    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {"target lost"})
    void shouldRollBackAtOnceWhenTheLastChunkIsStillUnderWayAsWell(String what) throws Exception {
        shouldRollBackAtOnceWhenTheLastChunkIsStillUnderWay(what);
    }

    /** Returns true if a thread of this JVM ends a file and waits for its chunks. */
    private static boolean anEndWaits() {
        return Thread.getAllStackTraces().values().stream()
                .map(stack ->
                        Stream.of(stack).map(StackTraceElement::getMethodName).toList())
                .anyMatch(methods -> methods.contains("awaitArrival") && methods.contains("endRank"));
    }
}
