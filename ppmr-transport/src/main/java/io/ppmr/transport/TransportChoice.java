package io.ppmr.transport;

import java.io.IOException;
import java.net.InetAddress;
import java.time.Duration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A service's choice between RDMA and TCP: what its configuration wishes, what this node has, and what was chosen last
 * and why. One a service, for any thread.
 */
public final class TransportChoice {
    /** In what a source says it may use: data connections. */
    public static final int OVER_TCP = 1;
    /** In what a source says it may use: RDMA. */
    public static final int OVER_RDMA = 2;

    private static final Logger LOG = LoggerFactory.getLogger(TransportChoice.class);

    private final TransportWish wish;
    private final DirectTransport direct;
    private volatile String state;

    public TransportChoice(TransportWish wish, DirectTransport direct) {
        this.wish = wish;
        this.direct = direct;
        String why = whyNot();
        state = why == null ? "rdma where the peer has it, else tcp" : "tcp: " + why;
        if (why == null && !wish.allowsTcp()) {
            state = "rdma";
        } else if (why != null && !wish.allowsTcp()) {
            state = "none: transport is \"rdma\", and " + why;
        }
        LOG.info("transport: {}", state);
    }

    /** A service that knows TCP alone. */
    public static TransportChoice tcp() {
        return new TransportChoice(TransportWish.TCP, DirectTransport.none("this service was made for TCP alone"));
    }

    public TransportWish wish() {
        return wish;
    }

    public DirectTransport direct() {
        return direct;
    }

    /** What was chosen last, and why; before the first migration what may be chosen. For people. */
    public String state() {
        return state;
    }

    /** Why this node does not use RDMA, or null if it may. */
    public String whyNot() {
        return wish.allowsRdma() ? direct.unusable() : "the configuration says so";
    }

    /** The same at a source for one target, with the route to it. */
    public String whyNot(InetAddress target, Duration deadline) {
        String why = whyNot();
        return why == null ? direct.unreachable(target, deadline) : why;
    }

    /** Notes what is used for a session, in the log as well. */
    public void chosen(boolean isDirect, String reason) {
        state = (isDirect ? "rdma: " : "tcp: ") + reason;
        LOG.info("transport of this migration: {}", state);
    }

    /** Fails where TCP is what is left and the configuration does not allow it. */
    public void requireTcpAllowed(String whyNotRdma) throws IOException {
        if (!wish.allowsTcp()) {
            throw new IOException("transport is \"rdma\" in this node's configuration, but RDMA cannot be used: "
                    + whyNotRdma + " (mend that, or configure transport = \"auto\")");
        }
    }
}
