package io.ppmr.pods;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.ppmr.daemon.config.ConfigRoles;
import io.ppmr.daemon.config.KeyFile;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ConfigRole;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Collectors;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Wrong configurations of pods and every line that {@code ppmr config check} prints about each, in this order. */
class WrongPodConfigTest {
    private static final Path EXAMPLES = Path.of("src/test/resources/wrong-configurations");

    @TempDir
    private Path folder;

    @ParameterizedTest
    @ValueSource(strings = {"pods", "pod-peers"})
    void shouldSayExactlyThisWhenConfigurationIsWrong(String name) throws Exception {
        KeyFile.create(folder.resolve("key"));
        Path file = Files.copy(EXAMPLES.resolve(name + ".toml"), folder.resolve(name + ".toml"));
        ConfigRole role = ConfigRoles.of(file);
        ConfigException wrong = assertThrows(ConfigException.class, () -> ConfigRoles.check(role, file, true));
        String said = wrong.mistakes().stream()
                .map(mistake -> mistake.toString().replace(folder.toString(), "FOLDER"))
                .collect(Collectors.joining("\n", "", "\n"));
        assertEquals(Files.readString(EXAMPLES.resolve(name + ".expected")), said);
    }
}
