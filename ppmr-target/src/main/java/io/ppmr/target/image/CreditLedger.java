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
 * Grants receive slots to files. A writer at the source fills a chunk only for a slot that was granted to its file. So
 * every chunk under way has a destination.
 *
 * <p>The chunks of the pool have two classes. At most half are <i>reserved</i>: each only for the offset that a waiting
 * reader needs next. The rest are <i>general</i>, granted in the order of requests. A few additional chunks are
 * <i>bounce buffers</i>. They receive bytes for a slot that is already assigned, or for staging, and are freed when the
 * bytes were copied. All bytes of a retained file go to staging, by a general chunk or, if none is free, a bounce
 * buffer. {@code docs/internals/architecture.md} explains why this cannot
 * deadlock.
 *
 * <p>A transfer can stall because its programs wait for each other. A restart may wait for a file that its checkpointer
 * writes later, or restarts for chunks that other restarts read only in part. {@link #relieve} resolves such stalls.
 *
 * <p>Owned by the session's agent. No other thread calls it.
 */
public final class CreditLedger {
    private static final long NO_WINDOW = -1;
    /** Four times the range of one request: a blocked writer needs no window that is further away. */
    private static final int MAX_AHEAD = 4 * CreditRequestFrame.MAX_COUNT;

    /**
     * The limit for all files together. Further windows are not stored: their writer requests them when it is blocked
     * there.
     */
    private static final int MAX_AHEAD_TOTAL = 1 << 16;

    /** Receives the decisions. */
    public interface Decisions {
        void granted(ArrivingFile file, ReceiveSlot slot);

        /**
         * A receive slot is denied: {@code reason} goes to the writer, {@code message} to the log and the migration.
         */
        void denied(ArrivingFile file, long window, DenyReason reason, String message);
    }

    /** The requested and granted credits of one file's writer. */
    private final class Requests {
        private final ArrivingFile file;
        /** Windows whose receive slot is granted and unused. */
        private final LongHashSet granted = new LongHashSet();
        /** Windows that the writer will probably need next. */
        private final LongArrayQueue ahead = new LongArrayQueue();
        /** The window for which a writer is blocked. */
        private long blockedWindow = NO_WINDOW;
        /** The file is in the ledger's queue. */
        private boolean queued;

        private Requests(ArrivingFile file) {
            this.file = file;
        }

        private boolean isBlocked() {
            return blockedWindow != NO_WINDOW;
        }

        /** Stores a window that the writer will probably need, once. */
        private void addAhead(long window) throws ProtocolException {
            LongArrayQueue.LongIterator stored = ahead.iterator();
            while (stored.hasNext()) {
                if (stored.nextValue() == window) {
                    return;
                }
            }
            if (ahead.size() == MAX_AHEAD) {
                throw new ProtocolException("the writer of file " + file.name() + " requests more than " + MAX_AHEAD
                        + " windows ahead: the source is broken");
            }
            if (windowsAhead < MAX_AHEAD_TOTAL) {
                windowsAhead++;
                ahead.addLong(window);
            }
        }

        private long pollAhead() {
            windowsAhead--;
            return ahead.pollLong();
        }

        /**
         * The writer is blocked at this window. Earlier windows are no longer needed, and a request far from here was a
         * wrong guess.
         */
        private void removeFarFrom(long window) {
            for (int left = ahead.size(); left > 0; left--) {
                long wanted = pollAhead();
                if (wanted > window && wanted - window <= CreditRequestFrame.MAX_COUNT) {
                    windowsAhead++;
                    ahead.addLong(wanted);
                }
            }
        }

        /** Removes the windows up to this one, at which the writer is. */
        private void removeUpTo(long window) {
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
    /** The total number of windows that the writers of all files will probably need next. */
    private int windowsAhead;

    /**
     * @param bounceBuffers the number of the pool's chunks that are bounce buffers
     * @param expectedStreams the number of streams that the plan of the migration announces
     * @param uncoveredStreams the number of streams whose readers need an ungranted receive slot next
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

    /** Returns whether a writer is blocked because it has no receive slot. */
    public boolean hasBlockedWriter() {
        return blockedCount > 0;
    }

    public void fileCreated(ArrivingFile file) {
        files.put(file.id(), new Requests(file));
        createdStreams += file.streamed() ? 1 : 0;
    }

    /** Removes the file, which needs no more slots. */
    public void fileEnded(ArrivingFile file) {
        Requests requests = files.get(file.id());
        if (requests != null && requests.file == file) {
            block(requests, NO_WINDOW);
            queue.remove(requests);
            files.remove(file.id());
            windowsAhead -= requests.ahead.size();
        }
    }

    /** Sets the window for which a writer is blocked. */
    private void block(Requests requests, long window) {
        blockedCount += (window == NO_WINDOW ? 0 : 1) - (requests.isBlocked() ? 1 : 0);
        requests.blockedWindow = window;
    }

    // ---- requests of the source ------------------------------------------------------------------------------

    /** Handles a request for windows by the writer of a file. */
    public void requestCredits(ArrivingFile file, long window, int count, int flags) throws ProtocolException {
        long lastWindow = pool.geometry().windowOf(Long.MAX_VALUE) - CreditRequestFrame.MAX_COUNT;
        if (window < 0 || window > lastWindow || count < 1 || count > CreditRequestFrame.MAX_COUNT) {
            throw new ProtocolException("file " + file.name() + " requests " + count + " windows from " + window
                    + " on: a request has 1 to " + CreditRequestFrame.MAX_COUNT);
        }
        Requests requests = files.get(file.id());
        if (requests == null) {
            decisions.denied(file, window, DenyReason.NO_FILE, "file " + file.name() + " ended or was removed");
            return;
        }
        if ((flags & CreditRequestFrame.BLOCKED) != 0) {
            block(requests, requests.granted.contains(window) ? NO_WINDOW : window);
            requests.removeFarFrom(window);
        } else {
            requests.addAhead(window);
        }
        for (int further = 1; further < count; further++) {
            requests.addAhead(window + further);
        }
        if (requests.isBlocked()) {
            serveBlocked(requests);
        }
        enqueue(requests);
        serve();
    }

    /** Handles the return of an unused credit. */
    public void onCreditReturned(ArrivingFile file, int index) throws ProtocolException {
        ReceiveSlot slot = requireGranted(file, index);
        useGrant(file, slot);
        file.returnCredit(slot);
    }

    /** Handles the use of a credit by an advertised chunk. */
    public ReceiveSlot onAdvertised(ArrivingFile file, int index, long offset, int lengthBytes)
            throws ProtocolException {
        ReceiveSlot slot = requireGranted(file, index);
        requireInWindow(file, slot, offset, lengthBytes);
        useGrant(file, slot);
        updateRequests(file, slot);
        return slot;
    }

    /**
     * Handles the use of a credit by a chunk that begins to arrive without an advertisement. On the transport's
     * threads. {@link #onChunkReceived} follows.
     *
     * @return the slot, which now belongs to the chunk
     */
    public ReceiveSlot onChunkStart(int fileId, int index, long offset, int lengthBytes) throws ProtocolException {
        ReceiveSlot slot = slot(index);
        ArrivingFile file = slot == null ? null : slot.file();
        // Used first, because after that no other thread changes the slot.
        if (file == null || file.id() != fileId || !slot.use() || slot.file() != file) {
            throw notGranted(index, "file " + fileId);
        }
        requireInWindow(file, slot, offset, lengthBytes);
        return slot;
    }

    /** Records that an arrived chunk used a credit. */
    public void onChunkReceived(ArrivingFile file, ReceiveSlot slot) {
        removeGrant(file, slot);
        updateRequests(file, slot);
    }

    private void updateRequests(ArrivingFile file, ReceiveSlot slot) {
        Requests requests = files.get(file.id());
        if (requests != null) {
            requests.removeUpTo(slot.window());
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

    /** Returns the receive slot with this index, or null. */
    public ReceiveSlot slot(int index) {
        return index >= 0 && index < chunkSlots.length ? chunkSlots[index] : null;
    }

    /** Releases every chunk that is still granted; for the end of a session. */
    public void reclaimAll() {
        for (ReceiveSlot slot : chunkSlots) {
            if (pool.state(slot.chunk()) == ChunkState.FILLING) {
                slot.revoke();
                pool.releaseUnused(slot.chunk());
            }
        }
    }

    // ---- local events ----------------------------------------------------------------------------------------

    /** Handles a chunk whose receive slot is empty. */
    public void onSlotFree(ReceiveSlot slot) {
        count(slot.kind(), -1);
        pool.markReady(slot.chunk());
        pool.release(slot.chunk());
    }

    /** Grants all possible slots, after readers began to wait or slots became free. */
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
     * Handles a stall: denies requests that can never fit. Also helps readers that wait for a writer blocked at another
     * file of the same rank, and readers without a receive slot.
     *
     * @return null if nothing was necessary or it succeeded; otherwise the missing resource
     */
    public String relieve() {
        serve();
        if (unusedGrants == 0) {
            denyUnservable();
        }
        String problem = null;
        for (Requests requests : queue) {
            if (!requests.isBlocked() || !requests.file.rank().hasWaitingReader()) {
                continue;
            }
            if (requests.file.readerWaitsIn(requests.blockedWindow)) {
                problem = evictOne() || tryGrantAnyChunk(requests) ? problem : stuckAtPool(requests.file);
            } else if (!requests.file.readerWaits() && !requests.file.canBlockWriter()) {
                // Its reader, if there is one, waits for bytes under way. Another reader waits for another file.
                requests.file.rank().allowStaging();
                problem = serveOne(requests) || tryGrantAnyChunk(requests) ? problem : stuckAtOrder(requests.file);
            }
        }
        serve();
        return problem;
    }

    /** Moves the bytes of a chunk without a reader to staging. */
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
        return "a restart waits for file " + file.name() + ", but every chunk of the pool contains bytes that no "
                + "restart reads, and " + staging.whyNone() + ": raise pool.size or staging.limit of the target";
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

    /** Returns whether the requested bytes are kept regardless of readers, so that only more space would help. */
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
            // A reader emptied the slot in the meantime, so the window needs its own receive slot.
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

    /** Grants a bounce buffer whose bytes go to the receive slot of the window, if there still is one. */
    private boolean grantPiece(Requests requests, long window) {
        int chunk = bounceUsed == bounceBuffers ? BufferPool.NONE : pool.tryClaim();
        if (chunk == BufferPool.NONE) {
            return false;
        }
        ReceiveSlot bounce = chunkSlots[chunk];
        bounce.grant(ReceiveSlot.SlotKind.BOUNCE, requests.file, window);
        if (!requests.file.addPiece(bounce)) {
            bounce.revoke();
            pool.releaseUnused(chunk);
            return false;
        }
        bounceUsed++;
        grant(requests, bounce);
        return true;
    }

    /** Grants a chunk whose bytes go to staging, if that has space for them. */
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

    /**
     * Returns the number of chunks that are kept for readers: one for each stream that may need one, but at most half.
     */
    private int reserveLimit() {
        int uncreated = Math.max(0, expectedStreams - createdStreams);
        return Math.min(poolChunks / 2, uncoveredStreams.getAsInt() + uncreated);
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

    private void useGrant(ArrivingFile file, ReceiveSlot slot) throws ProtocolException {
        if (!slot.use()) {
            throw notGranted(slot.index(), "file " + file.name() + " now");
        }
        removeGrant(file, slot);
    }

    private void removeGrant(ArrivingFile file, ReceiveSlot slot) {
        Requests requests = files.get(file.id());
        if (requests != null) {
            requests.granted.remove(slot.window());
        }
        unusedGrants--;
    }

    /** The last measure in a stall: grants a chunk of the reserve. */
    private boolean tryGrantAnyChunk(Requests requests) {
        boolean granted = requests.file.streamed()
                && !requests.file.isHeld(requests.blockedWindow)
                && reservedUsed + generalUsed < poolChunks
                && grantChunk(requests, requests.blockedWindow, ReceiveSlot.SlotKind.RESERVED);
        if (granted) {
            block(requests, NO_WINDOW);
        }
        return granted;
    }
}
