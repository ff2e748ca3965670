package io.ppmr.daemon.config;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.config.file.ConfigRole;
import io.ppmr.daemon.config.file.ConfigSection;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import org.junit.jupiter.api.Test;

class ConfigDocsTest {
    private static final Path PAGE = Path.of(System.getProperty("ppmr.home"), "docs", "reference", "configuration.md");

    /** The page has the keys of optional parts, too, which this module does not see: a system test compares it all. */
    @Test
    void shouldHaveEveryLineOfTheCoresInThatOrderWhenPageIsRead() throws IOException {
        Iterator<String> page = Files.readAllLines(PAGE).iterator();
        for (String line : ConfigDocs.page().lines().toList()) {
            boolean found = false;
            while (!found && page.hasNext()) {
                found = page.next().equals(line);
            }
            assertTrue(
                    found, PAGE + " is stale: ./ppmr config docs > docs/reference/configuration.md; it lacks " + line);
        }
    }

    @Test
    void shouldListEveryKeyOfBothRolesWhenPageIsMade() {
        String page = ConfigDocs.page();
        for (ConfigRole role : ConfigRoles.all()) {
            for (ConfigSection section : role.everything()) {
                section.keys().forEach(key -> assertTrue(page.contains("| `" + key.name() + "` |"), key.name()));
            }
        }
    }
}
