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
import io.ppmr.linux.BootClock;
import io.ppmr.linux.LogContext;
import io.ppmr.migration.LostPeers;
import io.ppmr.migration.RankSurroundings;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.keep.KeptImageNote;
import io.ppmr.migration.node.NodeProbe;
import io.ppmr.migration.samples.MigrationSampler;
import io.ppmr.migration.samples.SampleStore;
import io.ppmr.migration.source.JobHooks.JobNotes;
import io.ppmr.source.image.OutgoingImageView;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.operator.OpenMigration;
import io.ppmr.transaction.operator.OperatorDecision;
import io.ppmr.transaction.operator.OperatorInbox;
import io.ppmr.transaction.operator.Resolution;
import io.ppmr.transport.TransportChoice;
import io.ppmr.transport.auth.TlsHandshake;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The service of a compute node. It accepts the bytes that checkpointers write into its mount, and sends them to the
 * target. Between migrations it keeps its pool and its mount, and runs no thread of its own. Its {@link MigrationQueue}
 * owns the current migration.
 */
public final class SourceService implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(SourceService.class);

    private static final Duration CLOSE_LIMIT = Duration.ofSeconds(30);
    private static final Duration OPERATOR_PATIENCE = Duration.ofSeconds(30);
    private static final Duration ANSWER_LIMIT = Duration.ofSeconds(60);
    private static final Duration RECOVER_AGAIN = Duration.ofSeconds(2);

    private final SourceSettings settings;
    private final TransportChoice transports;
    private final BiFunction<String, List<Integer>, JobNotes> jobs;
    private final BufferPool pool;
    private final FairClaims claims;
    private final SourceMetrics metrics;
    private final OutgoingImageView view = new OutgoingImageView();
    private final MigrationQueue queue = new MigrationQueue(this::make);
    private final RankSurroundings surroundings;
    private SourceContext context;
    private Optional<SampleStore> samples = Optional.empty();
    private FuseMount mount;
    private Optional<Thread> recovering = Optional.empty();

    /** Makes a service whose bytes are sent over TCP. */
    public SourceService(SourceSettings settings) {
        this(
                settings,
                TransportChoice.tcp(),
                (job, ranks) -> new JobNotes(job, ranks, Map.of(), JobHooks.NONE),
                new SimpleMeterRegistry(),
                RankSurroundings.NONE);
    }

    /**
     * Makes a service that registers its meters.
     *
     * @param transports the possible transports
     * @param jobs returns the facts of a job from its name, for a migration that an earlier run left open
     * @param meters registry of its meters
     * @param surroundings manages the surroundings of ranks
     */
    public SourceService(
            SourceSettings settings,
            TransportChoice transports,
            BiFunction<String, List<Integer>, JobNotes> jobs,
            MeterRegistry meters,
            RankSurroundings surroundings) {
        this.surroundings = surroundings;
        this.settings = settings;
        this.transports = transports;
        this.jobs = jobs;
        this.pool = new BufferPool(settings.pool());
        this.claims = new FairClaims(pool);
        this.metrics = new SourceMetrics(meters, pool, claims);
        metrics.held(this::open);
        SourceMetrics.showRails(meters, transports.railFigures());
    }

    /** Keeps samples of each migration beside the journal, from now on. Call it before {@link #start}. */
    public void keepSamples() {
        samples = Optional.of(new SampleStore(settings.journal()));
    }

    /** Mounts, and recovers the open migration of an earlier run. When it returns, migrations may be requested. */
    public void start() throws IOException, InterruptedException {
        TlsHandshake.prepare(settings.authenticator().encryption());
        mount = FuseMount.mount(
                view, settings.node().mount(), MountOptions.named("ppmr-source").forAllUsers());
        context = new SourceContext(
                settings,
                new SourceContext.ImageBuffers(pool, claims, view),
                transports,
                metrics,
                MappedJournal.in(settings.journal()),
                new ProcessTable(),
                NativePrograms.fromSystemProperty(),
                surroundings,
                new ContentDigests(),
                new NodeProbe(Path.of("/"), 0, settings.pool().chunkBytes(), List.of()),
                BootClock::nowNs);
        removeLeftCopies();
        recover();
        recoverCheckpoints();
        LOG.info(
                "source is ready: images are written to {}, spare nodes: {}",
                settings.node().mount(),
                settings.spares());
    }

    /**
     * Describes the transport of the last migration and the reason for it; before the first, the possible ones. For
     * people.
     */
    public String transport() {
        return transports.state();
    }

    /** Returns the queue of migrations. */
    public MigrationQueue queue() {
        return queue;
    }

    /** Returns true if a migration is under way, or waits for a participant. */
    public boolean busy() {
        return queue.owner().isPresent();
    }

    /** Returns the migrations that need an operator: blocked on an unreachable peer, or recovered after a restart. */
    public List<OpenMigration> open() {
        return queue.migration().flatMap(OwnedMigration::open).stream().toList();
    }

    /**
     * Previews or follows an operator's decision for a migration, and waits for the answer.
     *
     * @param id its name, or at least its first four characters
     * @param carryOut false if only a preview is requested
     * @param by requester, for the log
     */
    public Resolution resolve(String id, OperatorDecision decision, boolean carryOut, String by)
            throws IOException, InterruptedException {
        OperatorInbox.PendingDecision call =
                new OperatorInbox.PendingDecision(decision, carryOut, by, OPERATOR_PATIENCE.toNanos());
        Optional<MigrationQueue.Owner> owner = queue.owner();
        Optional<MigrationQueue.Owner> meant = owner.filter(one -> OpenMigration.isNamed(one.id(), id));
        if (meant.flatMap(MigrationQueue.Owner::migration)
                .filter(open -> open.submit(call))
                .isPresent()) {
            Resolution answer = call.await(ANSWER_LIMIT.toNanos());
            return answer == null ? Resolution.silent(meant.get().id(), ANSWER_LIMIT) : answer;
        }
        return Resolution.notOpen(
                id,
                context.journal(),
                owner.map(MigrationQueue.Owner::id).stream().toList());
    }

    /** Returns the nodes that open migrations wait for. The service has started. */
    public LostPeers lostPeers() {
        return new LostPeers(
                LostPeers.MigrationEnd.SOURCE,
                this::open,
                id -> context.journal().records(id),
                this::resolve);
    }

    /** Moves a job to the first spare node that accepts it. */
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
     * @param watcher receives each step and progress, on another thread
     * @throws IllegalStateException if a migration is under way already
     */
    public MigrationReport migrate(
            String id, MigrationOrder order, Cancellation cancellation, Consumer<MigrationProgress> watcher)
            throws InterruptedException {
        CompletableFuture<MigrationReport> report = new CompletableFuture<>();
        MigrationQueue.Request request = new MigrationQueue.Request(
                order.job().name(), order.askedBy(), false, () -> Optional.of(order), new MigrationQueue.Customer() {});
        try {
            queue.start(id, request, cancellation, event -> {
                if (event instanceof MigrationQueue.Event.Going going) {
                    watcher.accept(going.progress());
                } else if (event instanceof MigrationQueue.Event.Ended ended) {
                    report.complete(ended.report());
                } else if (event instanceof MigrationQueue.Event.Failed failed) {
                    report.completeExceptionally(new IllegalStateException(failed.reason()));
                }
            });
            return report.get();
        } catch (RequestException e) {
            throw new IllegalStateException(e.getMessage(), e);
        } catch (ExecutionException e) {
            throw new IllegalStateException(
                    "migration " + id + " " + e.getCause().getMessage(), e.getCause());
        }
    }

    private OwnedMigration make(
            String id,
            MigrationOrder order,
            Cancellation cancellation,
            Consumer<MigrationProgress> watcher,
            ReportListener reported)
            throws InterruptedException {
        MigrationRecord record =
                new MigrationRecord(id, order.job().checkpointer().name(), context, watcher);
        Optional<MigrationSampler> sampler = samples.map(store -> new MigrationSampler(id, record, store));
        ReportListener listener = (report, isOver) -> {
            String way = transports.state();
            int end = way.indexOf(':');
            record.steps(end < 0 ? way : way.substring(0, end)).forEach(context::note);
            sampler.ifPresent(MigrationSampler::end);
            reported.report(ended(report), isOver);
        };
        try {
            requireMount();
            OwnedMigration made = OrderedMigration.of(context, record, order, cancellation, listener);
            sampler.ifPresent(MigrationSampler::start);
            return made;
        } catch (IOException | CheckpointException e) {
            String reason = cancellation.reason().orElse(String.valueOf(e.getMessage()));
            MigrationReport report = record.report(MigrationReport.Outcome.REFUSED, reason);
            return new BriefMigration(() -> report, listener);
        }
    }

    private static ReportListener logged(ReportListener reported) {
        return (report, isOver) -> {
            LOG.info("migration {}: {} {}", report.migrationId(), report.outcome(), report.reason());
            reported.report(report, isOver);
        };
    }

    /** Refuses a migration if the mount is gone. Its images would be written into the directory below, or nowhere. */
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
                report.times().seconds(),
                report.reason());
        return report;
    }

    /**
     * Removes copies that an earlier run was writing when it died. It has its own thread, because that disk may hang.
     */
    private void removeLeftCopies() throws IOException {
        List<KeptImageNote> own = new ArrayList<>();
        for (KeptImageNote note : KeptImageNote.left(settings.node().workDirectory())) {
            if (context.journal().records(note.migrationId()).isEmpty()) {
                LOG.warn("keeping {}: its migration is not in this journal", note.file());
            } else {
                own.add(note);
            }
        }
        if (!own.isEmpty()) {
            LogContext.thread(() -> own.forEach(KeptImageNote::removeCopy), "ppmr-copy-remove")
                    .start();
        }
    }

    /**
     * Recovers the open migration of an earlier run of the service. There is at most one, because only one runs at a
     * time.
     */
    private void recover() throws IOException {
        List<String> open = context.journal().open();
        WorkDirectories.removeEnded(
                settings.node().workDirectory(),
                (id, attempt) ->
                        !open.contains(id) && !context.journal().records(id).isEmpty());
        for (String id : open) {
            List<TransactionRecord> records = context.journal().records(id);
            LOG.warn("migration {}: recovered; an earlier run of the service left it open", id);
            MigrationRecord record = new MigrationRecord(id, "", context, progress -> LOG.debug("{}", progress));
            Cancellation cancellation = new Cancellation();
            queue.continueRecorded(
                    id,
                    reported -> RecordedMigration.of(context, record, records, jobs, cancellation, logged(reported)),
                    cancellation);
        }
    }

    /** Continues pods that an earlier run has left held for a checkpoint. Tries again where that fails. */
    private void recoverCheckpoints() throws IOException {
        List<CheckpointNote> first = JobCheckpoint.recover(context, CheckpointNote.left(settings.journal()));
        if (!first.isEmpty()) {
            Thread again = LogContext.thread(
                    () -> {
                        List<CheckpointNote> left = first;
                        while (!left.isEmpty() && !Thread.currentThread().isInterrupted()) {
                            LockSupport.parkNanos(RECOVER_AGAIN.toNanos());
                            left = JobCheckpoint.recover(context, left);
                        }
                    },
                    "ppmr-checkpoint-recover");
            recovering = Optional.of(again);
            again.start();
        }
    }

    /** Prepares a checkpoint of a job's pods. Nothing is touched. */
    public JobCheckpoint checkpoint(Job job, JobCheckpoint.CheckpointOrder order)
            throws CheckpointException, RequestException {
        return JobCheckpoint.of(context, job, order);
    }

    /** Returns why the service cannot work, if so, after a check of its mount and its agents. Any thread; blocks it. */
    public Optional<String> complaint(Duration limit) throws InterruptedException {
        if (!mount.isMounted() || !mount.responds(limit.toNanos())) {
            return Optional.of(mount.mountPoint() + " does not answer");
        }
        return queue.migration().filter(one -> !one.responds(limit.toNanos())).isPresent()
                ? Optional.of("the session's agent has not run for " + limit)
                : Optional.empty();
    }

    @Override
    public void close() throws IOException {
        recovering.ifPresent(Thread::interrupt);
        if (queue.callOff("the source's service ends")) {
            try {
                // Writes of these checkpoints are discarded now. Without the mount their processes would end.
                while (!queue.awaitReport(CLOSE_LIMIT)
                        && queue.migration()
                                .filter(OwnedMigration::waitsForCheckpoints)
                                .isPresent()) {
                    LOG.info("the service waits until the checkpoints of its migration end");
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
        if (mount != null) {
            mount.close();
        }
        if (context != null && !busy()) {
            context.journal().close();
            context = null;
        }
    }
}
