package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvRecvWR;
import com.ibm.disni.verbs.IbvSendWR;
import com.ibm.disni.verbs.RdmaCmEvent;
import com.ibm.disni.verbs.RdmaCmEvent.EventType;
import com.ibm.disni.verbs.SVCPostRecv;
import com.ibm.disni.verbs.SVCPostSend;
import io.ppmr.linux.LogContext;
import io.ppmr.protocol.data.ChunkFrame;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ReleaseFrame;
import io.ppmr.transport.Arrivals;
import io.ppmr.transport.ChunkReceiver;
import java.io.IOException;
import java.util.LinkedList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.agrona.concurrent.UnsafeBuffer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Receives chunks that the source writes to the pool by RDMA. Immediate data reports each chunk and its frame to an
 * agent. The agent checks the frame, has the bytes checked and published, and releases the chunk at the source. Several
 * releases are sent together, after a millisecond at most. They are sent at once if the source has few free chunks
 * left.
 *
 * <p>The source can write to this session's pool and ring at any time. So a frame is copied before it is checked. Bytes
 * of a chunk without a granted slot, or that differ from their frame, are never published. After {@link #close} the
 * source cannot write, even if the agent hangs.
 *
 * <p>A correct chunk allocates nothing.
 */
final class RdmaChunkReceiver implements ChunkReceiver {
    private static final Logger LOG = LoggerFactory.getLogger(RdmaChunkReceiver.class);
    private static final int SLEEP_MS = 50;
    private static final int SLEEP_WITH_RELEASES_MS = 1;
    private static final long RELEASE_DELAY_NS = TimeUnit.MILLISECONDS.toNanos(1);
    /** Maximum number of concurrent messages with releases; one bit each in an int. */
    private static final int MAX_MESSAGES = 16;

    private static final int ALL_FREE = (1 << MAX_MESSAGES) - 1;
    private static final long CHECK_NS = TimeUnit.MILLISECONDS.toNanos(250);
    private static final long JOIN_MS = 10_000;

    private final RdmaPeer peer;
    private final Endpoint endpoint;
    private final FrameRing ring;
    private final Arrivals arrivals;
    private final SVCPostRecv receive;
    private final SVCPostSend message;
    private final ReleaseBuffers messages;
    private final Completions completions;
    /** Prevents posts to the queue pair while it is destroyed. */
    private final Object queueLock = new Object();

    private final UnsafeBuffer frame = new UnsafeBuffer(new byte[ChunkFrame.LENGTH_BYTES]);
    private final ChunkFrame chunk = new ChunkFrame();

    // Releases that were not sent, owned by the agent; limited by the chunks under way.
    private final long[] releaseOrders;
    private final int[] releaseFiles;
    private final int[] releaseChunks;
    private int firstRelease;
    private int releaseCount;
    private long releasesDueNs;
    private boolean releaseSoon;
    private int freeMessages = ALL_FREE;

    private long nextOrder;
    /** True after a reported failure: no further chunk is accepted. */
    private boolean hasEnded;
    /** True if the source closed the connection, as it does after its last chunk. */
    private boolean closedBySource;

    private final Thread agent = LogContext.thread(this::run, "ppmr-rdma-receive");
    private final Teardown teardown = new Teardown(this::takeDown);
    private volatile boolean closing;

    RdmaChunkReceiver(RdmaPeer peer, Arrivals arrivals) {
        this.peer = peer;
        this.endpoint = peer.endpoint();
        this.ring = peer.ring();
        this.arrivals = arrivals;
        releaseOrders = new long[ring.entries()];
        releaseFiles = new int[ring.entries()];
        releaseChunks = new int[ring.entries()];
        try {
            messages = new ReleaseBuffers(endpoint, MAX_MESSAGES);
            message = messageRequest();
            receive = endpoint.queuePair().postRecv(List.of(arrivalRequest()), List.of());
            completions = new Completions(endpoint, this::onCompletion);
            for (int entry = 0; entry < ring.entries(); entry++) {
                receive.execute();
            }
        } catch (IOException e) {
            throw new IllegalStateException("RDMA (" + endpoint.path() + "): chunks cannot be received", e);
        }
        agent.start();
    }

    // DiSNI requires the type of the list.
    @SuppressWarnings("JdkObsolete")
    private static IbvRecvWR arrivalRequest() {
        IbvRecvWR request = new IbvRecvWR();
        request.setWr_id(WorkId.of(WorkId.ARRIVAL, 0, 0));
        // A write with immediate data consumes a receive, but not its memory.
        request.setSg_list(new LinkedList<>());
        request.setNum_sge(0);
        return request;
    }

    private SVCPostSend messageRequest() throws IOException {
        IbvSendWR request = ChunkRequest.request(IbvSendWR.IBV_WR_SEND, IbvSendWR.IBV_SEND_SIGNALED);
        SVCPostSend call = endpoint.queuePair().postSend(List.of(request), List.of());
        call.getWrMod(0).getSgeMod(0).setLkey(messages.localKey());
        return call;
    }

    @Override
    public void close() {
        synchronized (queueLock) {
            if (closing) {
                return;
            }
            closing = true;
            endpoint.disconnect();
            // Done here and not by the agent, which may hang: the slots are reused after this.
            endpoint.revoke();
        }
        teardown.close(agent, JOIN_MS, endpoint.path());
    }

    private void takeDown() {
        CloseSequence.quietly("the request of a receive", receive::free);
        CloseSequence.quietly("the request of releases", message::free);
        completions.free();
        peer.takeDown();
    }

    // ---- the agent's thread -----------------------------------------------------------------------------------

    private void run() {
        try {
            long nextCheckNs = System.nanoTime();
            while (!closing) {
                completions.await(releaseCount > 0 && freeMessages != 0 ? SLEEP_WITH_RELEASES_MS : SLEEP_MS);
                long nowNs = System.nanoTime();
                if (releaseSoon || releaseCount >= ReleaseBuffers.RELEASES || nowNs - releasesDueNs >= 0) {
                    sendReleases();
                }
                if (nowNs - nextCheckNs >= 0) {
                    check();
                    nextCheckNs = nowNs + CHECK_NS;
                }
            }
        } catch (IOException | RuntimeException | Error e) {
            if (!closing) {
                String reason = "chunks can no longer be received: " + e;
                if (e instanceof IOException && !(e instanceof ProtocolException)) {
                    reportLoss(reason);
                } else {
                    reportProtocolError(reason);
                }
                if (!(e instanceof IOException)) {
                    LOG.error("receiving by RDMA failed", e);
                }
            }
        } finally {
            teardown.onThreadEnd();
        }
    }

    private void reportProtocolError(String reason) {
        if (markEnded()) {
            arrivals.onProtocolError(failureText(reason));
        }
    }

    /** The connection failed without a protocol violation by the source. */
    private void reportLoss(String reason) {
        if (markEnded()) {
            arrivals.onConnectionLost(failureText(reason));
        }
    }

    /** Stops receiving. Returns whether the session must be notified. */
    private boolean markEnded() {
        boolean mustReport = !hasEnded && !closedBySource && !closing;
        hasEnded |= mustReport;
        return mustReport;
    }

    private String failureText(String reason) {
        return "RDMA connection to the source failed (" + endpoint.path() + "): " + reason;
    }

    private void onCompletion(long workId, int status, int opcode, int lengthBytes, int immediate) throws IOException {
        int kind = WorkId.kind(workId);
        if (status != WorkFailure.SUCCESS) {
            reportLoss(WorkFailure.text(
                    kind == WorkId.ARRIVAL ? "receiving a chunk" : "releasing chunks", status, endpoint.path()));
        } else if (kind == WorkId.RELEASES_OUT) {
            freeMessages |= 1 << WorkId.entry(workId);
        } else if (!hasEnded) {
            try {
                hasEnded = !receive(opcode, lengthBytes, immediate);
            } catch (ProtocolException e) {
                reportProtocolError(e.toString());
            }
        }
    }

    /** Handles an arrived chunk. Returns whether its bytes are correct. */
    private boolean receive(int opcode, int lengthBytes, int immediate) throws IOException {
        int entry = (int) (nextOrder % ring.entries());
        if (opcode != Completions.WRITTEN_WITH_IMMEDIATE || immediate != entry) {
            throw new ProtocolException(
                    "entry " + immediate + " by opcode " + opcode + " instead of a write to entry " + entry);
        }
        ring.copy(entry, frame);
        FrameType type = Frame.requireValid(frame, 0);
        if (type != FrameType.CHUNK || Frame.lengthBytes(frame, 0) != ChunkFrame.LENGTH_BYTES) {
            throw new ProtocolException(
                    "frame " + type + " of " + Frame.lengthBytes(frame, 0) + " bytes instead of a chunk");
        }
        chunk.wrap(frame, 0);
        if (chunk.order() != nextOrder || chunk.lengthBytes() != lengthBytes) {
            throw new ProtocolException("chunk " + chunk.order() + " of " + chunk.lengthBytes() + " bytes instead of "
                    + nextOrder + " of " + lengthBytes + " bytes");
        }
        nextOrder++;
        post();
        arrivals.onChunkStart(chunk);
        if (!arrivals.onChunkEnd(chunk)) {
            return false;
        }
        release();
        return true;
    }

    /** Posts the receive for one more chunk, before the slot of this one can be granted again. */
    private void post() throws IOException {
        synchronized (queueLock) {
            if (!closing) {
                receive.execute();
            }
        }
    }

    private void release() throws ProtocolException {
        if (releaseCount == releaseChunks.length) {
            throw new ProtocolException("the source wrote more unreleased chunks than the ring has entries");
        }
        if (releaseCount == 0) {
            releasesDueNs = System.nanoTime() + RELEASE_DELAY_NS;
        }
        releaseSoon |= (chunk.flags() & ChunkFrame.RELEASE_SOON) != 0;
        int at = (firstRelease + releaseCount) % releaseChunks.length;
        releaseOrders[at] = chunk.order();
        releaseFiles[at] = chunk.file();
        releaseChunks[at] = chunk.sourceChunk();
        releaseCount++;
    }

    private void sendReleases() throws IOException {
        while (releaseCount > 0 && freeMessages != 0) {
            int buffer = Integer.numberOfTrailingZeros(freeMessages);
            int length = 0;
            for (int i = 0; i < ReleaseBuffers.RELEASES && releaseCount > 0; i++) {
                length += ReleaseFrame.encode(
                        messages.view(),
                        ReleaseBuffers.offset(buffer) + length,
                        chunk.attempt(),
                        releaseFiles[firstRelease],
                        releaseOrders[firstRelease],
                        releaseChunks[firstRelease]);
                firstRelease = (firstRelease + 1) % releaseChunks.length;
                releaseCount--;
            }
            freeMessages &= ~(1 << buffer);
            synchronized (queueLock) {
                if (!closing) {
                    SVCPostSend.SendWRMod request = message.getWrMod(0);
                    request.setWr_id(WorkId.of(WorkId.RELEASES_OUT, 0, buffer));
                    request.getSgeMod(0).setAddr(messages.address(buffer));
                    request.getSgeMod(0).setLength(length);
                    message.execute();
                }
            }
        }
        releaseSoon &= releaseCount > 0;
    }

    private void check() throws IOException {
        endpoint.device().logEvents();
        RdmaCmEvent event = peer.channel().poll(0);
        if (event != null) {
            EventType type = CmChannel.type(event);
            if (type == EventType.RDMA_CM_EVENT_DISCONNECTED) {
                // The session detects missing chunks.
                LOG.debug("RDMA ({}): closed by the source", endpoint.path());
                closedBySource = true;
            } else if (type == EventType.RDMA_CM_EVENT_DEVICE_REMOVAL) {
                reportLoss("its device was removed");
            }
        }
    }
}
