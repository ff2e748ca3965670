package io.ppmr.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.config.ConfigRoles;
import io.ppmr.daemon.config.KeyFile;
import io.ppmr.daemon.config.SourceConfig;
import io.ppmr.daemon.config.file.ConfigException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The controller's file, and the section of a service's file. */
class ControllerConfigTest {
    @TempDir
    private Path folder;

    @BeforeEach
    void makeKeys() throws Exception {
        KeyFile.create(folder.resolve("key"));
        KeyFile.create(folder.resolve("controller-key"));
    }

    private ControllerConfig load(String more) throws Exception {
        return load("controller-key", more);
    }

    private ControllerConfig load(String controllerKey, String more) throws Exception {
        return ControllerConfig.load(
                Files.writeString(folder.resolve("controller.toml"), """
                listen = "10.0.0.1:7413"
                key_file = "key"
                controller_key_file = "%s"
                """.formatted(controllerKey) + more));
    }

    private String mistake(String more) {
        ConfigException wrong = assertThrows(ConfigException.class, () -> load(more));
        assertEquals(1, wrong.mistakes().size(), wrong.mistakes().toString());
        return wrong.mistakes().get(0).toString();
    }

    @Test
    void shouldRunItsOwnServerWhenNoneIsNamed() throws Exception {
        ControllerConfig config = load("");
        assertEquals(List.of("10.0.0.1:7414"), config.servers());
        assertEquals(List.of(), config.ownServer().orElseThrow().members());
        assertEquals("10.0.0.1", config.host());
    }

    @Test
    void shouldBeOneOfThreeWhenMembersAreNamed() throws Exception {
        ControllerConfig config = load("members = [\"c1\", \"c2\", \"fd00::3\"]\nme = 2\n");
        assertEquals(List.of("c1:7414", "c2:7414", "[fd00::3]:7414"), config.servers());
        assertEquals("c2", config.host());
        assertEquals(2, config.ownServer().orElseThrow().me());
    }

    @Test
    void shouldUseTheSitesServersWhenTheyAreNamed() throws Exception {
        ControllerConfig config = load("servers = [\"zk1:2181\", \"zk2:2181\"]\n");
        assertEquals(List.of("zk1:2181", "zk2:2181"), config.servers());
        assertTrue(config.ownServer().isEmpty());
    }

    @Test
    void shouldSayWhatIsWrong() {
        assertTrue(mistake("members = [\"a\", \"b\"]\nme = 1\n").contains("a majority needs three or five"));
        assertTrue(mistake("members = [\"a\", \"b\", \"a\"]\nme = 1\n").contains("names a host twice"));
        assertTrue(mistake("members = [\"a\", \"b\", \"c\"]\nme = 4\n").contains("from 1 to 3"));
        assertTrue(mistake("members = [\"a\", \"b\", \"c\"]\n").contains("from 1 to 3"));
        assertTrue(mistake("me = 1\n").contains("has no members"));
        assertTrue(mistake("quorum_port = 7414\n").contains("three different ports"));
        assertTrue(mistake("session = \"1s\"\n").contains("two ticks"));
        assertTrue(mistake("mount = \"/x\"\n").contains("belongs in a"));
        ConfigException same = assertThrows(ConfigException.class, () -> load("key", ""));
        assertTrue(same.mistakes().get(0).toString().contains("the same key as key_file"));
    }

    @Test
    void shouldBeKnownByItsKey() throws Exception {
        load("");
        Path file = folder.resolve("controller.toml");
        assertEquals("controller", ConfigRoles.of(file).word());
        ConfigException wrong = assertThrows(ConfigException.class, () -> SourceConfig.load(file));
        assertTrue(wrong.mistakes().get(0).toString().contains("start it with ppmr controller"));
    }
}
