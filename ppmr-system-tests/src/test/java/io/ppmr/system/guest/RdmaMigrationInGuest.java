package io.ppmr.system.guest;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.CheckpointerSettings.NamespacePolicy;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.RightsBounds;
import io.ppmr.checkpoint.files.CarryPolicy;
import io.ppmr.migration.RankSurroundings;
import io.ppmr.migration.node.JobFiles;
import io.ppmr.migration.node.NodeSettings;
import io.ppmr.migration.source.Job;
import io.ppmr.migration.source.JobHooks;
import io.ppmr.migration.source.JobHooks.JobNotes;
import io.ppmr.migration.source.MigrationLimits;
import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.SourceService;
import io.ppmr.migration.source.SourceSettings;
import io.ppmr.migration.source.SpareNodes;
import io.ppmr.migration.target.TargetRules;
import io.ppmr.migration.target.TargetService;
import io.ppmr.migration.target.TargetSettings;
import io.ppmr.migration.target.TargetSettings.RestoreTools;
import io.ppmr.protocol.data.RdmaMode;
import io.ppmr.target.session.TransferSettings;
import io.ppmr.testbed.Patience;
import io.ppmr.transport.AnswerBook;
import io.ppmr.transport.ChunkPuller;
import io.ppmr.transport.Loopback;
import io.ppmr.transport.RemoteBlock;
import io.ppmr.transport.SourcePath;
import io.ppmr.transport.Transport;
import io.ppmr.transport.TransportChoice;
import io.ppmr.transport.auth.PreSharedKey;
import io.ppmr.transport.rdma.RdmaTransport;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Real migrations over soft-RoCE, with both mounts, the job that checkpoints itself, and a device for each service. The
 * successful one uses RDMA Write, and the other one RDMA Read.
 */
