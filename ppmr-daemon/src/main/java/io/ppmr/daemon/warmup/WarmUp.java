package io.ppmr.daemon.warmup;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.OrphanedCommand;
import io.ppmr.checkpoint.RightsBounds;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.checkpoint.files.CarryPolicy;
import io.ppmr.daemon.log.ServiceLog;
import io.ppmr.fuse.StaleMount;
import io.ppmr.linux.Command;
import io.ppmr.linux.Folders;
import io.ppmr.linux.LogContext;
import io.ppmr.migration.node.JobFiles;
import io.ppmr.migration.node.NodeSettings;
import io.ppmr.migration.source.Cancellation;
import io.ppmr.migration.source.Job;
import io.ppmr.migration.source.MigrationLimits;
import io.ppmr.migration.source.MigrationOrder;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.SourceService;
import io.ppmr.migration.source.SourceSettings;
import io.ppmr.migration.source.SpareNodes;
import io.ppmr.migration.target.TargetRules;
import io.ppmr.migration.target.TargetService;
import io.ppmr.migration.target.TargetSettings;
import io.ppmr.migration.target.TargetSettings.RestoreTools;
import io.ppmr.target.session.TransferSettings;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.TransactionJournal;
import io.ppmr.transport.auth.Encryption;
import io.ppmr.transport.auth.PreSharedKey;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Migrations within this process, made before its service reports that it is ready. So the service's first migration
 * finds its code loaded and compiled. A second source and a second target are connected over loopback. They have
 * mounts, journals and a key of their own in the work directory. They move processes whose checkpoint is written in
 * small and in large requests.
 *
 * <p>{@link #run} keeps its time limit and never fails. One log line reports its progress. At the limit, a thread of
 * its own cancels and removes the running migration, and {@link #close} waits for that. The warm-up logs nothing else.
 * The service's main thread uses it.
 */
public final class WarmUp implements AutoCloseable {
    /** The default number of migrations. */
    public static final int MIGRATIONS = 12;
    /** The longest delay of a service's start. */
    public static final Duration LIMIT = Duration.ofSeconds(5);

    private static final Logger LOG = LoggerFactory.getLogger(WarmUp.class);
    private static final int RANKS = 4;
    private static final int CHUNKS = 16;
    private static final int CONNECTIONS = 4;
    private static final int LEAST_RATE = 1 << 20;
    private static final int KEY_BYTES = 32;
    private static final long PREFIXES_BYTES = 1 << 20;
    /** The time limit of each step of a migration. */
    private static final Duration STEP_LIMIT = Duration.ofSeconds(30);

    private static final String SOURCE = "source";
    private static final String TARGET = "target";
    private static final String TARGET_WORK = "target-work";
    private static final Duration CLOSE_LIMIT = Duration.ofSeconds(30);

    private static final List<String> SLEEP = List.of("/bin/sleep", "60");
    /** Small requests, because the JVM counts calls and not bytes, and then large ones. */
    private static final List<String> CHECKPOINT = Command.words(
            "/bin/sh -c %s warm-up {pid} {file}",
            "kill -STOP \"$1\" && { dd bs=512 count=256; dd bs=128k count=16; } < /dev/zero > \"$2\"");

    private static final List<String> RESTART = Command.words(
            "/bin/sh -c %s warm-up {file} {pidfile}",
            "{ dd bs=512 count=256; cat; } < \"$1\" > /dev/null; sleep 60 & kill -STOP $!; echo $! > \"$2\"");

    private final Path folder;
    private final Path journal;
    private final int chunkBytes;
    private final Duration limit;
    private final AtomicInteger moved = new AtomicInteger();
    private final Encryption encryption;
    private FutureTask<Void> task;
    private volatile Cancellation cancellation = new Cancellation();
    private volatile boolean over;

    /**
     * @param service its name, also of its folder in the work directory, which it removes
     * @param journal the journal of the service, not opened yet: with an open migration in it there is no warm-up,
     *     because ranks wait for the service
     * @param pool the pool of the service
     * @param limit the time limit for all migrations
     */
    public WarmUp(String service, Path workDirectory, Path journal, PoolGeometry pool, Duration limit) {
        this(service, workDirectory, journal, pool, limit, Encryption.CONTROL);
    }

    /** @param encryption of the service's connections, whose code is warmed up */
    public WarmUp(
            String service,
            Path workDirectory,
            Path journal,
            PoolGeometry pool,
            Duration limit,
            Encryption encryption) {
        this.encryption = encryption;
        this.journal = journal;
        this.folder = folder(service, workDirectory);
        this.chunkBytes = pool.chunkBytes();
        this.limit = limit;
    }

    private static Path folder(String service, Path workDirectory) {
        return workDirectory.toAbsolutePath().resolve(".warm-up-" + service);
    }

    /** Returns the mounts of a service's warm-up, which a service that was killed then leaves behind. */
    public static List<Path> mountPoints(String service, Path workDirectory) {
        Path folder = folder(service, workDirectory);
        return List.of(folder.resolve(SOURCE), folder.resolve(TARGET));
    }

    /**
     * Warms this process up. Called once.
     *
     * @param migrations the number of migrations; may be 0
     * @return the number of completed migrations
     */
    public int run(int migrations) throws InterruptedException {
        long startNs = System.nanoTime();
        try {
            if (migrations == 0 || ranksWait()) {
                LOG.info(
                        "no warm-up: {}", migrations == 0 ? "none is configured" : "the journal has an open migration");
                return 0;
            }
            task = new FutureTask<>(() -> ServiceLog.silently(() -> moveProcesses(migrations)));
            LogContext.thread(task, "ppmr-warm-up").start();
            task.get(startNs + limit.toNanos() - System.nanoTime(), TimeUnit.NANOSECONDS);
            LOG.info("warm-up: {} migrations in {} s", moved, seconds(startNs));
        } catch (TimeoutException e) {
            LOG.info(
                    "warm-up: stopped after {} of {} migrations in {} s; the first migration may be slow",
                    moved,
                    migrations,
                    seconds(startNs));
        } catch (IOException e) {
            failed(e);
        } catch (ExecutionException e) {
            failed(e.getCause());
        } finally {
            callOff();
        }
        return moved.get();
    }

    /** Waits until the migration that {@link #run} cancelled is removed. */
    @Override
    public void close() {
        callOff();
        if (task == null) {
            return;
        }
        try {
            task.get(CLOSE_LIMIT.toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            LOG.warn("the warm-up has not ended after {}: the next start clears {}", CLOSE_LIMIT, folder);
        } catch (ExecutionException e) {
            LOG.warn(
                    "what the warm-up had under way was not taken down: {}",
                    e.getCause().toString());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void callOff() {
        over = true;
        cancellation.cancel("the warm-up is over");
    }

    private static String seconds(long startNs) {
        return String.format(Locale.ROOT, "%.1f", (System.nanoTime() - startNs) / 1e9);
    }

    private void failed(Throwable cause) {
        LOG.warn(
                "the warm-up failed after {} migrations, and the service continues without it: the first real migration"
                        + " may be slower than later ones. The cause: {}",
                moved,
                cause.toString());
        LOG.debug("the warm-up failed", cause);
        task = null;
    }

    private boolean ranksWait() throws IOException {
        try (TransactionJournal opened = MappedJournal.in(journal)) {
            return !opened.open().isEmpty();
        }
    }

    private Void moveProcesses(int migrations) throws IOException, InterruptedException {
        endLeftCopies();
        clear();
        if (over) {
            return null;
        }
        Folders.create(folder, Folders.PRIVATE);
        PreSharedKey key = key().with(encryption);
        Checkpointer copier = CheckpointerSettings.CommandTool.streamed(CHECKPOINT, RESTART)
                .createDirect("command", NativePrograms.fromSystemProperty());
        PoolGeometry pool = new PoolGeometry(chunkBytes, CHUNKS);
        try (TargetService target = new TargetService(targetSettings(key, pool, copier))) {
            target.start();
            try (SourceService source = new SourceService(sourceSettings(key, pool, target.address()))) {
                source.start();
                while (moved.get() < migrations && !over) {
                    migrate(source, copier);
                }
            }
        } finally {
            clear();
        }
        return null;
    }

    /** Kills the copies of a service that was killed in its warm-up. */
    private void endLeftCopies() throws IOException {
        Path restarts = folder.resolve(TARGET_WORK);
        if (Files.isDirectory(restarts, LinkOption.NOFOLLOW_LINKS)) {
            try {
                OrphanedCommand.endAllMarked(restarts);
            } catch (CheckpointException e) {
                throw new IOException("copies of an earlier warm-up are left: " + e.getMessage(), e);
            }
        }
    }

    private boolean isThere() {
        return Files.isDirectory(folder, LinkOption.NOFOLLOW_LINKS);
    }

    /** Removes the folder, also that of a service that was killed in its warm-up. */
    private void clear() throws IOException, InterruptedException {
        if (isThere()) {
            StaleMount.detachDead(folder.resolve(SOURCE));
            StaleMount.detachDead(folder.resolve(TARGET));
            WorkDirectories.remove(folder);
        }
    }

    private void migrate(SourceService source, Checkpointer copier) throws IOException, InterruptedException {
        cancellation = new Cancellation();
        if (over) {
            return;
        }
        List<Process> originals = new ArrayList<>();
        List<Integer> restored = new ArrayList<>();
        try {
            List<Job.RankProcess> ranks = new ArrayList<>();
            for (int rank = 0; rank < RANKS; rank++) {
                Process original = new ProcessBuilder(SLEEP).start();
                originals.add(original);
                ranks.add(new Job.RankProcess(rank, (int) original.pid()));
            }
            Job job = new Job("warm-up", new JobUser(0, 0), copier, ranks);
            MigrationReport report = source.migrate(
                    "warm-up-" + moved,
                    new MigrationOrder(job, List.of(), "the warm-up"),
                    cancellation,
                    progress -> LOG.debug("{}", progress));
            report.ranks().forEach(rank -> restored.addAll(rank.pids()));
            if (report.outcome() == MigrationReport.Outcome.COMMITTED) {
                moved.incrementAndGet();
            } else if (!over) {
                throw new IOException("its migration ended with " + report.outcome() + ": " + report.reason());
            }
        } finally {
            originals.forEach(Process::destroyForcibly);
            restored.forEach(pid -> ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly));
        }
    }

    private TargetSettings targetSettings(PreSharedKey key, PoolGeometry pool, Checkpointer copier) throws IOException {
        return new TargetSettings(
                new InetSocketAddress(InetAddress.getLoopbackAddress(), 0),
                new NodeSettings(made(TARGET), made(TARGET_WORK), STEP_LIMIT),
                folder.resolve("target-journal"),
                pool,
                new TransferSettings(folder, 0, PREFIXES_BYTES, STEP_LIMIT),
                key,
                new RestoreTools(List.of(copier)),
                new TargetRules(STEP_LIMIT, true, true, 1, List.of()),
                Optional.empty(),
                TargetSettings.Commands.NONE,
                CarryPolicy.NONE,
                RightsBounds.DEFAULT_FILES);
    }

    private SourceSettings sourceSettings(PreSharedKey key, PoolGeometry pool, InetSocketAddress target)
            throws IOException {
        return new SourceSettings(
                new NodeSettings(made(SOURCE), made("source-work"), STEP_LIMIT),
                folder.resolve("source-journal"),
                pool,
                key,
                new SpareNodes.Listed(List.of(target)),
                new SourceSettings.Connecting(CONNECTIONS, STEP_LIMIT),
                new MigrationLimits(STEP_LIMIT, STEP_LIMIT, STEP_LIMIT, STEP_LIMIT, 1, LEAST_RATE),
                SourceSettings.USUAL_RATE_TIME,
                RightsBounds.DEFAULT_FILES,
                Optional.empty(),
                JobFiles.USUAL);
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
