package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvRecvWR;
import com.ibm.disni.verbs.IbvSendWR;
import com.ibm.disni.verbs.RdmaCmEvent;
import com.ibm.disni.verbs.RdmaCmEvent.EventType;
import com.ibm.disni.verbs.SVCPostRecv;
import com.ibm.disni.verbs.SVCPostSend;
import io.ppmr.os.LogContext;
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
 * Takes chunks that the source writes into the pool by RDMA: an agent of this class's own hears by immediate data
 * that a chunk and its frame are there, checks the frame, has the bytes checked and shown, and releases the chunk at
 * the source. Releases go together, the first of them after a millisecond at most; at once where the source says that
 * it has few chunks left.
 *
 * <p>The source can write anywhere in this session's pool and ring at any time; so a frame is copied before it is
 * looked at, and bytes of a chunk that is for no granted slot, or is not what its frame says, are never shown. When
 * {@link #close} returns the source can write nothing more, even if the agent hangs.
 *
 * <p>Nothing is allocated for a chunk that comes well.
 */
final class RdmaChunkReceiver implements ChunkReceiver {
    private static final Logger LOG = LoggerFactory.getLogger(RdmaChunkReceiver.class);
    private static final int SLEEP_MS = 50;
    private static final int SLEEP_WITH_RELEASES_MS = 1;
    private static final long RELEASES_WAIT_NS = TimeUnit.MILLISECONDS.toNanos(1);
    /** Messages with releases that are under way at once; one bit each in an int. */
    private static final int MESSAGES = 16;

    private static final int ALL_FREE = (1 << MESSAGES) - 1;
    private static final long LOOK_NS = TimeUnit.MILLISECONDS.toNanos(250);
    private static final long JOIN_MS = 10_000;

    private final RdmaPeer peer;
    private final Endpoint endpoint;
    private final FrameRing ring;
    private final Arrivals arrivals;
    private final SVCPostRecv receive;
    private final SVCPostSend message;
    private final ReleaseBuffers messages;
    private final Completions completions;
    /** Guards the queue pair against being posted to while it is taken down. */
    private final Object queueLock = new Object();

    private final UnsafeBuffer frame = new UnsafeBuffer(new byte[ChunkFrame.LENGTH_BYTES]);
    private final ChunkFrame chunk = new ChunkFrame();

    // Releases that have not been sent, the agent's: as many as can be under way.
    private final long[] releaseOrders;
    private final int[] releaseFiles;
    private final int[] releaseChunks;
    private int firstRelease;
    private int releaseCount;
    private long releasesDueNs;
    private boolean soon;
    private int freeMessages = ALL_FREE;

    private long nextOrder;
    /** True if nothing more is taken: the session knows why. */
    private boolean over;
    /** True if the source has ended the connection, as one that has sent everything does. */
    private boolean left;

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
            messages = new ReleaseBuffers(endpoint, MESSAGES);
            message = messageRequest();
            receive = endpoint.queuePair().postRecv(List.of(arrivalRequest()), List.of());
            completions = new Completions(endpoint, this::completed);
            for (int entry = 0; entry < ring.entries(); entry++) {
                receive.execute();
            }
        } catch (IOException e) {
            throw new IllegalStateException("RDMA (" + endpoint.path() + "): what comes cannot be taken", e);
        }
        agent.start();
    }

    // The list's type is DiSNI's.
    @SuppressWarnings("JdkObsolete")
    private static IbvRecvWR arrivalRequest() {
        IbvRecvWR request = new IbvRecvWR();
        request.setWr_id(WorkId.of(WorkId.ARRIVAL, 0, 0));
        // A write with immediate data takes a receive, and none of its memory.
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
            // Not left to the agent, which may hang: the slots are used again after this.
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
            long lookNs = System.nanoTime();
            while (!closing) {
                completions.await(releaseCount > 0 && freeMessages != 0 ? SLEEP_WITH_RELEASES_MS : SLEEP_MS);
                long nowNs = System.nanoTime();
                if (soon || releaseCount >= ReleaseBuffers.RELEASES || nowNs - releasesDueNs >= 0) {
                    sendReleases();
                }
                if (nowNs - lookNs >= 0) {
                    look();
                    lookNs = nowNs + LOOK_NS;
                }
            }
        } catch (IOException | RuntimeException | Error e) {
            if (!closing) {
                String reason = "chunks can no longer be taken: " + e;
                if (e instanceof IOException && !(e instanceof ProtocolException)) {
                    lost(reason);
                } else {
                    broken(reason);
                }
                if (!(e instanceof IOException)) {
                    LOG.error("receiving by RDMA fails", e);
                }
            }
        } finally {
            teardown.threadEnds();
        }
    }

    private void broken(String reason) {
        if (ends()) {
            arrivals.onProtocolError(failed(reason));
        }
    }

    /** The connection carries nothing more, and the source has broken nothing. */
    private void lost(String reason) {
        if (ends()) {
            arrivals.onConnectionLost(failed(reason));
        }
    }

    /** Takes nothing more; tells whether that is news to the session. */
    private boolean ends() {
        boolean isNews = !over && !left && !closing;
        over |= isNews;
        return isNews;
    }

    private String failed(String reason) {
        return "RDMA connection to the source failed (" + endpoint.path() + "): " + reason;
    }

    private void completed(long workId, int status, int opcode, int lengthBytes, int immediate) throws IOException {
        int kind = WorkId.kind(workId);
        if (status != WorkFailure.SUCCESS) {
            lost(WorkFailure.text(
                    kind == WorkId.ARRIVAL ? "receiving a chunk" : "releasing chunks", status, endpoint.path()));
        } else if (kind == WorkId.RELEASES_OUT) {
            freeMessages |= 1 << WorkId.entry(workId);
        } else if (!over) {
            try {
                over = !take(opcode, lengthBytes, immediate);
            } catch (ProtocolException e) {
                broken(e.toString());
            }
        }
    }

    /** Takes a chunk that is there; tells whether it is what was sent. */
    private boolean take(int opcode, int lengthBytes, int immediate) throws IOException {
        int entry = (int) (nextOrder % ring.entries());
        if (opcode != Completions.WRITTEN_WITH_IMMEDIATE || immediate != entry) {
            throw new ProtocolException("entry " + immediate + " by opcode " + opcode + ", where entry " + entry
                    + " was to be told of by a write");
        }
        ring.copy(entry, frame);
        FrameType type = Frame.requireValid(frame, 0);
        if (type != FrameType.CHUNK || Frame.lengthBytes(frame, 0) != ChunkFrame.LENGTH_BYTES) {
            throw new ProtocolException(
                    "frame " + type + " of " + Frame.lengthBytes(frame, 0) + " bytes where a chunk was due");
        }
        chunk.wrap(frame, 0);
        if (chunk.order() != nextOrder || chunk.lengthBytes() != lengthBytes) {
            throw new ProtocolException("chunk " + chunk.order() + " of " + chunk.lengthBytes() + " bytes where "
                    + nextOrder + " of " + lengthBytes + " bytes was written");
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
            throw new ProtocolException("more chunks than the ring has entries, before one was released");
        }
        if (releaseCount == 0) {
            releasesDueNs = System.nanoTime() + RELEASES_WAIT_NS;
        }
        soon |= (chunk.flags() & ChunkFrame.RELEASE_SOON) != 0;
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
        soon &= releaseCount > 0;
    }

    private void look() throws IOException {
        endpoint.device().logEvents();
        RdmaCmEvent event = peer.channel().poll(0);
        if (event != null) {
            EventType type = CmChannel.type(event);
            if (type == EventType.RDMA_CM_EVENT_DISCONNECTED) {
                // What is missing then, the session notices.
                LOG.debug("RDMA ({}): closed by the source", endpoint.path());
                left = true;
            } else if (type == EventType.RDMA_CM_EVENT_DEVICE_REMOVAL) {
                lost("its device was removed");
            }
        }
    }
}
