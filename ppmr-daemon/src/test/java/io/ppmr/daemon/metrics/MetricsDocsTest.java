package io.ppmr.daemon.metrics;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

class MetricsDocsTest {
    private static final Path PAGE = Path.of(System.getProperty("ppmr.home"), "docs", "reference", "metrics.md");

    @Test
    void shouldHaveEachMeterThatTheServicesRegisterWhenPageIsRead() throws IOException {
        String written = Files.readString(PAGE);
        MetricsDocs.page()
                .lines()
                .filter(line -> line.startsWith("| `ppmr_"))
                .forEach(line -> assertTrue(written.contains(line), line));
    }
}