@Timeout(value = 200, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class RdmaMigrationInGuest {
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final Path PROGRAMS = HOME.resolve("ppmr-checkpoint/target/native-test");
    private static final JobUser USER = new JobUser(20001, 20001);
    private static final Duration LONG = Patience.of(Duration.ofSeconds(90));
    private static final Duration CONNECT = Patience.of(Duration.ofSeconds(60));
    /** This is longer than a device's time limit for its peer, so that the control connection outlives it. */
    private static final Duration SILENCE = Duration.ofSeconds(80);

    private static final long DOWN_NS = TimeUnit.SECONDS.toNanos(14);
    private static final int PASSES = 160;
    private static final int PACE_MS = 250;
    private static final int MIB = 1 << 20;

    @TempDir
    private Path directory;

    private final AtomicReference<BufferPool> pool = new AtomicReference<>();
    private SourceService source;
    private TargetService target;
    private Process original;
    private final List<Integer> copies = new ArrayList<>();

    private void start(RdmaMode mode) throws Exception {
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxrwxrwx"));
        PreSharedKey key =
                new PreSharedKey("a key that only these tests know, 32+".getBytes(StandardCharsets.US_ASCII));
        PoolGeometry geometry = PoolGeometry.of(8L * MIB, 128 << 10);
        target = new TargetService(
                new TargetSettings(
                        new InetSocketAddress(RdmaPair.target(), 0),
                        new NodeSettings(
                                Files.createDirectory(directory.resolve("target")),
                                Files.createDirectory(directory.resolve("target-work")),
                                SILENCE),
                        directory.resolve("target-journal"),
                        geometry,
                        new TransferSettings(Path.of("/dev/shm"), 0, 16 * MIB, SILENCE),
                        key,
                        new RestoreTools(List.of(checkpointer())),
                        new TargetRules(LONG, false, true, 1, List.of()),
                        Optional.empty(),
                        TargetSettings.Commands.NONE,
                        CarryPolicy.NONE,
                        RightsBounds.DEFAULT_FILES),
                new TransportChoice(
                        TransportChoice.Preference.AUTO, TransportChoice.RdmaModePreference.AUTO, RdmaTransport::load),
                new SimpleMeterRegistry(),
                RankSurroundings.NONE);
        target.start();
        source = new SourceService(
                new SourceSettings(
                        new NodeSettings(
                                Files.createDirectory(directory.resolve("source")),
                                Files.createDirectory(directory.resolve("source-work")),
                                SILENCE),
                        directory.resolve("source-journal"),
                        geometry,
                        key,
                        SpareNodes.of(target.address()),
                        new SourceSettings.Connecting(2, CONNECT),
                        new MigrationLimits(LONG, LONG, LONG, LONG, 1, 1 << 20),
                        SourceSettings.USUAL_RATE_TIME,
                        RightsBounds.DEFAULT_FILES,
                        Optional.empty(),
                        JobFiles.USUAL),
                new TransportChoice(
                        TransportChoice.Preference.RDMA,
                        TransportChoice.RdmaModePreference.valueOf(mode.name()),
                        one -> new Noting(RdmaTransport.load(one), pool)),
                (job, ranks) -> new JobNotes(job, ranks, Map.of(), JobHooks.NONE),
                new SimpleMeterRegistry(),
                RankSurroundings.NONE);
        source.start();
    }

    /** RDMA that stores its pool. */
    private record Noting(RdmaTransport inner, AtomicReference<BufferPool> pool) implements Transport {
        @Override
        public String unusable() {
            return inner.unusable();
        }

        @Override
        public String unreachable(InetAddress peer, Duration deadline) {
            return inner.unreachable(peer, deadline);
        }

        @Override
        public TransportListener listen(BufferPool targets, InetAddress address) throws IOException {
            return inner.listen(targets, address);
        }

        @Override
        public SourcePath connect(
                BufferPool sources, InetSocketAddress at, Duration deadline, Consumer<String> onFailure)
                throws IOException {
            pool.set(sources);
            return inner.connect(sources, at, deadline, onFailure);
        }
    }

    /**
     * Reads all memory that a target could read by RDMA in the session of the next job. Returns the number of bytes
     * that are not zero.
     */
    private static int leftForTheNextTarget(BufferPool pool) throws Exception {
        PoolGeometry geometry = pool.geometry();
        BufferPool reader = new BufferPool(geometry);
        AnswerBook answers = new AnswerBook();
        RdmaPair pair = RdmaPair.join(RdmaTransport.load(RdmaMode.READ), pool, reader, reason -> {});
        int left = 0;
        try (ChunkPuller puller = pair.puller(answers)) {
            for (int chunk = 0; chunk < geometry.chunkCount(); chunk++) {
                int pull = chunk;
                puller.pull(
                        pull,
                        new RemoteBlock()
                                .set(
                                        pair.exporter().address(chunk),
                                        pair.exporter().key(),
                                        geometry.chunkBytes()),
                        chunk,
                        0);
                Loopback.until("a chunk is read", LONG, () -> answers.answer(pull) != null);
                assertEquals(AnswerBook.PULLED, answers.answer(pull));
                for (int i = 0; i < geometry.chunkBytes(); i++) {
                    left += reader.buffer(chunk).get(i) == 0 ? 0 : 1;
                }
            }
        } finally {
            pair.exporter().close();
        }
        return left;
    }

    private static Checkpointer checkpointer() {
        return new CheckpointerSettings.Blcr(
                        PROGRAMS.resolve("cr_checkpoint").toString(),
                        PROGRAMS.resolve("cr_restart").toString(),
                        false,
                        NamespacePolicy.AUTO)
                .create("blcr", new NativePrograms(HOME.resolve("ppmr-checkpoint/target/native")));
    }

    @AfterEach
    void stop() throws IOException {
        for (int copy : copies) {
            ProcessHandle.of(copy).ifPresent(ProcessHandle::destroyForcibly);
        }
        if (original != null) {
            original.destroyForcibly();
        }
        try {
            if (source != null) {
                source.close();
            }
        } finally {
            if (target != null) {
                target.close();
            }
        }
    }

    @Test
    void shouldMoveTheSelfCheckpointingJobOverSoftRoce() throws Exception {
        start(RdmaMode.WRITE);
        List<String> computation = startJob(16);
        MigrationReport report = migrate(progress -> {});
        assertEquals(MigrationReport.Outcome.COMMITTED, report.outcome(), report.reason());
        String way = "rdma: rxe0, peer 10.77.0.2, by RDMA Write";
        assertEquals(way, source.transport());
        assertEquals(way.replace("rxe0, peer 10.77.0.2", "rxe1, peer 10.77.0.1"), target.transport());
        assertTrue(original.waitFor(60, TimeUnit.SECONDS), "the original is gone");
        assertEquals(0, leftForTheNextTarget(pool.get()), "bytes of this job that the next one's target could read");
        int atEnd = passes();
        assertTrue(atEnd < PASSES, "it was moved while it ran");
        Loopback.until("the copy has computed to its end", LONG, () -> Files.exists(directory.resolve("out")));
        computation.add("--expect");
        assertEquals(
                GuestLink.run(computation.toArray(String[]::new)).strip(),
                Files.readString(directory.resolve("out")).strip());
    }

    @Test
    void shouldLetTheOriginalGoOnAndNameTheStatusWhenTheLinkGoesDownInMidTransfer() throws Exception {
        start(RdmaMode.READ);
        startJob(128);
        AtomicBoolean cut = new AtomicBoolean();
        Thread mender = new Thread(() -> {
            try {
                GuestLink.downFor(RdmaMode.READ);
                long untilNs = System.nanoTime() + DOWN_NS;
                while (System.nanoTime() - untilNs < 0) {
                    LockSupport.parkNanos(untilNs - System.nanoTime());
                }
                GuestLink.up();
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        });
        MigrationReport report = migrate(progress -> {
            if (progress.arrivedBytes() > 4 * MIB && cut.compareAndSet(false, true)) {
                mender.start();
            }
        });
        mender.join(LONG.toMillis());
        assertTrue(cut.get(), "the link was taken down in mid-transfer");
        assertEquals(MigrationReport.Outcome.ROLLED_BACK, report.outcome(), report.reason());
        assertTrue(report.reason().contains("IBV_WC_RETRY_EXC_ERR"), report.reason());
        int before = passes();
        Loopback.until("the original continues", LONG, () -> passes() > before);
        assertTrue(original.isAlive());
    }

    private MigrationReport migrate(Consumer<MigrationProgress> watcher) throws InterruptedException {
        Job job = new Job("self", USER, checkpointer(), List.of(new Job.RankProcess(0, (int) original.pid())));
        MigrationReport report = source.migrate(job, watcher);
        report.ranks().forEach(rank -> copies.addAll(rank.pids()));
        return report;
    }

    /** Starts the job with this amount of memory and waits until it computes. Returns the words of its computation. */
    private List<String> startJob(int sizeMib) throws Exception {
        List<String> computation = new ArrayList<>(List.of(
                PROGRAMS.resolve("selfckpt-job").toString(),
                "--size",
                String.valueOf((long) sizeMib * MIB),
                "--passes",
                String.valueOf(PASSES),
                "--seed",
                "7"));
        List<String> words =
                new ArrayList<>(List.of("setpriv", "--reuid", "20001", "--regid", "20001", "--clear-groups"));
        words.addAll(computation);
        words.addAll(List.of(
                "--out",
                directory.resolve("out").toString(),
                "--progress",
                directory.resolve("progress").toString(),
                "--pace",
                String.valueOf(PACE_MS)));
        original = new ProcessBuilder(words)
                .redirectErrorStream(true)
                .redirectOutput(directory.resolve("job.log").toFile())
                .start();
        Loopback.until("the job computes", LONG, () -> passes() >= 2);
        return computation;
    }

    private int passes() throws IOException {
        Path progress = directory.resolve("progress");
        return Files.exists(progress) ? Files.readAllLines(progress).size() : 0;
    }
}
