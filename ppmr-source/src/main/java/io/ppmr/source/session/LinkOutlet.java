package io.ppmr.source.session;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.protocol.data.AdvertiseFrame;
import io.ppmr.protocol.data.CreditFrame;
import io.ppmr.protocol.data.CreditRequestFrame;
import io.ppmr.protocol.data.DataMessage.NameChange;
import io.ppmr.protocol.data.DataMessage.RailEnded;
import io.ppmr.protocol.data.FilePrefixFrame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.source.image.OutgoingFile;
import io.ppmr.source.image.Outlet;
import io.ppmr.source.metrics.SourceHops;
import io.ppmr.transport.ChunkSender;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.RegionExporter;
import io.ppmr.transport.SourcePath;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.agrona.UnsafeApi;

/**
 * Sends frames on the session's control link, and chunks by the transport. Any thread. A short lock keeps the order of
 * advertisements.
 *
 * <p>With RDMA Read a chunk's advertisement is a frame of the control link, and so in order with all other frames. If
 * chunks are sent by the source, they can overtake frames, and frames can overtake chunks. So a frame that must follow
 * a file's chunks waits here until these arrived. Such frames are the file's end, a truncation, the end of an fsync,
 * and a further request for a window. They are rare, and the wait depends only on the network and the target's
 * transport. Frames that must precede a chunk reach the target before it grants the chunk's receive slot. The exception
 * is a truncation, whose answer is awaited.
 */
public final class LinkOutlet implements Outlet {
    private static final long SYNC_SLICE_MS = 500;
    private static final long ARRIVAL_PAUSE_NS = TimeUnit.MICROSECONDS.toNanos(100);
    private static final int NO_FILE = 0;
    private static final long ANY_WINDOW = -1;

    private final ControlLink link;
    private final SourcePath path;
    private final FairClaims claims;
    private final SourceHops hops;
    private final ConcurrentHashMap<Long, CountDownLatch> syncs = new ConcurrentHashMap<>();
    private final AtomicLong lastToken = new AtomicLong();
    private final AtomicLong sentBytes = new AtomicLong();
    private final AtomicInteger underWay = new AtomicInteger();
    private final Object orderLock = new Object();
    /** Per chunk under way: its file. The following arrays are written before it. */
    private final AtomicIntegerArray fileOf;

    private final long[] windowOf;
    /** Per chunk: its number among all sent chunks. */
    private final long[] numberOf;

    private final AtomicLong lastNumber = new AtomicLong();
    private volatile String failure;
    private volatile long lastBytesNs;
    private final PoolGeometry geometry;
    private long nextOrder;

    /**
     * @param path sends the chunks
     * @param claims receives the released chunks
     */
    public LinkOutlet(ControlLink link, SourcePath path, BufferPool pool, FairClaims claims, SourceHops hops) {
        this.link = link;
        this.path = path;
        this.claims = claims;
        this.hops = hops;
        int chunks = pool.geometry().chunkCount();
        geometry = pool.geometry();
        fileOf = new AtomicIntegerArray(chunks);
        windowOf = new long[chunks];
        numberOf = new long[chunks];
        if (path instanceof ChunkSender sender) {
            sender.begin(link.attempt(), this::released);
        }
    }

    /** Returns the number of bytes sent so far. */
    public long sentBytes() {
        return sentBytes.get();
    }

    /** Returns the time at which the last byte was sent, by {@link System#nanoTime}; 0 if none was. */
    public long lastBytesNs() {
        return lastBytesNs;
    }

    /** Called by the session's agent: handles the answer to a sync. */
    void synced(long token) {
        CountDownLatch waiter = syncs.get(token);
        if (waiter != null) {
            waiter.countDown();
        }
    }

    /** Called by the session's agent: handles the release of a chunk that the target read. */
    void onRelease(int chunk) throws ProtocolException {
        if (path instanceof ChunkSender) {
            throw new ProtocolException("the target releases chunk " + chunk + " on the wrong connection");
        }
        released(chunk);
    }

