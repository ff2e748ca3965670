package io.ppmr.daemon.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.jobs.ConfiguredJob;
import io.ppmr.migration.source.Job;
import io.ppmr.migration.source.SpareNodes;
import io.ppmr.protocol.data.ReadingMode;
import io.ppmr.transport.RailSettings;
import io.ppmr.transport.TransportChoice;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SourceConfigTest {
    private static final String GOOD = """
        mount = "mnt"
        control_socket = "source.sock"
        key_file = "key"
        silence_limit = "1500ms"
        [pool]
        size = "64m"
        chunk = "1m"
        [target]
        address = "127.0.0.1:7411"
        connections = 2
        [migration]
        checkpoint_deadline = "10m"
        [checkpointers.mine]
        type = "command"
        checkpoint = ["save", "{pid}", "{file}"]
        restart = ["load", "{file}"]
        [jobs.solver]
        user = 4711
        group = 815
        checkpointer = "mine"
        ranks = [{rank = 0, pid = 99}, {rank = 7, pid_file = "7.pid"}]
        """;

    @TempDir
    private Path folder;

    private Path file;

    @BeforeEach
    void setUp() throws IOException {
        file = folder.resolve("source.toml");
        KeyFile.create(folder.resolve("key"));
    }

    private SourceConfig load(String text) throws Exception {
        Files.writeString(file, text);
        return SourceConfig.load(file);
    }

    private List<String> mistakes(String text) throws IOException {
        Files.writeString(file, text);
        return assertThrows(ConfigException.class, () -> SourceConfig.load(file)).mistakes().stream()
                .map(mistake -> mistake.toString().substring(file.toString().length()))
                .toList();
    }

    @Test
    void shouldResolveEverythingWhenFileIsGood() throws Exception {
        Files.writeString(folder.resolve("7.pid"), "123\n");
        SourceConfig config = load(GOOD);
        assertEquals(folder.resolve("mnt"), config.settings().node().mount());
        assertEquals(64, config.settings().pool().chunkCount());
        assertEquals(1 << 20, config.settings().pool().chunkBytes());
        assertEquals(Duration.ofMillis(1500), config.settings().node().silenceLimit());
        assertEquals(Duration.ofMinutes(10), config.settings().limits().checkpointDeadline());
        assertEquals(Duration.ofSeconds(5), config.settings().connecting().connectDeadline());
        assertEquals(
                7411,
                config.settings()
                        .spares()
                        .candidates(new SpareNodes.Needs("criu", 1, 0))
                        .get(0)
                        .getPort());
        assertEquals(2, config.settings().connecting().connections());
        assertEquals(Optional.of("solver"), config.triggerJob());
        Job job = config.jobs().get("solver").resolve();
        assertEquals(new JobUser(4711, 815), job.user());
        assertEquals("mine", job.checkpointer().name());
        assertEquals(ReadingMode.STREAMED, job.checkpointer().readingMode());
        assertEquals(List.of(new Job.RankProcess(0, 99), new Job.RankProcess(7, 123)), job.ranks());
    }

    @Test
    void shouldKnowWhereCopiesAreKeptWhenTheJobSaysSo() throws Exception {
        assertEquals(Optional.empty(), load(GOOD).jobs().get("solver").keep());
        assertEquals(
                Optional.of(folder.resolve("copies")),
                load(GOOD + "keep = \"copies\"\n").jobs().get("solver").keep());
    }

    @Test
    void shouldTellAllMistakesWithTheirLinesWhenThereAreMany() throws Exception {
        List<String> found = mistakes("""
            mout = "mnt"
            key_file = "no-key"
            silence_limit = "5 sec"
            surprise = 1
            [pool]
            size = 64
            chunk = "100k"
            [target]
            connections = 0
            [migration]
            checkpoint_deadline = true
            [checkpointers.b]
            type = "blrc"
            [jobs.a]
            user = "no such user"
            checkpointer = "c"
            ranks = [{rank = 0}]
            """);
        assertEquals(14, found.size(), String.join("\n", found));
        assertMistake(found, ":1: mout: there is no such key; did you mean mount?");
        assertMistake(found, ": mount: is missing; it must be a path");
        assertMistake(found, ":2: key_file: key file " + folder.resolve("no-key") + " does not exist");
        assertMistake(found, ":3: silence_limit: \"5 sec\" is not valid; it must be a time");
        assertMistake(found, ":4: surprise: there is no such key; known here are mount, ");
        assertMistake(found, ":6: pool.size: 64 has no unit");
        assertMistake(found, ":7: pool.chunk: is 102400 bytes; it must be a power of two");
        assertMistake(found, ":8: target.address: is missing");
        assertMistake(found, ":9: target.connections: 0 is not valid; it must be a whole number from 1 to 64");
        assertMistake(found, ":11: migration.checkpoint_deadline: true is not valid");
        assertMistake(found, ":13: checkpointers.b.type: \"blrc\" is not valid; it must be one of \"blcr\", \"criu\"");
        assertMistake(found, ":15: jobs.a.user: \"no such user\" is not valid");
        assertMistake(found, ":16: jobs.a.checkpointer: there is no [checkpointers.c]");
        assertMistake(found, ":17: jobs.a.ranks[0].rank: needs either pid or pid_file");
    }

    private static void assertMistake(List<String> found, String start) {
        assertTrue(
                found.stream().anyMatch(mistake -> mistake.startsWith(start)), start + "\n" + String.join("\n", found));
    }

    @Test
    void shouldNameChunkWhenItIsNoPowerOfTwo() throws Exception {
        assertEquals(
                List.of(":7: pool.chunk: is 102400 bytes; it must be a power of two from 16k to 4m"),
                mistakes(GOOD.replace("chunk = \"1m\"", "chunk = \"100k\"")));
    }

    @Test
    void shouldChooseTheChunkAndSayWhyWhenItIsAuto() throws Exception {
        Files.writeString(folder.resolve("7.pid"), "123\n");
        String auto = GOOD.replace("chunk = \"1m\"", "chunk = \"auto\"");
        ServiceConfig chosen =
                load(auto.replace("size = \"64m\"", "size = \"8m\"")).service();
        assertEquals(256 << 10, chosen.pool().chunkBytes());
        assertEquals(
                Optional.of("chunks of 256 KiB, 32 of them: pool.chunk is \"auto\", and the pool has 8192 KiB"),
                chosen.chunkChoice());
        assertEquals(256 << 10, load(auto).settings().pool().chunkBytes());
        assertEquals(Optional.empty(), load(GOOD).service().chunkChoice());
        assertMistake(
                mistakes(auto.replace("size = \"64m\"", "size = \"1000k\"").replace("\"auto\"", "\"automatic\"")),
                ":7: pool.chunk: \"automatic\" is not valid; it must be \"auto\", or a size with its unit");
        assertMistake(
                mistakes(auto.replace("size = \"64m\"", "size = \"1000k\"")),
                ":6: pool.size: is 1024000 bytes; it must be a multiple of the chunk (16384 bytes)");
    }

    @Test
    void shouldNameSizeWhenItIsNoMultipleOfTheChunk() throws Exception {
        assertMistake(
                mistakes(GOOD.replace("64m", "65000k")), ":6: pool.size: is 66560000 bytes; it must be a multiple");
    }

    @Test
    void shouldNameKeyFileWhenOthersCanReadIt() throws Exception {
        Files.setPosixFilePermissions(folder.resolve("key"), PosixFilePermissions.fromString("rw-r--r--"));
        assertMistake(
                mistakes(GOOD), ":3: key_file: key file " + folder.resolve("key") + " can be read by users other");
    }

    @Test
    void shouldNameUserWhenThereIsNone() throws Exception {
        assertMistake(
                mistakes(GOOD.replace("user = 4711", "user = \"nobody-of-that-name\"")),
                ":18: jobs.solver.user: there is no user 'nobody-of-that-name' on this node");
        assertMistake(
                mistakes(GOOD.replace("group = 815\n", "")),
                ":18: jobs.solver.user: user 4711 is not in this node's user database");
    }

    @Test
    void shouldFindUserByNameWhenThereIsOne() throws Exception {
        SourceConfig config = load(GOOD.replace("user = 4711\ngroup = 815", "user = \"nobody\""));
        assertEquals(65534, config.jobs().get("solver").user().uid());
    }

    @Test
    void shouldRefuseKeyOfAnotherTypeWhenCheckpointerHasOne() throws Exception {
        assertMistake(
                mistakes(GOOD.replace("[jobs.solver]", "program = [\"criu\"]\n[jobs.solver]")),
                ":17: checkpointers.mine.program: means nothing for this type");
    }

    @Test
    void shouldRefuseUnknownPlaceholderWhenCommandHasOne() throws Exception {
        assertTrue(mistakes(GOOD.replace("\"{pid}\"", "\"{pdi}\"")).get(0).contains("{pdi}"));
    }

    @Test
    void shouldRefuseTriggerJobWhenThereIsNoSuchJob() throws Exception {
        assertMistake(
                mistakes("trigger_job = \"other\"\n" + GOOD),
                ":1: trigger_job: there is no [jobs.other]; known are solver");
    }

    @Test
    void shouldRefuseRankWhenItStandsThereTwice() throws Exception {
        assertMistake(
                mistakes(GOOD.replace("rank = 7", "rank = 0")),
                ":21: jobs.solver.ranks[1].rank: rank 0 stands there twice");
    }

    @Test
    void shouldKnowByWhatEachRailTravelsAndLetRdmaAloneWhereAllDo() throws Exception {
        String rail = "[[rails]]\nname = \"%s\"\ntransport = \"%s\"\n";
        List<RailSettings> rails = load(GOOD + rail.formatted("ib0", "rdma") + "[[rails]]\nname = \"eth0\"\n")
                .service()
                .rails();
        assertEquals(
                List.of(
                        new RailSettings("ib0", Optional.empty(), true, 0, 0),
                        new RailSettings("eth0", Optional.empty(), false, 0, 0)),
                rails);
        SourceConfig alone = load("transport = \"rdma\"\n" + GOOD + rail.formatted("ib0", "rdma"));
        assertEquals(
                TransportChoice.Preference.RDMA,
                alone.service().keys().transport().transport());
    }

    @Test
    void shouldRefuseWorkDirectoryWhenItLiesInTheMount() throws Exception {
        assertMistake(mistakes("work_directory = \"mnt/work\"\n" + GOOD), ":1: work_directory: ");
    }

    @Test
    void shouldNameLineWhenFileIsNoToml() throws Exception {
        assertMistake(mistakes("mount = \nkey"), ":1: is not valid TOML");
    }

    @Test
    void shouldNameFileWhenItDoesNotExist() {
        assertTrue(assertThrows(ConfigException.class, () -> SourceConfig.load(folder.resolve("none")))
                .getMessage()
                .contains("does not exist"));
    }

    @Test
    void shouldNamePidFileWhenItHoldsNoPid() throws Exception {
        SourceConfig config = load(GOOD);
        ConfiguredJob job = config.jobs().get("solver");
        assertTrue(assertThrows(IOException.class, job::resolve).getMessage().contains("does not exist"));
        Files.writeString(folder.resolve("7.pid"), "12 34");
        assertTrue(assertThrows(IOException.class, job::resolve).getMessage().contains("rank 7"));
    }
}
