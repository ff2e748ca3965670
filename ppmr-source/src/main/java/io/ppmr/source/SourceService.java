package io.ppmr.source;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.fuse.FuseMount;
import io.ppmr.fuse.MountOptions;
import io.ppmr.source.MigrationReport.Outcome;
import io.ppmr.source.image.OutgoingImageView;
import io.ppmr.source.rehearsal.Rehearsal;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The service of a compute node: takes what checkpointers write into its mount and has the target pull it. Between
 * migrations it holds its pool and its mount, and no thread of its own runs.
 */
public final class SourceService implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(SourceService.class);

    private final SourceSettings settings;
    private final ProcessTable processes;
    private final MeterRegistry meters;
    private final SourceMetrics metrics;
    private final BufferPool pool;
    private final FairClaims claims;
    private final OutgoingImageView view = new OutgoingImageView();
    private final ReentrantLock oneAtATime = new ReentrantLock();
    private FuseMount mount;

    public SourceService(SourceSettings settings) {
        this(settings, new SimpleMeterRegistry());
    }

    /**
     * A service that counts where somebody looks.
     *
     * @param meters where its meters are registered
     */
    public SourceService(SourceSettings settings, MeterRegistry meters) {
        this.settings = settings;
        this.meters = meters;
        this.processes = new ProcessTable();
        this.pool = new BufferPool(settings.pool());
        this.claims = new FairClaims(pool);
        this.metrics = new SourceMetrics(meters, pool, claims);
    }

    /** Mounts and warms up; when it returns a migration may be asked for. */
    public void start() throws IOException, InterruptedException {
        mount = FuseMount.mount(
                view, settings.mountPoint(), MountOptions.named("ppmr-source").forAllUsers());
        Rehearsal.run(settings.mountPoint(), view, pool, claims);
        LOG.info(
                "source is ready: images are written to {}, spare nodes: {}", settings.mountPoint(), settings.spares());
    }

    /** Everything that this service counts. */
    public MeterRegistry meters() {
        return meters;
    }

    /** Whether a migration is under way. */
    public boolean busy() {
        return oneAtATime.isLocked();
    }

    /**
     * Moves a job's processes to the target, on the caller's thread.
     *
     * @param watcher told of each step and of progress, on this thread
     * @throws IllegalStateException if a migration is under way already
     */
    public MigrationReport migrate(Job job, Consumer<MigrationProgress> watcher) throws InterruptedException {
        return migrate(UUID.randomUUID().toString(), job, new Cancellation(), watcher);
    }

    /**
     * The same under a name that the caller gives, with a way to call it off.
     *
     * @param id letters, digits, '-' and '_', at most 64
     * @param cancellation calls it off, from any thread
     */
    public MigrationReport migrate(String id, Job job, Cancellation cancellation, Consumer<MigrationProgress> watcher)
            throws InterruptedException {
        if (!oneAtATime.tryLock()) {
            throw new IllegalStateException("a migration is under way on this node already: wait for its end");
        }
        try {
            LOG.info(
                    "migration {}: job {}, {} ranks",
                    id,
                    job.name(),
                    job.ranks().size());
            MigrationReport report = migrateToFirst(id, job, cancellation, watcher);
            metrics.ended(report);
            LOG.info("migration {}: {} after {} s {}", id, report.outcome(), report.seconds(), report.reason());
            return report;
        } finally {
            oneAtATime.unlock();
        }
    }

    /** Asks the spare nodes in their order until one takes it; those that do not have done nothing to the originals. */
    private MigrationReport migrateToFirst(
            String id, Job job, Cancellation cancellation, Consumer<MigrationProgress> watcher)
            throws InterruptedException {
        List<InetSocketAddress> candidates;
        try {
            candidates = settings.spares().candidates();
        } catch (IOException e) {
            return record(id, job, watcher).report(Outcome.ROLLED_BACK, e.getMessage());
        }
        List<String> passedOver = new ArrayList<>();
        boolean allRefuse = true;
        for (int i = 0; ; i++) {
            InetSocketAddress target = candidates.get(i);
            LOG.info("migration {}: to {}", id, target);
            SourceSession session = new SourceSession(settings, target, pool, claims, view, metrics.hops(), id, i + 1);
            MigrationRecord journal = record(id, job, watcher);
            SourceMigration migration =
                    new SourceMigration(id, job, settings, session, processes, journal, cancellation);
            MigrationReport report = migration.run();
            boolean refused = report.outcome() == Outcome.REFUSED;
            if (!refused && !migration.notBegun()) {
                return report;
            }
            allRefuse &= refused;
            passedOver.add(report.reason());
            if (i + 1 == candidates.size()) {
                String reason = i == 0 ? report.reason() : "no spare node takes it: " + String.join("; ", passedOver);
                return report.with(allRefuse ? Outcome.REFUSED : Outcome.ROLLED_BACK, reason);
            }
            LOG.warn("migration {}: spare node {} is passed over: {}", id, target, report.reason());
        }
    }

    private MigrationRecord record(String id, Job job, Consumer<MigrationProgress> watcher) {
        return new MigrationRecord(
                id, job.checkpointer().name(), settings.pool().poolBytes(), metrics.steps(), watcher);
    }

    @Override
    public void close() throws IOException {
        if (mount != null) {
            mount.close();
        }
    }
}