    private void released(int chunk) throws ProtocolException {
        if (chunk < 0 || chunk >= windowOf.length || fileOf.getAndSet(chunk, NO_FILE) == NO_FILE) {
            throw new ProtocolException("the target releases chunk " + chunk + ", which is not under way");
        }
        hops.released(chunk);
        underWay.decrementAndGet();
        claims.release(chunk);
    }

    /** Called by the session's agent: handles the target's message that it ended a rail. */
    void onRailEnded(RailEnded ended) throws IOException {
        path.onRailEnded(ended);
    }

    /** Ends every wait for the target, permanently. */
    public void fail(String reason) {
        failure = reason;
        syncs.values().forEach(CountDownLatch::countDown);
    }

    @Override
    public void requestCredits(OutgoingFile file, long window, int count, int flags) throws IOException {
        if ((flags & CreditRequestFrame.BLOCKED) != 0) {
            // Otherwise the target would take the used credit of this window for an unused one.
            awaitArrivalOf(file.id(), window);
        }
        int index = link.claim(CreditRequestFrame.LENGTH_BYTES);
        CreditRequestFrame.encode(link.claimed(), index, link.attempt(), file.id(), window, count, flags);
        link.commit(index);
    }

    @Override
    public void returnCredit(OutgoingFile file, long window, int slot) throws IOException {
        int index = link.claim(CreditFrame.LENGTH_BYTES);
        CreditFrame.encode(link.claimed(), index, FrameType.CREDIT_RETURN, link.attempt(), file.id(), window, slot);
        link.commit(index);
    }

    @Override
    public void sendPrefix(OutgoingFile file, int position, long address, int lengthBytes) throws IOException {
        int index = link.claim(FilePrefixFrame.DATA_OFFSET + lengthBytes);
        FilePrefixFrame.encode(link.claimed(), index, link.attempt(), file.id(), position, lengthBytes);
        long data = link.claimed().addressOffset() + index + FilePrefixFrame.DATA_OFFSET;
        UnsafeApi.copyMemory(address, data, lengthBytes);
        link.commit(index);
        count(lengthBytes);
    }

    @Override
    public void sendChunk(
            OutgoingFile file, int chunk, int offsetInChunk, long offset, int lengthBytes, int slot, long claimedNs)
            throws IOException {
        int crc32c = file.crc32c(chunk, offsetInChunk, lengthBytes);
        hops.filled(System.nanoTime() - claimedNs);
        hops.sent(chunk, lengthBytes);
        windowOf[chunk] = geometry.windowOf(offset);
        numberOf[chunk] = lastNumber.incrementAndGet();
        fileOf.set(chunk, file.id());
        if (path instanceof ChunkSender sender) {
            boolean releaseSoon = underWay.incrementAndGet() > windowOf.length / 2 || claims.waiting() > 0;
            sender.send(chunk, offsetInChunk, lengthBytes, file.id(), offset, slot, crc32c, releaseSoon);
        } else if (path instanceof RegionExporter exporter) {
            long deadlineNs = System.nanoTime() + link.silenceLimitNs();
            while (!trySendChunk(exporter, file, chunk, offsetInChunk, offset, lengthBytes, crc32c, slot)) {
                link.awaitSpace(deadlineNs);
            }
        }
        count(lengthBytes);
    }

    /** Assigns the order and writes the frame in one step, without blocking, because the agent takes this lock, too. */
    private boolean trySendChunk(
            RegionExporter exporter,
            OutgoingFile file,
            int chunk,
            int offsetInChunk,
            long offset,
            int lengthBytes,
            int crc32c,
            int slot)
            throws IOException {
        synchronized (orderLock) {
            int index = link.tryClaim(AdvertiseFrame.LENGTH_BYTES);
            if (index <= 0) {
                return false;
            }
            AdvertiseFrame.encode(
                    link.claimed(),
                    index,
                    link.attempt(),
                    file.id(),
                    offset,
                    nextOrder++,
                    exporter.address(chunk) + offsetInChunk,
                    exporter.key(),
                    lengthBytes,
                    crc32c,
                    chunk,
                    slot);
            link.commit(index);
            return true;
        }
    }

