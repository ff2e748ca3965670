package io.ppmr.target.session;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.protocol.data.AdvertiseFrame;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.target.image.ArrivingFile;
import io.ppmr.target.image.ReceiveSlot;
import io.ppmr.target.metrics.TargetHops;
import io.ppmr.transport.ChunkPuller;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.PullListener;
import io.ppmr.transport.RemoteBlock;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;
import java.util.zip.CRC32C;

/**
 * The pulls of one transfer: as many under way as the transport holds, the rest in order behind them. Each pull is
 * checked against the CRC of its advertisement by the thread that brought it, while its bytes are in the cache.
 *
 * <p>The session's agent adds, starts and reports; the transport's threads call {@link #pulled} and {@link
 * #pullFailed}.
 */
final class Pulls implements PullListener {

    /**
     * What is on its way into one chunk, from its advertisement until it is reported. Written by the session's agent;
     * while the transport has it, read by its threads.
     */
    private static final class Pull {
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

        private Pull(int chunk) {
            this.chunk = chunk;
        }
    }

    private final BufferPool pool;
    private final ControlLink link;
    private final AgentInbox inbox;
    private final Answers answers;
    private final TargetHops hops;
    private final Pull[] pulls;
    private final ArrayDeque<Pull> waiting = new ArrayDeque<>();
    private final RemoteBlock block = new RemoteBlock();
    private final ChunkBits arrived;
    private final AtomicLong arrivedBytes = new AtomicLong();
    private ChunkPuller puller;
    private long nextOrder;
    private int underWayCount;
    private int startedCount;

    Pulls(BufferPool pool, ControlLink link, AgentInbox inbox, Answers answers, TargetHops hops) {
        this.pool = pool;
        this.link = link;
        this.inbox = inbox;
        this.answers = answers;
        this.hops = hops;
        pulls = new Pull[pool.geometry().chunkCount()];
        for (int chunk = 0; chunk < pulls.length; chunk++) {
            pulls[chunk] = new Pull(chunk);
        }
        arrived = new ChunkBits(pulls.length);
    }

    /** Makes the puller, which reports to this; called once, before the first pull is added. */
    void open(Function<PullListener, ChunkPuller> makePuller) {
        puller = makePuller.apply(this);
    }

    /** Bytes that have arrived and were checked. Any thread. */
    long arrivedBytes() {
        return arrivedBytes.get();
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
        for (Pull pull : pulls) {
            count += pull.underWay && pull.file.id() == file ? 1 : 0;
        }
        return count;
    }

    void add(ArrivingFile file, ReceiveSlot slot, AdvertiseFrame frame) throws ProtocolException {
        if (frame.order() != nextOrder) {
            throw new ProtocolException(
                    "advertisement " + frame.order() + " where " + nextOrder + " was due: a frame was lost or doubled");
        }
        nextOrder++;
        if (slot.chunk() < 0) {
            throw new ProtocolException("an advertisement for " + slot + ", into which nothing is pulled");
        }
        Pull pull = pulls[slot.chunk()];
        pull.slot = slot;
        pull.file = file;
        pull.offset = frame.offset();
        pull.lengthBytes = frame.lengthBytes();
        pull.crc32c = frame.crc32c();
        pull.address = frame.address();
        pull.key = frame.key();
        pull.order = frame.order();
        pull.sourceChunk = frame.sourceChunk();
        pull.sinceNs = System.nanoTime();
        pull.underWay = true;
        underWayCount++;
        hops.advertised();
        waiting.add(pull);
    }

    /** Starts what the transport has room for. */
    void start() {
        while (startedCount < puller.depth() && !waiting.isEmpty()) {
            Pull pull = waiting.poll();
            startedCount++;
            long nowNs = System.nanoTime();
            hops.started(pull.chunk, nowNs - pull.sinceNs);
            pull.sinceNs = nowNs;
            puller.pull(
                    pull.chunk,
                    block.set(pull.address, pull.key, pull.lengthBytes),
                    pull.chunk,
                    pool.geometry().offsetInWindow(pull.offset),
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
        arrived.drain();
        while (arrived.hasDrained()) {
            if (!answers.hasRoomForReleases()) {
                return false;
            }
            Pull pull = pulls[arrived.poll()];
            if (pull.underWay) {
                pull.underWay = false;
                underWayCount--;
                startedCount--;
                arrivedBytes.lazySet(arrivedBytes.get() + pull.lengthBytes);
                answers.released(pull.file.id(), pull.order, pull.sourceChunk);
            }
        }
        return true;
    }

    void close() {
        puller.close();
    }

    // ---- the transport's threads ------------------------------------------------------------------------------

    @Override
    public void pulled(long pullId) {
        Pull pull = pulls[(int) pullId];
        long hereNs = System.nanoTime();
        hops.pulled(pull.chunk, pull.lengthBytes, hereNs - pull.sinceNs);
        int start = pool.geometry().offsetInWindow(pull.offset);
        ByteBuffer bytes = pool.buffer(pull.chunk);
        bytes.limit(start + pull.lengthBytes).position(start);
        pull.crc.reset();
        pull.crc.update(bytes);
        if ((int) pull.crc.getValue() != pull.crc32c) {
            inbox.fail("file " + pull.file.name() + ": " + pull.lengthBytes + " bytes at " + pull.offset
                    + " arrived changed (CRC32C " + Long.toHexString(pull.crc.getValue()) + " instead of "
                    + Integer.toHexString(pull.crc32c) + "): check memory and network of both nodes");
            return;
        }
        ArrivingFile file = pull.file;
        arrived.set(pull.chunk);
        // From this call on the receive slot can be granted anew, and the pull be another's.
        file.arrived(pull.slot);
        hops.checked(System.nanoTime() - hereNs);
        link.wake();
    }

    @Override
    public void pullFailed(long pullId, String reason) {
        inbox.fail(reason);
    }
}
