package io.ppmr.daemon.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.config.file.ConfigException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class IgnoredChecksTest {
    @TempDir
    private Path folder;

    private Path file(String line) throws IOException {
        return Files.writeString(folder.resolve("target.toml"), """
                listen = "127.0.0.1:7411"
                mount = "mount"
                key_file = "key"
                %s
                [checkpointers.criu]
                type = "criu"
                """.formatted(line));
    }

    @Test
    void shouldTakeChecksThatCanBeIgnored() throws Exception {
        ConfigRoles.check(TargetConfig.ROLE, file("ignored_checks = [\"cpu\", \"libc\"]"), false);
    }

    @Test
    void shouldRefuseANameThatIsNoSuchCheck() throws Exception {
        Path file = file("ignored_checks = [\"chunk\"]");
        ConfigException e =
                assertThrows(ConfigException.class, () -> ConfigRoles.check(TargetConfig.ROLE, file, false));
        assertEquals(1, e.mistakes().size());
        String mistake = e.mistakes().get(0).toString();
        assertTrue(mistake.contains("'chunk' is no check that can be ignored: cpu, libc, "), mistake);
    }
}
