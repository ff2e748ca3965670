package io.ppmr.docs;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.daemon.config.ConfigDocs;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/** The page of all configuration keys is that of the core and all optional parts. */
class ConfigPageTest {
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));

    @Test
    void shouldBeWhatTheTablesSayWhenAllPartsAreThere() throws IOException {
        OptionalParts.assumeAll();
        assertEquals(
                ConfigDocs.page(),
                Files.readString(HOME.resolve("docs/reference/configuration.md")),
                "docs/reference/configuration.md is stale: ./ppmr config docs > docs/reference/configuration.md");
    }
}
