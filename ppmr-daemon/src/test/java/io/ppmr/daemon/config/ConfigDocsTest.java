package io.ppmr.daemon.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

class ConfigDocsTest {
    private static final Path PAGE = Path.of(System.getProperty("ppmr.home"), "docs", "configuration.md");

    @Test
    void shouldBeWhatTheTablesSayWhenPageIsRead() throws IOException {
        assertEquals(
                ConfigDocs.page(),
                Files.readString(PAGE),
                "docs/configuration.md is stale: ./ppmr config docs > docs/configuration.md");
    }

    @Test
    void shouldListEveryKeyOfBothRolesWhenPageIsMade() {
        String page = ConfigDocs.page();
        for (ConfigRole role : ConfigRole.all()) {
            for (ConfigSection section : role.everything()) {
                section.keys().forEach(key -> assertTrue(page.contains("| `" + key.name() + "` |"), key.name()));
            }
        }
    }
}
