package io.ppmr.daemon.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ConfigSection;
import io.ppmr.daemon.config.file.ConfigSection.ConfigKey;
import io.ppmr.daemon.config.file.ValueType;
import io.ppmr.daemon.config.file.ValueType.BadValueException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The example files that are shipped: they are good, and the defaults that they show are the true ones. */
class ExamplesTest {
    private static final Path CONF = Path.of(System.getProperty("ppmr.home"), "conf");

    @TempDir
    private Path folder;

    @Test
    void shouldAcceptExamplesAsTheyAreWhenReadElsewhere() throws ConfigException {
        ConfigRoles.check(SourceConfig.ROLE, CONF.resolve("source.toml"), false);
        ConfigRoles.check(TargetConfig.ROLE, CONF.resolve("target.toml"), false);
        assertTrue(ConfigRoles.of(CONF.resolve("target.toml")).isTarget());
        assertTrue(!ConfigRoles.of(CONF.resolve("source.toml")).isTarget());
    }

    @Test
    void shouldAcceptExamplesWhenTheirKeyIsThere() throws Exception {
        KeyFile.create(folder.resolve("key"));
        assertEquals(
                2,
                SourceConfig.load(copy("source.toml", false))
                        .jobs()
                        .get("solver")
                        .ranks()
                        .size());
        assertEquals(
                3,
                TargetConfig.load(copy("target.toml", false))
                        .settings()
                        .tools()
                        .checkpointers()
                        .size());
    }

    /** Removing the comment signs must change nothing except values that are defaults. */
    @Test
    void shouldMeanTheSameWhenTheDefaultsAreWrittenOut() throws Exception {
        KeyFile.create(folder.resolve("key"));
        SourceConfig written = SourceConfig.load(copy("source.toml", true));
        SourceConfig left = SourceConfig.load(copy("source.toml", false));
        assertEquals(left.service().controlSocket(), written.service().controlSocket());
        assertEquals(left.service().access(), written.service().access());
        assertEquals(left.settings().pool(), written.settings().pool());
        assertEquals(
                left.settings().node().workDirectory(),
                written.settings().node().workDirectory());
        assertEquals(
                left.settings().connecting().connections(),
                written.settings().connecting().connections());
        assertEquals(
                List.of(
                        left.settings().connecting().connectDeadline(),
                        left.settings().limits().checkpointDeadline(),
                        left.settings().limits().decisionDeadline(),
                        left.settings().node().silenceLimit()),
                List.of(
                        written.settings().connecting().connectDeadline(),
                        written.settings().limits().checkpointDeadline(),
                        written.settings().limits().decisionDeadline(),
                        written.settings().node().silenceLimit()));
        assertEquals(
                TargetConfig.load(copy("target.toml", false)).settings().transfer(),
                TargetConfig.load(copy("target.toml", true)).settings().transfer());
    }

    static Stream<ConfigSection> sections() {
        List<ConfigSection> all = new ArrayList<>(SourceConfig.ROLE.everything());
        all.addAll(TargetConfig.ROLE.everything());
        return all.stream().distinct();
    }

    @ParameterizedTest
    @MethodSource("sections")
    void shouldHaveGoodDefaultsExamplesAndWordsWhenDeclared(ConfigSection section) throws BadValueException {
        for (ConfigKey key : section.keys()) {
            assertTrue(key.doc().length() > 10 && !key.type().form().isBlank(), key.name());
            if (key.defaultValue() != null) {
                key.type().parse(key.defaultValue(), new ValueType.Reading(folder, true));
            }
            key.type().parse(key.example(), new ValueType.Reading(folder, false));
        }
    }

    private Path copy(String name, boolean defaultsWritten) throws IOException {
        String text = Files.readString(CONF.resolve(name)).replace("/etc/ppmr/key", "key");
        if (defaultsWritten) {
            text = text.replaceAll("(?m)^# ([a-z_]+ = )", "$1");
        }
        return Files.writeString(folder.resolve(defaultsWritten + name), text);
    }
}
