package io.ppmr.target.image;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.ChunkState;
import io.ppmr.protocol.data.CreditRequestFrame;
import io.ppmr.protocol.data.DenyReason;
import io.ppmr.protocol.data.ProtocolException;
import java.util.ArrayDeque;
import java.util.function.IntSupplier;
import org.agrona.collections.Int2ObjectHashMap;
import org.agrona.collections.LongArrayQueue;
import org.agrona.collections.LongHashSet;

/**
 * Decides who gets which receive slot. A writer at the source fills a chunk only for a receive slot that this ledger
 * granted to its file, so what is under way always has a place to go to.
 *
 * <p>The chunks of the pool are given out in two classes. At most half are <i>reserved</i>: each only for the offset
 * that a waiting reader needs next. The rest are <i>general</i>: for whatever comes, first come first served. A few
 * chunks beside the pool are <i>bounce buffers</i>: bytes that belong into a receive slot already held, or into
 * staging, pass through one and leave it as soon as they have come. All bytes of a retained file go to staging, by a
 * general chunk or, if none is free, a bounce buffer. {@code docs/internals/architecture.md} argues why this cannot
 * lock up.
 *
 * <p>A transfer can stall because its programs wait for each other: a restart for a file that its checkpointer writes
 * later, or restarts for chunks that other restarts have read half. {@link #relieve} helps them.
 *
 * <p>Owned by the session's agent; no other thread calls it.
 */
public final class CreditLedger {
    private static final long NO_WINDOW = -1;
    /** A writer that is blocked wants none further away than one request reaches; this is four times as much. */
    private static final int MOST_AHEAD = 4 * CreditRequestFrame.MAX_COUNT;

    /** Of all files together. A window beyond is not noted: its writer asks for it when it is blocked there. */
    private static final int MOST_AHEAD_IN_ALL = 1 << 16;

    /** Hears what was decided. */
    public interface Decisions {
        void granted(ArrivingFile file, ReceiveSlot slot);

        /**
         * There will be no receive slot: {@code reason} goes to the writer, {@code message} to the log and the
         * migration.
         */
        void denied(ArrivingFile file, long window, DenyReason reason, String message);
    }

    /** The credits that the writer of one file has asked for and been given. */
    private final class Requests {
        private final ArrivingFile file;
        /** Windows whose receive slot is granted and not advertised yet. */
        private final LongHashSet granted = new LongHashSet();
        /** Windows that the writer will probably need next. */
        private final LongArrayQueue ahead = new LongArrayQueue();
        /** The window for which a writer is blocked. */
        private long blockedWindow = NO_WINDOW;
        /** It stands in the ledger's queue. */
        private boolean queued;

        private Requests(ArrivingFile file) {
            this.file = file;
        }

        private boolean isBlocked() {
            return blockedWindow != NO_WINDOW;
        }

        /** Notes a window that the writer will probably need, once. */
        private void note(long window) throws ProtocolException {
            LongArrayQueue.LongIterator noted = ahead.iterator();
            while (noted.hasNext()) {
                if (noted.nextValue() == window) {
                    return;
                }
            }
            if (ahead.size() == MOST_AHEAD) {
                throw new ProtocolException("the writer of file " + file.name() + " wants more than " + MOST_AHEAD
                        + " windows that it is not blocked at: the source is broken");
            }
            if (windowsAhead < MOST_AHEAD_IN_ALL) {
                windowsAhead++;
                ahead.addLong(window);
            }
        }

        private long pollAhead() {
            windowsAhead--;
            return ahead.pollLong();
        }

        /**
         * The writer is blocked at this window: it is past what it was to need before, and what it was to need far from
         * here was a guess that has not come true.
         */
        private void forgetFarFrom(long window) {
            for (int left = ahead.size(); left > 0; left--) {
                long wanted = pollAhead();
                if (wanted > window && wanted - window <= CreditRequestFrame.MAX_COUNT) {
                    windowsAhead++;
                    ahead.addLong(wanted);
                }
            }
        }

