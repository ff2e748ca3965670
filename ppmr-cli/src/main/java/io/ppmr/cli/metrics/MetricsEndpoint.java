package io.ppmr.cli.metrics;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Shows a service's meters at {@code http://ADDRESS/metrics}, in Prometheus' text format. Has one thread for scrapes
 * beside the HTTP server's own; a service without an endpoint has none of them. Closed by its owner.
 */
public final class MetricsEndpoint implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(MetricsEndpoint.class);
    private static final String PATH = "/metrics";
    private static final String LIMIT_S = "10";
    private static final int BACKLOG = 16;
    private static final int OK = 200;
    private static final int NOT_FOUND = 404;
    private static final int NOT_ALLOWED = 405;
    private static final long CLOSE_S = 5;

    private final PrometheusMeterRegistry registry;
    private final HttpServer server;
    private final ExecutorService scrapes = Executors.newSingleThreadExecutor(task -> {
        Thread thread = new Thread(task, "metrics");
        thread.setDaemon(true);
        return thread;
    });

    /** A registry that an endpoint can show. */
    public static PrometheusMeterRegistry registry() {
        return new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
    }

    /** Listens; throws and names the address if it cannot. */
    public MetricsEndpoint(InetSocketAddress address, PrometheusMeterRegistry registry) throws IOException {
        this.registry = registry;
        // A client that says nothing, or takes nothing, must not hold the thread: in seconds, read by the server once.
        System.setProperty("sun.net.httpserver.maxReqTime", LIMIT_S);
        System.setProperty("sun.net.httpserver.maxRspTime", LIMIT_S);
        try {
            server = HttpServer.create(address, BACKLOG);
        } catch (IOException e) {
            throw new IOException(
                    "metrics cannot be shown at " + address + ": " + e.getMessage()
                            + " (correct metrics.port or metrics.address, or take them out)",
                    e);
        }
        server.createContext("/", this::answer);
        server.setExecutor(scrapes);
        server.start();
        LOG.info("metrics at http:/{}{}", server.getAddress(), PATH);
    }

    /** Where it listens. */
    public InetSocketAddress address() {
        return server.getAddress();
    }

    private void answer(HttpExchange exchange) throws IOException {
        try (exchange) {
            if (!exchange.getRequestURI().getPath().equals(PATH)) {
                send(exchange, NOT_FOUND, "text/plain", "see " + PATH + "\n");
            } else if (!exchange.getRequestMethod().equals("GET")) {
                send(exchange, NOT_ALLOWED, "text/plain", "only GET\n");
            } else {
                send(exchange, OK, "text/plain; version=0.0.4; charset=utf-8", registry.scrape());
            }
        } catch (RuntimeException e) {
            LOG.error("a scrape fails", e);
            throw new IOException(e);
        }
    }

    private static void send(HttpExchange exchange, int status, String type, String text) throws IOException {
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", type);
        exchange.sendResponseHeaders(status, body.length);
        exchange.getResponseBody().write(body);
    }

    @Override
    public void close() {
        server.stop(0);
        scrapes.shutdownNow();
        try {
            if (!scrapes.awaitTermination(CLOSE_S, TimeUnit.SECONDS)) {
                LOG.warn("a scrape has not ended");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
