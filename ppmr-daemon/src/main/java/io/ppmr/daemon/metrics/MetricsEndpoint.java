package io.ppmr.daemon.metrics;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import io.ppmr.transport.listen.AcceptLoop;
import java.io.EOFException;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Serves a service's meters at {@code http://ADDRESS/metrics}, in Prometheus' text format. A connection has one
 * request, of HTTP/1.1 without a body, with a limit of ten seconds. One thread accepts, reads and answers. A service
 * without an endpoint has no such thread. The JDK's HTTP server is not used. Without free descriptors it accepts in a
 * busy loop. After an error in its only thread it answers no further request. Its owner closes it.
 */
public final class MetricsEndpoint implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(MetricsEndpoint.class);
    private static final String PATH = "/metrics";
    private static final AcceptLoop.ConnectionLimits PLACES =
            new AcceptLoop.ConnectionLimits(64, 32, Duration.ofSeconds(10));
    private static final int BACKLOG = 64;
    private static final int MAX_REQUEST_BYTES = 8 * 1024;
    private static final String TEXT = "text/plain";

    private final PrometheusMeterRegistry registry;
    private final ServerSocketChannel server;
    private final AcceptLoop loop;

    /** A registry that an endpoint can show. */
    public static PrometheusMeterRegistry registry() {
        return new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
    }

    /** Starts to listen. An error names the address. */
    public MetricsEndpoint(InetSocketAddress address, PrometheusMeterRegistry registry) throws IOException {
        this.registry = registry;
        server = ServerSocketChannel.open();
        try {
            server.setOption(StandardSocketOptions.SO_REUSEADDR, true);
            server.bind(address, BACKLOG);
        } catch (IOException e) {
            server.close();
            throw new IOException(
                    "metrics cannot be shown at " + address + ": " + e.getMessage()
                            + " (correct metrics.port or metrics.address, or take them out)",
                    e);
        }
        loop = new AcceptLoop("metrics", server, PLACES, Scrape::new);
        LOG.info("metrics at http:/{}{}", address(), PATH);
    }

    /** Creates the endpoint for a registry of {@link #registry}, if one is configured. Otherwise returns null. */
    public static MetricsEndpoint of(Optional<InetSocketAddress> address, MeterRegistry registry) throws IOException {
        return address.isPresent() && registry instanceof PrometheusMeterRegistry shown
                ? new MetricsEndpoint(address.get(), shown)
                : null;
    }

    /** Returns the address at which it listens. */
    public InetSocketAddress address() {
        return (InetSocketAddress) server.socket().getLocalSocketAddress();
    }

    /** Handles one request, on the loop's thread. */
    private final class Scrape implements AcceptLoop.ConnectionHandler {
        private final SocketChannel channel;
        private final ByteBuffer request = ByteBuffer.allocate(MAX_REQUEST_BYTES);
        private ByteBuffer answer;

        Scrape(SocketChannel channel) {
            this.channel = channel;
        }

        @Override
        public int proceed() throws IOException {
            if (answer == null) {
                int read = channel.read(request);
                String head = new String(request.array(), 0, request.position(), StandardCharsets.ISO_8859_1);
                if (head.contains("\r\n\r\n") || head.contains("\n\n")) {
                    answer = answer(head);
                } else if (read < 0) {
                    throw new EOFException("it ended before its request was complete");
                } else if (!request.hasRemaining()) {
                    answer = text("431 Request Header Fields Too Large", TEXT, "at most 8 KiB\n");
                } else {
                    return SelectionKey.OP_READ;
                }
            }
            channel.write(answer);
            return answer.hasRemaining() ? SelectionKey.OP_WRITE : ADMITTED;
        }

        @Override
        public void takeOver(SocketChannel answered) throws IOException {
            answered.close();
        }
    }

    private ByteBuffer answer(String head) {
        String[] words = head.lines().findFirst().orElse("").split(" ", -1);
        if (words.length != 3 || !words[2].startsWith("HTTP/1.")) {
            return text("400 Bad Request", TEXT, "not a request of HTTP/1.1\n");
        }
        if (!PATH.equals(path(words[1]))) {
            return text("404 Not Found", TEXT, "see " + PATH + "\n");
        }
        if (!words[0].equals("GET")) {
            return text("405 Method Not Allowed", TEXT, "only GET\n");
        }
        try {
            return text("200 OK", "text/plain; version=0.0.4; charset=utf-8", registry.scrape());
        } catch (RuntimeException e) {
            LOG.error("a scrape fails", e);
            return text("500 Internal Server Error", TEXT, "the meters cannot be read: see the service's log\n");
        }
    }

    private static String path(String target) {
        try {
            return URI.create(target).getPath();
        } catch (IllegalArgumentException e) {
            LOG.debug("a request for {}", target, e);
            return null;
        }
    }

    private static ByteBuffer text(String status, String type, String text) {
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        byte[] head = ("HTTP/1.1 " + status + "\r\nContent-Type: " + type + "\r\nContent-Length: " + body.length
                        + "\r\nConnection: close\r\n\r\n")
                .getBytes(StandardCharsets.US_ASCII);
        return ByteBuffer.allocate(head.length + body.length)
                .put(head)
                .put(body)
                .flip();
    }

    @Override
    public void close() {
        try {
            loop.close();
        } catch (IOException e) {
            LOG.warn("the metrics' address cannot be closed: {}", e.getMessage());
        }
    }
}