        /** The writer is at this window: what it was to need before it is past. */
        private void forgetUpTo(long window) {
            while (!ahead.isEmpty() && ahead.peekLong() <= window) {
                pollAhead();
            }
        }
    }

    private final BufferPool pool;
    private final Staging staging;
    private final Decisions decisions;
    private final int poolChunks;
    private final int bounceBuffers;
    private final ReceiveSlot[] chunkSlots;
    private final Int2ObjectHashMap<Requests> files = new Int2ObjectHashMap<>();
    private final ArrayDeque<Requests> queue = new ArrayDeque<>();
    private final int expectedStreams;
    private final IntSupplier uncoveredStreams;
    private int createdStreams;
    private int reservedUsed;
    private int generalUsed;
    private int unusedGrants;
    private int bounceUsed;

    private int blockedCount;
    /** The windows that the writers of all files will probably need next. */
    private int windowsAhead;

    /**
     * @param bounceBuffers how many of the pool's chunks are bounce buffers
     * @param expectedStreams how many streams the plan of the migration announces
     * @param uncoveredStreams how many streams' readers need a receive slot next that is not granted yet
     */
    public CreditLedger(
            BufferPool pool,
            int bounceBuffers,
            Staging staging,
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
    }

    /** Returns whether a writer is blocked for want of a receive slot. */
    public boolean hasBlockedWriter() {
        return blockedCount > 0;
    }

    public void fileCreated(ArrivingFile file) {
        files.put(file.id(), new Requests(file));
        createdStreams += file.streamed() ? 1 : 0;
    }

    /** The file will want nothing more. */
    public void fileEnded(ArrivingFile file) {
        Requests requests = files.get(file.id());
        if (requests != null && requests.file == file) {
            block(requests, NO_WINDOW);
            queue.remove(requests);
            files.remove(file.id());
            windowsAhead -= requests.ahead.size();
        }
    }

    /** Notes for which window a writer is blocked. */
    private void block(Requests requests, long window) {
        blockedCount += (window == NO_WINDOW ? 0 : 1) - (requests.isBlocked() ? 1 : 0);
        requests.blockedWindow = window;
    }

    // ---- what the source asks ---------------------------------------------------------------------------------

    /** The writer of a file asks for windows. */
    public void requestCredits(ArrivingFile file, long window, int count, int flags) throws ProtocolException {
        long lastWindow = pool.geometry().windowOf(Long.MAX_VALUE) - CreditRequestFrame.MAX_COUNT;
        if (window < 0 || window > lastWindow || count < 1 || count > CreditRequestFrame.MAX_COUNT) {
            throw new ProtocolException("file " + file.name() + " wants " + count + " windows from " + window
                    + " on: it must want 1 to " + CreditRequestFrame.MAX_COUNT);
        }
        Requests requests = files.get(file.id());
        if (requests == null) {
            decisions.denied(file, window, DenyReason.NO_FILE, "file " + file.name() + " has ended or is gone");
            return;
        }
        if ((flags & CreditRequestFrame.BLOCKED) != 0) {
            block(requests, requests.granted.contains(window) ? NO_WINDOW : window);
            requests.forgetFarFrom(window);
        } else {
            requests.note(window);
        }
        for (int further = 1; further < count; further++) {
            requests.note(window + further);
        }
        if (requests.isBlocked()) {
            serveBlocked(requests);
        }
        enqueue(requests);
        serve();
    }

    /** Returns a credit that is not needed. */
    public void returned(ArrivingFile file, int index) throws ProtocolException {
        ReceiveSlot slot = requireGranted(file, index);
        forgetGrant(file, slot);
        file.giveUp(slot);
    }

    /** A credit is about to be filled. */
    public ReceiveSlot advertised(ArrivingFile file, int index, long offset, int lengthBytes) throws ProtocolException {
        ReceiveSlot slot = requireGranted(file, index);
        requireInWindow(file, slot, offset, lengthBytes);
        forgetGrant(file, slot);
        used(file, slot);
        return slot;
    }

