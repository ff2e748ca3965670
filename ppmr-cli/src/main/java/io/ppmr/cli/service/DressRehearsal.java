package io.ppmr.cli.service;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.logging.ServiceLog;
import io.ppmr.source.Cancellation;
import io.ppmr.source.Job;
import io.ppmr.source.MigrationOrder;
import io.ppmr.source.MigrationReport;
import io.ppmr.source.SourceService;
import io.ppmr.source.SourceSettings;
import io.ppmr.source.SpareNodes;
import io.ppmr.source.TransactionSettings;
import io.ppmr.target.TargetService;
import io.ppmr.target.TargetSettings;
import io.ppmr.target.session.TransferSettings;
import io.ppmr.transaction.MappedJournal;
import io.ppmr.transaction.TransactionJournal;
import io.ppmr.transport.TransportWish;
import io.ppmr.transport.auth.PreSharedKey;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Whole migrations within this process, before its service says that it is ready: a second source and a second target,
 * joined over loopback, move a few processes that sleep. The services' own warm-ups drive the data path; this one runs
 * everything around it once (handshake, commands, votes, journals), which a JVM does several times slower the first
 * time. What goes wrong here is said in the log, and the service starts all the same. Used by the main thread.
 */
public final class DressRehearsal {
    private static final Logger LOG = LoggerFactory.getLogger(DressRehearsal.class);
    private static final String DIRECTORY = ".rehearsal";
    private static final int RANKS = 4;
    private static final int CHUNKS = 16;
    private static final int CONNECTIONS = 2;
    private static final int KEY_BYTES = 32;
    private static final long HEADS_BYTES = 1 << 20;
    private static final Duration LIMIT = Duration.ofSeconds(5);
    /** No further migration begins after this: on a slow machine one is better than none. */
    private static final Duration ENOUGH = Duration.ofSeconds(4);

    private static final List<String> SLEEP = List.of("/bin/sleep", "30");
    private static final List<String> CHECKPOINT = List.of(
            "/bin/sh", "-c", "kill -STOP \"$1\" && head -c 300000 /dev/zero > \"$2\"", "rehearsal", "{pid}", "{file}");
    private static final List<String> RESTART = List.of(
            "/bin/sh",
            "-c",
            "cat \"$1\" > /dev/null; sleep 30 & kill -STOP $!; echo $! > \"$2\"",
            "rehearsal",
            "{file}",
            "{pidfile}");

    private final Path folder;
    private final Path journal;
    private final int chunkBytes;

    /**
     * @param workDirectory a folder of its own is made and removed there
     * @param journal of the service that is to be warmed, which has not opened it yet: with a migration open there
     *     nothing is rehearsed, since ranks wait for the service
     * @param pool of that service
     */
    public DressRehearsal(Path workDirectory, Path journal, PoolGeometry pool) {
        this.journal = journal;
        this.folder = workDirectory.toAbsolutePath().resolve(DIRECTORY);
        this.chunkBytes = pool.chunkBytes();
    }

    /**
     * Runs it: a dozen migrations take about three seconds; on a machine that is slow it makes fewer.
     *
     * @param migrations how many; none is fine
     */
    public void run(int migrations) throws InterruptedException {
        long startNs = System.nanoTime();
        try {
            if (migrations == 0 || ranksWait()) {
                return;
            }
            WorkDirectories.remove(folder);
            Files.createDirectories(folder);
            // Nothing of it is in the log: an operator would take its migrations for real ones.
            int moved = ServiceLog.hushed(() -> moveAbout(migrations, startNs + ENOUGH.toNanos()));
            LOG.info(
                    "dress rehearsal: {} migrations of {} processes within this service in {} s",
                    moved,
                    RANKS,
                    (System.nanoTime() - startNs) / 1e9);
        } catch (IOException | RuntimeException e) {
            LOG.warn(
                    "the dress rehearsal failed, so the first migration may be slower than later ones: {}",
                    e.getMessage(),
                    e);
        }
    }

    private boolean ranksWait() throws IOException {
        try (TransactionJournal opened = MappedJournal.in(journal)) {
            return !opened.open().isEmpty();
        }
    }

    private int moveAbout(int migrations, long deadlineNs) throws IOException, InterruptedException {
        PreSharedKey key = key();
        Checkpointer sleeper = CheckpointerSettings.Command.streamed(CHECKPOINT, RESTART)
                .createDirect(NativePrograms.fromSystemProperty());
        PoolGeometry pool = new PoolGeometry(chunkBytes, CHUNKS);
        try (TargetService target = new TargetService(targetSettings(key, pool, sleeper))) {
            target.startCold();
            try (SourceService source = new SourceService(sourceSettings(key, pool, target.address()))) {
                source.startCold();
                int moved = 0;
                while (moved < migrations && System.nanoTime() - deadlineNs < 0) {
                    migrate(source, sleeper, moved);
                    moved++;
                }
                return moved;
            }
        } finally {
            WorkDirectories.remove(folder);
        }
    }

    private static void migrate(SourceService source, Checkpointer sleeper, int number)
            throws IOException, InterruptedException {
        List<Process> originals = new ArrayList<>();
        List<Integer> copies = new ArrayList<>();
        try {
            List<Job.RankProcess> ranks = new ArrayList<>();
            for (int rank = 0; rank < RANKS; rank++) {
                Process original = new ProcessBuilder(SLEEP).start();
                originals.add(original);
                ranks.add(new Job.RankProcess(rank, (int) original.pid()));
            }
            Job job = new Job("rehearsal", new JobUser(0, 0), sleeper, ranks);
            MigrationReport report = source.migrate(
                    "rehearsal-" + number,
                    new MigrationOrder(job, List.of(), "the dress rehearsal"),
                    new Cancellation(),
                    progress -> LOG.debug("{}", progress));
            report.ranks().forEach(moved -> copies.addAll(moved.pids()));
            if (report.outcome() != MigrationReport.Outcome.COMMITTED) {
                throw new IOException("its migration ended with " + report.outcome() + ": " + report.reason());
            }
        } finally {
            originals.forEach(Process::destroyForcibly);
            copies.forEach(pid -> ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly));
        }
    }

    private TargetSettings targetSettings(PreSharedKey key, PoolGeometry pool, Checkpointer sleeper)
            throws IOException {
        return new TargetSettings(
                new InetSocketAddress(InetAddress.getLoopbackAddress(), 0),
                made("target"),
                made("target-work"),
                pool,
                new TransferSettings(folder, 0, HEADS_BYTES, LIMIT),
                key,
                List.of(sleeper),
                LIMIT,
                LIMIT,
                1,
                folder.resolve("target-journal"),
                Optional.empty(),
                true,
                TransportWish.TCP,
                Set.of(),
                Map.of(),
                Map.of());
    }

    private SourceSettings sourceSettings(PreSharedKey key, PoolGeometry pool, InetSocketAddress target)
            throws IOException {
        return new SourceSettings(
                made("source"),
                made("source-work"),
                pool,
                key,
                new SpareNodes.Listed(List.of(target)),
                CONNECTIONS,
                LIMIT,
                LIMIT,
                LIMIT,
                LIMIT,
                LIMIT,
                new TransactionSettings(folder.resolve("source-journal"), LIMIT, 1, Optional.empty()));
    }

    private Path made(String name) throws IOException {
        return Files.createDirectory(folder.resolve(name));
    }

    private static PreSharedKey key() {
        byte[] key = new byte[KEY_BYTES];
        new SecureRandom().nextBytes(key);
        return new PreSharedKey(key);
    }
}
