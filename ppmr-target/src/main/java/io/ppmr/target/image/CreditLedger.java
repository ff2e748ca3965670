package io.ppmr.target.image;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.ChunkState;
import io.ppmr.protocol.data.CreditRequestFrame;
import io.ppmr.protocol.data.DenyReason;
import io.ppmr.protocol.data.ProtocolException;
import java.util.ArrayDeque;
import java.util.function.IntSupplier;
import org.agrona.collections.Int2ObjectHashMap;

/**
 * Who gets which slot. A writer at the source fills a chunk only for a slot that this ledger granted to its file, so
 * what is under way always has a place to go to.
 *
 * <p>The chunks of the pool are given out in two classes. At most half are <i>reserved</i>: each only for the offset
 * that a waiting reader needs next. The rest are <i>general</i>: for whatever comes, first come first served. A few
 * chunks beside the pool are <i>bounce buffers</i>: bytes that belong into a slot already held, or into staging, pass
 * through
 * it and leave it as soon as they have come. {@code docs/architecture.md} argues why this cannot lock up.
 *
 * <p>Owned by the session's agent; no other thread calls it.
 */
public final class CreditLedger {
    /** Hears what was decided. */
    public interface Decisions {
        void granted(ArrivingFile file, ReceiveSlot slot);

        /** There will be no slot: {@code reason} goes to the writer, {@code message} to the log and the migration. */
        void denied(ArrivingFile file, long window, DenyReason reason, String message);
    }

    private final BufferPool pool;
    private final StagingArea staging;
    private final StallBreaker relief;
    private final Decisions decisions;
    private final int poolChunks;
    private final int bounceBuffers;
    private final ReceiveSlot[] chunkSlots;
    private final Int2ObjectHashMap<FileCreditRequests> demands = new Int2ObjectHashMap<>();
    private final ArrayDeque<FileCreditRequests> queue = new ArrayDeque<>();
    private final int expectedStreams;
    private final IntSupplier uncoveredStreams;
    private int createdStreams;
    private int reservedUsed;
    private int generalUsed;
    private int unusedGrants;
    private int bounceUsed;
    private long stagedBytes;

    /**
     * @param bounceBuffers how many of the pool's chunks are bounce buffers
     * @param expectedStreams how many streams the plan of the migration announces
     * @param uncoveredStreams how many streams' readers need a slot next that is not granted yet
     */
    public CreditLedger(
            BufferPool pool,
            int bounceBuffers,
            StagingArea staging,
            int expectedStreams,
            IntSupplier uncoveredStreams,
            Decisions decisions) {
        this.pool = pool;
        this.staging = staging;
        this.decisions = decisions;
        this.bounceBuffers = bounceBuffers;
        this.expectedStreams = expectedStreams;
        this.uncoveredStreams = uncoveredStreams;
        int chunks = pool.geometry().chunkCount();
        poolChunks = chunks - bounceBuffers;
        chunkSlots = new ReceiveSlot[chunks];
        for (int chunk = 0; chunk < chunks; chunk++) {
            chunkSlots[chunk] = new ReceiveSlot(chunk, chunk, pool.address(chunk));
        }
        relief = new StallBreaker(this, chunkSlots, staging);
    }

    /** Bytes that have gone to staging. */
    public long stagedBytes() {
        return stagedBytes;
    }

    /** Whether a writer stands still for want of a slot. */
    public boolean someoneIsBlocked() {
        return queue.stream().anyMatch(FileCreditRequests::isBlocked);
    }

    public void fileCreated(ArrivingFile file) {
        demands.put(file.id(), new FileCreditRequests(file));
        createdStreams += file.streamed() ? 1 : 0;
    }

    /** The file will want nothing more. */
    public void fileEnded(ArrivingFile file) {
        FileCreditRequests demand = demands.get(file.id());
        if (demand != null && demand.file == file) {
            demand.forget();
            queue.remove(demand);
            demands.remove(file.id());
        }
    }

    // ---- what the source asks ---------------------------------------------------------------------------------

    /** The writer of a file asks for windows. */
    public void want(ArrivingFile file, long window, int count, int flags) throws ProtocolException {
        long lastWindow = pool.geometry().windowOf(Long.MAX_VALUE) - CreditRequestFrame.MAX_COUNT;
        if (window < 0 || window > lastWindow || count < 1 || count > CreditRequestFrame.MAX_COUNT) {
            throw new ProtocolException("file " + file.name() + " wants " + count + " windows from " + window
                    + " on: it must want 1 to " + CreditRequestFrame.MAX_COUNT);
        }
        FileCreditRequests demand = demands.get(file.id());
        if (demand == null) {
            decisions.denied(file, window, DenyReason.NO_FILE, "file " + file.name() + " has ended or is gone");
            return;
        }
        if ((flags & CreditRequestFrame.BLOCKED) != 0) {
            demand.blockedWindow = demand.granted.contains(window) ? FileCreditRequests.NONE : window;
            demand.blockedBehindGap = (flags & CreditRequestFrame.AHEAD) != 0;
            demand.forgetUpTo(window);
        } else {
            demand.ahead.addLong(window);
        }
        for (int further = 1; further < count; further++) {
            demand.ahead.addLong(window + further);
        }
        if (demand.isBlocked()) {
            serveBlocked(demand);
        }
        enqueue(demand);
        serve();
    }

