package io.ppmr.migration.source;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.ContentDigests;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.fuse.FuseMount;
import io.ppmr.fuse.MountException;
import io.ppmr.fuse.MountOptions;
import io.ppmr.migration.PodKeeper;
import io.ppmr.migration.keep.KeptImageNote;
import io.ppmr.migration.node.NodeProbe;
import io.ppmr.migration.source.JobHooks.JobNotes;
import io.ppmr.os.BootClock;
import io.ppmr.os.LogContext;
import io.ppmr.source.image.OutgoingImageView;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.operator.OpenMigration;
import io.ppmr.transaction.operator.OperatorDecision;
import io.ppmr.transaction.operator.OperatorInbox;
import io.ppmr.transaction.operator.Resolution;
import io.ppmr.transport.TransportChoice;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The service of a compute node: takes what checkpointers write into its mount and has the target pull it. Between
 * migrations it holds its pool and its mount, and no thread of its own runs.
 */
public final class SourceService implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(SourceService.class);

    private static final Duration CLOSE_LIMIT = Duration.ofSeconds(30);
    private static final Duration OPERATOR_PATIENCE = Duration.ofSeconds(30);
    private static final Duration ANSWER_LIMIT = Duration.ofSeconds(60);

    private final SourceSettings settings;
    private final TransportChoice transports;
    private final BiFunction<String, List<Integer>, JobNotes> jobs;
    private final BufferPool pool;
    private final FairClaims claims;
    private final SourceMetrics metrics;
    private final OutgoingImageView view = new OutgoingImageView();
    private final AtomicReference<SourceMigration> running = new AtomicReference<>();
    private final PodKeeper pods;
    private SourceContext context;
    private FuseMount mount;

    /** A service whose bytes travel over TCP. */
    public SourceService(SourceSettings settings) {
        this(
                settings,
                TransportChoice.tcp(),
                (job, ranks) -> new JobNotes(job, ranks, Map.of(), JobHooks.NONE),
                new SimpleMeterRegistry(),
                PodKeeper.NONE);
    }

    /**
     * A service that counts where somebody looks.
     *
     * @param transports how the bytes may travel
     * @param jobs what is known of a job by its name, for a migration that an earlier run has left open
     * @param meters where its meters are registered
     * @param pods keeps what lies around ranks that are pods
     */
    public SourceService(
            SourceSettings settings,
            TransportChoice transports,
            BiFunction<String, List<Integer>, JobNotes> jobs,
            MeterRegistry meters,
            PodKeeper pods) {
        this.pods = pods;
        this.settings = settings;
        this.transports = transports;
        this.jobs = jobs;
        this.pool = new BufferPool(settings.pool());
        this.claims = new FairClaims(pool);
        this.metrics = new SourceMetrics(meters, pool, claims);
        metrics.held(this::open);
        SourceMetrics.showRails(meters, transports.railFigures());
    }

    /** Mounts, and takes up what an earlier run has left; when it returns a migration may be asked for. */
    public void start() throws IOException, InterruptedException {
        mount = FuseMount.mount(
                view, settings.mountPoint(), MountOptions.named("ppmr-source").forAllUsers());
        context = new SourceContext(
                settings,
                pool,
                claims,
                view,
                transports,
                metrics,
                MappedJournal.in(settings.transaction().journal()),
                new ProcessTable(),
                NativePrograms.fromSystemProperty(),
                pods,
                new ContentDigests(),
                new NodeProbe(Path.of("/"), 0, settings.pool().chunkBytes(), List.of()),
                BootClock::nowNs);
        removeLeftCopies();
        recover();
        LOG.info(
                "source is ready: images are written to {}, spare nodes: {}", settings.mountPoint(), settings.spares());
    }

    /** Describes how the bytes of the last migration travelled and why; before the first, how they may. For people. */
    public String transport() {
        return transports.state();
    }

    /** Returns true if a migration is under way, or waits for a participant. */
    public boolean busy() {
        return running.get() != null;
    }

    /** The migration that is under way, or waits for a participant. */
    public Optional<String> underWay() {
        return Optional.ofNullable(running.get()).map(SourceMigration::id);
    }

    /** The migrations that an operator should know of: held for somebody who does not answer, or taken up again. */
    public List<OpenMigration> open() {
        return Optional.ofNullable(running.get()).flatMap(SourceMigration::open).stream()
                .toList();
    }

    /**
     * An operator decides for a migration, or asks what that would mean; waits for the answer.
     *
     * @param id its name, or the first characters of it, at least four
     * @param carryOut whether it is to be done; else it is only said what it would mean
     * @param by who asks, for the log
     */
    public Resolution resolve(String id, OperatorDecision word, boolean carryOut, String by)
            throws IOException, InterruptedException {
        OperatorInbox.Call call = new OperatorInbox.Call(word, carryOut, by, OPERATOR_PATIENCE.toNanos());
        SourceMigration open = running.get();
        if (open != null && OpenMigration.isNamed(open.id(), id) && open.take(call)) {
            Resolution answer = call.await(ANSWER_LIMIT.toNanos());
            return answer == null ? Resolution.silent(open.id(), ANSWER_LIMIT) : answer;
        }
        return Resolution.notOpen(id, context.journal(), open == null ? List.of() : List.of(open.id()));
    }

    /** Moves a job to the first spare node that takes it. */
    public MigrationReport migrate(Job job, Consumer<MigrationProgress> watcher) throws InterruptedException {
        return migrate(
                UUID.randomUUID().toString(),
                new MigrationOrder(job, List.of(), "unknown"),
                new Cancellation(),
                watcher);
    }

    /**
     * Moves a job's processes as ordered, and waits for the report.
     *
     * @param id letters, digits, '-' and '_', at most 64
     * @param cancellation calls it off, from any thread
     * @param watcher told of each step and of progress, on another thread
     * @throws IllegalStateException if a migration is under way already
     */
    public MigrationReport migrate(
            String id, MigrationOrder order, Cancellation cancellation, Consumer<MigrationProgress> watcher)
            throws InterruptedException {
        Job job = order.job();
        MigrationRecord record = new MigrationRecord(id, job.checkpointer().name(), context, watcher);
        SourceMigration migration;
        try {
            requireMount();
            migration = SourceMigration.ordered(context, record, order, cancellation);
        } catch (IOException | CheckpointException e) {
            String reason = cancellation.reason().orElse(String.valueOf(e.getMessage()));
            return ended(record.report(MigrationReport.Outcome.ROLLED_BACK, reason));
        }
        if (!running.compareAndSet(null, migration)) {
            throw new IllegalStateException("a migration is under way on this node already: wait for its end");
        }
        String targets = String.join(" ", migration.participants());
        LOG.info(
                "migration {}: job {}, {} ranks, to {}",
                id,
                job.name(),
                job.ranks().size(),
                targets);
        context.note(new TransactionRecord.Asked(id, 0, order.askedBy(), job.name(), targets));
        start(migration);
        return ended(migration.await());
    }

    /** Refuses a migration if the mount is gone: its images would be written into the directory below, or nowhere. */
    private void requireMount() throws MountException {
        Optional<MountException> loss = mount.failure();
        if (loss.isPresent()) {
            throw loss.get();
        }
    }

    private MigrationReport ended(MigrationReport report) {
        metrics.ended(report);
        LOG.info(
                "migration {}: {} after {} s {}",
                report.migrationId(),
                report.outcome(),
                report.seconds(),
                report.reason());
        return report;
    }

    private void start(SourceMigration migration) {
        Runnable over = () -> running.compareAndSet(migration, null);
        LogContext.thread(() -> migration.run(over), "ppmr-migration").start();
    }

    /** Removes copies that an earlier run was writing when it died; on a thread of its own, as that disk may hang. */
    private void removeLeftCopies() throws IOException {
        List<KeptImageNote> own = new ArrayList<>();
        for (KeptImageNote note : KeptImageNote.left(settings.workDirectory())) {
            if (context.journal().records(note.migrationId()).isEmpty()) {
                LOG.warn("{} is of a migration that this journal does not know: it is let alone", note.file());
            } else {
                own.add(note);
            }
        }
        if (!own.isEmpty()) {
            LogContext.thread(() -> own.forEach(KeptImageNote::removeCopy), "ppmr-copy-remove")
                    .start();
        }
    }

    /** Takes up again what an earlier run of the service has left open; at most one, as there is one at a time. */
    private void recover() throws IOException {
        List<String> open = context.journal().open();
        WorkDirectories.removeEnded(
                settings.workDirectory(),
                (id, attempt) ->
                        !open.contains(id) && !context.journal().records(id).isEmpty());
        for (String id : open) {
            List<TransactionRecord> records = context.journal().records(id);
            LOG.warn("migration {}: an earlier run of the service left it open; it is taken up again", id);
            MigrationRecord record = new MigrationRecord(id, "", context, progress -> LOG.debug("{}", progress));
            SourceMigration migration = SourceMigration.takenUp(context, record, records, jobs);
            running.set(migration);
            start(migration);
        }
    }

    /**
     * Returns the reason why it cannot do its work, if it cannot; asks its mount and its agents. Any thread; blocks it.
     */
    public Optional<String> complaint(Duration limit) throws InterruptedException {
        if (!mount.isMounted() || !mount.answers(limit.toNanos())) {
            return Optional.of(mount.mountPoint() + " does not answer");
        }
        SourceMigration migration = running.get();
        return migration == null || migration.responds(limit.toNanos())
                ? Optional.empty()
                : Optional.of("the session's agent has not gone round for " + limit);
    }

    @Override
    public void close() throws IOException {
        SourceMigration last = running.get();
        if (last != null && last.cancel("the source's service ends")) {
            try {
                // What these write is thrown away meanwhile; without the mount their processes would end.
                while (!last.awaitEnd(CLOSE_LIMIT) && last.waitsForCheckpoints()) {
                    LOG.info("migration {}: the service ends when its checkpoints have ended", last.id());
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
        if (mount != null) {
            mount.close();
        }
        if (context != null && running.get() == null) {
            context.journal().close();
            context = null;
        }
    }
}
