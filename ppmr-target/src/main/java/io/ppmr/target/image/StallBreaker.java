package io.ppmr.target.image;

/**
 * The help for a transfer that stands still because its programs wait for each other: a restart for a file that its
 * checkpointer writes later, or restarts for chunks that other restarts have read half. Owned by the session's agent.
 */
final class StallBreaker {
    private final CreditLedger ledger;
    private final ReceiveSlot[] chunkSlots;
    private final StagingArea staging;

    StallBreaker(CreditLedger ledger, ReceiveSlot[] chunkSlots, StagingArea staging) {
        this.ledger = ledger;
        this.chunkSlots = chunkSlots;
        this.staging = staging;
    }

    /** Helps each of the demands that needs it; null, or what would have helped and could not be had. */
    String relieve(FileCreditRequests[] demands) {
        String wanting = null;
        for (FileCreditRequests demand : demands) {
            if (!demand.isBlocked() || !demand.file.rank().hasWaitingReader()) {
                continue;
            }
            if (demand.file.readerWaitsIn(demand.blockedWindow)) {
                wanting = evictOne() || ledger.tryGrantAnyChunk(demand) ? wanting : stuckAtPool(demand);
            } else if (!demand.file.readerWaits()) {
                // Its reader, if it waited, would wait for bytes that are on their way. Somebody waits for another
                // file.
                demand.file.rank().allowStaging();
                wanting = ledger.serveOne(demand) || ledger.tryGrantAnyChunk(demand) ? wanting : stuckAtOrder(demand);
            }
        }
        return wanting;
    }

    /** Moves a chunk that nobody reads from to staging. */
    private boolean evictOne() {
        for (ReceiveSlot slot : chunkSlots) {
            ArrivingFile file = slot.file;
            if (file == null || slot.kind() == ReceiveSlot.Kind.BOUNCE || !file.canEvict(slot)) {
                continue;
            }
            ReceiveSlot staged = staging.claim();
            if (staged == null) {
                return false;
            }
            staged.grant(ReceiveSlot.Kind.STAGING, file, slot.window);
            if (file.evict(slot, staged)) {
                ledger.noteStaged();
                return true;
            }
            staged.file = null;
            staging.release(staged);
        }
        return false;
    }

    private String stuckAtPool(FileCreditRequests demand) {
        return "a restart waits for file " + demand.file.name() + ", but every chunk of the pool holds bytes that no "
                + "restart reads on, and " + staging.whyNone() + ": raise pool.size or staging.limit of the target";
    }

    private String stuckAtOrder(FileCreditRequests demand) {
        return "file " + demand.file.name()
                + " is written but not read, while a restart waits for another file of rank "
                + demand.file.rank().rank() + " that its checkpointer writes later; the pool is full and "
                + staging.whyNone() + ": raise pool.size or staging.limit of the target";
    }
}
