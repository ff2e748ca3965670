package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.linux.Command;
import io.ppmr.pods.PodStatus;
import io.ppmr.pods.testbed.BridgedNode;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * The time for which a checkpoint holds a job of eight pods on three nodes, with 1.4 GB of memory, beside plain dumps
 * of the same pods by CRIU. Both use the same arguments: a script notes those of the service, and they are repeated.
 */
@Tag("soak")
@Timeout(value = 1800, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class JobHeldTimeIT {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String JOB = "1/large";
    private static final int PODS = 8;
    private static final int NODES = 3;
    private static final long PAGES_OF_A_POD = 1_400_000_000L / PODS / 4096;
    private static final int RUNS = 9;
    private static final double MOST_RATIO = 1.10;
    private static final double MOST_MS_MORE = 300;
    private static final double NANOS_A_MS = 1e6;

    /** Each page has other content. Some of them change between two checkpoints. */
    private static final String PROGRAM = """
            $| = 1; my ($pages) = @ARGV;
            my $memory = pack("N*", 1 .. 1024) x $pages;
            substr $memory, $_ * 4096, 4, pack "N", $_ for 0 .. $pages - 1;
            print "ready\\n";
            for (my $turn = 0; ; $turn++) {
                substr $memory, ($turn % $pages) * 4096 + 8, 4, pack "N", $turn;
                select undef, undef, undef, 0.01;
            }
            """;

    private static Testbed testbed;
    private static Path plain;
    private static final List<BridgedNode> ALL = new ArrayList<>();
    private static List<String> criu;

    @BeforeAll
    static void start() throws Exception {
        MovingNode.assumePossible();
        Assumptions.assumeTrue(
                JobHeldTimeIT.class.getResource("/io/ppmr/cluster/job/JobRecord.class") != null,
                "needs the part for clusters");
        testbed = Testbed.create("job-held");
        criu = System.getenv("PPMR_CRIU").lines().toList();
        Path checkpoints = Files.createDirectory(testbed.folder().resolve("ckpt"));
        plain = Files.createDirectory(testbed.folder().resolve("plain"));
        String template = "tmp = \"8m\"\nshm = \"8m\"\ncheckpoints = \"" + checkpoints + "\"";
        BridgedNode hub = new BridgedNode(testbed, 9, criu, template);
        for (int number = 1; number <= NODES; number++) {
            Path noting = noting(number);
            BridgedNode node = new BridgedNode(testbed, number, List.of(noting.toString()), template);
            BridgedNode.connect(hub, node);
            node.joinCluster("\"" + hub.controllerAddress() + "\"");
            ALL.add(node);
        }
        hub.startController();
        for (BridgedNode node : ALL) {
            node.startSource();
            node.startTarget();
        }
    }

    /** Makes a script that notes the environment and the arguments of a dump, and executes CRIU. */
    private static Path noting(int number) throws IOException {
        Path noted = Files.createDirectory(noted(number));
        Path script = Files.writeString(script(number), """
                #!/bin/sh
                [ "$1" != dump ] || printf '%%s\\n' "LD_PRELOAD=${LD_PRELOAD-}" "CRIU_FAULT=${CRIU_FAULT-}" "$@" >%s/$3
                exec %s "$@"
                """.formatted(noted, String.join(" ", criu)));
        Files.setPosixFilePermissions(script, PosixFilePermissions.fromString("rwxr-xr-x"));
        return script;
    }

    private static Path script(int number) {
        return testbed.folder().resolve("criu-" + number);
    }

    private static Path noted(int number) {
        return testbed.folder().resolve("dumps-" + number);
    }

    @AfterAll
    static void end() throws IOException {
        ALL.clear();
        if (testbed != null) {
            testbed.close();
        }
    }

    private static JsonNode job(String command) throws Exception {
        PpmrCommand done =
                PpmrCommand.run("job", command, "--socket", ALL.get(0).socket().toString(), JOB, "--json");
        return done.said().startsWith("{") ? JSON.readTree(done.said()) : JSON.createObjectNode();
    }

    private static void startJob() throws Exception {
        for (int i = 0; i < PODS; i++) {
            BridgedNode node = ALL.get(i % NODES);
            PodStatus pod = node.runMember(
                    "large", PODS, "p" + i, "10.20.0.1" + i, "perl", "-e", PROGRAM, Long.toString(PAGES_OF_A_POD));
            Conditions.until(MovingNode.LIMIT, "pod p" + i + " has its memory", () -> node.output(pod)
                    .contains("ready"));
        }
        Conditions.until(
                MovingNode.LIMIT,
                "all pods are registered",
                () -> job("show").at("/registered").asInt() == PODS);
    }

    private static JsonNode checkpoint() throws Exception {
        JsonNode outcome = job("checkpoint");
        assertEquals("checkpointed", outcome.at("/outcome").asText(), outcome.toString());
        awaitDisk();
        return outcome;
    }

    /** Ends the writes of one of them, so that they do not delay the other one. */
    private static void awaitDisk() throws Exception {
        Command.of(List.of("sync", "-f", plain.toString()))
                .run(MovingNode.LIMIT)
                .requireOutput();
    }

    /** Dumps all pods at once by CRIU itself, continues them, and returns the time until the last one was dumped. */
    private static double dumpPlainly() throws Exception {
        List<ProcessBuilder> dumps = new ArrayList<>();
        for (BridgedNode node : ALL) {
            try (DirectoryStream<Path> files = Files.newDirectoryStream(noted(node.number()))) {
                for (Path file : files) {
                    String name = node.number() + "-" + file.getFileName();
                    Path images = Files.createDirectory(plain.resolve(name));
                    Path work = Files.createDirectory(plain.resolve(name + ".work"));
                    List<String> words = new ArrayList<>(List.of("env"));
                    words.addAll(criuWords(Files.readAllLines(file), script(node.number()), images, work));
                    dumps.add(new ProcessBuilder(node.words(words.toArray(String[]::new)))
                            .redirectErrorStream(true)
                            .redirectOutput(work.resolve("output").toFile()));
                }
            }
        }
        assertEquals(PODS, dumps.size(), "each pod was dumped by its service before");
        List<Process> running = new ArrayList<>();
        try {
            long startNs = System.nanoTime();
            for (ProcessBuilder dump : dumps) {
                running.add(dump.start());
            }
            for (Process one : running) {
                assertTrue(one.waitFor(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS), "a dump ends");
            }
            double ms = (System.nanoTime() - startNs) / NANOS_A_MS;
            for (Process one : running) {
                assertEquals(0, one.exitValue(), "a plain dump fails, see " + plain);
            }
            return ms;
        } finally {
            running.forEach(Process::destroyForcibly);
            continuePods();
            awaitDisk();
            try (Stream<Path> written = Files.list(plain)) {
                for (Path one : written.toList()) {
                    WorkDirectories.remove(one);
                }
            }
            // The removal is on the disk, too.
            awaitDisk();
        }
    }

    /** Replaces the directories. The first two lines are variables of the environment. */
    private static List<String> criuWords(List<String> noted, Path script, Path images, Path work) {
        List<String> words = new ArrayList<>();
        noted.subList(0, 2).stream().filter(variable -> !variable.endsWith("=")).forEach(words::add);
        words.add(script.toString());
        for (int i = 2; i < noted.size(); i++) {
            words.add(noted.get(i));
            String other =
                    switch (noted.get(i)) {
                        case "--images-dir" -> images.toString();
                        case "--work-dir" -> work.toString();
                        case "--log-file" -> work.resolve("dump.log").toString();
                        default -> "";
                    };
            if (!other.isEmpty()) {
                words.add(other);
                i++;
            }
        }
        return words;
    }

    private static void continuePods() throws Exception {
        List<String> words = new ArrayList<>(List.of("kill", "-CONT"));
        for (BridgedNode node : ALL) {
            for (PodStatus pod : node.pods(node.socket())) {
                ProcessHandle init = ProcessHandle.of(node.pidOf(pod)).orElseThrow();
                words.add(Long.toString(init.pid()));
                init.descendants().forEach(process -> words.add(Long.toString(process.pid())));
            }
        }
        Command.of(words).run(Duration.ofSeconds(20)).requireOutput();
    }

    private static double median(List<Double> all) {
        return all.stream().sorted().toList().get(all.size() / 2);
    }

    @Test
    void shouldHoldTheJobHardlyLongerThanPlainDumpsTake() throws Exception {
        startJob();
        // The first of each finds cold caches.
        JsonNode first = checkpoint();
        dumpPlainly();
        List<Double> held = new ArrayList<>();
        List<Double> dumped = new ArrayList<>();
        List<Double> plainly = new ArrayList<>();
        for (int i = 0; i < RUNS; i++) {
            plainly.add(dumpPlainly());
            JsonNode outcome = checkpoint();
            held.add(outcome.at("/held_ms").asDouble());
            dumped.add(outcome.at("/dump_ms").asDouble());
        }
        System.out.printf(
                "%d pods on %d nodes, %d bytes of images: held %.0f ms (%s), its dumps %.0f ms (%s), plain dumps %.0f"
                        + " ms (%s), medians of %d%n",
                PODS,
                NODES,
                first.at("/bytes").asLong(),
                median(held),
                held,
                median(dumped),
                dumped,
                median(plainly),
                plainly,
                RUNS);
        double mostMs = MOST_RATIO * median(plainly) + MOST_MS_MORE;
        assertTrue(median(held) <= mostMs, () -> "held " + held + " ms, plain dumps " + plainly + " ms");
    }
}
