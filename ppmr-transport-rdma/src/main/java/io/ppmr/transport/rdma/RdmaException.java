package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.RdmaCmEvent.EventType;
import java.io.IOException;

/** A failed or late step of an RDMA connection. The message names the step, the peer and the cause. */
final class RdmaException extends IOException {
    private static final long serialVersionUID = 1L;

    /** The steps of a connection (rdma_cm(7)). */
    enum ConnectStep {
        ADDRESS("resolving the address"),
        ROUTE("resolving the route"),
        CONNECT("connecting"),
        ACCEPT("waiting for the connection");

        private final String text;

        ConnectStep(String text) {
            this.text = text;
        }
    }

    private RdmaException(String message) {
        super(message);
    }

    static RdmaException timeout(ConnectStep step, String peer, long waitedMs) {
        return new RdmaException("RDMA: " + step.text + " (" + peer + ") did not end within " + waitedMs
                + " ms: is the peer up, and does the network pass RDMA (RoCE: UDP port 4791)?");
    }

    /** Creates a time-out error that includes the last failed connection. */
    static RdmaException timeout(ConnectStep step, String peer, long waitedMs, String lastFailure) {
        RdmaException timeout = timeout(step, peer, waitedMs);
        return lastFailure == null
                ? timeout
                : new RdmaException(timeout.getMessage() + " The last failed connection: " + lastFailure);
    }

    static RdmaException refused(ConnectStep step, String peer, EventType event) {
        return new RdmaException("RDMA: " + step.text + " (" + peer + ") failed: " + event + remedy(event));
    }

    private static String remedy(EventType event) {
        return switch (event) {
            case RDMA_CM_EVENT_ADDR_ERROR -> " (no RDMA device has a route to that address)";
            case RDMA_CM_EVENT_ROUTE_ERROR -> " (no path; on InfiniBand, is the subnet manager running?)";
            case RDMA_CM_EVENT_REJECTED -> " (no service listens there, or it refused the connection)";
            case RDMA_CM_EVENT_UNREACHABLE -> " (no answer)";
            default -> "";
        };
    }
}