    @Override
    public void sendValue(FrameType type, int file, long value) throws IOException {
        boolean mustAwait = type == FrameType.TRUNCATE && path instanceof ChunkSender;
        if (file != NO_FILE) {
            awaitArrivalOf(file, ANY_WINDOW);
        }
        link.sendValue(type, file, value);
        if (mustAwait) {
            try {
                awaitAnswer(file);
            } catch (InterruptedException e) {
                throw interrupted();
            }
        }
    }

    @Override
    public void sendNameChange(NameChange change) throws IOException {
        link.send(change);
    }

    @Override
    public void sync(OutgoingFile file) throws IOException, InterruptedException {
        awaitArrival(file.id(), ANY_WINDOW);
        awaitAnswer(file.id());
    }

    /** Waits until the target processed all frames of a file so far. */
    private void awaitAnswer(int file) throws IOException, InterruptedException {
        long token = lastToken.incrementAndGet();
        CountDownLatch answered = new CountDownLatch(1);
        syncs.put(token, answered);
        try {
            link.sendValue(FrameType.SYNC, file, token);
            while (failure == null && !answered.await(SYNC_SLICE_MS, TimeUnit.MILLISECONDS)) {
                link.wake();
            }
            requireAlive();
        } finally {
            syncs.remove(token);
        }
    }

    /**
     * If chunks are sent, waits until those of a file, or of one window, arrived. Only chunks that were sent before
     * this call count, so that a continuing writer does not prolong the wait. Chunks of other files count as progress
     * only if they were sent before it, too, because they may precede these on a connection.
     */
    private void awaitArrival(int file, long window) throws IOException, InterruptedException {
        if (!(path instanceof ChunkSender)) {
            return;
        }
        long last = lastNumber.get();
        int fewest = Integer.MAX_VALUE;
        long deadlineNs = 0;
        while (isUnderWay(file, window, last)) {
            requireAlive();
            int remaining = countUnderWay(last);
            if (remaining < fewest) {
                fewest = remaining;
                deadlineNs = System.nanoTime() + link.silenceLimitNs();
            }
            if (System.nanoTime() - deadlineNs > 0) {
                throw new IOException("the target accepted no awaited chunk for "
                        + TimeUnit.NANOSECONDS.toMillis(link.silenceLimitNs())
                        + " ms: it hangs or the network is down");
            }
            LockSupport.parkNanos(this, ARRIVAL_PAUSE_NS);
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
        }
    }

    private void awaitArrivalOf(int file, long window) throws IOException {
        try {
            awaitArrival(file, window);
        } catch (InterruptedException e) {
            throw interrupted();
        }
    }

    private boolean isUnderWay(int file, long window, long last) {
        for (int chunk = 0; chunk < windowOf.length; chunk++) {
            if (fileOf.get(chunk) == file
                    && numberOf[chunk] <= last
                    && (window == ANY_WINDOW || windowOf[chunk] == window)) {
                return true;
            }
        }
        return false;
    }

    /** Counts the chunks of all files that are under way and were sent no later than the one with this number. */
    private int countUnderWay(long last) {
        int count = 0;
        for (int chunk = 0; chunk < windowOf.length; chunk++) {
            count += fileOf.get(chunk) != NO_FILE && numberOf[chunk] <= last ? 1 : 0;
        }
        return count;
    }

    private void requireAlive() throws IOException {
        if (failure != null) {
            throw new IOException(failure);
        }
    }

    private static IOException interrupted() {
        Thread.currentThread().interrupt();
        return new InterruptedIOException("a wait for the target was interrupted");
    }

    @Override
    public void onPoolEmpty() {
        link.wake();
    }

    @Override
    public void waitedForChunk(long tookNs) {
        hops.waitedForChunk(tookNs);
    }

    @Override
    public void waitedForSlot(OutgoingFile file, long tookNs) {
        hops.waitedForSlot(file.id(), tookNs);
    }

    private void count(int lengthBytes) {
        hops.written(lengthBytes);
        sentBytes.addAndGet(lengthBytes);
        lastBytesNs = System.nanoTime();
    }
}
