package io.ppmr.source;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.ProcessIdentity;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.doctor.JobProbe;
import io.ppmr.doctor.NodeProbe;
import io.ppmr.fuse.FuseMount;
import io.ppmr.fuse.MountOptions;
import io.ppmr.logging.LogContext;
import io.ppmr.protocol.JobFacts;
import io.ppmr.source.image.OutgoingImageView;
import io.ppmr.source.keep.CopyNote;
import io.ppmr.source.keep.CopyReport;
import io.ppmr.source.keep.Keeping;
import io.ppmr.transaction.Coordinator;
import io.ppmr.transaction.MappedJournal;
import io.ppmr.transaction.OpenMigration;
import io.ppmr.transaction.OperatorWord;
import io.ppmr.transaction.PlannedRank;
import io.ppmr.transaction.Resolution;
import io.ppmr.transaction.TransactionJournal;
import io.ppmr.transaction.TransactionRecord;
import io.ppmr.transaction.TransactionTimes;
import io.ppmr.transport.TransportChoice;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
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

    private final SourceSettings settings;
    private final ProcessTable processes;
    private final MeterRegistry meters;
    private final SourceMetrics metrics;
    private final BufferPool pool;
    private final FairClaims claims;
    private final OutgoingImageView view = new OutgoingImageView();
    private final TransportChoice transports;
    private final AtomicReference<SourceMigration> running = new AtomicReference<>();
    private final SourceOperators operators = new SourceOperators(running);
    private final NativePrograms programs = NativePrograms.fromSystemProperty();
    private final BiFunction<String, List<Integer>, JobNotes> jobs;
    private final AttemptMakers attempts;
    private TransactionJournal journal;
    private FuseMount mount;

    /** A service whose bytes travel over TCP. */
    public SourceService(SourceSettings settings) {
        this(settings, TransportChoice.tcp(), (job, ranks) -> new JobNotes(job, ranks, Map.of(), JobHooks.NONE));
    }

    /**
     * @param transports how the bytes may travel
     * @param jobs what is known of a job by its name, for a migration that an earlier run has left open
     */
    public SourceService(
            SourceSettings settings, TransportChoice transports, BiFunction<String, List<Integer>, JobNotes> jobs) {
        this(settings, transports, jobs, new SimpleMeterRegistry());
    }

    /**
     * A service that counts where somebody looks.
     *
     * @param meters where its meters are registered
     */
    public SourceService(
            SourceSettings settings,
            TransportChoice transports,
            BiFunction<String, List<Integer>, JobNotes> jobs,
            MeterRegistry meters) {
        this.transports = transports;
        this.jobs = jobs;
        this.settings = settings;
        this.processes = new ProcessTable();
        this.pool = new BufferPool(settings.pool());
        this.claims = new FairClaims(pool);
        this.meters = meters;
        this.metrics = new SourceMetrics(meters, pool, claims);
        metrics.held(this::open);
        NodeProbe node = new NodeProbe(Path.of("/"), 0, settings.pool().chunkBytes(), List.of());
        this.attempts = new AttemptMakers(settings, pool, claims, view, metrics.hops(), transports, node);
    }

    /** Mounts, and takes up what an earlier run has left; when it returns a migration may be asked for. */
    public void start() throws IOException, InterruptedException {
        mount = FuseMount.mount(
                view, settings.mountPoint(), MountOptions.named("ppmr-source").forAllUsers());
        journal = MappedJournal.in(settings.transaction().journal());
        removeLeftCopies();
        recover();
        LOG.info(
                "source is ready: images are written to {}, spare nodes: {}", settings.mountPoint(), settings.spares());
    }

    /** Everything that this service counts. */
    public MeterRegistry meters() {
        return meters;
    }

    /** How the bytes of the last migration travelled and why; before the first, how they may. For people. */
    public String transport() {
        return transports.state();
    }

    /** Whether a migration is under way, or waits for a participant. */
    public boolean busy() {
        return running.get() != null;
    }

    /** The migration that is under way, or waits for a participant. */
    public Optional<String> underWay() {
        return Optional.ofNullable(running.get()).map(SourceMigration::id);
    }

    /** The migrations that an operator should know of: held for somebody who does not answer, or taken up again. */
    public List<OpenMigration> open() {
        return operators.open();
    }

    /**
     * An operator decides for a migration, or asks what that would mean; waits for the answer.
     *
     * @param id its name, or the first characters of it, at least four
     * @param carryOut whether it is to be done; else it is only said what it would mean
     * @param by who asks, for the log
     */
    public Resolution resolve(String id, OperatorWord word, boolean carryOut, String by)
            throws IOException, InterruptedException {
        return operators.resolve(id, word, carryOut, by, journal);
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
        MigrationRecord record = new MigrationRecord(
                id, job.checkpointer().name(), settings.pool().poolBytes(), metrics.steps(), watcher);
        OriginalRanks originals;
        Map<Integer, JobFacts> facts;
        List<InetSocketAddress> targets;
        List<InetSocketAddress> spares = List.of();
        try {
            originals = originals(id, job);
            facts = new JobProbe(processes).facts(job.checkpointer().name(), originals.roots());
            targets = order.targets();
            if (targets.isEmpty()) {
                List<InetSocketAddress> candidates = settings.spares().candidates();
                targets = candidates.subList(0, 1);
                spares = candidates.subList(1, candidates.size());
            }
        } catch (IOException | CheckpointException e) {
            return ended(record.report(MigrationReport.Outcome.ROLLED_BACK, String.valueOf(e.getMessage())));
        }
        MigrationPlan plan = MigrationPlan.spread(job.notes().ranks(), targets);
        Keeping keeping = new Keeping(
                order.keep(),
                new Keeping.Subject(id, job.name(), job.checkpointer().name(), job.user()),
                settings.workDirectory());
        record.keeps(keeping);
        SourceDuties duties = new SourceDuties(
                id,
                job.notes(),
                plan,
                settings,
                record,
                originals,
                new NextAttempts(settings.transaction(), job.checkpointer().checkpointsHeldRanks(), spares),
                attempts.of(id, job, facts, record, originals, keeping),
                cancellation,
                programs,
                journal);
        Coordinator coordinator = new Coordinator(id, times(), journal, duties);
        SourceMigration migration = new SourceMigration(id, settings, record, duties, coordinator, cancellation, false);
        if (!running.compareAndSet(null, migration)) {
            throw new IllegalStateException("a migration is under way on this node already: wait for its end");
        }
        LOG.info(
                "migration {}: job {}, {} ranks, to {}",
                id,
                job.name(),
                job.ranks().size(),
                plan.addresses());
        note(new TransactionRecord.Asked(id, 0, order.askedBy(), job.name(), String.join(" ", plan.addresses())));
        List<PlannedRank> planned = plan.legs().stream()
                .flatMap(leg -> originals.planned(leg).stream())
                .toList();
        start(
                migration,
                () -> coordinator.start(plan.addresses(), planned, System.nanoTime()),
                () -> noteCopy(id, keeping.report()));
        return ended(migration.await());
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

    private void noteCopy(String id, CopyReport copy) {
        if (copy != null) {
            note(new TransactionRecord.CopyEnded(id, 0, copy.kept(), copy.sentence()));
        }
    }

    private void start(SourceMigration migration, Runnable begin, Runnable atEnd) {
        Runnable over = () -> {
            atEnd.run();
            running.compareAndSet(migration, null);
        };
        LogContext.thread(() -> migration.run(begin, over), "ppmr-migration").start();
    }

    /** The processes as they are now; one that does not exist or belongs to another user is refused here. */
    private OriginalRanks originals(String id, Job job) throws CheckpointException {
        Map<Integer, ProcessIdentity> roots = new LinkedHashMap<>();
        for (Job.RankProcess rank : job.ranks()) {
            ProcessIdentity root = processes.of(rank.pid());
            processes.requireOwner(root, job.user());
            roots.put(rank.rank(), root);
        }
        return new OriginalRanks(id, processes, roots);
    }

    private TransactionTimes times() {
        return TransactionTimes.usual(
                settings.silenceLimit().toNanos(),
                settings.transaction().pauseBudget().toNanos());
    }

    private void note(TransactionRecord record) {
        try {
            journal.append(record);
        } catch (IOException e) {
            LOG.warn("the history will not have it: {}", e.getMessage());
        }
    }

    /** What an earlier run of the service was keeping when it died: on a thread of its own, as that disk may hang. */
    private void removeLeftCopies() throws IOException {
        List<CopyNote> own = new ArrayList<>();
        for (CopyNote note : CopyNote.left(settings.workDirectory())) {
            if (journal.records(note.migrationId()).isEmpty()) {
                LOG.warn("{} is of a migration that this journal does not know: it is let alone", note.file());
            } else {
                own.add(note);
            }
        }
        if (!own.isEmpty()) {
            LogContext.thread(() -> own.forEach(CopyNote::removeCopy), "ppmr-copy-remove")
                    .start();
        }
    }

    /** Takes up again what an earlier run of the service has left open; at most one, as there is one at a time. */
    private void recover() throws IOException {
        for (String id : journal.open()) {
            List<TransactionRecord> records = journal.records(id);
            try {
                recover(id, records);
            } catch (CheckpointException e) {
                throw new IOException(
                        "migration " + id + ", which the journal knows as open, cannot be taken up: " + e.getMessage(),
                        e);
            }
        }
    }

    private void recover(String id, List<TransactionRecord> records) throws CheckpointException {
        Recorded recorded = Recorded.of(records);
        LOG.warn("migration {}: an earlier run of the service left it open; it is taken up again", id);
        MigrationRecord record =
                new MigrationRecord(id, "", settings.pool().poolBytes(), metrics.steps(), SourceService::logProgress);
        OriginalRanks originals = OriginalRanks.recorded(
                id, processes, recorded.originals(), rank -> TransactionRecord.Stopped.of(records, 0, rank));
        SourceDuties duties = new SourceDuties(
                id,
                jobs.apply(recorded.job(), recorded.ranks()),
                recorded.plan(),
                settings,
                record,
                originals,
                new NextAttempts(settings.transaction(), false, List.of()),
                (number, plan) -> {
                    throw new IllegalStateException("a migration that was taken up again tries no further attempt");
                },
                new Cancellation(),
                programs,
                journal);
        duties.takenUpAt(recorded.attempt());
        Coordinator coordinator = new Coordinator(id, times(), journal, duties);
        SourceMigration migration =
                new SourceMigration(id, settings, record, duties, coordinator, new Cancellation(), true);
        running.set(migration);
        // What an earlier run was keeping is not whole, and is removed already.
        start(migration, () -> coordinator.recover(records, System.nanoTime()), () -> {});
    }

    private static void logProgress(MigrationProgress progress) {
        LOG.debug("{}", progress);
    }

    /** Why this service cannot do its work, if it cannot; asks its mount and its agents. Any thread; blocks it. */
    public Optional<String> complaint(Duration limit) throws InterruptedException {
        if (!mount.isMounted() || !mount.answers(limit.toNanos())) {
            return Optional.of(mount.mountPoint() + " does not answer");
        }
        SourceMigration migration = running.get();
        return migration == null || migration.goesRound(limit.toNanos())
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
        if (journal != null && running.get() == null) {
            journal.close();
            journal = null;
        }
    }
}
