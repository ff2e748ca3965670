package io.ppmr.docs;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.daemon.config.ConfigDocs;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;

/** The page of all configuration keys is that of the core and all optional parts. */
class ConfigPageTest {
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final Pattern PART = Pattern.compile("<exists>\\$\\{basedir}/(ppmr-[a-z]+/pom\\.xml)</exists>");

    @Test
    void shouldBeWhatTheTablesSayWhenAllPartsAreThere() throws IOException {
        Assumptions.assumeTrue(
                PART.matcher(Files.readString(HOME.resolve("pom.xml")))
                        .results()
                        .allMatch(part -> Files.exists(HOME.resolve(part.group(1)))),
                "this tree lacks an optional part");
        assertEquals(
                ConfigDocs.page(),
                Files.readString(HOME.resolve("docs/reference/configuration.md")),
                "docs/reference/configuration.md is stale: ./ppmr config docs > docs/reference/configuration.md");
    }
}
