package io.ppmr.target.session;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.protocol.data.AdvertiseFrame;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.target.image.ArrivingFile;
import io.ppmr.target.image.CreditLedger;
import io.ppmr.target.image.ReceiveSlot;
import io.ppmr.target.metrics.TargetHops;
import io.ppmr.transport.ChunkPuller;
import io.ppmr.transport.PullListener;
import io.ppmr.transport.RemoteBlock;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.zip.CRC32C;

/**
 * The pulls of one transfer: as many under way as the transport holds, the rest in order behind them. Each slot's pull
 * is checked against the CRC of its advertisement by the thread that brought it, while its bytes are in the cache.
 *
 * <p>The session's agent adds, starts and reports; the transport's threads call {@link #pulled}.
 */
final class Pulls {
    private final BufferPool pool;
    private final CreditLedger ledger;
    private final Consumer<String> onFailure;
    private final ChunkPuller puller;
    private final Transfer transfer;
    private final TargetHops hops;
    private final ChunkBits arrived;
    private final long[] arrivedNow;
    private final CRC32C[] crcs;
    private final long[] addresses;
    private final long[] keys;
    private final int[] files;
    private final boolean[] underWay;
    private final long[] sinceNs;
    private final ArrayDeque<ReceiveSlot> waiting = new ArrayDeque<>();
    private final RemoteBlock block = new RemoteBlock();
    private long nextOrder;
    private int underWayCount;
    private int startedCount;

    Pulls(
            BufferPool pool,
            CreditLedger ledger,
            Consumer<String> onFailure,
            Function<PullListener, ChunkPuller> makePuller,
            Transfer transfer,
            TargetHops hops) {
        this.pool = pool;
        this.ledger = ledger;
        this.onFailure = onFailure;
        this.transfer = transfer;
        this.hops = hops;
        int chunks = pool.geometry().chunkCount();
        arrived = new ChunkBits(chunks);
        arrivedNow = new long[arrived.wordCount()];
        crcs = new CRC32C[chunks];
        for (int chunk = 0; chunk < chunks; chunk++) {
            crcs[chunk] = new CRC32C();
        }
        addresses = new long[chunks];
        keys = new long[chunks];
        files = new int[chunks];
        underWay = new boolean[chunks];
        sinceNs = new long[chunks];
        puller = makePuller.apply(transfer);
    }

    /** Pulls that were advertised and have not been reported. */
    int underWay() {
        return underWayCount;
    }

    /** The order that the next advertisement must have. */
    long nextOrder() {
        return nextOrder;
    }

    /** Of one file. */
    int underWay(int file) {
        int count = 0;
        for (int chunk = 0; chunk < underWay.length; chunk++) {
            count += underWay[chunk] && files[chunk] == file ? 1 : 0;
        }
        return count;
    }

    void add(ReceiveSlot slot, AdvertiseFrame frame) throws ProtocolException {
        if (frame.order() != nextOrder) {
            throw new ProtocolException(
                    "advertisement " + frame.order() + " where " + nextOrder + " was due: a frame was lost or doubled");
        }
        nextOrder++;
        int chunk = slot.chunk();
        if (chunk < 0) {
            throw new ProtocolException("an advertisement for " + slot + ", into which nothing is pulled");
        }
        addresses[chunk] = frame.address();
        keys[chunk] = frame.key();
        files[chunk] = frame.file();
        underWay[chunk] = true;
        underWayCount++;
        sinceNs[chunk] = System.nanoTime();
        hops.advertised();
        waiting.add(slot);
    }

    /** Starts what the transport has room for. */
    void start() {
        while (startedCount < puller.depth() && !waiting.isEmpty()) {
            ReceiveSlot slot = waiting.poll();
            int chunk = slot.chunk();
            startedCount++;
            long nowNs = System.nanoTime();
            hops.started(chunk, nowNs - sinceNs[chunk]);
            sinceNs[chunk] = nowNs;
            puller.pull(
                    chunk,
                    block.set(addresses[chunk], keys[chunk], slot.lengthBytes),
                    chunk,
                    pool.geometry().offsetInWindow(slot.offset),
                    startedCount < puller.depth() && !waiting.isEmpty());
        }
    }

    /** Pulls that wait for the transport to have room. */
    int queued() {
        return waiting.size();
    }

    /** Pulls that the transport has. */
    int inFlight() {
        return startedCount;
    }

    boolean hasArrivals() {
        return !arrived.isEmpty();
    }

    /**
     * Tells the source of what has come, as far as the link has room for it.
     *
     * @return whether it was told of everything that had come before the call
     */
    boolean reportArrivals() {
        arrived.drainTo(arrivedNow);
        for (int word = 0; word < arrivedNow.length; word++) {
            if (arrivedNow[word] != 0) {
                if (!transfer.roomForReleases(Long.SIZE)) {
                    return false;
                }
                ChunkBits.forEach(arrivedNow, word, this::reportArrival);
            }
        }
        return true;
    }

    private void reportArrival(int chunk) {
        if (!underWay[chunk]) {
            return;
        }
        underWay[chunk] = false;
        underWayCount--;
        startedCount--;
        transfer.released(ledger.slot(chunk), files[chunk]);
    }

    void close() {
        puller.close();
    }

    // ---- the transport's threads ------------------------------------------------------------------------------

    void pulled(long pullId) {
        int chunk = (int) pullId;
        ReceiveSlot slot = ledger.slot(chunk);
        long hereNs = System.nanoTime();
        hops.pulled(chunk, slot.lengthBytes, hereNs - sinceNs[chunk]);
        ArrivingFile file = slot.file;
        int start = pool.geometry().offsetInWindow(slot.offset);
        ByteBuffer bytes = pool.buffer(chunk);
        bytes.limit(start + slot.lengthBytes).position(start);
        CRC32C crc = crcs[chunk];
        crc.reset();
        crc.update(bytes);
        if ((int) crc.getValue() != slot.crc32c) {
            onFailure.accept("file " + file.name() + ": " + slot.lengthBytes + " bytes at " + slot.offset
                    + " arrived changed (CRC32C " + Long.toHexString(crc.getValue()) + " instead of "
                    + Integer.toHexString(slot.crc32c) + "): check memory and network of both nodes");
            return;
        }
        arrived.set(chunk);
        file.arrived(slot);
        hops.checked(System.nanoTime() - hereNs);
    }
}
