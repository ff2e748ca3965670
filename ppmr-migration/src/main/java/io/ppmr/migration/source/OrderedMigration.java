package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.migration.keep.Keeping;
import io.ppmr.migration.node.JobProbe;
import io.ppmr.migration.node.Preparation;
import io.ppmr.protocol.control.JobFacts;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.protocol.data.MemoryWay;
import io.ppmr.protocol.data.MessageFields;
import io.ppmr.protocol.data.ReadingMode;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Makes a migration of an order. It scans the job, and chooses how its memory is sent, and to which targets. */
final class OrderedMigration {
    private static final Logger LOG = LoggerFactory.getLogger(OrderedMigration.class);

    private OrderedMigration() {}

    /**
     * Returns a migration that has not begun, or throws without a change of the job. May block.
     *
     * @param reported listener for its report
     */
    static SourceMigration of(
            SourceContext service,
            MigrationRecord record,
            MigrationOrder order,
            Cancellation cancellation,
            ReportListener reported)
            throws IOException, CheckpointException, InterruptedException {
        String id = record.migrationId();
        Job job = order.job();
        requireRanks(job);
        SourceSettings settings = service.settings();
        Preparation preparation = new Preparation(() -> cancellation.reason().isPresent());
        OriginalRanks originals =
                OriginalRanks.of(id, service.processes(), service.surroundings(), service.names(id), job);
        originals.requireReachable(job);
        originals.awaitFilled(preparation);
        if (job.notes().hooks().suspend().isEmpty()) {
            originals.requireMovable(job, settings, preparation);
        }
        PageChoice pages = PageChoice.of(
                job,
                order.keep().directory().isPresent(),
                settings.files().carry(),
                new JobProbe(service.processes(), preparation)
                        .facts(job.checkpointer().name(), originals.roots()),
                originals.trees(),
                preparation,
                PreCopyRule.of(settings.limits(), order.untilNs()));
        List<InetSocketAddress> targets = order.targets();
        List<InetSocketAddress> spares = List.of();
        if (targets.isEmpty()) {
            List<InetSocketAddress> candidates = settings.spares().candidates(needs(job, pages));
            targets = candidates.subList(0, 1);
            spares = candidates.subList(1, candidates.size());
        }
        Keeping keeping = new Keeping(
                order.keep(),
                new Keeping.ImageOrigin(id, job.name(), job.checkpointer().name(), job.user()),
                settings.node().workDirectory(),
                settings.authenticator());
        record.setKeeping(keeping);
        MigrationSecret secret = MigrationSecret.random();
        // The record is on the disk with the first attempt, before a target receives the secret.
        service.journal().append(new TransactionRecord.Secret(id, 0, secret));
        MigrationPlan plan = MigrationPlan.spread(job.notes().ranks(), targets);
        String addresses = String.join(" ", plan.addresses());
        LOG.info(
                "migration {}: job {}, {} ranks, to {}",
                id,
                job.name(),
                job.ranks().size(),
                addresses);
        service.note(new TransactionRecord.Requested(id, 0, order.askedBy(), job.name(), addresses));
        HookRunner hooks = new HookRunner(id, job.notes(), service, false);
        NextAttempts nextAttempts =
                new NextAttempts(settings.limits(), job.checkpointer().checkpointsHeldRanks(), spares);
        List<PlannedRank> planned = plan.legs().stream()
                .flatMap(leg -> originals.planned(leg).stream())
                .toList();
        return new SourceMigration(
                new SourceMigration.Parts(service, record, job.notes(), secret, originals, hooks, cancellation),
                migration -> new OrderedAttempts(
                        new Attempt.MigrationContext(id, secret, service, job, pages, record, originals, keeping),
                        plan,
                        nextAttempts,
                        hooks,
                        cancellation,
                        migration.listener(),
                        migration),
                0,
                coordinator -> coordinator.start(
                        plan.addresses(), planned, service.clock().getAsLong()),
                reported);
    }

    /** Returns what the whole job needs at one node. Only images that a target retains wait there. */
    private static SpareNodes.Needs needs(Job job, PageChoice pages) {
        JobFacts whole =
                JobProbe.together(pages.facts(), List.copyOf(pages.facts().keySet()));
        boolean waits = whole.offer() == MemoryWay.IMAGES && job.checkpointer().readingMode() == ReadingMode.RETAINED;
        return new SpareNodes.Needs(whole.checkpointer(), whole.residentBytes(), waits ? whole.waitingBytes() : 0);
    }

    private static void requireRanks(Job job) throws CheckpointException {
        if (job.ranks().isEmpty()) {
            throw new CheckpointException(
                    "job " + job.name() + " has no rank on this node, so there is nothing to move");
        }
        int ranks = job.notes().ranks().size() + job.notes().others().size();
        if (ranks > MessageFields.MAX_LIST_ENTRIES) {
            throw new CheckpointException(
                    "job " + job.name() + " has " + ranks + " ranks, but a target can receive the places of at most "
                            + MessageFields.MAX_LIST_ENTRIES + ". Remedy: move it as several jobs");
        }
    }
}
