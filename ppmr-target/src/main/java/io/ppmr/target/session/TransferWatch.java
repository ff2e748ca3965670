package io.ppmr.target.session;

import io.ppmr.target.image.ArrivingImages;
import io.ppmr.target.image.CreditLedger;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * Watches the progress of a transfer. A short stall is resolved. A stall that cannot be resolved fails with a message
 * that names the cause. A stall longer than the limit fails in any case, for any duration of the migration. Owned by
 * the agent.
 */
final class TransferWatch {
    private static final long RELIEF_NS = TimeUnit.MILLISECONDS.toNanos(200);
    private static final long MAX_PATIENCE_NS = TimeUnit.SECONDS.toNanos(10);

    private final long stallLimitNs;
    private final long patienceNs;
    private final CreditLedger ledger;
    private final ArrivingImages images;
    private long lastMoved = -1;
    private long lastMovedNs = System.nanoTime();

    TransferWatch(Duration stallLimit, CreditLedger ledger, ArrivingImages images) {
        this.stallLimitNs = stallLimit.toNanos();
        this.patienceNs = Math.min(stallLimitNs / 2, MAX_PATIENCE_NS);
        this.ledger = ledger;
        this.images = images;
    }

    /**
     * Checks for progress.
     *
     * @param moved a sum that changes with any progress
     * @param underWay whether chunks are arriving, whose bytes may resolve the stall
     * @return the reason why the migration must fail, or null
     */
    String check(long nowNs, long moved, boolean underWay) {
        if (moved != lastMoved) {
            lastMoved = moved;
            lastMovedNs = nowNs;
            return null;
        }
        long stalledNs = nowNs - lastMovedNs;
        if (stalledNs > RELIEF_NS && !underWay && ledger.hasBlockedWriter()) {
            String problem = ledger.relieve();
            if (problem != null && stalledNs > patienceNs) {
                return problem;
            }
        }
        if (stalledNs > stallLimitNs && !images.isComplete()) {
            return "nothing was written, transferred or read for " + TimeUnit.NANOSECONDS.toSeconds(stalledNs)
                    + " s (stall_limit): "
                    + (images.hasWaitingReader()
                            ? "a restart waits for bytes that no checkpointer writes"
                            : "the checkpointers write nothing, or their restarts do not read");
        }
        return null;
    }
}
