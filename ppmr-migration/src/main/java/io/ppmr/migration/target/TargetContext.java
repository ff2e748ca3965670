package io.ppmr.migration.target;

import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.migration.RankSurroundings;
import io.ppmr.target.image.ArrivingImageView;
import io.ppmr.transaction.journal.TransactionJournal;
import io.ppmr.transport.TransportChoice;
import java.util.function.LongSupplier;

/**
 * The parts of a target's service that each of its migrations uses. Made once, when the service starts. Immutable; any
 * thread.
 *
 * @param settings what the service is told
 * @param transports how the bytes may travel
 * @param admission whether a migration is taken
 * @param placements the files of jobs that are put at their places here
 * @param surroundings keeps what lies around ranks
 * @param journal the transactions'
 * @param view what restarts see in the mount
 * @param metrics what is counted
 * @param clock the time since the boot, by which everything is counted that other nodes count, too, in nanoseconds
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
        LongSupplier clock) {}
