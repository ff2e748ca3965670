package io.ppmr.tracing;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest;
import io.opentelemetry.proto.trace.v1.ResourceSpans;
import io.opentelemetry.proto.trace.v1.ScopeSpans;
import io.opentelemetry.proto.trace.v1.Span;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/** A collector of traces by OTLP over HTTP, for tests. It answers well, with an error, or not before its end. */
public final class OtlpReceiver implements AutoCloseable {
    /** The behavior of the receiver. */
    public enum CollectorAnswer {
        GOOD,
        ERROR,
        NONE
    }

    private static final int GOOD_STATUS = 200;
    private static final int ERROR_STATUS = 500;
    private static final long END_S = 60;

    private final CollectorAnswer answer;
    private final HttpServer server;
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final CountDownLatch end = new CountDownLatch(1);
    private final List<String> requests = new CopyOnWriteArrayList<>();
    private final Map<String, List<Span>> byService = new ConcurrentHashMap<>();

    /** Starts to listen. */
    public OtlpReceiver(CollectorAnswer answer) throws IOException {
        this.answer = answer;
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", this::handle);
        server.setExecutor(threads);
        server.start();
    }

    private void handle(HttpExchange exchange) throws IOException {
        try (exchange) {
            ExportTraceServiceRequest request = ExportTraceServiceRequest.parseFrom(exchange.getRequestBody());
            if (answer == CollectorAnswer.GOOD) {
                request.getResourceSpansList().forEach(this::take);
            }
            // A test that has seen the request has its spans, too.
            requests.add(exchange.getRequestMethod() + " " + exchange.getRequestURI());
            if (answer == CollectorAnswer.NONE) {
                end.await(END_S, TimeUnit.SECONDS);
                return;
            }
            exchange.sendResponseHeaders(answer == CollectorAnswer.GOOD ? GOOD_STATUS : ERROR_STATUS, -1);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void take(ResourceSpans spans) {
        String service = spans.getResource().getAttributesList().stream()
                .filter(one -> one.getKey().equals("service.name"))
                .map(one -> one.getValue().getStringValue())
                .findFirst()
                .orElse("");
        for (ScopeSpans scope : spans.getScopeSpansList()) {
            byService
                    .computeIfAbsent(service, missing -> new CopyOnWriteArrayList<>())
                    .addAll(scope.getSpansList());
        }
    }

    /** Returns the address for the configuration. */
    public String address() {
        return "http://127.0.0.1:" + server.getAddress().getPort();
    }

    /** Returns the requests so far, each as its method and path. */
    public List<String> requests() {
        return List.copyOf(requests);
    }

    /** Returns the spans of a service so far. */
    public List<Span> spans(String service) {
        return List.copyOf(byService.getOrDefault(service, List.of()));
    }

    @Override
    public void close() {
        end.countDown();
        server.stop(0);
        threads.shutdownNow();
    }
}
