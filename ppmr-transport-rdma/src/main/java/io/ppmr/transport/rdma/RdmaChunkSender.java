package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvMr;
import com.ibm.disni.verbs.SVCPostRecv;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.os.LogContext;
import io.ppmr.protocol.data.ChunkFrame;
import io.ppmr.protocol.data.DataMessage.RailEnded;
import io.ppmr.protocol.data.DataMessage.Writable;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ReleaseFrame;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.RailSender;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.agrona.BufferUtil;
import org.agrona.concurrent.UnsafeBuffer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The source's half of writes: the thread that has filled a chunk posts the write of its frame and of its bytes, and
 * never waits. What does not fit the target's ring is posted by this class's agent when a release has made room. The
 * pool cannot be read remotely.
 *
 * <p>A chunk goes back when two things have come, in whichever order: the completion of its write, after which the
 * device looks at it no more, and the target's release.
 *
 * <p>Nothing is allocated for a chunk that is written well.
 */
final class RdmaChunkSender implements RailSender.RailConnection {
    private static final Logger LOG = LoggerFactory.getLogger(RdmaChunkSender.class);
    private static final int SLEEP_MS = 50;
    private static final long LOOK_NS = TimeUnit.MILLISECONDS.toNanos(50);
    /** Looks at deadlines for one at the connection, for which DiSNI allocates. */
    private static final int CONNECTION_LOOKS = 5;

    private static final long JOIN_MS = 10_000;
    private static final String CLOSED = "the transport was closed";
    private static final long NONE = 0;

    // What a chunk is, in bits.
    private static final byte HERE = 0;
    private static final byte POSTED = 1;
    private static final byte WRITTEN = 2;
    private static final byte RELEASED = 4;
    private static final byte GONE = POSTED | WRITTEN | RELEASED;

    private final BufferPool pool;
    private final SourceConnection connection;
    private final Endpoint endpoint;
    private final Consumer<String> onFailure;
    private final long writeDeadlineNs;
    private final long reasonNs;
    private final AtomicLong work = new AtomicLong();

    /** A frame for each chunk, which the device reads; a chunk is on its way once at a time. */
    private final ByteBuffer frameBytes;

    private final UnsafeBuffer frames;
    private final IbvMr framesRegion;
    private final ReleaseBuffers releaseBuffers;
    private final SVCPostRecv[] receives = new SVCPostRecv[FrameRing.MOST_ENTRIES];
    private final ReleaseFrame release = new ReleaseFrame();
    private final Completions completions;

    /** Guards the queue pair against being posted to by two threads, and what stands here until the agent's part. */
    private final Object queueLock = new Object();

    private final byte[] states;
    private final int[] waiting;
    private final int[] offsets;
    private final int[] lengths;
    private final int[] slots;
    /** Of each chunk that is under way, its place among all. */
    private final long[] orders;

    private int firstWaiting;
    private int waitingCount;
    private int underWay;
    private long nextOrder;
    private long writtenBytes;
    private Writable target;
    private ChunkRequest[] requests = {};
    private final int[] chunkOfEntry = new int[FrameRing.MOST_ENTRIES];
    /** Of each entry: when its write must have completed; {@link #NONE} if it has. */
    private final long[] dueNs = new long[FrameRing.MOST_ENTRIES];

    private String failure;

    private final Thread agent = LogContext.thread(this::run, "ppmr-rdma-write");
    private final Teardown teardown = new Teardown(this::takeDown);
    private int looks;
    /** The way in which the other side has ended the connection, null while it has not; the agent's. */
    private String ended;

    private long endedNs;
    private volatile Releases releases;
    private volatile int attempt;
    private volatile boolean closing;