    /**
     * A chunk begins to arrive without an advertisement: its credit is used. On the transport's threads; {@link
     * #onChunkReceived} follows.
     *
     * @return the slot, which is the chunk's now
     */
    public ReceiveSlot onChunkStart(int fileId, int index, long offset, int lengthBytes) throws ProtocolException {
        ReceiveSlot slot = slot(index);
        ArrivingFile file = slot == null ? null : slot.file();
        // Used first: from then on the slot is no other process's.
        if (file == null || file.id() != fileId || !slot.use() || slot.file() != file) {
            throw notGranted(index, "file " + fileId);
        }
        requireInWindow(file, slot, offset, lengthBytes);
        return slot;
    }

    /** Notes that a credit was used by a chunk that has come. */
    public void onChunkReceived(ArrivingFile file, ReceiveSlot slot) {
        forgetUse(file, slot);
        used(file, slot);
    }

    private void used(ArrivingFile file, ReceiveSlot slot) {
        Requests requests = files.get(file.id());
        if (requests != null) {
            requests.forgetUpTo(slot.window());
        }
    }

    private void requireInWindow(ArrivingFile file, ReceiveSlot slot, long offset, int lengthBytes)
            throws ProtocolException {
        int chunkBytes = pool.geometry().chunkBytes();
        long windowStart = slot.window() * chunkBytes;
        if (lengthBytes <= 0 || offset < windowStart || offset > windowStart + chunkBytes - lengthBytes) {
            throw new ProtocolException(lengthBytes + " bytes at " + offset + " of file " + file.name()
                    + " are outside the window of " + slot);
        }
    }

    /** The receive slot with this index, or null. */
    public ReceiveSlot slot(int index) {
        return index >= 0 && index < chunkSlots.length ? chunkSlots[index] : null;
    }

    /** Takes back every chunk that is still out; for the end of a session. */
    public void reclaimAll() {
        for (ReceiveSlot slot : chunkSlots) {
            if (pool.state(slot.chunk()) == ChunkState.FILLING) {
                slot.revoke();
                pool.giveUp(slot.chunk());
            }
        }
    }

    // ---- what happens here ------------------------------------------------------------------------------------

    /** A chunk's receive slot is empty again. */
    public void freed(ReceiveSlot slot) {
        count(slot.kind(), -1);
        pool.ready(slot.chunk());
        pool.release(slot.chunk());
    }

    /** Readers wait, or receive slots are free: grants what can be granted now. */
    public void serve() {
        boolean progress = true;
        while (progress) {
            progress = false;
            for (int left = queue.size(); left > 0; left--) {
                Requests requests = queue.poll();
                requests.queued = false;
                progress |= serveOne(requests);
                enqueue(requests);
            }
        }
    }

    /**
     * Nothing has moved for a while: denies what can never fit, and helps readers who wait for a writer that is blocked
     * at another file of the same rank, and readers for whom there is no receive slot.
     *
     * @return null if there was nothing to do or it was done, else what would have helped and could not be had
     */
    public String relieve() {
        serve();
        if (unusedGrants == 0) {
            denyUnservable();
        }
        String wanting = null;
        for (Requests requests : queue) {
            if (!requests.isBlocked() || !requests.file.rank().hasWaitingReader()) {
                continue;
            }
            if (requests.file.readerWaitsIn(requests.blockedWindow)) {
                wanting = evictOne() || tryGrantAnyChunk(requests) ? wanting : stuckAtPool(requests.file);
            } else if (!requests.file.readerWaits() && !requests.file.canBlockWriter()) {
                // Its reader, if there is one, waits for bytes that are on their way. Another reader waits for another
                // file.
                requests.file.rank().allowStaging();
                wanting = serveOne(requests) || tryGrantAnyChunk(requests) ? wanting : stuckAtOrder(requests.file);
            }
        }
        serve();
        return wanting;
    }

    /** Moves a chunk that has no reader to staging. */
    private boolean evictOne() {
        for (ReceiveSlot slot : chunkSlots) {
            ArrivingFile file = slot.file();
            if (file == null || slot.kind() == ReceiveSlot.SlotKind.BOUNCE || !file.canEvict(slot)) {
                continue;
            }
            long bytes = file.missingBytes(slot.window());
            if (!staging.reserve(bytes)) {
                return false;
            }
            boolean evicted = file.evict(slot);
            staging.release(bytes);
            if (evicted) {
                return true;
            }
        }
        return false;
    }

