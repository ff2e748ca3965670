package io.ppmr.migration.target;

import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.migration.RankSurroundings;
import io.ppmr.migration.samples.SampleStore;
import io.ppmr.target.image.ArrivingImageView;
import io.ppmr.transaction.journal.TransactionJournal;
import io.ppmr.transport.TransportChoice;
import java.util.Optional;
import java.util.function.LongSupplier;

/**
 * The parts of a target's service that each of its migrations uses. Made once, when the service starts. Immutable; any
 * thread.
 *
 * @param settings the service's settings
 * @param transports the possible transports
 * @param admission decides whether a migration is accepted
 * @param placements the files of jobs that are placed here
 * @param surroundings manages the surroundings of ranks
 * @param journal the journal of transactions
 * @param view restarts' view of the mount
 * @param metrics the metrics
 * @param clock time since the boot in nanoseconds, for all times that other nodes count, too
 * @param samples keeps the samples of migrations, if any are kept
 */
record TargetContext(
        TargetSettings settings,
        TransportChoice transports,
        Admission admission,
        NativePrograms programs,
        PlacementNotes placements,
        RankSurroundings surroundings,
        TransactionJournal journal,
        ArrivingImageView view,
        TargetMetrics metrics,
        LongSupplier clock,
        Optional<SampleStore> samples) {}
