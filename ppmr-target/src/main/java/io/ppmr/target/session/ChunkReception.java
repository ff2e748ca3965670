package io.ppmr.target.session;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.protocol.data.AdvertiseFrame;
import io.ppmr.protocol.data.ChunkFrame;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.target.image.ArrivingFile;
import io.ppmr.target.image.CreditLedger;
import io.ppmr.target.image.ImageException;
import io.ppmr.target.image.ReceiveSlot;
import io.ppmr.target.metrics.TargetHops;
import io.ppmr.transport.Arrivals;
import io.ppmr.transport.ChunkPuller;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.RemoteBlock;
import io.ppmr.transport.TargetPath;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Function;
import java.util.zip.CRC32C;

/**
 * The arriving chunks of one transfer. With RDMA Read as many are pulled at once as the transport allows, and the rest
 * waits in order. Otherwise the source sends them. The thread that received a chunk checks its CRC, while its bytes are
 * in the cache.
 *
 * <p>The session's agent adds and starts pulls and reports arrivals. The transport's threads call the methods of {@link
 * Arrivals}.
 */
final class ChunkReception implements Arrivals {

    /**
     * The arriving bytes of one chunk, until they are reported. For a pull, the session's agent writes it, and the
     * transport's threads read it while the pull is running. For a sent chunk, only the receiving thread uses it.
     */
    private static final class Entry {
        private final int chunk;
        private final CRC32C crc = new CRC32C();
        private ReceiveSlot slot;
        private ArrivingFile file;
        private long offset;
        private int lengthBytes;
        private int crc32c;
        private long address;
        private long key;
        private long order;
        private int sourceChunk;
        private long sinceNs;
        private boolean underWay;

        private Entry(int chunk) {
            this.chunk = chunk;
        }
    }

    private final BufferPool pool;
    private final CreditLedger ledger;
    private final ControlLink link;
    private final AgentInbox inbox;
    private final SourceReplies replies;
    private final TargetHops hops;
    private final Entry[] entries;
    private final ArrayDeque<Entry> waiting = new ArrayDeque<>();
    private final RemoteBlock block = new RemoteBlock();
    private final ChunkBits arrived;
    private final LongAdder arrivedBytes = new LongAdder();
    /** Chunks whose bytes the transport's threads are receiving without a pull. */
    private final AtomicInteger arriving = new AtomicInteger();
    /** Chunks that arrived and are not in their files yet. */
    private final AtomicInteger publishing = new AtomicInteger();

    private TargetPath path;
    /** Null if the source sends chunks. */
    private ChunkPuller puller;

    private long nextOrder;
    private int underWayCount;
    private int startedCount;

    ChunkReception(
            BufferPool pool,
            CreditLedger ledger,
            ControlLink link,
            AgentInbox inbox,
            SourceReplies replies,
            TargetHops hops) {
        this.pool = pool;
        this.ledger = ledger;
        this.link = link;
        this.inbox = inbox;
        this.replies = replies;
        this.hops = hops;
        entries = new Entry[pool.geometry().chunkCount()];
        for (int chunk = 0; chunk < entries.length; chunk++) {
            entries[chunk] = new Entry(chunk);
        }
        arrived = new ChunkBits(entries.length);
    }

    /** Opens the transport's half, which reports to this object; called once, before the first credit is granted. */
    void open(Function<Arrivals, TargetPath> opens) {
        path = opens.apply(this);
        puller = path instanceof ChunkPuller pulls ? pulls : null;
    }

    /** Returns the number of bytes that arrived and were checked. Any thread. */
    long arrivedBytes() {
        return arrivedBytes.sum();
    }

    // ---- the session's agent ----------------------------------------------------------------------------------

    /** Returns whether a chunk was advertised and not reported, is arriving, or is being added to its file. */
    boolean isUnderWay() {
        return underWayCount > 0 || arriving.get() > 0 || publishing.get() > 0;
    }

    /** Returns the expected order of the next advertisement. */
    long nextOrder() {
        return nextOrder;
    }

    /** Returns the number of pulls of one file that are not reported. */
    int underWay(int file) {
        int count = 0;
        for (Entry entry : entries) {
            count += entry.underWay && entry.file.id() == file ? 1 : 0;
        }
        return count;
    }

    void add(ArrivingFile file, ReceiveSlot slot, AdvertiseFrame frame) throws ProtocolException {
        if (puller == null) {
            throw new ProtocolException("unexpected frame ADVERTISE: this transport does not use RDMA Read");
        }
        if (frame.order() != nextOrder) {
            throw new ProtocolException(
                    "advertisement " + frame.order() + " instead of " + nextOrder + ": a frame was lost or duplicated");
        }
        nextOrder++;
        if (slot.chunk() < 0) {
            throw new ProtocolException("an advertisement for " + slot + ", which is not a pool chunk");
        }
        Entry entry = entries[slot.chunk()];
        entry.slot = slot;
        entry.file = file;
        entry.offset = frame.offset();
        entry.lengthBytes = frame.lengthBytes();
        entry.crc32c = frame.crc32c();
        entry.address = frame.address();
        entry.key = frame.key();
        entry.order = frame.order();
        entry.sourceChunk = frame.sourceChunk();
        entry.sinceNs = System.nanoTime();
        entry.underWay = true;
        underWayCount++;
        hops.chunkExpected();
        waiting.add(entry);
    }

