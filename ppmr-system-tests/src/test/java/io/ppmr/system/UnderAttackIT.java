package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.control.ControlClient;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.protocol.data.Frame;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Migrations of one user's job, one after the other, while another user, a stranger on the network and a peer with a
 * wrong key do all that they can, held to one processor: see attacks.pl. The other user has a job, too, which another
 * source moves to the same target all the time, and one in the victim's source, whose PID file is an attack. Every few
 * seconds the attack ends, and as many processes that only compute, sleep, start and end on the same processor take its
 * place (load.pl): so both are compared on the machine as it is at that time.
 */
@Tag("soak")
class UnderAttackIT {
    private static final Logger LOG = LoggerFactory.getLogger(UnderAttackIT.class);
    private static final int VICTIM = 20_001;
    private static final int ATTACKER = 20_002;
    private static final int WARM_UP = 3;
    private static final int LEAST_OF_A_KIND = 8;
    /** Short, so that both kinds meet the same of what else the machine does. */
    private static final Duration BLOCK = Duration.ofSeconds(5);

    private static final Duration PATIENCE = Patience.of(Duration.ofSeconds(90));
    /**
     * Twice is the aim; 1.8 and 1.2 times were measured in two runs of some ten migrations of each kind, on two cores
     * that others had more than busy. Medians of so few differ by a half from one run to the next there: this much is
     * allowed, so that a run fails where migrations are held up and not where the machine is.
     */
    private static final double MOST_TIMES = 4;

    private static final int ATTACKS = 12;
    /** As many as there are attacks that never pause, but for the one that starts processes. */
    private static final int COMPUTING = 4;

    private static final int PAUSING = ATTACKS - COMPUTING - 1;
    /** As many as that attack starts at a time, in each of two mounts. */
    private static final int SLEEPERS = 512;

    @TempDir
    private Path directory;

    private final long seed =
            Long.getLong("ppmr.attack.seed", ThreadLocalRandom.current().nextInt(1 << 30));
    private final List<ProcessHandle> ended = new ArrayList<>();
    private final String processor = processor();
    private ReplayJob victims;
    private ReplayJob attackers;
    private RealServices services;
    private RealServices attackersSource;
    private List<Integer> metricsPorts = List.of();
    private Moving moving;

