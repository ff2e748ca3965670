package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.RdmaCmEvent;
import com.ibm.disni.verbs.RdmaCmEvent.EventType;
import io.ppmr.os.LogContext;
import io.ppmr.transport.ChunkPuller;
import io.ppmr.transport.PullListener;
import io.ppmr.transport.RemoteBlock;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLongArray;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Pulls by RDMA Read: the caller's thread posts, an agent of this class's own polls the completion queue. While
 * completions come it polls; when none has come for a while it asks for an event and sleeps in the kernel until one
 * comes (ibv_get_cq_event(3)), or until its next look at deadlines and at the connection.
 *
 * <p>Every pull ends exactly once: with its completion, also a flushed one. A pull past its deadline moves the queue
 * pair to the error state, and is answered when its flushed completion has come, since a late read may land in its
 * chunk until then. Where not even that comes the queue pair is destroyed first.
 *
 * <p>Nothing is allocated for a pull that succeeds.
 */
final class RdmaChunkPuller implements ChunkPuller {
    private static final Logger LOG = LoggerFactory.getLogger(RdmaChunkPuller.class);
    private static final int SLEEP_MS = 50;
    private static final long LOOK_NS = TimeUnit.MILLISECONDS.toNanos(50);
    /** Looks at deadlines for one at the connection, for which DiSNI allocates. */
    private static final int CONNECTION_LOOKS = 5;

    private static final long FLUSH_NS = TimeUnit.SECONDS.toNanos(5);
    private static final long JOIN_MS = 10_000;
    private static final long FREE = 0;
    private static final String CLOSED = "the transport was closed";

    private final RdmaPeer peer;
    private final Endpoint endpoint;
    private final PullListener listener;
    private final int chunkBytes;
    private final int depth;
    private final long readDeadlineNs;
    private final ReadRequest request;
    /** Of each entry: when its read must have ended, {@link #FREE} if there is none. The pulling thread takes it. */
    private final AtomicLongArray dueNs;

    private final long[] pullIds;
    private final int[] lengths;
    private final Completions completions;
    /** Guards the queue pair against being posted to, or disconnected, while it is taken down. */
    private final Object queueLock = new Object();

    private final Thread agent = LogContext.thread(this::run, "ppmr-rdma-pull");
    private final Teardown teardown = new Teardown(this::takeDown);
    private int cursor;
    private long generation;
    private int looks;
    private volatile String failure;
    private volatile long failedNs;
    private volatile boolean closing;

    RdmaChunkPuller(RdmaPeer peer, PullListener listener) {
        this.peer = peer;
        this.endpoint = peer.endpoint();
        this.listener = listener;
        chunkBytes = peer.pool().geometry().chunkBytes();
        depth = peer.depth();
        readDeadlineNs = peer.readDeadline().toNanos();
        dueNs = new AtomicLongArray(depth);
        pullIds = new long[depth];
        lengths = new int[depth];
        try {
            request = new ReadRequest(endpoint.queuePair());
            completions = new Completions(endpoint, this::complete);
        } catch (IOException e) {
            throw new IllegalStateException("RDMA (" + endpoint.path() + "): the connection was closed before", e);
        }
        agent.start();
    }

    @Override
    public int depth() {
        return depth;
    }

    @Override
    public void pull(long pullId, RemoteBlock from, int localChunk, int localOffset, boolean more) {
        int entry = freeEntry();
        int lengthBytes = from.lengthBytes();
        pullIds[entry] = pullId;
        lengths[entry] = lengthBytes;
        dueNs.set(entry, (System.nanoTime() + readDeadlineNs) | 1);
        String refusal = lengthBytes <= 0 || localOffset < 0 || lengthBytes > chunkBytes - localOffset
                ? "a block of " + lengthBytes + " bytes does not fit a chunk at " + localOffset
                        + ": the block is outside its region"
                : post(entry, from, peer.pool().address(localChunk) + localOffset);
        if (refusal != null && dueNs.getAndSet(entry, FREE) != FREE) {
            listener.pullFailed(pullId, refusal);
        }
    }

    private int freeEntry() {
        for (int tried = 0; tried < depth; tried++) {
            cursor = cursor + 1 == depth ? 0 : cursor + 1;
            if (dueNs.get(cursor) == FREE) {
                return cursor;
            }
        }
        throw new IllegalStateException("more pulls than the depth of " + depth + " allows");
    }

    /** Null, or why it was not posted. */
    private String post(int entry, RemoteBlock from, long localAddress) {
        synchronized (queueLock) {
            if (failure != null) {
                return failure;
            }
            try {
                request.post(
                        WorkId.of(WorkId.PULL, generation++, entry),
                        from.address(),
                        (int) from.key(),
                        localAddress,
                        from.lengthBytes(),
                        peer.region().getLkey());
                return null;
            } catch (IOException e) {
                return "RDMA Read cannot be posted (" + endpoint.path() + "): " + e.getMessage();
            }
        }
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
        CloseSequence.quietly("the request of reads", request::free);
        completions.free();
        peer.takeDown();
    }

