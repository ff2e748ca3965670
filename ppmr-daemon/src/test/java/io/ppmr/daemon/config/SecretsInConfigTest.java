package io.ppmr.daemon.config;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Fence;
import io.ppmr.daemon.config.file.ConfigException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SecretsInConfigTest {
    @TempDir
    private Path folder;

    @BeforeEach
    void makeKey() throws IOException {
        KeyFile.create(folder.resolve("key"));
    }

    private Path config(String mode, String further) throws IOException {
        Path file = Files.writeString(folder.resolve("source.toml"), """
                mount = "%1$s/mount"
                key_file = "%1$s/key"
                [target]
                address = "127.0.0.1:7411"
                %2$s
                """.formatted(folder, further));
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(mode));
        return file;
    }

    private static String mistakes(Path file) {
        return assertThrows(ConfigException.class, () -> SourceConfig.load(file))
                .getMessage();
    }

    private static final String INLINE = """
            [fence]
            command = ["ipmitool", "-H", "{node}", "-U", "admin", "-P", "hunter2", "chassis", "power", "off"]
            """;

    @Test
    void shouldRefuseAPasswordInAFileThatOthersCanReadAndNameTheRemedy() throws Exception {
        for (String mode : List.of("rw-r--r--", "rw-r-----")) {
            String said = mistakes(config(mode, INLINE));
            assertTrue(said.contains("fence.command") && said.contains("behind -P"), said);
            assertTrue(said.contains("chmod 0600") && said.contains("password_file"), said);
            assertFalse(said.contains("hunter2"), said);
        }
        assertDoesNotThrow(() -> SourceConfig.load(config("rw-------", INLINE)));
    }

    @Test
    void shouldRefuseAPasswordInEveryCommand() throws Exception {
        String health = "[triggers]\nhealth = [\"check\", \"--token=hunter2\"]\n";
        String tool = """
                [checkpointers.own]
                type = "command"
                checkpoint = ["sh", "-c", "PASSWORD=hunter2 save {pid}"]
                restart = ["load"]
                """;
        String said = mistakes(config("rw-r--r--", tool + health));
        assertTrue(said.contains("PASSWORD="), said);
    }

    @Test
    void shouldTakeAPasswordFromAFileOfItsOwnInAFileThatAllCanRead() throws Exception {
        Path password = Files.writeString(folder.resolve("password"), "hunter2\n");
        Path file = config(
                "rw-r--r--",
                INLINE.replace("\"-P\", \"hunter2\"", "\"-f\", \"{passwordfile}\"") + "password_file = \"" + password
                        + "\"\n");
        Files.setPosixFilePermissions(password, PosixFilePermissions.fromString("rw-r-----"));
        String said = mistakes(file);
        assertTrue(said.contains("mode 0640") && said.contains("chmod 0600"), said);
        Files.setPosixFilePermissions(password, PosixFilePermissions.fromString("rw-------"));
        Fence fence = SourceConfig.load(file).service().fence().orElseThrow();
        assertEquals(password.toString(), fence.words().get(6));
        Path link = Files.createSymbolicLink(folder.resolve("link"), password);
        Files.writeString(file, Files.readString(file).replace(password + "\"", link + "\""));
        assertTrue(mistakes(file).contains("is not a regular file"));
    }

    @Test
    void shouldRefuseAPasswordFileThatIsNotNamedInTheCommandAndTheReverse() throws Exception {
        Path password = Files.writeString(folder.resolve("password"), "hunter2\n");
        Files.setPosixFilePermissions(password, PosixFilePermissions.fromString("rw-------"));
        String file = "password_file = \"" + password + "\"\n";
        assertTrue(mistakes(config("rw-r--r--", "[fence]\ncommand = [\"off\"]\n" + file))
                .contains("is not used: put {passwordfile}"));
        assertTrue(mistakes(config("rw-r--r--", "[fence]\ncommand = [\"off\", \"{passwordfile}\"]\n"))
                .contains("there is no password_file"));
    }
}
