package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.RdmaCmEvent;
import com.ibm.disni.verbs.RdmaCmEvent.EventType;
import io.ppmr.linux.LogContext;
import io.ppmr.transport.ChunkPuller;
import io.ppmr.transport.PullListener;
import io.ppmr.transport.RemoteBlock;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLongArray;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Pulls chunks by RDMA Read: the caller's thread posts, and an agent polls the completion queue. The agent polls while
 * completions arrive. Otherwise it requests an event and sleeps in the kernel (ibv_get_cq_event(3)), until the event or
 * its next check of deadlines and the connection.
 *
 * <p>Every pull ends exactly once, by its completion, which may be a flushed one. A pull past its deadline moves the
 * queue pair to the error state. Its result is reported only after its flushed completion, because a late read may
 * write to its chunk until then. If that completion is missing the queue pair is destroyed first.
 *
 * <p>A successful pull allocates nothing.
 */
final class RdmaChunkPuller implements ChunkPuller {
    private static final Logger LOG = LoggerFactory.getLogger(RdmaChunkPuller.class);
    private static final int SLEEP_MS = 50;
    private static final long CHECK_NS = TimeUnit.MILLISECONDS.toNanos(50);
    /** Deadline checks per check of the connection, for which DiSNI allocates. */
    private static final int CHECKS_PER_CONNECTION_CHECK = 5;

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
    /** Per entry: the deadline of its read, {@link #FREE} if there is none. The pulling thread claims it. */
    private final AtomicLongArray dueNs;

    private final long[] pullIds;
    private final int[] lengths;
    private final Completions completions;
    /** Prevents posts to the queue pair and disconnects while it is destroyed. */
    private final Object queueLock = new Object();

    private final Thread agent = LogContext.thread(this::run, "ppmr-rdma-pull");
    private final Teardown teardown = new Teardown(this::takeDown);
    private int cursor;
    private long generation;
    private int checks;
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
            listener.onPullFailed(pullId, refusal);
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

    /** Returns null, or the reason why it was not posted. */
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

    /** Fails the connection with the first cause, and flushes pending requests. */
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
            long nextCheckNs = System.nanoTime();
            while (!hasEnded()) {
                completions.await(SLEEP_MS);
                long nowNs = System.nanoTime();
                if (nowNs - nextCheckNs >= 0) {
                    check(nowNs);
                    nextCheckNs = nowNs + CHECK_NS;
                }
            }
        } catch (IOException | RuntimeException | Error e) {
            fail("RDMA (" + endpoint.path() + "): completions cannot be polled: " + e);
            LOG.error("polling for completions failed", e);
        } finally {
            end();
        }
    }

    /** Runs at every end of the agent: later pulls fail first, then all pending pulls are reported. */
    private void end() {
        try {
            fail("RDMA (" + endpoint.path() + "): the connection ended");
            failPending();
        } finally {
            teardown.onThreadEnd();
        }
    }

    /** Returns true if the agent need not wait longer. */
    private boolean hasEnded() {
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
                listener.onPullCompleted(pullId);
            } else {
                listener.onPullFailed(pullId, failure);
            }
        } catch (RuntimeException | Error e) {
            onListenerFailure(pullId, e);
        }
    }

    /** The state of the pull's bytes is unknown, so no further pull may start. Started pulls must still be reported. */
    private void onListenerFailure(long pullId, Throwable cause) {
        fail("RDMA (" + endpoint.path() + "): the result of pull " + pullId + " cannot be reported: " + cause);
        LOG.error("the listener failed on pull {}", pullId, cause);
    }

    private void check(long nowNs) throws IOException {
        checks++;
        endpoint.device().logEvents();
        RdmaCmEvent event =
                checks % CHECKS_PER_CONNECTION_CHECK == 0 ? peer.channel().poll(0) : null;
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
                fail("RDMA Read of " + lengths[entry] + " bytes did not end within "
                        + TimeUnit.NANOSECONDS.toMillis(readDeadlineNs) + " ms (" + endpoint.path() + ")");
            }
        }
    }

    /** Without a queue pair no byte can be written, so the chunks can be returned. */
    private void failPending() {
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
                    listener.onPullFailed(pullId, failure);
                } catch (RuntimeException | Error e) {
                    onListenerFailure(pullId, e);
                }
            }
        }
    }
}
