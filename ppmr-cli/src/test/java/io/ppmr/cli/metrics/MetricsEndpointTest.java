package io.ppmr.cli.metrics;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.micrometer.core.instrument.Counter;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
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
}
