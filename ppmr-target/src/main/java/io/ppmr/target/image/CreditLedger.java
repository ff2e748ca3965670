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
 * staging, pass through one and leave it as soon as they have come; where there is no stream, up to half of the pool is
 * lent to them. {@code docs/architecture.md} argues why this cannot
 * lock up.
 *
 * <p>A transfer can stand still because its programs wait for each other: a restart for a file that its checkpointer
 * writes later, or restarts for chunks that other restarts have read half. {@link #relieve} helps them.
 *
 * <p>Owned by the session's agent; no other thread calls it.
 */
public final class CreditLedger {
    private static final long NO_WINDOW = -1;
    /** A writer that stands still wants none further away than one request reaches; this is four times as much. */
    private static final int MOST_AHEAD = 4 * CreditRequestFrame.MAX_COUNT;

    /** Of all files together. A window beyond is not noted: its writer asks for it when it stands still there. */
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
        /** The window for which a writer stands still. */
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
                        + " windows that it does not stand still at: the source is broken");
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
         * The writer stands still at this window: it is past what it was to need before, and what it was to need far
         * from here was a guess that has not come true.
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
    private final StagingArea staging;
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
    /** Chunks of the pool that are bounce buffers until they are taken back. */
    private int lentChunks;

    private int blockedCount;
    /** The windows that the writers of all files will probably need next. */
    private int windowsAhead;

    private long stagedBytes;

    /**
     * @param bounceBuffers how many of the pool's chunks are bounce buffers
     * @param expectedStreams how many streams the plan of the migration announces
     * @param uncoveredStreams how many streams' readers need a receive slot next that is not granted yet
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
    }

    /** Bytes that have gone to staging. */
    public long stagedBytes() {
        return stagedBytes;
    }

    /** Tells whether a writer stands still for want of a receive slot. */
    public boolean someoneIsBlocked() {
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

    /** Notes for which window a writer stands still. */
    private void block(Requests requests, long window) {
        blockedCount += (window == NO_WINDOW ? 0 : 1) - (requests.isBlocked() ? 1 : 0);
        requests.blockedWindow = window;
    }

    // ---- what the source asks ---------------------------------------------------------------------------------

    /** The writer of a file asks for windows. */
    public void want(ArrivingFile file, long window, int count, int flags) throws ProtocolException {
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

    /** A credit is not needed. */
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
     * A chunk comes that nobody has asked for: its credit is used. On the transport's threads; {@link #sent} follows.
     *
     * @return the slot, which is the chunk's now
     */
    public ReceiveSlot comes(int fileId, int index, long offset, int lengthBytes) throws ProtocolException {
        ReceiveSlot slot = slot(index);
        ArrivingFile file = slot == null ? null : slot.file();
        // Used first: from then on the slot is nobody else's.
        if (file == null || file.id() != fileId || !slot.use() || slot.file() != file) {
            throw notGranted(index, "file " + fileId);
        }
        requireInWindow(file, slot, offset, lengthBytes);
        return slot;
    }

    /** Notes that a credit was used by a chunk that has come. */
    public void sent(ArrivingFile file, ReceiveSlot slot) {
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

    /** The receive slot with this index, or null; those of staging have none. */
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
        switch (slot.kind()) {
            case RESERVED -> reservedUsed--;
            case GENERAL -> generalUsed--;
            case BOUNCE -> bounceUsed--;
            case STAGING -> throw new IllegalArgumentException(slot + " is freed where it lies");
        }
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
     * Nothing has moved for a while: denies what can never fit, and helps readers who wait for a writer that stands
     * still at another file of the same rank, and readers for whom there is no receive slot.
     *
     * @return null if there was nothing to do or it was done, else what would have helped and could not be had
     */
    public String relieve() {
        serve();
        if (unusedGrants == 0) {
            denyWhatCannotFit();
        }
        String wanting = null;
        for (Requests requests : queue) {
            if (!requests.isBlocked() || !requests.file.rank().hasWaitingReader()) {
                continue;
            }
            if (requests.file.readerWaitsIn(requests.blockedWindow)) {
                wanting = evictOne() || tryGrantAnyChunk(requests) ? wanting : stuckAtPool(requests.file);
            } else if (!requests.file.readerWaits() && !requests.file.standsAlone()) {
                // Its reader, if it waited, would wait for bytes that are on their way. Somebody waits for another
                // file.
                requests.file.rank().allowStaging();
                wanting = serveOne(requests) || tryGrantAnyChunk(requests) ? wanting : stuckAtOrder(requests.file);
            }
        }
        serve();
        return wanting;
    }

    /** Moves a chunk that nobody reads from to staging. */
    private boolean evictOne() {
        for (ReceiveSlot slot : chunkSlots) {
            ArrivingFile file = slot.file();
            if (file == null || slot.kind() == ReceiveSlot.Kind.BOUNCE || !file.canEvict(slot)) {
                continue;
            }
            ReceiveSlot staged = staging.claim();
            if (staged == null) {
                return false;
            }
            staged.grant(ReceiveSlot.Kind.STAGING, file, slot.window());
            if (file.evict(slot, staged)) {
                stagedBytes += pool.geometry().chunkBytes();
                return true;
            }
            staged.revoke();
            staging.release(staged);
        }
        return false;
    }

    private String stuckAtPool(ArrivingFile file) {
        return "a restart waits for file " + file.name() + ", but every chunk of the pool holds bytes that no "
                + "restart reads on, and " + staging.whyNone() + ": raise pool.size or " + staging.remedy()
                + " of the target";
    }

    private String stuckAtOrder(ArrivingFile file) {
        return "file " + file.name() + " is written but not read, while a restart waits for another file of rank "
                + file.rank().rank() + " that its checkpointer writes later; the pool is full and "
                + staging.whyNone() + ": raise pool.size or " + staging.remedy() + " of the target";
    }

    /** Said only when nothing moves and no grant is out: until then one may come back unused. */
    private void denyWhatCannotFit() {
        for (Requests requests : queue) {
            if (requests.isBlocked() && bounceUsed < bounceLimit() && isKept(requests)) {
                long window = requests.blockedWindow;
                block(requests, NO_WINDOW);
                String message = "file " + requests.file.name() + ": its image does not fit the pool of "
                        + poolChunks * (long) pool.geometry().chunkBytes() + " bytes and staging ("
                        + staging.whyNone() + "): raise pool.size or " + staging.remedy() + " of the target";
                decisions.denied(requests.file, window, DenyReason.NO_SPACE, message);
            }
        }
    }

    /** Tells whether what is to come stays, whatever readers do: only more room would help. */
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
            if (!tryGiveCredit(requests, window, false)) {
                return false;
            }
            requests.pollAhead();
            return true;
        }
        return false;
    }

    private boolean serveBlocked(Requests requests) {
        boolean granted = tryGiveCredit(requests, requests.blockedWindow, true);
        if (granted) {
            block(requests, NO_WINDOW);
        }
        return granted;
    }

    private boolean tryGiveCredit(Requests requests, long window, boolean blocked) {
        ArrivingFile file = requests.file;
        if (file.isHeld(window)) {
            boolean granted = grantPiece(requests, window);
            if (granted || file.isHeld(window)) {
                return granted;
            }
            // A reader emptied the holder in between: the window needs a receive slot of its own after all.
        }
        boolean needed = blocked && file.streamed() && file.readerWaitsIn(window);
        int used = reservedUsed + generalUsed + lentChunks;
        if (needed
                && reservedUsed < poolChunks / 2
                && used < poolChunks
                && grantChunk(requests, window, ReceiveSlot.Kind.RESERVED)) {
            return true;
        }
        if (used < poolChunks - reserveLimit() && grantChunk(requests, window, ReceiveSlot.Kind.GENERAL)) {
            return true;
        }
        if (!file.mayStage() && !(blocked && file.hasGapBefore(window))) {
            return false;
        }
        if (bounceUsed == bounceLimit()) {
            lendChunk();
            return false;
        }
        if (grantStaged(requests, window)) {
            return true;
        }
        // What staging cannot keep the pool may.
        return takeBackChunk() && grantChunk(requests, window, ReceiveSlot.Kind.GENERAL);
    }

    private int bounceLimit() {
        return bounceBuffers + lentChunks;
    }

    /**
     * Makes a chunk of the pool a bounce buffer where no stream needs the pool; what is in it moves to staging. A
     * bounce buffer is taken for as long as its credit and its bytes travel, so a network that delays by a millisecond
     * carries no more in two than all of them hold. At most half of the pool is lent.
     */
    private void lendChunk() {
        if (createdStreams == 0 && expectedStreams == 0 && lentChunks < poolChunks / 2 && evictOne()) {
            lentChunks++;
        }
    }

    /** Ends the loan of a chunk that no bytes pass through. */
    private boolean takeBackChunk() {
        boolean unused = lentChunks > 0 && bounceUsed < bounceLimit();
        lentChunks -= unused ? 1 : 0;
        return unused;
    }

    private boolean grantChunk(Requests requests, long window, ReceiveSlot.Kind kind) {
        int chunk = pool.tryClaim();
        if (chunk == BufferPool.NONE) {
            return false;
        }
        ReceiveSlot slot = chunkSlots[chunk];
        slot.grant(kind, requests.file, window);
        if (kind == ReceiveSlot.Kind.RESERVED) {
            reservedUsed++;
        } else {
            generalUsed++;
        }
        requests.file.hold(slot);
        grant(requests, slot);
        return true;
    }

    /** Grants a bounce buffer whose bytes go into the receive slot that holds the window, if one still does. */
    private boolean grantPiece(Requests requests, long window) {
        int chunk = bounceUsed == bounceLimit() ? BufferPool.NONE : pool.tryClaim();
        if (chunk == BufferPool.NONE) {
            return false;
        }
        ReceiveSlot bounce = chunkSlots[chunk];
        bounce.grant(ReceiveSlot.Kind.BOUNCE, requests.file, window);
        if (!requests.file.addPiece(bounce)) {
            bounce.revoke();
            pool.giveUp(chunk);
            return false;
        }
        bounceUsed++;
        grant(requests, bounce);
        return true;
    }

    private boolean grantStaged(Requests requests, long window) {
        ReceiveSlot staged = staging.claim();
        if (staged == null) {
            return false;
        }
        staged.grant(ReceiveSlot.Kind.STAGING, requests.file, window);
        requests.file.hold(staged);
        boolean granted = grantPiece(requests, window);
        if (!granted) {
            requests.file.giveUp(staged);
            return false;
        }
        stagedBytes += pool.geometry().chunkBytes();
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
            throw notGranted(slot.index(), "file " + file.name() + " any more");
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
        boolean given = !requests.file.isHeld(requests.blockedWindow)
                && reservedUsed + generalUsed + lentChunks < poolChunks
                && grantChunk(requests, requests.blockedWindow, ReceiveSlot.Kind.RESERVED);
        if (given) {
            block(requests, NO_WINDOW);
        }
        return given;
    }
}
