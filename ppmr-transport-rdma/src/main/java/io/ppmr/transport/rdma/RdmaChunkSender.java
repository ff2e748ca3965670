package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvMr;
import com.ibm.disni.verbs.SVCPostRecv;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.linux.LogContext;
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
 * Sends chunks by RDMA Write. The thread that filled a chunk posts the writes of its frame and its bytes, and never
 * blocks. If the target's ring is full, an agent posts the chunk after a release. The pool cannot be read remotely.
 *
 * <p>A chunk is reusable after the completion of its write and the target's release, in any order. The device no longer
 * reads the chunk after the completion.
 *
 * <p>A successful write allocates nothing.
 */
final class RdmaChunkSender implements RailSender.RailConnection {
    private static final Logger LOG = LoggerFactory.getLogger(RdmaChunkSender.class);
    private static final int SLEEP_MS = 50;
    private static final long CHECK_NS = TimeUnit.MILLISECONDS.toNanos(50);
    /** Deadline checks per check of the connection, for which DiSNI allocates. */
    private static final int CHECKS_PER_CONNECTION_CHECK = 5;

    private static final long JOIN_MS = 10_000;
    private static final String CLOSED = "the transport was closed";
    private static final long NONE = 0;

    // The state of a chunk, in bits.
    private static final byte IDLE = 0;
    private static final byte POSTED = 1;
    private static final byte WRITTEN = 2;
    private static final byte RELEASED = 4;
    private static final byte DONE = POSTED | WRITTEN | RELEASED;

    private final BufferPool pool;
    private final SourceConnection connection;
    private final Endpoint endpoint;
    private final Consumer<String> onFailure;
    private final long writeDeadlineNs;
    private final long reasonNs;
    private final AtomicLong operations = new AtomicLong();

    /** A frame for each chunk, which the device reads. A chunk is under way once at a time. */
    private final ByteBuffer frameBytes;

    private final UnsafeBuffer frames;
    private final IbvMr framesRegion;
    private final ReleaseBuffers releaseBuffers;
    private final SVCPostRecv[] receives = new SVCPostRecv[FrameRing.MAX_ENTRIES];
    private final ReleaseFrame release = new ReleaseFrame();
    private final Completions completions;

    /** Prevents concurrent posts to the queue pair, and guards the fields from here to the agent's part. */
    private final Object queueLock = new Object();

    private final byte[] states;
    private final int[] waiting;
    private final int[] offsets;
    private final int[] lengths;
    private final int[] slots;
    /** Per chunk under way: its order on this connection. */
    private final long[] orders;

    private int firstWaiting;
    private int waitingCount;
    private int underWay;
    private long nextOrder;
    private long writtenBytes;
    private Writable target;
    private ChunkRequest[] requests = {};
    private final int[] chunkOfEntry = new int[FrameRing.MAX_ENTRIES];
    /** Per entry: the time by which its write must complete; {@link #NONE} after its completion. */
    private final long[] dueNs = new long[FrameRing.MAX_ENTRIES];

    private String failure;

