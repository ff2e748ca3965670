package io.ppmr.daemon.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer.RunAs;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ConfigFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests which tools run as root, and which users are trusted with them. */
class CheckpointerTrustTest {
    @TempDir
    private Path folder;

    private CheckpointerConfig read(String text) throws IOException, ConfigException {
        ConfigFile file = new ConfigFile(Files.writeString(folder.resolve("file.toml"), text), true);
        CheckpointerConfig read = CheckpointerConfig.read(file);
        file.requireGood();
        return read;
    }

    private static String command(String name, String keys) {
        return """
                [checkpointers.%s]
                type = "command"
                checkpoint = ["save", "{pid}"]
                restart = ["load"]
                %s
                """.formatted(name, keys);
    }

    @Test
    void shouldMarkOnlyToolsOfTheJobsUserWhenNothingIsSaid() throws Exception {
        CheckpointerConfig read = read("[checkpointers.criu]\ntype = \"criu\"\n[checkpointers.blcr]\ntype = \"blcr\"\n"
                + command("hers", "")
                + command("roots", "as_job_user = false")
                + command("mixed", "as_job_user = false\nimage_as_job_user = true"));
        assertEquals(Set.of("blcr", "hers"), read.forAnnouncedJobs());
        assertEquals(RunAs.ROOT, read.settings().get("criu").runAs());
        assertEquals(RunAs.JOB_USER, read.settings().get("hers").runAs());
        assertEquals(RunAs.ROOT, read.settings().get("roots").runAs());
        assertEquals(RunAs.ROOT_THEN_JOB_USER, read.settings().get("mixed").runAs());
        assertEquals(Set.of(), read.trustedUsers().get("criu"));
    }

    @Test
    void shouldTakeTheOperatorsWordForBoth() throws Exception {
        CheckpointerConfig read = read("""
                [checkpointers.criu]
                type = "criu"
                for_announced_jobs = true
                trusted_users = ["root", 4711]
                """ + command("hers", "for_announced_jobs = false"));
        assertEquals(Set.of("criu"), read.forAnnouncedJobs());
        assertEquals(Set.of(0, 4711), read.trustedUsers().get("criu"));
        assertTrue(read.settings().get("hers") instanceof CheckpointerSettings.CommandTool);
    }

    @Test
    void shouldRunCriuAsTheJobsUserWhenToldTo() throws Exception {
        CheckpointerConfig read = read("""
                [checkpointers.hers]
                type = "criu"
                as_job_user = true
                [checkpointers.roots]
                type = "criu"
                as_job_user = false
                """);
        assertEquals(RunAs.JOB_USER, read.settings().get("hers").runAs());
        assertEquals(RunAs.ROOT, read.settings().get("roots").runAs());
        assertEquals(Set.of("hers"), read.forAnnouncedJobs());
    }

    /** Without a namespace, the node's other processes could get a copy's PIDs before any check. */
    @Test
    void shouldRefuseCriuAsTheJobsUserOutsideOfANamespace() {
        ConfigException e = assertThrows(
                ConfigException.class,
                () -> read("[checkpointers.hers]\ntype = \"criu\"\nas_job_user = true\nnamespaces = \"never\"\n"));
        String mistake = e.mistakes().get(0).toString();
        assertTrue(mistake.contains("namespaces") && mistake.contains("leave it at auto"), mistake);
    }

    @Test
    void shouldRefuseToSayAsWhomBlcrRuns() {
        ConfigException e = assertThrows(
                ConfigException.class, () -> read("[checkpointers.blcr]\ntype = \"blcr\"\nas_job_user = true\n"));
        assertTrue(e.mistakes().get(0).toString().contains("as_job_user"), e.toString());
    }

    @Test
    void shouldRefuseATrustedUserWhomTheNodeDoesNotKnow() {
        ConfigException e = assertThrows(
                ConfigException.class,
                () -> read("[checkpointers.criu]\ntype = \"criu\"\ntrusted_users = [\"nobody-of-that-name\"]\n"));
        assertEquals(1, e.mistakes().size());
        String mistake = e.mistakes().get(0).toString();
        assertTrue(mistake.contains("there is no user 'nobody-of-that-name' on this node"), mistake);
    }
}
