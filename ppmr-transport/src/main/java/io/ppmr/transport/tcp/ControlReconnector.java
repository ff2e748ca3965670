package io.ppmr.transport.tcp;

import io.ppmr.linux.LogContext;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.RailFigures;
import io.ppmr.transport.auth.PeerConnection;
import io.ppmr.transport.auth.RefusedException;
import java.io.IOException;
import java.net.ConnectException;
import java.net.SocketAddress;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reconnects a session's control link over the routes from the source to the target: the address at which the session
 * was opened, and the rails. Tries one after the other, until one is connected or all are refused. Has a thread while
 * it connects. Safe for any thread.
 */
public final class ControlReconnector implements ControlLink.Reconnector {
    private static final Logger LOG = LoggerFactory.getLogger(ControlReconnector.class);
    private static final long PAUSE_NS = TimeUnit.MILLISECONDS.toNanos(100);

    /**
     * One route.
     *
     * @param figures the figures of its rail, or those for connections that use no rail
     */
    public record ControlRoute(Connector connector, RailFigures figures) {}

    private final ControlLink link;
    private final Connector.Control session;
    private final List<ControlRoute> routes;
    /**
     * The time for which each route was in use, by the name of its figures. Guarded by the lock, like the next two
     * fields.
     */
    private final Map<String, Long> inUseNs = new LinkedHashMap<>();

    private ControlRoute current;
    private long currentSinceNs;
    private final AtomicBoolean isConnecting = new AtomicBoolean();
    private volatile boolean closed;
    /** The index of the next route to try; owned by the connecting thread. */
    private volatile int next;

    /**
     * @param session the session that opened the link
     * @param routes the first is the route of the session, which is tried last
     */
    public ControlReconnector(ControlLink link, Connector.Control session, List<ControlRoute> routes) {
        this.link = link;
        this.session = session;
        this.routes = List.copyOf(routes);
        next = 1 % routes.size();
        current = routes.get(0);
        currentSinceNs = System.nanoTime();
        current.figures().addControlConnection();
    }

    /** Returns how many nanoseconds each route was in use until now, by the name of its figures. */
    public synchronized Map<String, Long> inUseNs() {
        updateTimes();
        return Map.copyOf(inUseNs);
    }

    private void updateTimes() {
        if (!closed) {
            long nowNs = System.nanoTime();
            inUseNs.merge(current.figures().name(), nowNs - currentSinceNs, Long::sum);
            currentSinceNs = nowNs;
        }
    }

    @Override
    public synchronized void resumedOn(SocketAddress to) {
        if (!closed) {
            updateTimes();
            current.figures().removeControlConnection();
            current = routes.stream()
                    .filter(route -> route.connector().target().equals(to))
                    .findFirst()
                    .orElse(routes.get(0));
            current.figures().addControlFailover();
        }
    }

    @Override
    public void begin() {
        if (!closed && isConnecting.compareAndSet(false, true)) {
            LogContext.thread(this::connect, "ppmr-control-resume").start();
        }
    }

    @Override
    public synchronized void close() {
        if (!closed) {
            updateTimes();
            current.figures().removeControlConnection();
        }
        closed = true;
    }

    private void connect() {
        try {
            int refused = 0;
            while (!closed) {
                Connector route = routes.get(next).connector();
                next = (next + 1) % routes.size();
                try {
                    PeerConnection channel = route.resumeControl(session.keys());
                    link.offer(channel);
                    return;
                } catch (IOException e) {
                    LOG.info("control connection cannot be resumed via {}: {}", route, e.getMessage());
                    // An error from a node or network that is down does not count as a refusal.
                    refused = isRefusal(e) ? refused + 1 : 0;
                    if (refused == routes.size()) {
                        link.failResumption(e.getMessage());
                        return;
                    }
                }
                LockSupport.parkNanos(PAUSE_NS);
            }
        } catch (RuntimeException | Error e) {
            LOG.error("control connection cannot be resumed", e);
            link.failResumption(e.toString());
        } finally {
            isConnecting.set(false);
        }
    }

    private static boolean isRefusal(IOException e) {
        return e instanceof RefusedException || e.getCause() instanceof ConnectException;
    }
}
