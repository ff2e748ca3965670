package io.ppmr.daemon.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.ppmr.daemon.config.file.ConfigException;
import java.io.IOException;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Wrong configurations and, beside each, every line that {@code ppmr config check} prints about it. The lines must be
 * complete and in this order. {@code FOLDER} is a placeholder for the folder of the file.
 */
class WrongConfigurationsTest {
    @TempDir
    private Path folder;

    private static Path examples() {
        try {
            return Path.of(WrongConfigurationsTest.class
                    .getResource("/wrong-configurations")
                    .toURI());
        } catch (URISyntaxException e) {
            throw new IllegalStateException(e);
        }
    }

    static List<String> names() throws IOException {
        try (Stream<Path> files = Files.list(examples())) {
            return files.map(file -> file.getFileName().toString())
                    .filter(name -> name.endsWith(".toml"))
                    .sorted()
                    .toList();
        }
    }

    @ParameterizedTest
    @MethodSource("names")
    void shouldSayExactlyThisWhenConfigurationIsWrong(String name) throws IOException {
        KeyFile.create(folder.resolve("key"));
        KeyFile.create(folder.resolve("open-key"));
        Files.setPosixFilePermissions(folder.resolve("open-key"), PosixFilePermissions.fromString("rw-r--r--"));
        Path file = Files.copy(examples().resolve(name), folder.resolve(name));
        ConfigException wrong = assertThrows(ConfigException.class, () -> {
            if (ConfigRoles.of(file).isTarget()) {
                ConfigRoles.check(TargetConfig.ROLE, file, true);
            } else {
                ConfigRoles.check(SourceConfig.ROLE, file, true);
            }
        });
        String said = wrong.mistakes().stream()
                .map(mistake -> mistake.toString().replace(folder.toString(), "FOLDER"))
                .collect(Collectors.joining("\n", "", "\n"));
        Path expected = examples().resolve(name.replace(".toml", ".expected"));
        assertEquals(Files.exists(expected) ? Files.readString(expected) : "no file " + expected, said);
    }

    @Test
    void shouldHaveExamplesWhenFolderIsLookedAt() throws IOException {
        assertFalse(names().isEmpty());
    }
}