    /** The first processor that this process may use. */
    private static String processor() {
        try {
            return Files.readAllLines(Path.of("/proc/self/status")).stream()
                    .filter(line -> line.startsWith("Cpus_allowed_list:"))
                    .map(line -> line.replaceAll("\\D+(\\d+).*", "$1"))
                    .findFirst()
                    .orElseThrow();
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    private record Moved(MigrationReport report, double seconds) {}

    /** Has a job moved again and again, each time with a process of its own. */
    private static final class Job {
        private final Path socket;
        private final Path pidFile;
        private final int uid;

        Job(Path socket, Path pidFile, int uid) {
            this.socket = socket;
            this.pidFile = pidFile;
            this.uid = uid;
        }

        Moved move() throws Exception {
            Process original = new ProcessBuilder(as(uid, "sleep", "600")).start();
            Path comm = Path.of("/proc", Long.toString(original.pid()), "comm");
            try (ControlClient client = new ControlClient(socket)) {
                // Not the one any more that becomes the user.
                Conditions.until("the job runs", () -> Files.readString(comm).equals("sleep\n"));
                Files.writeString(pidFile, original.pid() + "\n");
                long startNs = System.nanoTime();
                client.start("victim", true);
                MigrationReport report = client.awaitReport(PATIENCE, progress -> {});
                double seconds = (System.nanoTime() - startNs) / 1e9;
                report.ranks().forEach(rank -> rank.pids()
                        .forEach(pid -> ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly)));
                return new Moved(report, seconds);
            } finally {
                original.destroyForcibly();
            }
        }
    }

    /** The attacker's own job is moved all the time; how that ends under attack is the attacker's business. */
    private static final class Moving extends Thread {
        private final Job job;
        private final Map<Outcome, Integer> outcomes = new TreeMap<>();
        private volatile boolean over;
        private volatile Exception failure;

        Moving(Job job) {
            super("attacker's job");
            this.job = job;
        }

        @Override
        public void run() {
            while (!over) {
                try {
                    outcomes.merge(job.move().report().outcome(), 1, Integer::sum);
                } catch (Exception e) {
                    failure = e;
                    return;
                }
            }
        }

        void end() throws Exception {
            over = true;
            join(PATIENCE.toMillis());
            if (failure != null) {
                throw failure;
            }
        }
    }

    private static String[] as(int uid, String... command) {
        List<String> words =
                new ArrayList<>(List.of("setpriv", "--reuid", "" + uid, "--regid", "" + uid, "--clear-groups"));
        words.addAll(List.of(command));
        return words.toArray(String[]::new);
    }

    @BeforeEach
    void start() throws Exception {
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxr-xr-x"));
        Path own = Files.createDirectory(directory.resolve("own"));
        Files.setPosixFilePermissions(own, PosixFilePermissions.fromString("rwxr-xr-x"));
        services = new RealServices(directory);
        attackersSource = new RealServices(own).keyOf(services);
        victims = job(directory, List.of("open image wcxn", "write 12m 64k", "close"), "read 12m 64k");
        attackers = job(
                own, List.of("pause 1500", "open image wcxn", "write 1m 64k", "pause 1000", "close"), "read 1m 64k");
        // The target has the tools of both, by different names.
        metricsPorts = List.of(Nodes.nobody().getPort(), Nodes.nobody().getPort());
        services.sections("", attackers.toml().replace(".replay]", ".attackers]") + metrics(metricsPorts.get(1)));
        services.startTarget(victims);
        Path pids = Files.createDirectory(directory.resolve("pids"));
        Path attackersFolder = Files.createDirectory(directory.resolve("attackers"));
        Files.setAttribute(attackersFolder, "unix:uid", ATTACKER);
        services.startSource(
                "announcements = \"" + directory.resolve("announced") + "\"",
                target(),
                metrics(metricsPorts.get(0)),
                victims.toml(),
                jobToml("replay", pids.resolve("victim"), VICTIM),
                jobToml("replay", attackersFolder.resolve("pid"), ATTACKER).replace("jobs.victim", "jobs.attackers"));
        attackersSource.startSource(
                "",
                target(),
                attackers.toml().replace(".replay]", ".attackers]"),
                jobToml("attackers", pids.resolve("attacker"), ATTACKER));
    }

    private static String metrics(int port) {
        return "[metrics]\nport = " + port + "\n";
    }

    private static ReplayJob job(Path directory, List<String> checkpoint, String read) throws IOException {
        ReplayJob job = new ReplayJob(directory);
        List<String> first = new ArrayList<>(checkpoint);
        first.add("stop");
        job.script("checkpoint-0", first);
        job.script("restart-0", List.of("open image r", read, "close", "spawn"));
        Files.setPosixFilePermissions(directory.resolve("job"), PosixFilePermissions.fromString("rwxr-xr-x"));
        return job;
    }

    private String target() {
        return "[target]\naddress = \"127.0.0.1:" + services.port() + "\"";
    }

    private static String jobToml(String checkpointer, Path pidFile, int uid) {
        return """
                [jobs.victim]
                user = %1$d
                group = %1$d
                checkpointer = "%2$s"
                ranks = [{rank = 0, pid_file = "%3$s"}]
                """.formatted(uid, checkpointer, pidFile);
    }

    @AfterEach
    void end() throws Exception {
        try {
            stop();
        } finally {
            attackersSource.close();
            services.close();
            attackers.close();
            victims.close();
        }
    }

    private void stop() throws Exception {
        if (moving != null) {
            moving.end();
            moving = null;
        }
        for (ProcessHandle process : ended) {
            // The one that has started the others first, so that no further one comes.
            List<ProcessHandle> others = new ArrayList<>(process.descendants().toList());
            process.destroyForcibly();
            others.forEach(ProcessHandle::destroyForcibly);
            process.onExit().get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        }
        ended.clear();
    }

    /** Starts it as the attacker, held to the one processor. */
    private void begin(String... command) throws IOException {
        List<String> words = new ArrayList<>(List.of("taskset", "-c", processor));
        words.addAll(List.of(as(ATTACKER, command)));
        ended.add(new ProcessBuilder(words)
                .directory(Path.of("/").toFile())
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(
                        directory.resolve("attacks.log").toFile()))
                .start()
                .toHandle());
    }

