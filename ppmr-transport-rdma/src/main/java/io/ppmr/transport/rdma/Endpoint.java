package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvCQ;
import com.ibm.disni.verbs.IbvCompChannel;
import com.ibm.disni.verbs.IbvContext;
import com.ibm.disni.verbs.IbvMr;
import com.ibm.disni.verbs.IbvPd;
import com.ibm.disni.verbs.IbvQP;
import com.ibm.disni.verbs.IbvQPInitAttr;
import com.ibm.disni.verbs.RdmaCmId;
import com.ibm.disni.verbs.SVCRegMr;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/**
 * The device resources of one end of one connection: protection domain, completion channel, completion queue, queue
 * pair, registered memory. They belong to this connection only, so every event and completion is its own. The
 * connection's owner creates and closes it. {@link #disconnect} and {@link #revoke} are for any thread.
 */
final class Endpoint implements AutoCloseable {
    /** The number of requests of a queue pair: more than any device executes concurrently, plus the proof. */
    static final int QUEUE_DEPTH = 256;

    /** The number of receives of a queue pair: the maximum number of entries of a ring of frames. */
    static final int RECEIVES = FrameRing.MAX_ENTRIES;

    private static final int FIRST_VECTOR = 0;
    /** Approximate locked memory of queues of that depth. */
    private static final long QUEUE_BYTES = (QUEUE_DEPTH + RECEIVES) * 256L;

    private final RdmaCmId id;
    private final Device device;
    private final String path;
    private final IbvPd domain;
    private final IbvCompChannel events;
    private final IbvCQ completions;
    private final IbvQP queuePair;
    private final List<IbvMr> regions = new ArrayList<>();
    private boolean closed;

    private Endpoint(
            RdmaCmId id,
            Device device,
            String path,
            IbvPd domain,
            IbvCompChannel events,
            IbvCQ completions,
            IbvQP queuePair) {
        this.id = id;
        this.device = device;
        this.path = path;
        this.domain = domain;
        this.events = events;
        this.completions = completions;
        this.queuePair = queuePair;
    }

    /**
     * Opens the end of a connection whose device is known, because an address was resolved, or a request arrived. It
     * then owns the id. After a failure the id stays with the caller.
     */
    static Endpoint open(RdmaCmId id, InetSocketAddress peer) throws IOException {
        IbvContext context = id.getVerbs();
        Device device = Device.of(context);
        device.requireUsable();
        String path = device.name() + ", peer " + peer.getAddress().getHostAddress();
        Deque<Runnable> undo = new ArrayDeque<>();
        try {
            IbvPd domain = context.allocPd();
            undo.push(() -> CloseSequence.quietly("a protection domain", domain::deallocPd));
            IbvCompChannel events = context.createCompChannel();
            undo.push(() -> CloseSequence.quietly("a completion channel", events::destroyCompChannel));
            IbvCQ completions = context.createCQ(events, QUEUE_DEPTH + RECEIVES, FIRST_VECTOR);
            undo.push(() -> CloseSequence.quietly("a completion queue", completions::destroyCQ));
            IbvQPInitAttr attributes = new IbvQPInitAttr();
            attributes.setQp_type(IbvQP.IBV_QPT_RC);
            attributes.setSend_cq(completions);
            attributes.setRecv_cq(completions);
            attributes.cap().setMax_send_wr(QUEUE_DEPTH);
            attributes.cap().setMax_recv_wr(RECEIVES);
            return new Endpoint(id, device, path, domain, events, completions, id.createQP(domain, attributes));
        } catch (RuntimeException | Error e) {
            undo.forEach(Runnable::run);
            throw e;
        } catch (IOException e) {
            undo.forEach(Runnable::run);
            throw new IOException(
                    "RDMA (" + path + "): " + MemoryLock.explain("a queue pair", QUEUE_BYTES, e.getMessage()), e);
        }
    }

    IbvCompChannel events() {
        return events;
    }

    IbvCQ completions() {
        return completions;
    }

    IbvQP queuePair() {
        return queuePair;
    }

    Device device() {
        return device;
    }

    /** The device and the peer, for messages. */
    String path() {
        return path;
    }

    /** Registers memory until this end is closed. {@code what} names it in an error. */
    synchronized IbvMr register(String what, long address, int lengthBytes, int access) throws IOException {
        try {
            SVCRegMr call = domain.regMr(address, lengthBytes, access);
            IbvMr region = call.execute().getMr();
            call.free();
            regions.add(region);
            return region;
        } catch (IOException e) {
            throw new IOException(MemoryLock.explain(what, lengthBytes, e.getMessage()), e);
        }
    }

    /** Moves the queue pair to the error state, so that every pending request completes (rdma_disconnect(3)). */
    void disconnect() {
        CloseSequence.quietly("a connection (" + path + ")", () -> {
            // Its result only states whether the peer was notified, and the peer may be down.
            id.disconnect();
            return 0;
        });
    }

    /** Destroys the queue pair: after this it cannot write to this process's memory. */
    void destroyQueuePair() {
        if (queuePair.isOpen()) {
            CloseSequence.quietly("a queue pair", id::destroyQP);
        }
    }

    /**
     * Destroys the queue pair and all registrations. When it returns neither the peer nor a late thread can change the
     * memory. May be called twice, and by any thread.
     */
    synchronized void revoke() {
        destroyQueuePair();
        for (IbvMr region : regions) {
            CloseSequence.quietly(
                    "registered memory", () -> region.deregMr().execute().free());
        }
        regions.clear();
    }

    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        revoke();
        CloseSequence.quietly("a completion queue", completions::destroyCQ);
        CloseSequence.quietly("a completion channel", events::destroyCompChannel);
        CloseSequence.quietly("a protection domain", domain::deallocPd);
        CloseSequence.quietly("a connection's id", id::destroyId);
    }
}
