package io.ppmr.daemon.metrics;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

class MetricsDocsTest {
    private static final Path PAGE = Path.of(System.getProperty("ppmr.home"), "docs", "reference", "metrics.md");

    @Test
    void shouldBeWhatTheServicesRegisterWhenPageIsRead() throws IOException {
        assertEquals(
                MetricsDocs.page(),
                Files.readString(PAGE),
                "docs/reference/metrics.md is stale: ./ppmr metrics > docs/reference/metrics.md");
    }
}