    private String script(String name) throws IOException {
        Path script = directory.resolve(name);
        if (!Files.exists(script)) {
            Files.copy(
                    Path.of(System.getProperty("ppmr.home"), "ppmr-system-tests/src/test/perl")
                            .resolve(name),
                    script);
            Files.setPosixFilePermissions(script, PosixFilePermissions.fromString("rw-r--r--"));
        }
        return script.toString();
    }

    private void attack(int block) throws IOException {
        begin(
                "perl",
                script("attacks.pl"),
                "seed=" + (seed + 100L * block),
                "port=" + services.port(),
                "hello=" + Frame.VERSION + ",1,1",
                "victim=" + VICTIM,
                "secret=" + directory.resolve("key"),
                "announced=" + directory.resolve("announced"),
                "sockets=" + services.socket("source") + "," + services.socket("target"),
                "mounts=" + services.mount("source") + "," + services.mount("target"),
                "own=" + attackersSource.mount("source") + "," + services.mount("target"),
                "metrics=" + metricsPorts.get(0) + "," + metricsPorts.get(1),
                "pidfile=" + directory.resolve("attackers/pid"));
    }

    private void load() throws IOException {
        begin("perl", script("load.pl"), "computing=" + COMPUTING, "pausing=" + PAUSING, "sleepers=" + SLEEPERS);
    }

    /** The attacker's job whose PID file is anything but one: it fails by name, in time, and for itself alone. */
    private void failsByItsPidFile() throws Exception {
        String said;
        try (ControlClient client = new ControlClient(services.socket("source"))) {
            client.start("attackers", true);
            MigrationReport report = client.awaitReport(PATIENCE, progress -> {});
            assertFalse(report.moved(), report.reason());
            said = report.reason();
        } catch (IOException refused) {
            said = refused.getMessage();
        }
        // A kernel can keep even root from looking at the first process.
        assertTrue(
                said.contains("PID file " + directory)
                        || said.contains("belongs to user 0")
                        || said.contains("the namespaces of PID 1 may not be read"),
                said);
    }

    private void requireMeters() throws Exception {
        for (int port : metricsPorts) {
            HttpURLConnection asked = (HttpURLConnection)
                    URI.create("http://127.0.0.1:" + port + "/metrics").toURL().openConnection();
            asked.setConnectTimeout((int) PATIENCE.toMillis());
            asked.setReadTimeout((int) PATIENCE.toMillis());
            try (InputStream meters = asked.getInputStream()) {
                assertTrue(new String(meters.readAllBytes(), StandardCharsets.UTF_8).contains("ppmr_"));
            } finally {
                asked.disconnect();
            }
        }
    }