    private String stuckAtPool(ArrivingFile file) {
        return "a restart waits for file " + file.name() + ", but every chunk of the pool holds bytes that no "
                + "restart reads on, and " + staging.whyNone() + ": raise pool.size or staging.limit of the target";
    }

    private String stuckAtOrder(ArrivingFile file) {
        return "file " + file.name() + " is written but not read, while a restart waits for another file of rank "
                + file.rank().rank() + " that its checkpointer writes later; the pool is full and "
                + staging.whyNone() + ": raise pool.size or staging.limit of the target";
    }

    /** Called only when the transfer is stalled and no unused credit is outstanding. */
    private void denyUnservable() {
        for (Requests requests : queue) {
            if (requests.isBlocked() && bounceUsed < bounceBuffers && isKept(requests)) {
                long window = requests.blockedWindow;
                block(requests, NO_WINDOW);
                boolean streamed = requests.file.streamed();
                String message = "file " + requests.file.name() + ": its image does not fit "
                        + (streamed
                                ? "the pool of "
                                        + poolChunks * (long) pool.geometry().chunkBytes() + " bytes and "
                                : "")
                        + "staging (" + staging.whyNone() + "): raise "
                        + (streamed ? "pool.size or " : "") + "staging.limit of the target";
                decisions.denied(requests.file, window, DenyReason.NO_SPACE, message);
            }
        }
    }

    /** Returns whether what is to come stays, whatever readers do: only more room would help. */
    private static boolean isKept(Requests requests) {
        return !requests.file.streamed() || requests.file.hasGapBefore(requests.blockedWindow);
    }

    private boolean serveOne(Requests requests) {
        if (requests.isBlocked()) {
            return serveBlocked(requests);
        }
        while (!requests.ahead.isEmpty()) {
            long window = requests.ahead.peekLong();
            if (requests.granted.contains(window)) {
                requests.pollAhead();
                continue;
            }
            if (!tryGrantCredit(requests, window, false)) {
                return false;
            }
            requests.pollAhead();
            return true;
        }
        return false;
    }

    private boolean serveBlocked(Requests requests) {
        boolean granted = tryGrantCredit(requests, requests.blockedWindow, true);
        if (granted) {
            block(requests, NO_WINDOW);
        }
        return granted;
    }

    private boolean tryGrantCredit(Requests requests, long window, boolean blocked) {
        ArrivingFile file = requests.file;
        if (file.isHeld(window)) {
            boolean granted = grantPiece(requests, window);
            if (granted || file.isHeld(window)) {
                return granted;
            }
            // A reader emptied the holder in between: the window needs a receive slot of its own after all.
        }
        if (!file.streamed()) {
            return grantStaged(requests, window, mayUseGeneral());
        }
        boolean needed = blocked && file.readerWaitsIn(window);
        if (needed
                && reservedUsed < poolChunks / 2
                && reservedUsed + generalUsed < poolChunks
                && grantChunk(requests, window, ReceiveSlot.SlotKind.RESERVED)) {
            return true;
        }
        if (mayUseGeneral() && grantChunk(requests, window, ReceiveSlot.SlotKind.GENERAL)) {
            return true;
        }
        boolean stages = file.mayStage() || (blocked && file.hasGapBefore(window));
        return stages && grantStaged(requests, window, false);
    }

    private boolean mayUseGeneral() {
        return reservedUsed + generalUsed < poolChunks - reserveLimit();
    }

    private boolean grantChunk(Requests requests, long window, ReceiveSlot.SlotKind kind) {
        int chunk = pool.tryClaim();
        if (chunk == BufferPool.NONE) {
            return false;
        }
        ReceiveSlot slot = chunkSlots[chunk];
        slot.grant(kind, requests.file, window);
        count(kind, 1);
        requests.file.hold(slot);
        grant(requests, slot);
        return true;
    }

