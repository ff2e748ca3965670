package io.ppmr.transport.tcp;

import io.ppmr.os.LogContext;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.RailFigures;
import io.ppmr.transport.auth.RefusedException;
import java.io.IOException;
import java.net.ConnectException;
import java.net.SocketAddress;
import java.nio.channels.SocketChannel;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The ways by which a source reaches its target: the address where the session was opened, and the rails. Connects the
 * session's control link again by one after the other, until one is connected or all are refused. Has a thread while it
 * connects. Safe for any thread.
 */
public final class ControlReconnector implements ControlLink.Reconnector {
    private static final Logger LOG = LoggerFactory.getLogger(ControlReconnector.class);
    private static final long PAUSE_NS = TimeUnit.MILLISECONDS.toNanos(100);

    /**
     * One way.
     *
     * @param figures of its rail, which say that it carries the link; for a way that is no rail, those that stand for
     *     that
     */
    public record ControlRoute(Connector connector, RailFigures figures) {}

    private final ControlLink link;
    private final Connector.Control session;
    private final List<ControlRoute> ways;
    /** For how long each has carried the link, by the name of its figures; under the lock, as the next two are. */
    private final Map<String, Long> carriedNs = new LinkedHashMap<>();

    private ControlRoute carrying;
    private long carryingSinceNs;
    private final AtomicBoolean isConnecting = new AtomicBoolean();
    private volatile boolean closed;
    /** The next one to be tried; of the thread that connects. */
    private volatile int next;

    /**
     * @param session the one that the link was opened with
     * @param ways the first of them is that of the session, which is tried last
     */
    public ControlReconnector(ControlLink link, Connector.Control session, List<ControlRoute> ways) {
        this.link = link;
        this.session = session;
        this.ways = List.copyOf(ways);
        next = 1 % ways.size();
        carrying = ways.get(0);
        carryingSinceNs = System.nanoTime();
        carrying.figures().controlBegins();
    }

    /** Tells for how many nanoseconds each way has carried the link until now, by the name of its figures. */
    public synchronized Map<String, Long> carriedNs() {
        note();
        return Map.copyOf(carriedNs);
    }

    private void note() {
        if (!closed) {
            long nowNs = System.nanoTime();
            carriedNs.merge(carrying.figures().name(), nowNs - carryingSinceNs, Long::sum);
            carryingSinceNs = nowNs;
        }
    }

    @Override
    public synchronized void carriedTo(SocketAddress to) {
        if (!closed) {
            note();
            carrying.figures().controlEnds();
            carrying = ways.stream()
                    .filter(way -> way.connector().target().equals(to))
                    .findFirst()
                    .orElse(ways.get(0));
            carrying.figures().controlFailedOver();
        }
    }

    @Override
    public void begin() {
        if (!closed && isConnecting.compareAndSet(false, true)) {
            LogContext.thread(this::connect, "ppmr-control-again").start();
        }
    }

    @Override
    public synchronized void close() {
        if (!closed) {
            note();
            carrying.figures().controlEnds();
        }
        closed = true;
    }

    private void connect() {
        try {
            int refused = 0;
            while (!closed) {
                Connector way = ways.get(next).connector();
                next = (next + 1) % ways.size();
                try {
                    SocketChannel channel = way.resumeControl(session);
                    link.offer(channel);
                    return;
                } catch (IOException e) {
                    LOG.info("the control connection cannot be carried on by {}: {}", way, e.getMessage());
                    // What a node or network that is down says is no answer.
                    refused = isAnswer(e) ? refused + 1 : 0;
                    if (refused == ways.size()) {
                        link.giveUp(e.getMessage());
                        return;
                    }
                }
                LockSupport.parkNanos(PAUSE_NS);
            }
        } catch (RuntimeException | Error e) {
            LOG.error("the control connection cannot be carried on", e);
            link.giveUp(e.toString());
        } finally {
            isConnecting.set(false);
        }
    }

    private static boolean isAnswer(IOException e) {
        return e instanceof RefusedException || e.getCause() instanceof ConnectException;
    }
}