    @Test
    @Timeout(value = 500, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldMigrateWithoutBeingHeldUpWhileAUserAStrangerAndAPeerWithAWrongKeyAttackForTwoMinutes() throws Exception {
        migrate(Duration.ofMinutes(2));
    }

    @Test
    @Timeout(value = 45, unit = TimeUnit.MINUTES, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldMigrateWithoutBeingHeldUpWhileAUserAStrangerAndAPeerWithAWrongKeyAttackForHalfAnHour() throws Exception {
        migrate(Duration.ofMinutes(30));
    }

    private void migrate(Duration length) throws Exception {
        LOG.info("seed {} (-Dppmr.attack.seed={}), attackers on processor {}", seed, seed, processor);
        Job job = new Job(services.socket("source"), directory.resolve("pids/victim"), VICTIM);
        for (int i = 0; i < WARM_UP; i++) {
            commits(job);
        }
        String key = Files.readString(directory.resolve("key"));
        List<Double> attacked = new ArrayList<>();
        List<Double> loaded = new ArrayList<>();
        Map<Outcome, Integer> attackersOutcomes = new TreeMap<>();
        long endNs = System.nanoTime() + length.toNanos();
        for (int block = 0;
                System.nanoTime() - endNs < 0
                        || Math.min(attacked.size(), loaded.size()) < LEAST_OF_A_KIND
                        || block % 2 != 0;
                block++) {
            boolean underAttack = block % 2 == 0;
            if (underAttack) {
                attack(block);
            } else {
                load();
            }
            Moving own =
                    new Moving(new Job(attackersSource.socket("source"), directory.resolve("pids/attacker"), ATTACKER));
            moving = own;
            own.start();
            long blockEndNs = System.nanoTime() + BLOCK.toNanos();
            do {
                (underAttack ? attacked : loaded).add(commits(job));
            } while (System.nanoTime() - blockEndNs < 0);
            if (underAttack) {
                failsByItsPidFile();
                requireMeters();
            }
            stop();
            own.outcomes.forEach((outcome, count) -> attackersOutcomes.merge(outcome, count, Integer::sum));
        }
        LOG.info(
                "{} migrations under attack, median {} s, longest {} s; {} beside load, median {} s, longest {} s",
                attacked.size(),
                median(attacked),
                attacked.stream().max(Double::compare).orElseThrow(),
                loaded.size(),
                median(loaded),
                loaded.stream().max(Double::compare).orElseThrow());
        Map<String, long[]> counts = counts();
        StringBuilder told = new StringBuilder();
        counts.forEach(
                (name, count) -> told.append(' ').append(name).append(' ').append(count[0]));
        double times = median(attacked) / median(loaded);
        LOG.info("the median under attack is {} times the one beside the same load", times);
        LOG.info("attacks:{}; the attacker's own migrations: {}", told, attackersOutcomes);
        assertEquals(ATTACKS, counts.size(), "each attack was made:" + told);
        counts.forEach((name, count) -> {
            assertTrue(count[0] > 0, "nothing was tried by " + name);
            assertEquals(0, count[1], name + " has gained something");
        });
        assertEquals(key, Files.readString(directory.resolve("key")), "the key is as it was");
        for (String log : List.of(services.log("source"), services.log("target"))) {
            assertTrue(
                    log.chars().noneMatch(one -> Character.isISOControl(one) && one != '\n' && one != '\t'),
                    "a terminal would obey the log");
        }
        assertTrue(
                times <= MOST_TIMES,
                times + " times: median under attack " + median(attacked) + " s, beside load " + median(loaded)
                        + " s; seed " + seed);
    }

    /** One migration, which must succeed; the seconds that it took. */
    private double commits(Job job) throws Exception {
        Moved moved = job.move();
        MigrationReport report = moved.report();
        assertEquals(Outcome.COMMITTED, report.outcome(), () -> report.reason() + "; seed " + seed + "\n" + logs());
        return moved.seconds();
    }

    private String logs() {
        try {
            return services.log("source") + services.log("target");
        } catch (IOException e) {
            return e.toString();
        }
    }

    /** The tries of each attack, and what it has gained. */
    private Map<String, long[]> counts() throws IOException {
        Map<String, long[]> last = new TreeMap<>();
        for (String line : Files.readAllLines(directory.resolve("attacks.log"), StandardCharsets.ISO_8859_1)) {
            String[] words = line.split(" ", -1);
            assertTrue(line.matches("\\w+ \\d+ \\d+ \\d+"), line);
            last.put(words[0] + " " + words[1], new long[] {Long.parseLong(words[2]), Long.parseLong(words[3])});
        }
        Map<String, long[]> sums = new TreeMap<>();
        last.forEach((name, count) -> sums.merge(
                name.split(" ", -1)[0], count, (one, other) -> new long[] {one[0] + other[0], one[1] + other[1]}));
        return sums;
    }

    private static double median(List<Double> seconds) {
        List<Double> sorted = seconds.stream().sorted().toList();
        return sorted.get(sorted.size() / 2);
    }
}
