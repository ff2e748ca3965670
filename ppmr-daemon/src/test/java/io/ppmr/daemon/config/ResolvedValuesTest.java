package io.ppmr.daemon.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ResolvedValues;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ResolvedValuesTest {
    private static final String SOURCE = """
            mount = "mnt"
            key_file = "key"
            [pool]
            size = "64m"
            [target]
            address = "127.0.0.1:7411"
            [checkpointers."my tool"]
            type = "command"
            checkpoint = ["save", "a \\"quoted\\" word", "{pid}"]
            restart = ["load"]
            [jobs.solver]
            user = 4711
            group = 815
            checkpointer = "my tool"
            ranks = [{rank = 0, pid = 99}, {rank = 7, pid_file = "7.pid"}]
            """;

    @TempDir
    private Path folder;

    private Path file;

    @BeforeEach
    void setUp() throws IOException {
        KeyFile.create(folder.resolve("key"));
        file = Files.writeString(folder.resolve("source.toml"), SOURCE);
    }

    private static List<String> squeezed(ResolvedValues values) {
        return values.lines().stream().map(line -> line.replaceAll(" +", " ")).toList();
    }

    @Test
    void shouldSayWhereEachValueCameFromWhenShown() throws ConfigException {
        List<String> lines = squeezed(ConfigRoles.check(SourceConfig.ROLE, file, true));
        List.of(
                        "mount = \"" + folder + "/mnt\" # " + file + ":1",
                        "work_directory = \"/var/lib/ppmr/work\" # default",
                        "trigger_job = \"solver\" # the only job",
                        "size = \"64m\" # " + file + ":4",
                        "chunk = \"auto\" # default",
                        "address = \"127.0.0.1:7411\" # " + file + ":6",
                        "[checkpointers.\"my tool\"]",
                        "checkpoint = [\"save\", \"a \\\"quoted\\\" word\", \"{pid}\"] # " + file + ":9",
                        "user = 4711 # " + file + ":12",
                        "[[jobs.solver.ranks]]",
                        "pid_file = \"" + folder + "/7.pid\" # " + file + ":15",
                        "# pid_file # not set")
                .forEach(line -> assertTrue(lines.contains(line), line + "\n" + String.join("\n", lines)));
    }

    @Test
    void shouldMeanTheSameWhenWhatIsShownIsReadAgain() throws Exception {
        Path shown = folder.resolve("shown.toml");
        Files.write(shown, ConfigRoles.check(SourceConfig.ROLE, file, true).lines());
        SourceConfig first = SourceConfig.load(file);
        SourceConfig second = SourceConfig.load(shown);
        assertEquals(
                first.jobs().get("solver").ranks(), second.jobs().get("solver").ranks());
        assertEquals(first.triggerJob(), second.triggerJob());
        assertEquals(first.settings().pool(), second.settings().pool());
        assertEquals(first.service().controlSocket(), second.service().controlSocket());
        assertEquals(first.service().access(), second.service().access());
        String place = "# [^#]*$";
        assertEquals(
                ConfigRoles.check(SourceConfig.ROLE, file, true).lines().stream()
                        .map(line -> line.replaceAll(place, ""))
                        .toList(),
                ConfigRoles.check(SourceConfig.ROLE, shown, true).lines().stream()
                        .map(line -> line.replaceAll(place, ""))
                        .toList());
    }
}
