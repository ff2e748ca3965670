package io.ppmr.source;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.doctor.NodeFactsSource;
import io.ppmr.doctor.NodeProbe;
import io.ppmr.fuse.FuseMount;
import io.ppmr.fuse.MountOptions;
import io.ppmr.source.image.OutgoingImageView;
import io.ppmr.source.rehearsal.Rehearsal;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
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
    private final NodeFactsSource node;
    private final ProcessTable processes;
    private final MeterRegistry meters = new SimpleMeterRegistry();
    private final SourceMetrics metrics = new SourceMetrics(meters);
    private final BufferPool pool;
    private final FairClaims claims;
    private final OutgoingImageView view = new OutgoingImageView();
    private final ReentrantLock oneAtATime = new ReentrantLock();
    private volatile SourceSession current;
    private FuseMount mount;

    public SourceService(SourceSettings settings) {
        this(settings, new NodeProbe(Path.of("/"), 0, settings.pool().chunkBytes(), List.of()));
    }

    /** A service that takes the node for what somebody else says of it. */
    public SourceService(SourceSettings settings, NodeFactsSource node) {
        this.settings = settings;
        this.node = node;
        this.processes = new ProcessTable();
        this.pool = new BufferPool(settings.pool());
        this.claims = new FairClaims(pool);
    }

    /** Mounts and warms up; when it returns a migration may be asked for. */
    public void start() throws IOException, InterruptedException {
        mount = FuseMount.mount(
                view, settings.mountPoint(), MountOptions.named("ppmr-source").forAllUsers());
        Rehearsal.run(settings.mountPoint(), view, pool, claims);
        LOG.info("source is ready: images are written to {}, target {}", settings.mountPoint(), settings.target());
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
        if (!oneAtATime.tryLock()) {
            throw new IllegalStateException("a migration is under way on this node already: wait for its end");
        }
        try {
            String id = UUID.randomUUID().toString();
            LOG.info(
                    "migration {}: job {}, {} ranks, to {}",
                    id,
                    job.name(),
                    job.ranks().size(),
                    settings.target());
            SourceSession session = new SourceSession(settings, pool, claims, view, id, 1);
            current = session;
            MigrationRecord journal = new MigrationRecord(
                    id, job.checkpointer().name(), settings.pool().poolBytes(), watcher);
            MigrationReport report = new SourceMigration(id, job, settings, session, processes, node, journal).run();
            metrics.ended(report);
            LOG.info("migration {}: {} after {} s {}", id, report.outcome(), report.seconds(), report.reason());
            return report;
        } finally {
            current = null;
            oneAtATime.unlock();
        }
    }

    /** Why this service cannot do its work, if it cannot; asks its mount and its agents. Any thread; blocks it. */
    public Optional<String> complaint(Duration limit) throws InterruptedException {
        if (!mount.isMounted() || !mount.answers(limit.toNanos())) {
            return Optional.of(mount.mountPoint() + " does not answer");
        }
        SourceSession session = current;
        return session == null || session.goesRound(limit.toNanos())
                ? Optional.empty()
                : Optional.of("the session's agent has not gone round for " + limit);
    }

    @Override
    public void close() throws IOException {
        if (mount != null) {
            mount.close();
        }
    }
}
