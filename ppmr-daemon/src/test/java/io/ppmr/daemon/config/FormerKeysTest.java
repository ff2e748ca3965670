package io.ppmr.daemon.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.linux.config.Key;
import io.ppmr.linux.config.RemovedKeys;
import io.ppmr.linux.config.Section;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A file of the release before, read by a release that renamed, removed and added keys. */
class FormerKeysTest {
    @Section(name = "test", doc = "a section that changed since the release before")
    @RemovedKeys({"gone", "left"})
    record ChangedKeys(
            @Key(doc = "a key that was renamed", example = "7", former = "old_limit")
            int limit,

            @Key(value = "3", doc = "a key that is new", example = "4")
            int added) {}

    @TempDir
    private Path folder;

    private ConfigFile file(String... lines) throws IOException, ConfigException {
        Path path = folder.resolve("file.toml");
        return new ConfigFile(Files.writeString(path, "[test]\n" + String.join("\n", lines) + "\n"), true);
    }

    private static List<String> warnings(ConfigFile file) {
        return file.resolved().warnings().stream()
                .map(warning -> warning.line() + " " + warning.key() + ": " + warning.text())
                .toList();
    }

    @Test
    void shouldReadTheFileOfTheReleaseBeforeWithAWarningForEachFormerKey() throws Exception {
        ConfigFile file = file("old_limit = 5", "gone = true");
        ConfigFile.FileSection<ChangedKeys> section = file.section(ChangedKeys.class);
        file.requireGood();
        assertEquals(new ChangedKeys(5, 3), section.values());
        assertTrue(section.has("limit"));
        assertEquals(
                List.of(
                        "2 test.old_limit: has a new name. Remedy: write limit instead of it."
                                + " The next release refuses it",
                        "3 test.gone: has no effect in this release. Remedy: remove it. The next release refuses it"),
                warnings(file));
        List<String> lines = file.resolved().lines();
        assertTrue(
                lines.stream().anyMatch(line -> line.startsWith("limit = 5 ") && line.endsWith(":2")), lines::toString);
    }

    @Test
    void shouldWarnAboutNothingWhenTheFileIsOfThisRelease() throws Exception {
        ConfigFile file = file("limit = 5", "added = 6");
        assertEquals(new ChangedKeys(5, 6), file.section(ChangedKeys.class).values());
        file.requireGood();
        assertEquals(List.of(), warnings(file));
    }

    @Test
    void shouldRefuseAFormerKeyBesideItsNewName() throws Exception {
        ConfigFile file = file("limit = 5", "old_limit = 6");
        file.section(ChangedKeys.class);
        ConfigException e = assertThrows(ConfigException.class, file::requireGood);
        assertTrue(e.getMessage().contains("test.old_limit: is the former name of limit, which is set"), e::getMessage);
    }

    @Test
    void shouldNameTheFormerKeysLineWhenItsValueIsBad() throws Exception {
        ConfigFile file = file("added = 6", "old_limit = \"many\"");
        file.section(ChangedKeys.class);
        ConfigException e = assertThrows(ConfigException.class, file::requireGood);
        assertEquals(3, e.mistakes().get(0).line(), e::getMessage);
    }

    @Test
    void shouldRefuseAKeyThatNoReleaseHas() throws Exception {
        ConfigFile file = file("limit = 5", "limits = 6");
        file.section(ChangedKeys.class);
        ConfigException e = assertThrows(ConfigException.class, file::requireGood);
        assertTrue(e.getMessage().contains("there is no such key; did you mean limit?"), e::getMessage);
    }
}
