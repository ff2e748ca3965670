package io.ppmr.daemon.config;

import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.fuzz.Fuzz;
import io.ppmr.fuzz.FuzzPlan;
import io.ppmr.fuzz.Mutator;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A configuration file with any content. All mistakes are reported by name. */
class ConfigFuzzTest {
    private static final String[] WORDS = {
        "[",
        "]",
        "[[",
        "]]",
        "{",
        "}",
        "\"",
        "'''",
        "\"\"\"",
        "=",
        ".",
        ",",
        "#",
        "\n",
        "\\u0000",
        "\\ud800",
        "a.b.",
        "[jobs.",
        "[checkpointers.",
        "[pool]\n",
        "[target]\n",
        "[fence]\n",
        "[staging]\n",
        "[reconnect.x]\n",
        "[triggers]\n",
        "[metrics]\n",
        "size = ",
        "chunk = ",
        "address = ",
        "command = [",
        "ranks = [",
        "type = ",
        "\"99999999999999g\"",
        "\"0s\"",
        "\"999999999999999h\"",
        "-1",
        "9223372036854775807",
        "1e400",
        "nan",
        "true",
        "1979-05-27T07:32:00Z",
        "{rank = 0, pid = 1}",
        "{{",
        "[a]\n",
        "temporary_suffixes = [\"=\"]\n"
    };

    @TempDir
    private Path directory;

    private static Mutator mutator(String... texts) {
        List<byte[]> valid = Stream.of(texts)
                .map(text -> text.getBytes(StandardCharsets.UTF_8))
                .toList();
        return new Mutator(valid, 8 * 1024, WORDS);
    }

    private static Fuzz source() {
        String head = "mount = \"/m\"\nkey_file = \"/k\"\n";
        String tools = "[checkpointers.c]\ntype = \"blcr\"\n[jobs.j]\nuser = 1\ncheckpointer = \"c\"\n";
        Mutator mutator = mutator(
                head + "[target]\naddress = \"n:1\"\n" + tools + "ranks = [{rank = 0, pid = 7}]\n",
                head + "[pool]\nsize = \"8m\"\nchunk = \"128k\"\n[target]\naddresses = [\"n:1\", \"o:2\"]\n"
                        + "[fence]\ncommand = [\"off\"]\n" + tools
                        + "ranks = [{rank = 0, pid_file = \"/p\"}]\nothers = [{rank = 1, node = \"o\"}]\n"
                        + "suspend = [\"s\"]\n");
        return fuzz(FuzzPlan.SOURCE_CONFIGURATION, mutator);
    }

    private static Fuzz target() {
        Mutator mutator = mutator(
                "listen = \"n:1\"\nmount = \"/m\"\nkey_file = \"/k\"\n[checkpointers.c]\ntype = \"criu\"\n",
                "listen = \"n:1\"\nmount = \"/m\"\nkey_file = \"/k\"\n[staging]\nlimit = \"1g\"\n[checkpointers.c]\n"
                        + "type = \"command\"\ncheckpoint = [\"s\", \"{pid}\", \"{file}\"]\nrestart = [\"l\","
                        + " \"{file}\", \"{pidfile}\"]\ntrusted_users = [1]\n[reconnect.j]\ncommand = [\"r\"]\n");
        return fuzz(FuzzPlan.TARGET_CONFIGURATION, mutator);
    }

    private static Fuzz fuzz(FuzzPlan plan, Mutator mutator) {
        return new Fuzz(plan, mutator, List.of(ConfigException.class)).allocatesAtMost(4 << 20, 64 * 1024);
    }

    private Path file(byte[] input) throws Exception {
        Path file = directory.resolve("config.toml");
        // An overwritten file is flushed to the disk at once.
        Files.deleteIfExists(file);
        return Files.write(file, input);
    }

    private void readSource(byte[] input) throws Exception {
        ConfigRoles.check(SourceConfig.ROLE, file(input), false);
    }

    private void readTarget(byte[] input) throws Exception {
        ConfigRoles.check(TargetConfig.ROLE, file(input), false);
    }

    @Test
    void shouldTakeOrRefuseByNameWhateverStandsInASourcesFile() throws Exception {
        source().inTheGate(this::readSource);
    }

    @Test
    void shouldTakeOrRefuseByNameWhateverStandsInATargetsFile() throws Exception {
        target().inTheGate(this::readTarget);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 120, unit = TimeUnit.MINUTES)
    void shouldTakeOrRefuseByNameForLongWhateverStandsInASourcesFile() throws Exception {
        source().forLong(this::readSource);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 120, unit = TimeUnit.MINUTES)
    void shouldTakeOrRefuseByNameForLongWhateverStandsInATargetsFile() throws Exception {
        target().forLong(this::readTarget);
    }
}