    private RdmaChunkSender(
            BufferPool pool,
            SourceConnection connection,
            Duration writeDeadline,
            long reasonNs,
            Consumer<String> onFailure)
            throws IOException {
        this.pool = pool;
        this.connection = connection;
        this.onFailure = onFailure;
        endpoint = connection.endpoint();
        writeDeadlineNs = writeDeadline.toNanos();
        this.reasonNs = reasonNs;
        int chunks = pool.geometry().chunkCount();
        frameBytes = BufferUtil.allocateDirectAligned(chunks * FrameRing.ENTRY_BYTES, FrameRing.ENTRY_BYTES);
        frames = new UnsafeBuffer(frameBytes);
        framesRegion = endpoint.register(
                "the frames of chunks",
                BufferUtil.address(frameBytes),
                frameBytes.capacity(),
                IbvMr.IBV_ACCESS_LOCAL_WRITE);
        releaseBuffers = new ReleaseBuffers(endpoint, receives.length);
        states = new byte[chunks];
        waiting = new int[chunks];
        offsets = new int[chunks];
        lengths = new int[chunks];
        slots = new int[chunks];
        orders = new long[chunks];
        completions = new Completions(endpoint, this::completed);
    }

    /**
     * Connects to a target that listens.
     *
     * @param from this node's address that the connection leaves from; null for what the kernel chooses
     * @param deadlineNs for all steps of the connection
     * @param writeDeadline for each write later
     * @param reasonNs when the target has ended the connection: how long it may take to say why
     */
    static RdmaChunkSender connect(
            BufferPool pool,
            InetAddress from,
            InetSocketAddress target,
            long deadlineNs,
            Duration writeDeadline,
            long reasonNs,
            Consumer<String> onFailure)
            throws IOException {
        // The peer has no right to the pool, and this node's device only reads it.
        SourceConnection connection = SourceConnection.open(pool, 0, from, target, deadlineNs);
        try {
            RdmaChunkSender sender = new RdmaChunkSender(pool, connection, writeDeadline, reasonNs, onFailure);
            sender.agent.start();
            return sender;
        } catch (IOException | RuntimeException | Error e) {
            connection.takeDown();
            throw e;
        }
    }

    @Override
    public void mayWrite(Writable where) throws IOException {
        synchronized (queueLock) {
            int entries = where.ringEntries();
            if (entries < 1 || entries > FrameRing.MOST_ENTRIES || target != null) {
                throw new ProtocolException("the target says where to write: " + where
                        + (target == null ? ", which is no ring" : ", a second time") + "; it is broken");
            }
            requireWorking();
            for (int buffer = 0; buffer < entries; buffer++) {
                receives[buffer] = endpoint.queuePair().postRecv(List.of(releaseBuffers.receive(buffer)), List.of());
                receives[buffer].execute();
            }
            requests = new ChunkRequest[entries];
            for (int entry = 0; entry < entries; entry++) {
                requests[entry] = new ChunkRequest(
                        endpoint.queuePair(),
                        entry,
                        where.ringAddress(),
                        (int) where.ringKey(),
                        framesRegion.getLkey(),
                        connection.region().getLkey(),
                        (int) where.key());
            }
            target = where;
        }
    }

    @Override
    public void begin(int sessionAttempt, Releases hears) {
        attempt = sessionAttempt;
        releases = hears;
    }

    @Override
    public void send(
            int chunk, int offsetInChunk, int lengthBytes, int file, long offset, int slot, int crc32c, boolean soon)
            throws IOException {
        synchronized (queueLock) {
            requireWorking();
            if (target == null) {
                throw new IOException("the target has not said where in its memory this session may write (" + path()
                        + "): install the same release of ppmr on both nodes");
            }
            ChunkFrame.encode(
                    frames,
                    chunk * FrameRing.ENTRY_BYTES,
                    attempt,
                    file,
                    offset,
                    lengthBytes,
                    crc32c,
                    chunk,
                    slot,
                    soon ? ChunkFrame.RELEASE_SOON : 0);
            offsets[chunk] = offsetInChunk;
            lengths[chunk] = lengthBytes;
            slots[chunk] = slot;
            waiting[(firstWaiting + waitingCount) % waiting.length] = chunk;
            waitingCount++;
            postWhatFits();
        }
        work.incrementAndGet();
    }