    /** The first cause counts; it ends the connection, which flushes what is under way. */
    private void fail(String reason) {
        synchronized (queueLock) {
            if (failure == null) {
                failedNs = System.nanoTime();
                failure = reason;
                endpoint.disconnect();
            }
        }
    }

    // ---- the agent's thread -----------------------------------------------------------------------------------

    private void run() {
        try {
            long lookNs = System.nanoTime();
            while (!isOver()) {
                completions.await(SLEEP_MS);
                long nowNs = System.nanoTime();
                if (nowNs - lookNs >= 0) {
                    look(nowNs);
                    lookNs = nowNs + LOOK_NS;
                }
            }
        } catch (IOException | RuntimeException | Error e) {
            fail("RDMA (" + endpoint.path() + "): completions cannot be polled: " + e);
            LOG.error("polling for completions fails", e);
        } finally {
            end();
        }
    }

    /** In whichever way it ends: later pulls fail first, then all that are under way are answered. */
    private void end() {
        try {
            fail("RDMA (" + endpoint.path() + "): the connection is over");
            answerTheRest();
        } finally {
            teardown.threadEnds();
        }
    }

    /** Returns true if there is nothing left to wait for. */
    private boolean isOver() {
        if (failure == null) {
            return false;
        }
        if (underWay() == 0) {
            return closing;
        }
        return System.nanoTime() - failedNs > FLUSH_NS;
    }

    private int underWay() {
        int count = 0;
        for (int entry = 0; entry < depth; entry++) {
            count += dueNs.get(entry) == FREE ? 0 : 1;
        }
        return count;
    }

    private void complete(long workId, int status, int opcode, int lengthBytes, int immediate) {
        int entry = WorkId.entry(workId);
        if (WorkId.kind(workId) != WorkId.PULL || entry >= depth || dueNs.get(entry) == FREE) {
            LOG.error("an unexpected completion: {}, {}", Long.toHexString(workId), WorkFailure.name(status));
            return;
        }
        long pullId = pullIds[entry];
        if (status != WorkFailure.SUCCESS) {
            fail(WorkFailure.text("RDMA Read of " + lengths[entry] + " bytes", status, endpoint.path()));
        }
        dueNs.set(entry, FREE);
        try {
            if (status == WorkFailure.SUCCESS) {
                listener.pulled(pullId);
            } else {
                listener.pullFailed(pullId, failure);
            }
        } catch (RuntimeException | Error e) {
            listenerFails(pullId, e);
        }
    }

    /**
     * The state of its bytes is unknown, so no further pull may begin. Pulls that have begun must still be reported.
     */
    private void listenerFails(long pullId, Throwable cause) {
        fail("RDMA (" + endpoint.path() + "): what becomes of pull " + pullId + " cannot be told: " + cause);
        LOG.error("the listener fails on pull {}", pullId, cause);
    }

    private void look(long nowNs) throws IOException {
        looks++;
        endpoint.device().logEvents();
        RdmaCmEvent event = looks % CONNECTION_LOOKS == 0 ? peer.channel().poll(0) : null;
        if (event != null) {
            EventType type = CmChannel.type(event);
            if (type == EventType.RDMA_CM_EVENT_DISCONNECTED || type == EventType.RDMA_CM_EVENT_DEVICE_REMOVAL) {
                fail("RDMA connection to the source failed (" + endpoint.path() + "): " + type
                        + ", closed by the source or its node is down");
            }
        }
        for (int entry = 0; entry < depth && failure == null; entry++) {
            long due = dueNs.get(entry);
            if (due != FREE && nowNs - due > 0) {
                fail("RDMA Read of " + lengths[entry] + " bytes has not ended within "
                        + TimeUnit.NANOSECONDS.toMillis(readDeadlineNs) + " ms (" + endpoint.path() + ")");
            }
        }
    }

    /** Without a queue pair no byte can land: now the chunks may be returned. */
    private void answerTheRest() {
        if (underWay() == 0) {
            return;
        }
        LOG.warn("{} reads were not flushed within {} ms", underWay(), TimeUnit.NANOSECONDS.toMillis(FLUSH_NS));
        synchronized (queueLock) {
            endpoint.destroyQueuePair();
        }
        for (int entry = 0; entry < depth; entry++) {
            long pullId = pullIds[entry];
            if (dueNs.getAndSet(entry, FREE) != FREE) {
                try {
                    listener.pullFailed(pullId, failure);
                } catch (RuntimeException | Error e) {
                    listenerFails(pullId, e);
                }
            }
        }
    }
}