    /** A credit is not needed. */
    public void returned(ArrivingFile file, int index) throws ProtocolException {
        ReceiveSlot slot = requireGranted(file, index);
        forgetGrant(file, slot);
        file.giveUp(slot);
    }

    /** A credit is about to be filled. */
    public ReceiveSlot advertised(ArrivingFile file, int index, long offset, int lengthBytes) throws ProtocolException {
        ReceiveSlot slot = requireGranted(file, index);
        int chunkBytes = pool.geometry().chunkBytes();
        long windowStart = slot.window * chunkBytes;
        if (lengthBytes <= 0 || offset < windowStart || offset > windowStart + chunkBytes - lengthBytes) {
            throw new ProtocolException("an advertisement of " + lengthBytes + " bytes at " + offset + " of file "
                    + file.name() + " is outside the window of " + slot);
        }
        forgetGrant(file, slot);
        FileCreditRequests demand = demands.get(file.id());
        if (demand != null) {
            demand.forgetUpTo(slot.window);
        }
        return slot;
    }

    /** The slot with this index, or null. */
    public ReceiveSlot slot(int index) {
        return index >= 0 && index < chunkSlots.length ? chunkSlots[index] : staging.slot(index);
    }

    /** Takes back every chunk that is still out; for the end of a session. */
    public void reclaimAll() {
        for (ReceiveSlot slot : chunkSlots) {
            if (pool.state(slot.chunk()) == ChunkState.FILLING) {
                slot.file = null;
                pool.giveUp(slot.chunk());
            }
        }
    }

    // ---- what happens here ------------------------------------------------------------------------------------

    /** A slot is empty again. */
    public void freed(ReceiveSlot slot) {
        switch (slot.kind()) {
            case RESERVED -> reservedUsed--;
            case GENERAL -> generalUsed--;
            case BOUNCE -> bounceUsed--;
            case STAGING -> {
                staging.release(slot);
                return;
            }
        }
        pool.ready(slot.chunk());
        pool.release(slot.chunk());
    }

    /** Readers wait, or slots are free: grants what can be granted now. */
    public void serve() {
        boolean progress = true;
        while (progress) {
            progress = false;
            for (int left = queue.size(); left > 0; left--) {
                FileCreditRequests demand = queue.poll();
                demand.queued = false;
                progress |= serveOne(demand);
                enqueue(demand);
            }
        }
    }

    /**
     * Nothing has moved for a while: denies what can never fit, and helps readers who wait for a writer that stands
     * still at another file of the same rank, and readers for whom there is no slot.
     *
     * @return null if there was nothing to do or it was done, else what would have helped and could not be had
     */
    public String relieve() {
        serve();
        if (unusedGrants == 0) {
            denyWhatCannotFit();
        }
        String wanting = relief.relieve(queue.toArray(new FileCreditRequests[0]));
        serve();
        return wanting;
    }

    /** Said only when nothing moves and no grant is out: until then one may come back unused. */
    private void denyWhatCannotFit() {
        for (FileCreditRequests demand : queue) {
            boolean keptToTheEnd = demand.blockedBehindGap || !demand.file.streamed();
            if (demand.isBlocked() && keptToTheEnd && bounceUsed < bounceBuffers) {
                long window = demand.blockedWindow;
                demand.blockedWindow = FileCreditRequests.NONE;
                String message = "file " + demand.file.name() + ": its image does not fit the pool of "
                        + poolChunks * (long) pool.geometry().chunkBytes() + " bytes and staging ("
                        + staging.whyNone() + "): raise pool.size or staging.limit of the target";
                decisions.denied(demand.file, window, DenyReason.NO_SPACE, message);
            }
        }
    }

    boolean serveOne(FileCreditRequests demand) {
        if (demand.isBlocked()) {
            return serveBlocked(demand);
        }
        while (!demand.ahead.isEmpty()) {
            long window = demand.ahead.peekLong();
            if (demand.granted.contains(window)) {
                demand.ahead.pollLong();
                continue;
            }
            if (!tryGiveCredit(demand, window, false)) {
                return false;
            }
            demand.ahead.pollLong();
            return true;
        }
        return false;
    }

    private boolean serveBlocked(FileCreditRequests demand) {
        boolean granted = tryGiveCredit(demand, demand.blockedWindow, true);
        if (granted) {
            demand.blockedWindow = FileCreditRequests.NONE;
        }
        return granted;
    }

