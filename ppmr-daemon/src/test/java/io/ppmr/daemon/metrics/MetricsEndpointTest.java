package io.ppmr.daemon.metrics;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.micrometer.core.instrument.Counter;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class MetricsEndpointTest {
    private final PrometheusMeterRegistry registry = MetricsEndpoint.registry();

    private static HttpURLConnection ask(MetricsEndpoint endpoint, String path, String method) throws IOException {
        URI uri = URI.create("http://127.0.0.1:" + endpoint.address().getPort() + path);
        HttpURLConnection connection = (HttpURLConnection) uri.toURL().openConnection();
        connection.setRequestMethod(method);
        connection.setReadTimeout(20_000);
        return connection;
    }

    @Test
    void shouldShowMetersAtItsPathAloneWhenAsked() throws IOException {
        Counter.builder("ppmr.test").description("a test").register(registry).increment(3);
        try (MetricsEndpoint endpoint =
                new MetricsEndpoint(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), registry)) {
            HttpURLConnection good = ask(endpoint, "/metrics", "GET");
            assertEquals(200, good.getResponseCode());
            assertTrue(good.getContentType().startsWith("text/plain; version=0.0.4"), good.getContentType());
            String text = new String(good.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertTrue(text.contains("ppmr_test_total 3.0"), text);
            assertEquals(404, ask(endpoint, "/other", "GET").getResponseCode());
            assertEquals(405, ask(endpoint, "/metrics", "DELETE").getResponseCode());
            IOException taken =
                    assertThrows(IOException.class, () -> new MetricsEndpoint(endpoint.address(), registry));
            assertTrue(taken.getMessage().contains("metrics.port"), taken.getMessage());
        }
    }

    @Test
    void shouldShowMetersWhileIdleStrangersHoldEveryPlace() throws IOException {
        List<SocketChannel> idle = new ArrayList<>();
        try (MetricsEndpoint endpoint =
                new MetricsEndpoint(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), registry)) {
            for (int i = 0; i < 100; i++) {
                SocketChannel stranger = SocketChannel.open(endpoint.address());
                idle.add(stranger);
                stranger.write(ByteBuffer.wrap("GET /met".getBytes(StandardCharsets.US_ASCII)));
            }
            assertEquals(200, ask(endpoint, "/metrics", "GET").getResponseCode());
        } finally {
            for (SocketChannel stranger : idle) {
                stranger.close();
            }
        }
    }

    @Test
    void shouldAnswerByNameWhenARequestIsNoneOfOurs() throws IOException {
        try (MetricsEndpoint endpoint =
                new MetricsEndpoint(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), registry)) {
            assertTrue(say(endpoint, "hello\r\n\r\n").startsWith("HTTP/1.1 400 "));
            assertTrue(say(endpoint, "\n\n").startsWith("HTTP/1.1 400 "));
            assertTrue(say(endpoint, "GET http://[ HTTP/1.1\r\n\r\n").startsWith("HTTP/1.1 404 "));
            assertTrue(say(endpoint, "x".repeat(8 * 1024)).startsWith("HTTP/1.1 431 "));
            assertTrue(say(endpoint, "GET /metrics?all HTTP/1.0\r\n\r\n").startsWith("HTTP/1.1 200 "));
            assertEquals("", say(endpoint, "GET /metrics HTTP/1.1\r\n"), "a request that is not whole");
        }
    }

    /** Returns the whole answer to a request after which nothing more is sent. */
    private static String say(MetricsEndpoint endpoint, String request) throws IOException {
        try (SocketChannel channel = SocketChannel.open(endpoint.address())) {
            channel.write(ByteBuffer.wrap(request.getBytes(StandardCharsets.US_ASCII)));
            channel.shutdownOutput();
            channel.socket().setSoTimeout(20_000);
            return new String(channel.socket().getInputStream().readAllBytes(), StandardCharsets.US_ASCII);
        }
    }

    /** The answer is larger than a socket's buffer. */
    @Test
    void shouldShowAllMetersWhenTheyAreManyAndTheScraperIsSlow() throws Exception {
        for (int i = 0; i < 4_000; i++) {
            Counter.builder("ppmr.many").tag("number", "long ".repeat(200) + i).register(registry);
        }
        try (MetricsEndpoint endpoint =
                        new MetricsEndpoint(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), registry);
                SocketChannel slow = SocketChannel.open()) {
            slow.setOption(StandardSocketOptions.SO_RCVBUF, 4096).connect(endpoint.address());
            slow.write(ByteBuffer.wrap("GET /metrics HTTP/1.1\r\n\r\n".getBytes(StandardCharsets.US_ASCII)));
            HttpURLConnection other = ask(endpoint, "/metrics", "GET");
            assertEquals(200, other.getResponseCode(), "it waits for no peer");
            slow.socket().setSoTimeout(20_000);
            String text = new String(slow.socket().getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertEquals(
                    4_000,
                    text.lines()
                            .filter(line -> line.startsWith("ppmr_many_total{"))
                            .count());
        }
    }
}
