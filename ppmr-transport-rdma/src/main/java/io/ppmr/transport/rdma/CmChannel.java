package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.RdmaCm;
import com.ibm.disni.verbs.RdmaCmEvent;
import com.ibm.disni.verbs.RdmaCmEvent.EventType;
import com.ibm.disni.verbs.RdmaCmId;
import com.ibm.disni.verbs.RdmaEventChannel;
import io.ppmr.transport.rdma.RdmaException.ConnectStep;
import java.io.IOException;
import java.util.concurrent.TimeUnit;

/**
 * The connection manager's events of one connection, or of a listener and its connections (rdma_get_cm_event(3)). An id
 * must be destroyed before its channel. Used by one thread at a time.
 */
final class CmChannel implements AutoCloseable {
    private static final int SLICE_MS = 100;

    private final RdmaEventChannel channel;
    private boolean closed;

    CmChannel() throws IOException {
        channel = RdmaEventChannel.createEventChannel();
        if (channel == null) {
            throw new IOException("the connection manager of RDMA cannot be opened (is the module rdma_ucm loaded, and "
                    + "/dev/infiniband/rdma_cm readable?)");
        }
    }

    RdmaCmId createId() throws IOException {
        return channel.createId(RdmaCm.RDMA_PS_TCP);
    }

    /** Returns the next event, or null if none arrives within the time-out. */
    RdmaCmEvent poll(int timeoutMs) throws IOException {
        RdmaCmEvent event = channel.getCmEvent(timeoutMs);
        if (event != null) {
            event.ackEvent();
        }
        return event;
    }

    static EventType type(RdmaCmEvent event) {
        EventType[] types = EventType.values();
        int number = event.getEvent();
        return number < types.length ? types[number] : EventType.RDMA_CM_EVENT_TIMEWAIT_EXIT;
    }

    /** Waits for the event that completes a step. Any other event is a failure. For a channel with one id. */
    RdmaCmEvent await(EventType wanted, ConnectStep step, String peer, long deadlineNs) throws IOException {
        long startNs = System.nanoTime();
        while (true) {
            long remainingMs = TimeUnit.NANOSECONDS.toMillis(deadlineNs - System.nanoTime());
            if (remainingMs <= 0) {
                throw RdmaException.timeout(step, peer, TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startNs));
            }
            RdmaCmEvent event = poll((int) Math.min(SLICE_MS, remainingMs));
            if (event != null) {
                if (type(event) != wanted) {
                    throw RdmaException.refused(step, peer, type(event));
                }
                return event;
            }
        }
    }

    @Override
    public void close() {
        if (!closed) {
            closed = true;
            CloseSequence.quietly("the connection manager's channel", channel::destroyEventChannel);
        }
    }
}
