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
 * The chunks of one transfer that are on their way: those that are pulled, as many at once as the transport holds, the
 * rest in order behind them; or those that the source sends by itself. Each is checked against its CRC by the thread
 * that brought it, while its bytes are in the cache.
 *
 * <p>The session's agent adds and starts pulls and reports; the transport's threads call the methods of {@link
 * Arrivals}.
 */
final class ChunkReception implements Arrivals {

    /**
     * The bytes on their way into one chunk, until they are reported. Of a pull it is written by the session's agent
     * and, while the transport has it, read by its threads; of a chunk that is sent, by the thread that brings it.
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
    /** Chunks of which the transport's threads have begun to take the bytes, unasked. */
    private final AtomicInteger arriving = new AtomicInteger();
    /** Chunks that have come and are not in their files yet. */
    private final AtomicInteger publishing = new AtomicInteger();

    private TargetPath path;
    /** Null where chunks come by themselves. */
    private ChunkPuller puller;

    private long nextOrder;
    private int underWayCount;
    private int startedCount;

    ChunkReception(
            BufferPool pool,
            CreditLedger ledger,
            ControlLink link,
            AgentInbox inbox,
            SourceReplies answers,
            TargetHops hops) {
        this.pool = pool;
        this.ledger = ledger;
        this.link = link;
        this.inbox = inbox;
        this.replies = answers;
        this.hops = hops;
        entries = new Entry[pool.geometry().chunkCount()];
        for (int chunk = 0; chunk < entries.length; chunk++) {
            entries[chunk] = new Entry(chunk);
        }
        arrived = new ChunkBits(entries.length);
    }

    /** Opens the transport's half, which reports to this; called once, before the first credit is granted. */
    void open(Function<Arrivals, TargetPath> opens) {
        path = opens.apply(this);
        puller = path instanceof ChunkPuller pulls ? pulls : null;
    }

    /** Bytes that have arrived and were checked. Any thread. */
    long arrivedBytes() {
        return arrivedBytes.sum();
    }

    // ---- the session's agent ----------------------------------------------------------------------------------

    /** Returns whether chunks were advertised and are not reported, are being taken, or are on their way into files. */
    boolean isUnderWay() {
        return underWayCount > 0 || arriving.get() > 0 || publishing.get() > 0;
    }

    /** The order that the next advertisement must have. */
    long nextOrder() {
        return nextOrder;
    }

    /** Pulls of one file that are not reported. */
    int underWay(int file) {
        int count = 0;
        for (Entry entry : entries) {
            count += entry.underWay && entry.file.id() == file ? 1 : 0;
        }
        return count;
    }

    void add(ArrivingFile file, ReceiveSlot slot, AdvertiseFrame frame) throws ProtocolException {
        if (puller == null) {
            throw new ProtocolException("an advertisement where chunks come by themselves");
        }
        if (frame.order() != nextOrder) {
            throw new ProtocolException(
                    "advertisement " + frame.order() + " where " + nextOrder + " was due: a frame was lost or doubled");
        }
        nextOrder++;
        if (slot.chunk() < 0) {
            throw new ProtocolException("an advertisement for " + slot + ", into which nothing is pulled");
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

    /** Starts the pulls that the transport has room for. */
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

    /** Pulls that wait for the transport to have room. */
    int queued() {
        return waiting.size();
    }

    /** Chunks that the transport has. */
    int inFlight() {
        return startedCount + arriving.get();
    }

    boolean hasArrivals() {
        return !arrived.isEmpty();
    }

    /**
     * Notes what has come, and tells the source of what was pulled, as far as the link has room for it.
     *
     * @return whether all that had come before the call is noted
     */
    boolean reportArrivals() {
        arrived.drain();
        while (arrived.hasDrained()) {
            if (puller != null && !replies.hasRoomForReleases()) {
                return false;
            }
            Entry entry = entries[arrived.poll()];
            if (entry.underWay) {
                entry.underWay = false;
                underWayCount--;
                startedCount--;
                replies.released(entry.file.id(), entry.order, entry.sourceChunk);
            } else {
                ledger.onChunkReceived(entry.file, entry.slot);
            }
        }
        return true;
    }

    /** The source has nothing more for a rail. */
    void endRail(DataMessage.EndRail word) throws ProtocolException {
        path.endRail(word);
    }

    void close() {
        path.close();
    }

    // ---- the transport's threads ------------------------------------------------------------------------------

    @Override
    public ByteBuffer onChunkStart(ChunkFrame frame) throws ProtocolException {
        if (puller != null || frame.attempt() != link.attempt()) {
            throw new ProtocolException("chunk of attempt " + frame.attempt() + " on the connection of attempt "
                    + link.attempt() + ", unasked: refused");
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
            return arrived(frame);
        } finally {
            publishing.decrementAndGet();
        }
    }

    private boolean arrived(ChunkFrame frame) {
        Entry entry = entries[frame.slot()];
        long hereNs = System.nanoTime();
        if (!checkCrc(entry, hereNs)) {
            return false;
        }
        try {
            // Before it is marked: from then on a further piece of the window can be granted, and come, and lie over
            // it.
            entry.file.onPieceReceived(entry.slot, entry.offset, entry.lengthBytes);
        } catch (ImageException e) {
            inbox.fail(e.getMessage());
            return false;
        }
        publish(entry);
        hops.checked(System.nanoTime() - hereNs);
        return true;
    }

    @Override
    public void onChunkAborted(ChunkFrame frame) {
        Entry entry = entries[frame.slot()];
        arriving.decrementAndGet();
        // From this call on the chunk can come again.
        entry.slot.reopen();
    }

    @Override
    public void onProtocolError(String reason) {
        inbox.fail(reason);
    }

    @Override
    public void pulled(long pullId) {
        Entry entry = entries[(int) pullId];
        long hereNs = System.nanoTime();
        publishing.incrementAndGet();
        try {
            if (checkCrc(entry, hereNs)) {
                publish(entry);
                hops.checked(System.nanoTime() - hereNs);
            }
        } finally {
            publishing.decrementAndGet();
        }
        link.wake();
    }

    /** Marks that an entry's bytes are in the file, and lets them be read. */
    private void publish(Entry entry) {
        ArrivingFile file = entry.file;
        ReceiveSlot slot = entry.slot;
        arrived.set(entry.chunk);
        // From this call on the receive slot can be granted again, and the entry be another's.
        file.arrived(slot);
    }

    @Override
    public void pullFailed(long pullId, String reason) {
        inbox.fail(reason);
    }

    private ByteBuffer bytesOf(Entry entry) {
        int start = pool.geometry().offsetInWindow(entry.offset);
        return pool.buffer(entry.chunk).limit(start + entry.lengthBytes).position(start);
    }

    private boolean checkCrc(Entry entry, long hereNs) {
        hops.chunkReceived(entry.chunk, entry.lengthBytes, hereNs - entry.sinceNs);
        entry.crc.reset();
        entry.crc.update(bytesOf(entry));
        if ((int) entry.crc.getValue() != entry.crc32c) {
            inbox.fail("file " + entry.file.name() + ": " + entry.lengthBytes + " bytes at " + entry.offset
                    + " arrived changed (CRC32C " + Long.toHexString(entry.crc.getValue()) + " instead of "
                    + Integer.toHexString(entry.crc32c) + "): check memory and network of both nodes");
            return false;
        }
        arrivedBytes.add(entry.lengthBytes);
        return true;
    }
}
