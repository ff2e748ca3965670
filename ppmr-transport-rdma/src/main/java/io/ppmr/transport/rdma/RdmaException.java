package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.RdmaCmEvent.EventType;
import java.io.IOException;

/** A step of an RDMA connection that failed or took too long: names the step, the peer and the cause. */
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

    static RdmaException late(ConnectStep step, String peer, long waitedMs) {
        return new RdmaException("RDMA: " + step.text + " (" + peer + ") has not ended within " + waitedMs
                + " ms: is the peer up, and does the network between let RDMA through (RoCE: UDP port 4791)?");
    }

    /** The same, with what was the matter with the last one that came. */
    static RdmaException late(ConnectStep step, String peer, long waitedMs, String lastFailure) {
        RdmaException late = late(step, peer, waitedMs);
        return lastFailure == null
                ? late
                : new RdmaException(late.getMessage() + " The last that came: " + lastFailure);
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