    private void requireWorking() throws IOException {
        if (failure != null) {
            throw new IOException(failure);
        }
    }

    /** Posts as many as the ring has room for; under the lock. */
    private void postWhatFits() throws IOException {
        while (waitingCount > 0 && underWay < requests.length && failure == null) {
            int chunk = waiting[firstWaiting];
            int entry = (int) (nextOrder % requests.length);
            int frameAt = chunk * FrameRing.ENTRY_BYTES;
            ChunkFrame.number(frames, frameAt, nextOrder);
            states[chunk] = POSTED;
            orders[chunk] = nextOrder;
            chunkOfEntry[entry] = chunk;
            dueNs[entry] = (System.nanoTime() + writeDeadlineNs) | 1;
            underWay++;
            firstWaiting = (firstWaiting + 1) % waiting.length;
            waitingCount--;
            try {
                requests[entry].post(
                        WorkId.of(WorkId.CHUNK, nextOrder, entry),
                        BufferUtil.address(frameBytes) + frameAt,
                        target.address() + (long) slots[chunk] * pool.geometry().chunkBytes() + offsets[chunk],
                        pool.address(chunk) + offsets[chunk],
                        lengths[chunk]);
            } catch (IOException e) {
                fail("RDMA Write cannot be posted (" + endpoint.path() + "): " + e.getMessage());
                throw new IOException(failure, e);
            }
            nextOrder++;
        }
    }

    @Override
    public long work() {
        return work.get();
    }

    /** Returns what the target's device has acknowledged. */
    @Override
    public long movedBytes() {
        synchronized (queueLock) {
            return writtenBytes;
        }
    }

    @Override
    public boolean hasArrived(int chunk, RailEnded word) throws ProtocolException {
        synchronized (queueLock) {
            long arrived = word.arrived().isEmpty() ? 0 : word.arrived().get(0);
            if (arrived < 0 || arrived > nextOrder || word.arrived().size() > 1) {
                throw new ProtocolException(word.arrived() + " chunks have arrived of " + nextOrder
                        + " that were written: the target is broken");
            }
            return states[chunk] != HERE && orders[chunk] < arrived;
        }
    }

    @Override
    public MemoryProof proof() {
        return connection.proof();
    }

    @Override
    public String path() {
        return endpoint.path();
    }

    @Override
    public void close() {
        if (closing) {
            return;
        }
        closing = true;
        fail(CLOSED);
        teardown.close(agent, JOIN_MS, endpoint.path());
    }

    private void takeDown() {
        for (ChunkRequest request : requests) {
            CloseSequence.quietly("the request of a write", request::free);
        }
        for (SVCPostRecv receive : receives) {
            if (receive != null) {
                CloseSequence.quietly("the request of a receive", receive::free);
            }
        }
        completions.free();
        connection.takeDown();
    }

    /** The first cause counts; it ends the connection, which flushes what is under way. */
    private void fail(String reason) {
        synchronized (queueLock) {
            if (failure == null) {
                failure = reason;
                endpoint.disconnect();
            }
        }
    }

    // ---- the agent's thread -----------------------------------------------------------------------------------

    private void run() {
        try {
            long lookNs = System.nanoTime();
            while (isWorking()) {
                completions.await(SLEEP_MS);
                long nowNs = System.nanoTime();
                if (nowNs - lookNs >= 0) {
                    look(nowNs);
                    lookNs = nowNs + LOOK_NS;
                }
            }
        } catch (IOException | RuntimeException | Error e) {
            fail("RDMA (" + endpoint.path() + "): chunks can no longer be sent: " + e);
            if (!(e instanceof IOException)) {
                LOG.error("sending by RDMA fails", e);
            }
        } finally {
            end();
        }
    }

    private boolean isWorking() {
        synchronized (queueLock) {
            return failure == null;
        }
    }

