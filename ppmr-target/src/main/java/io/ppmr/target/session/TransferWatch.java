package io.ppmr.target.session;

import io.ppmr.target.image.ArrivingImages;
import io.ppmr.target.image.CreditLedger;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * Watches that a transfer moves. What is blocked for a moment is helped, what cannot be helped fails with a message
 * that names the cause, and what is blocked for the stall limit fails in any case, however long the migration has
 * lasted. Owned by the agent.
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
     * Looks whether anything has moved.
     *
     * @param moved a sum that changes whenever anything does
     * @param underWay whether pulls are under way: what they bring may be all that is waited for
     * @return why the migration must fail, or null
     */
    String check(long nowNs, long moved, boolean underWay) {
        if (moved != lastMoved) {
            lastMoved = moved;
            lastMovedNs = nowNs;
            return null;
        }
        long standingNs = nowNs - lastMovedNs;
        if (standingNs > RELIEF_NS && !underWay && ledger.hasBlockedWriter()) {
            String wanting = ledger.relieve();
            if (wanting != null && standingNs > patienceNs) {
                return wanting;
            }
        }
        if (standingNs > stallLimitNs && !images.isComplete()) {
            return "nothing was written, transferred or read for " + TimeUnit.NANOSECONDS.toSeconds(standingNs)
                    + " s (stall_limit): "
                    + (images.hasWaitingReader()
                            ? "a restart waits for bytes that no checkpointer writes"
                            : "the checkpointers write nothing, or their restarts do not read");
        }
        return null;
    }
}