    /** Starts as many pulls as the transport allows. */
    void start() {
        while (!waiting.isEmpty() && startedCount < puller.depth()) {
            Entry entry = waiting.poll();
            startedCount++;
            long nowNs = System.nanoTime();
            hops.pullStarted(entry.chunk, nowNs - entry.sinceNs);
            entry.sinceNs = nowNs;
            puller.pull(
                    entry.chunk,
                    block.set(entry.address, entry.key, entry.lengthBytes),
                    entry.chunk,
                    pool.geometry().offsetInWindow(entry.offset),
                    startedCount < puller.depth() && !waiting.isEmpty());
        }
    }

    /** Returns the number of pulls that wait for the transport. */
    int queued() {
        return waiting.size();
    }

    /** Returns the number of chunks that the transport is receiving. */
    int inFlight() {
        return startedCount + arriving.get();
    }

    boolean hasArrivals() {
        return !arrived.isEmpty();
    }

    /**
     * Records arrivals, and sends the releases of pulled chunks, as far as the link has space.
     *
     * @return whether all arrivals before the call were recorded
     */
    boolean reportArrivals() {
        arrived.drain();
        while (arrived.hasDrained()) {
            if (puller != null && !replies.hasSpaceForReleases()) {
                return false;
            }
            Entry entry = entries[arrived.poll()];
            if (entry.underWay) {
                entry.underWay = false;
                underWayCount--;
                startedCount--;
                replies.sendRelease(entry.file.id(), entry.order, entry.sourceChunk);
            } else {
                ledger.onChunkReceived(entry.file, entry.slot);
            }
        }
        return true;
    }

    /** Ends a rail at the source's request. */
    void endRail(DataMessage.EndRail request) throws ProtocolException {
        path.endRail(request);
    }

    void close() {
        path.close();
    }

    // ---- the transport's threads ------------------------------------------------------------------------------

    @Override
    public ByteBuffer onChunkStart(ChunkFrame frame) throws ProtocolException {
        if (puller != null || frame.attempt() != link.attempt()) {
            throw new ProtocolException("chunk of attempt " + frame.attempt() + " on the connection of attempt "
                    + link.attempt() + ": refused");
        }
        ReceiveSlot slot = ledger.onChunkStart(frame.file(), frame.slot(), frame.offset(), frame.lengthBytes());
        Entry entry = entries[slot.chunk()];
        entry.slot = slot;
        entry.file = slot.file();
        entry.offset = frame.offset();
        entry.lengthBytes = frame.lengthBytes();
        entry.crc32c = frame.crc32c();
        entry.sinceNs = System.nanoTime();
        arriving.incrementAndGet();
        hops.chunkExpected();
        return bytesOf(entry);
    }

    @Override
    public boolean onChunkEnd(ChunkFrame frame) {
        publishing.incrementAndGet();
        arriving.decrementAndGet();
        try {
            return completeChunk(frame);
        } finally {
            publishing.decrementAndGet();
        }
    }

    private boolean completeChunk(ChunkFrame frame) {
        Entry entry = entries[frame.slot()];
        long arrivedNs = System.nanoTime();
        if (!checkCrc(entry, arrivedNs)) {
            return false;
        }
        try {
            // Done before the chunk is marked. After the mark another piece of the window can be granted, arrive, and
            // replace it.
            entry.file.onPieceReceived(entry.slot, entry.offset, entry.lengthBytes);
        } catch (ImageException e) {
            inbox.fail(e.getMessage());
            return false;
        }
        publish(entry);
        hops.recordCheck(System.nanoTime() - arrivedNs);
        return true;
    }

    @Override
    public void onChunkAborted(ChunkFrame frame) {
        Entry entry = entries[frame.slot()];
        arriving.decrementAndGet();
        // From this call on the chunk can arrive again.
        entry.slot.reopen();
    }

    @Override
    public void onProtocolError(String reason) {
        inbox.fail(reason);
    }

    @Override
    public void onPullCompleted(long pullId) {
        Entry entry = entries[(int) pullId];
        long arrivedNs = System.nanoTime();
        publishing.incrementAndGet();
        try {
            if (checkCrc(entry, arrivedNs)) {
                publish(entry);
                hops.recordCheck(System.nanoTime() - arrivedNs);
            }
        } finally {
            publishing.decrementAndGet();
        }
        link.wake();
    }

    /** Marks that an entry's bytes are in the file, and makes them readable. */
    private void publish(Entry entry) {
        ArrivingFile file = entry.file;
        ReceiveSlot slot = entry.slot;
        arrived.set(entry.chunk);
        // From this call on the receive slot can be granted again, and the entry be reused.
        file.onArrived(slot);
    }

    @Override
    public void onPullFailed(long pullId, String reason) {
        inbox.fail(reason);
    }

    private ByteBuffer bytesOf(Entry entry) {
        int start = pool.geometry().offsetInWindow(entry.offset);
        return pool.buffer(entry.chunk).limit(start + entry.lengthBytes).position(start);
    }

    private boolean checkCrc(Entry entry, long arrivedNs) {
        hops.chunkReceived(entry.chunk, entry.lengthBytes, arrivedNs - entry.sinceNs);
        entry.crc.reset();
        entry.crc.update(bytesOf(entry));
        if ((int) entry.crc.getValue() != entry.crc32c) {
            inbox.fail("file " + entry.file.name() + ": " + entry.lengthBytes + " bytes at " + entry.offset
                    + " arrived changed (CRC32C " + Long.toHexString(entry.crc.getValue()) + " instead of "
                    + Integer.toHexString(entry.crc32c) + "): check memory and network of both nodes");
            return false;
        }
        arrivedBytes.add(entry.lengthBytes);
        entry.file.rank().addArrived(entry.lengthBytes);
        return true;
    }
}