    private void count(ReceiveSlot.SlotKind kind, int change) {
        switch (kind) {
            case RESERVED -> reservedUsed += change;
            case GENERAL -> generalUsed += change;
            case BOUNCE -> bounceUsed += change;
        }
    }

    /** Grants a bounce buffer whose bytes go into the receive slot that holds the window, if one still does. */
    private boolean grantPiece(Requests requests, long window) {
        int chunk = bounceUsed == bounceBuffers ? BufferPool.NONE : pool.tryClaim();
        if (chunk == BufferPool.NONE) {
            return false;
        }
        ReceiveSlot bounce = chunkSlots[chunk];
        bounce.grant(ReceiveSlot.SlotKind.BOUNCE, requests.file, window);
        if (!requests.file.addPiece(bounce)) {
            bounce.revoke();
            pool.giveUp(chunk);
            return false;
        }
        bounceUsed++;
        grant(requests, bounce);
        return true;
    }

    /** Grants a chunk whose bytes go to staging, if that has room for them. */
    private boolean grantStaged(Requests requests, long window, boolean general) {
        if (!general && bounceUsed == bounceBuffers) {
            return false;
        }
        long bytes = requests.file.missingBytes(window);
        if (!staging.reserve(bytes)) {
            return false;
        }
        int chunk = pool.tryClaim();
        if (chunk == BufferPool.NONE) {
            staging.release(bytes);
            return false;
        }
        ReceiveSlot slot = chunkSlots[chunk];
        ReceiveSlot.SlotKind kind = general ? ReceiveSlot.SlotKind.GENERAL : ReceiveSlot.SlotKind.BOUNCE;
        slot.grantStaged(kind, requests.file, window, bytes);
        count(kind, 1);
        if (requests.file.streamed()) {
            requests.file.hold(slot);
        }
        grant(requests, slot);
        return true;
    }

    private void grant(Requests requests, ReceiveSlot slot) {
        requests.granted.add(slot.window());
        unusedGrants++;
        decisions.granted(requests.file, slot);
    }

    /** Chunks that are kept for readers: one for each stream that may need one, but at most half. */
    private int reserveLimit() {
        int toCome = Math.max(0, expectedStreams - createdStreams);
        return Math.min(poolChunks / 2, uncoveredStreams.getAsInt() + toCome);
    }

    private void enqueue(Requests requests) {
        if (!requests.queued && (requests.isBlocked() || !requests.ahead.isEmpty())) {
            requests.queued = true;
            queue.add(requests);
        }
    }

    private ReceiveSlot requireGranted(ArrivingFile file, int index) throws ProtocolException {
        ReceiveSlot slot = slot(index);
        Requests requests = files.get(file.id());
        boolean granted = slot != null
                && slot.isUnusedGrantOf(file)
                && (requests == null || requests.granted.contains(slot.window()));
        if (!granted) {
            throw notGranted(index, "file " + file.name());
        }
        return slot;
    }

    private static ProtocolException notGranted(int index, String file) {
        return new ProtocolException("slot " + index + " is not granted to " + file + ": the source is broken");
    }

    private void forgetGrant(ArrivingFile file, ReceiveSlot slot) throws ProtocolException {
        if (!slot.use()) {
            throw notGranted(slot.index(), "file " + file.name() + " now");
        }
        forgetUse(file, slot);
    }

    private void forgetUse(ArrivingFile file, ReceiveSlot slot) {
        Requests requests = files.get(file.id());
        if (requests != null) {
            requests.granted.remove(slot.window());
        }
        unusedGrants--;
    }

    /** The last help: a chunk out of the reserve, which is better used than kept when nothing moves. */
    private boolean tryGrantAnyChunk(Requests requests) {
        boolean given = requests.file.streamed()
                && !requests.file.isHeld(requests.blockedWindow)
                && reservedUsed + generalUsed < poolChunks
                && grantChunk(requests, requests.blockedWindow, ReceiveSlot.SlotKind.RESERVED);
        if (given) {
            block(requests, NO_WINDOW);
        }
        return given;
    }
}