    private final Thread agent = LogContext.thread(this::run, "ppmr-rdma-write");
    private final Teardown teardown = new Teardown(this::takeDown);
    private int checks;
    /** The event by which the other side closed the connection, null before; owned by the agent. */
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
        completions = new Completions(endpoint, this::onCompletion);
    }

    /**
     * Connects to a listening target.
     *
     * @param from this node's address that the connection leaves from; null to let the kernel choose
     * @param deadlineNs for all steps of the connection
     * @param writeDeadline for each later write
     * @param reasonNs the time for which the sender waits for the target's reason after the target closed the
     *     connection
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
        // The peer has no access to the pool, and this node's device only reads it.
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
    public void onWritable(Writable memory) throws IOException {
        synchronized (queueLock) {
            int entries = memory.ringEntries();
            if (entries < 1 || entries > FrameRing.MAX_ENTRIES || target != null) {
                throw new ProtocolException("unexpected message Writable: " + memory
                        + (target == null ? ", which is not a valid ring" : ", a second time")
                        + ": the peer is broken");
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
                        memory.ringAddress(),
                        (int) memory.ringKey(),
                        framesRegion.getLkey(),
                        connection.region().getLkey(),
                        (int) memory.key());
            }
            target = memory;
        }
    }

    @Override
    public void begin(int sessionAttempt, Releases newReleases) {
        attempt = sessionAttempt;
        releases = newReleases;
    }

    @Override
    public void send(
            int chunk,
            int offsetInChunk,
            int lengthBytes,
            int file,
            long offset,
            int slot,
            int crc32c,
            boolean releaseSoon)
            throws IOException {
        synchronized (queueLock) {
            requireWorking();
            if (target == null) {
                throw new IOException("the target sent no message Writable (" + path()
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
                    releaseSoon ? ChunkFrame.RELEASE_SOON : 0);
            offsets[chunk] = offsetInChunk;
            lengths[chunk] = lengthBytes;
            slots[chunk] = slot;
            waiting[(firstWaiting + waitingCount) % waiting.length] = chunk;
            waitingCount++;
            postWaiting();
        }
        operations.incrementAndGet();
    }

    private void requireWorking() throws IOException {
        if (failure != null) {
            throw new IOException(failure);
        }
    }

    /** Posts as many chunks as the ring has free entries; while holding the lock. */
    private void postWaiting() throws IOException {
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
    public long operations() {
        return operations.get();
    }

    /** Returns the bytes that the target's device acknowledged. */
    @Override
    public long movedBytes() {
        synchronized (queueLock) {
            return writtenBytes;
        }
    }

    @Override
    public boolean hasArrived(int chunk, RailEnded report) throws ProtocolException {
        synchronized (queueLock) {
            long arrived = report.arrived().isEmpty() ? 0 : report.arrived().get(0);
            if (arrived < 0 || arrived > nextOrder || report.arrived().size() > 1) {
                throw new ProtocolException("the target reports " + report.arrived() + " arrived chunks of " + nextOrder
                        + " written ones: it is broken");
            }
            return states[chunk] != IDLE && orders[chunk] < arrived;
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

    /** Fails the connection with the first cause, and flushes pending requests. */
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
            long nextCheckNs = System.nanoTime();
            while (isWorking()) {
                completions.await(SLEEP_MS);
                long nowNs = System.nanoTime();
                if (nowNs - nextCheckNs >= 0) {
                    check(nowNs);
                    nextCheckNs = nowNs + CHECK_NS;
                }
            }
        } catch (IOException | RuntimeException | Error e) {
            fail("RDMA (" + endpoint.path() + "): chunks can no longer be sent: " + e);
            if (!(e instanceof IOException)) {
                LOG.error("sending by RDMA failed", e);
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
            teardown.onThreadEnd();
        }
    }

    private void onCompletion(long workId, int status, int opcode, int lengthBytes, int immediate) throws IOException {
        int kind = WorkId.kind(workId);
        int entry = WorkId.entry(workId);
        if (status != WorkFailure.SUCCESS) {
            // If the target closed the connection, its reason arrives on the control connection.
            if (ended == null) {
                fail(WorkFailure.text(name(kind, entry), status, endpoint.path()));
            }
        } else if (kind == WorkId.CHUNK) {
            onWritten(entry);
        } else if (kind == WorkId.RELEASES_IN && opcode == Completions.RECEIVED && receives[entry] != null) {
            handleReleases(entry, lengthBytes);
        } else {
            throw new ProtocolException("an unexpected completion: " + Long.toHexString(workId));
        }
    }

    private void onWritten(int entry) throws IOException {
        int chunk;
        synchronized (queueLock) {
            dueNs[entry] = NONE;
            chunk = chunkOfEntry[entry];
            writtenBytes += lengths[chunk];
        }
        addState(chunk, WRITTEN);
    }

    private String name(int kind, int entry) {
        return switch (kind) {
            case WorkId.CHUNK -> "RDMA Write of " + lengths[chunkOfEntry[entry]] + " bytes";
            case WorkId.FRAME -> "RDMA Write of a chunk's frame";
            default -> "receiving the target's releases";
        };
    }

    private void handleReleases(int buffer, int lengthBytes) throws IOException {
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
                        lengthBytes + " bytes from the target instead of releases of attempt " + attempt);
            }
            addState(release.wrap(view, at).sourceChunk(), RELEASED);
        }
        synchronized (queueLock) {
            if (failure == null) {
                receives[buffer].execute();
            }
        }
    }

    /** Adds an event to the state of a chunk under way, and returns the chunk after the last event. */
    private void addState(int chunk, byte event) throws IOException {
        synchronized (queueLock) {
            if (chunk < 0 || chunk >= states.length || states[chunk] == IDLE || (states[chunk] & event) != 0) {
                throw new ProtocolException("a release of chunk " + chunk + ", which was not sent here");
            }
            states[chunk] |= event;
            if (states[chunk] != DONE) {
                return;
            }
            states[chunk] = IDLE;
            underWay--;
            postWaiting();
        }
        releases.released(chunk);
    }

    private void check(long nowNs) throws IOException {
        checks++;
        endpoint.device().logEvents();
        if (checks % CHECKS_PER_CONNECTION_CHECK == 0 && ended == null) {
            connection.pollDisconnect(0, event -> ended = event);
            endedNs = nowNs;
        }
        if (ended != null && nowNs - endedNs > reasonNs) {
            fail(connection.lossText(ended));
        }
        synchronized (queueLock) {
            for (int entry = 0; entry < requests.length && ended == null; entry++) {
                if (dueNs[entry] != NONE && nowNs - dueNs[entry] > 0) {
                    fail("RDMA Write of " + lengths[chunkOfEntry[entry]] + " bytes did not end within "
                            + TimeUnit.NANOSECONDS.toMillis(writeDeadlineNs) + " ms (" + endpoint.path() + ")");
                }
            }
        }
    }
}
