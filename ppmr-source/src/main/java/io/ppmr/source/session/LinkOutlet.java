package io.ppmr.source.session;

import io.ppmr.protocol.data.AdvertiseFrame;
import io.ppmr.protocol.data.CreditFrame;
import io.ppmr.protocol.data.CreditRequestFrame;
import io.ppmr.protocol.data.DataMessage.NameChange;
import io.ppmr.protocol.data.FilePrefixFrame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.source.image.OutgoingFile;
import io.ppmr.source.image.Outlet;
import io.ppmr.source.metrics.SourceHops;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.RegionExporter;
import java.io.IOException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.agrona.UnsafeApi;

/**
 * The outlet to a target: frames on the session's control link, chunks by the transport's exporter. Any thread; what
 * must stay in order is written under one short lock.
 */
public final class LinkOutlet implements Outlet {
    private static final long SYNC_SLICE_MS = 500;

    private final ControlLink link;
    private final RegionExporter exporter;
    private final SourceHops hops;
    private final ConcurrentHashMap<Long, CountDownLatch> syncs = new ConcurrentHashMap<>();
    private final AtomicLong lastToken = new AtomicLong();
    private final AtomicLong sentBytes = new AtomicLong();
    private final Object orderLock = new Object();
    private volatile String failure;
    private volatile long lastBytesNs;
    private long nextOrder;

    public LinkOutlet(ControlLink link, RegionExporter exporter, SourceHops hops) {
        this.link = link;
        this.exporter = exporter;
        this.hops = hops;
    }

    /** Bytes handed over so far. */
    public long sentBytes() {
        return sentBytes.get();
    }

    /** When the last byte was handed over, by {@link System#nanoTime}; 0 if none was. */
    public long lastBytesNs() {
        return lastBytesNs;
    }

    /** The session's agent: a sync was answered. */
    void synced(long token) {
        CountDownLatch waiter = syncs.get(token);
        if (waiter != null) {
            waiter.countDown();
        }
    }

    /** The session's agent: the target says that it has fetched a chunk. */
    void released(int chunk) throws ProtocolException {
        if (!exporter.withdraw(chunk)) {
            throw new ProtocolException("the target releases chunk " + chunk + ", which is not advertised to it");
        }
        hops.released(chunk);
    }

    /** Ends every wait for a sync, for good. */
    public void fail(String reason) {
        failure = reason;
        syncs.values().forEach(CountDownLatch::countDown);
    }

    @Override
    public void want(OutgoingFile file, long window, int count, int flags) throws IOException {
        int index = link.claim(CreditRequestFrame.LENGTH_BYTES);
        CreditRequestFrame.encode(link.claimed(), index, link.attempt(), file.id(), window, count, flags);
        link.commit(index);
    }

    @Override
    public void giveBack(OutgoingFile file, long window, int slot) throws IOException {
        int index = link.claim(CreditFrame.LENGTH_BYTES);
        CreditFrame.encode(link.claimed(), index, FrameType.CREDIT_RETURN, link.attempt(), file.id(), window, slot);
        link.commit(index);
    }

    @Override
    public void head(OutgoingFile file, int position, long address, int lengthBytes) throws IOException {
        int index = link.claim(FilePrefixFrame.DATA_OFFSET + lengthBytes);
        FilePrefixFrame.encode(link.claimed(), index, link.attempt(), file.id(), position, lengthBytes);
        long data = link.claimed().addressOffset() + index + FilePrefixFrame.DATA_OFFSET;
        UnsafeApi.copyMemory(address, data, lengthBytes);
        link.commit(index);
        count(lengthBytes);
    }

    @Override
    public void advertise(
            OutgoingFile file, int chunk, int offsetInChunk, long offset, int lengthBytes, int slot, long claimedNs)
            throws IOException {
        int crc32c = file.crc32c(chunk, offsetInChunk, lengthBytes);
        hops.filled(System.nanoTime() - claimedNs);
        hops.advertised(chunk, lengthBytes);
        exporter.permit(chunk, offsetInChunk, lengthBytes);
        long deadlineNs = System.nanoTime() + link.silenceLimitNs();
        while (!tryAdvertise(file, chunk, offsetInChunk, offset, lengthBytes, crc32c, slot)) {
            link.awaitRoom(deadlineNs);
        }
        count(lengthBytes);
    }

    /** Numbers and writes in one step, without waiting: the agent takes this lock, too. */
    private boolean tryAdvertise(
            OutgoingFile file, int chunk, int offsetInChunk, long offset, int lengthBytes, int crc32c, int slot)
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
    public void value(FrameType type, int file, long value) throws IOException {
        link.sendValue(type, file, value);
    }

    @Override
    public void nameChange(NameChange change) throws IOException {
        link.send(change);
    }

    @Override
    public void sync(OutgoingFile file) throws IOException, InterruptedException {
        long token = lastToken.incrementAndGet();
        CountDownLatch answered = new CountDownLatch(1);
        syncs.put(token, answered);
        try {
            link.sendValue(FrameType.SYNC, file.id(), token);
            while (failure == null && !answered.await(SYNC_SLICE_MS, TimeUnit.MILLISECONDS)) {
                link.wake();
            }
            if (failure != null) {
                throw new IOException("fsync of " + file.name() + ": " + failure);
            }
        } finally {
            syncs.remove(token);
        }
    }

    @Override
    public void starving() {
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