    private void end() {
        try {
            if (!closing) {
                onFailure.accept(failure);
            }
        } finally {
            teardown.threadEnds();
        }
    }

    private void completed(long workId, int status, int opcode, int lengthBytes, int immediate) throws IOException {
        int kind = WorkId.kind(workId);
        int entry = WorkId.entry(workId);
        if (status != WorkFailure.SUCCESS) {
            // A connection that the target has ended has its reason, which comes by the control connection.
            if (ended == null) {
                fail(WorkFailure.text(name(kind, entry), status, endpoint.path()));
            }
        } else if (kind == WorkId.CHUNK) {
            written(entry);
        } else if (kind == WorkId.RELEASES_IN && opcode == Completions.RECEIVED && receives[entry] != null) {
            takeReleases(entry, lengthBytes);
        } else {
            throw new ProtocolException("an unexpected completion: " + Long.toHexString(workId));
        }
    }

    private void written(int entry) throws IOException {
        int chunk;
        synchronized (queueLock) {
            dueNs[entry] = NONE;
            chunk = chunkOfEntry[entry];
            writtenBytes += lengths[chunk];
        }
        note(chunk, WRITTEN);
    }

    private String name(int kind, int entry) {
        return switch (kind) {
            case WorkId.CHUNK -> "RDMA Write of " + lengths[chunkOfEntry[entry]] + " bytes";
            case WorkId.FRAME -> "RDMA Write of a chunk's frame";
            default -> "receiving the target's releases";
        };
    }

    private void takeReleases(int buffer, int lengthBytes) throws IOException {
        UnsafeBuffer view = releaseBuffers.view();
        int from = ReleaseBuffers.offset(buffer);
        for (int at = from; at < from + lengthBytes; at += ReleaseFrame.LENGTH_BYTES) {
            boolean whole = from + lengthBytes - at >= ReleaseFrame.LENGTH_BYTES;
            if (!whole
                    || Frame.requireValid(view, at) != FrameType.RELEASE
                    || Frame.lengthBytes(view, at) != ReleaseFrame.LENGTH_BYTES
                    || Frame.attempt(view, at) != attempt
                    || releases == null) {
                throw new ProtocolException(
                        lengthBytes + " bytes from the target, where releases of attempt " + attempt + " were due");
            }
            note(release.wrap(view, at).sourceChunk(), RELEASED);
        }
        synchronized (queueLock) {
            if (failure == null) {
                receives[buffer].execute();
            }
        }
    }

    /** Notes what has come of a chunk that is under way; gives it back when that is all. */
    private void note(int chunk, byte what) throws IOException {
        synchronized (queueLock) {
            if (chunk < 0 || chunk >= states.length || states[chunk] == HERE || (states[chunk] & what) != 0) {
                throw new ProtocolException("a release of chunk " + chunk + ", which was not sent here");
            }
            states[chunk] |= what;
            if (states[chunk] != GONE) {
                return;
            }
            states[chunk] = HERE;
            underWay--;
            postWhatFits();
        }
        releases.released(chunk);
    }

    private void look(long nowNs) throws IOException {
        looks++;
        endpoint.device().logEvents();
        if (looks % CONNECTION_LOOKS == 0 && ended == null) {
            connection.hears(0, event -> ended = event);
            endedNs = nowNs;
        }
        if (ended != null && nowNs - endedNs > reasonNs) {
            fail(connection.lost(ended));
        }
        synchronized (queueLock) {
            for (int entry = 0; entry < requests.length && ended == null; entry++) {
                if (dueNs[entry] != NONE && nowNs - dueNs[entry] > 0) {
                    fail("RDMA Write of " + lengths[chunkOfEntry[entry]] + " bytes has not ended within "
                            + TimeUnit.NANOSECONDS.toMillis(writeDeadlineNs) + " ms (" + endpoint.path() + ")");
                }
            }
        }
    }
}