    private boolean tryGiveCredit(FileCreditRequests demand, long window, boolean blocked) {
        ArrivingFile file = demand.file;
        if (file.holder(window) != null) {
            return grantPiece(demand, window);
        }
        boolean needed = blocked && file.streamed() && file.readerWaitsIn(window);
        int used = reservedUsed + generalUsed;
        if (needed
                && reservedUsed < poolChunks / 2
                && used < poolChunks
                && grantChunk(demand, window, ReceiveSlot.Kind.RESERVED)) {
            return true;
        }
        if (used < poolChunks - reserveLimit() && grantChunk(demand, window, ReceiveSlot.Kind.GENERAL)) {
            return true;
        }
        boolean behindGap = blocked && demand.blockedBehindGap;
        if (!file.rank().mayStage() && !behindGap) {
            return false;
        }
        if (bounceUsed == bounceBuffers) {
            return false;
        }
        return grantStaged(demand, window);
    }

    private boolean grantChunk(FileCreditRequests demand, long window, ReceiveSlot.Kind kind) {
        int chunk = pool.tryClaim();
        if (chunk == BufferPool.NONE) {
            return false;
        }
        ReceiveSlot slot = chunkSlots[chunk];
        slot.grant(kind, demand.file, window);
        if (kind == ReceiveSlot.Kind.RESERVED) {
            reservedUsed++;
        } else {
            generalUsed++;
        }
        demand.file.hold(slot);
        grant(demand, slot);
        return true;
    }

    /** Grants a bounce buffer whose bytes go into the slot that holds the window already. */
    private boolean grantPiece(FileCreditRequests demand, long window) {
        if (bounceUsed == bounceBuffers) {
            return false;
        }
        int chunk = pool.tryClaim();
        if (chunk == BufferPool.NONE) {
            return false;
        }
        ReceiveSlot bounce = chunkSlots[chunk];
        bounce.grant(ReceiveSlot.Kind.BOUNCE, demand.file, window);
        if (!demand.file.addPiece(bounce)) {
            // A reader emptied the holder in between: the window needs a slot of its own after all.
            bounce.file = null;
            pool.giveUp(chunk);
            return tryGiveCredit(demand, window, demand.blockedWindow == window);
        }
        bounceUsed++;
        grant(demand, bounce);
        return true;
    }

    private boolean grantStaged(FileCreditRequests demand, long window) {
        ReceiveSlot staged = staging.claim();
        if (staged == null) {
            return false;
        }
        staged.grant(ReceiveSlot.Kind.STAGING, demand.file, window);
        staged.arrived = true;
        demand.file.hold(staged);
        boolean granted = grantPiece(demand, window);
        stagedBytes += granted ? pool.geometry().chunkBytes() : 0;
        return granted;
    }

    private void grant(FileCreditRequests demand, ReceiveSlot slot) {
        demand.granted.add(slot.window);
        unusedGrants++;
        decisions.granted(demand.file, slot);
    }

    /** Chunks that are kept for readers: one for each stream that may need one, but at most half. */
    private int reserveLimit() {
        int toCome = Math.max(0, expectedStreams - createdStreams);
        return Math.min(poolChunks / 2, uncoveredStreams.getAsInt() + toCome);
    }

    private void enqueue(FileCreditRequests demand) {
        if (!demand.queued && demand.wantsAnything()) {
            demand.queued = true;
            queue.add(demand);
        }
    }

    private ReceiveSlot requireGranted(ArrivingFile file, int index) throws ProtocolException {
        ReceiveSlot slot = slot(index);
        FileCreditRequests demand = demands.get(file.id());
        boolean granted = slot != null
                && slot.file == file
                && slot.lengthBytes == 0
                && (demand == null || demand.granted.contains(slot.window));
        if (!granted) {
            throw new ProtocolException(
                    "slot " + index + " is not granted to file " + file.name() + ": the source is broken");
        }
        return slot;
    }

    private void forgetGrant(ArrivingFile file, ReceiveSlot slot) {
        FileCreditRequests demand = demands.get(file.id());
        if (demand != null) {
            demand.granted.remove(slot.window);
        }
        unusedGrants--;
    }

    /** The last help: a chunk out of the reserve, which is better used than kept when nothing moves. */
    boolean tryGrantAnyChunk(FileCreditRequests demand) {
        boolean given = demand.file.holder(demand.blockedWindow) == null
                && reservedUsed + generalUsed < poolChunks
                && grantChunk(demand, demand.blockedWindow, ReceiveSlot.Kind.RESERVED);
        if (given) {
            demand.blockedWindow = FileCreditRequests.NONE;
        }
        return given;
    }

    /** A chunk's bytes have moved to staging. */
    void noteStaged() {
        stagedBytes += pool.geometry().chunkBytes();
    }
}
