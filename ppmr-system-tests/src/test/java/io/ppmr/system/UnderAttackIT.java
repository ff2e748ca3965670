package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.config.ConfigRoles;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.channels.Channels;
import java.nio.channels.SeekableByteChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
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
 * Migrations of one user's job, one after the other, under attack. The attackers are another user, an unauthenticated
 * peer on the network and a peer with a wrong key. They are restricted to one processor. See attacks.pl. The other user
 * has jobs, too, which another source continuously moves to the same target. Some of them have more threads and
 * descriptors than any needs. One is in the victim's source, and its PID file is an attack. Every few seconds the
 * attack ends, and the same number of harmless processes on the same processor replaces it (load.pl). They only
 * compute, sleep, start and end. So both are compared on the machine as it is at that time. The node's operator queries
 * the victim's source all the time.
 */
@Tag("soak")
class UnderAttackIT {
    private static final Logger LOG = LoggerFactory.getLogger(UnderAttackIT.class);
    private static final int VICTIM = 20_001;
    private static final int ATTACKER = 20_002;
    private static final int QUIET_USER = 20_003;
    private static final List<String> ATTACKERS_JOBS = List.of("usual", "threads", "tables", "descriptors");
    private static final int WARM_UP = 3;
    private static final int LEAST_OF_A_KIND = 15;
    /** Each period is short, so that both kinds meet the same other load of the machine. */
    private static final Duration BLOCK = Duration.ofSeconds(5);

    private static final Duration PATIENCE = Patience.of(Duration.ofSeconds(90));
    /** The maximum median under attack, in medians beside load, and the longest migration. */
    private static final double MOST_TIMES = 2;

    private static final double MOST_TIMES_FOR_ONE = 5;

    /** The time limit of the operator's answers, also where the machine itself is slower beside load. */
    private static final double ANSWER_SECONDS = 1;

    private static final Duration TURN = Patience.of(Duration.ofMinutes(1));
    private static final String QUIET = "quiet";
    private static final String NO_ID = "0".repeat(36);

    private static final int ATTACKS = 14;
    /** As many as there are attacks that never pause, except for the one that starts processes. */
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
    private ReplayJob slow;
    private RealServices services;
    private RealServices attackersSource;
    private List<Integer> metricsPorts = List.of();
    private Moving moving;
    private Process source;

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

    /**
     * @param seconds the duration from the start of its turn, which came this number of seconds after the request
     */
    private record Moved(MigrationReport report, double seconds, double turnSeconds) {}

    /** A job that is moved again and again, each time with a process of its own. */
    private record Job(Path socket, String name, Path pidFile, int uid, List<String> program) {
        /** A job whose process only sleeps. */
        static Job sleeping(Path socket, String name, Path pidFile, int uid) {
            return new Job(socket, name, pidFile, uid, List.of("sleep", "600"));
        }

        /** The process, when it runs its program. */
        private Process original() throws Exception {
            Process original = new ProcessBuilder(as(uid, program.toArray(String[]::new)))
                    .redirectErrorStream(true)
                    .start();
            if (program.get(0).equals("sleep")) {
                Path comm = Path.of("/proc", Long.toString(original.pid()), "comm");
                // The process must no longer be the one that becomes the user.
                Conditions.until("the job runs", () -> Files.readString(comm).equals("sleep\n"));
            } else {
                byte[] said = original.getInputStream().readNBytes("ready\n".length());
                assertEquals("ready\n", new String(said, StandardCharsets.US_ASCII));
            }
            return original;
        }

        Moved move() throws Exception {
            Process original = original();
            List<ProcessHandle> others = original.descendants().toList();
            try {
                Files.writeString(pidFile, original.pid() + "\n");
                long askedNs = System.nanoTime();
                try (ControlClient client = startInTurn()) {
                    long startNs = System.nanoTime();
                    MigrationReport report = client.awaitReport(PATIENCE, progress -> {});
                    double seconds = (System.nanoTime() - startNs) / 1e9;
                    report.ranks().forEach(rank -> rank.pids()
                            .forEach(pid -> ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly)));
                    return new Moved(report, seconds, (startNs - askedNs) / 1e9);
                }
            } finally {
                others.forEach(ProcessHandle::destroyForcibly);
                original.destroyForcibly();
            }
        }

        /** Starts it when no other one runs, because a source moves one job at a time. The caller closes it. */
        private ControlClient startInTurn() throws Exception {
            List<ControlClient> started = new ArrayList<>();
            Conditions.until(TURN, "the turn of job " + name + " comes", () -> {
                ControlClient client = new ControlClient(socket);
                try {
                    client.start(name, true);
                    started.add(client);
                    return true;
                } catch (RequestException e) {
                    client.close();
                    assertTrue(e.getMessage().contains("is being migrated"), e.getMessage());
                    return false;
                }
            });
            return started.get(0);
        }
    }

    /** The attacker's own jobs are moved all the time. Their end under attack is not checked. */
    private static final class Moving extends Thread {
        private final List<Job> jobs;
        private final int first;
        private final Map<String, Integer> outcomes = new TreeMap<>();
        private volatile boolean over;
        private volatile Exception failure;

        /** @param first the job to begin with, of which none may be left out however short an attack is */
        Moving(List<Job> jobs, int first) {
            super("attacker's jobs");
            this.jobs = jobs;
            this.first = first;
        }

        @Override
        public void run() {
            for (int i = first; !over; i++) {
                Job job = jobs.get(i % jobs.size());
                try {
                    Outcome outcome = job.move().report().outcome();
                    outcomes.merge(job.name() + " " + outcome, 1, Integer::sum);
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

    /** Queries the victim's source as the node's operator does, and stores the longest wait of each kind in seconds. */
    private final class Operator extends Thread {
        private final Map<String, Double> longest = new TreeMap<>();
        private volatile boolean over;
        private volatile Exception failure;

        Operator() {
            super("operator");
        }

        @Override
        public void run() {
            try {
                while (!over) {
                    timed("status", this::status);
                    timed("cancel", this::cancel);
                    long before = Files.size(log());
                    timed("signal", () -> signal(before));
                }
            } catch (Exception e) {
                failure = e;
            }
        }

        private void timed(String what, Callable<Void> asks) throws Exception {
            long startNs = System.nanoTime();
            asks.call();
            longest.merge(what, (System.nanoTime() - startNs) / 1e9, Math::max);
        }

        private Void status() throws Exception {
            try (ControlClient client = new ControlClient(services.socket("source"))) {
                client.status();
            }
            return null;
        }

        /** The answer is that there is none of that name. */
        private Void cancel() throws Exception {
            try (ControlClient client = new ControlClient(services.socket("source"))) {
                assertThrows(RequestException.class, () -> client.cancel(NO_ID));
            }
            return null;
        }

        private Path log() {
            return directory.resolve("source.log");
        }

        /** The answer to the signal is a line of the log. */
        private Void signal(long before) throws Exception {
            assertEquals(
                    0,
                    new ProcessBuilder("kill", "-USR2", "" + source.pid())
                            .start()
                            .waitFor());
            Conditions.until("the signal is answered", () -> {
                try (SeekableByteChannel log = Files.newByteChannel(log())) {
                    log.position(before);
                    return new String(Channels.newInputStream(log).readAllBytes(), StandardCharsets.UTF_8)
                            .contains("SIGUSR2: ");
                }
            });
            return null;
        }

        Map<String, Double> end() throws Exception {
            over = true;
            join(PATIENCE.toMillis());
            if (failure != null) {
                throw failure;
            }
            return longest;
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
        victims = job(directory, List.of("open image wcxn", "write 64m 64k", "close"), "read 64m 64k");
        attackers = job(
                own, List.of("pause 1500", "open image wcxn", "write 1m 64k", "pause 1000", "close"), "read 1m 64k");
        List<String> little = new ArrayList<>(List.of("open image wcxn"));
        for (int i = 0; i < 300; i++) {
            little.addAll(List.of("write 8k 8k", "pause 400"));
        }
        little.add("close");
        Path slows = Files.createDirectory(directory.resolve("slow"));
        Files.setPosixFilePermissions(slows, PosixFilePermissions.fromString("rwxr-xr-x"));
        slow = job(slows, little, "read 8k 8k");
        // The target has the tools of all, by different names.
        metricsPorts =
                List.of(Nodes.unusedAddress().getPort(), Nodes.unusedAddress().getPort());
        services.sections(
                "",
                attackers.toml().replace(".replay]", ".attackers]")
                        + slow.toml().replace(".replay]", ".slow]")
                        + metrics(metricsPorts.get(1)));
        services.startTarget(victims);
        Path pids = Files.createDirectory(directory.resolve("pids"));
        Path attackersFolder = Files.createDirectory(directory.resolve("attackers"));
        Files.setAttribute(attackersFolder, "unix:uid", ATTACKER);
        // It is no user's process, so it is refused at once.
        Path root =
                Files.writeString(pids.resolve(QUIET), ProcessHandle.current().pid() + "\n");
        source = services.startSource(
                "trigger_job = \"" + QUIET + "\"",
                // The key belongs to an optional part.
                ConfigRoles.all().get(0).topNames().contains("announcements")
                        ? "[announcements]\ndirectory = \"" + directory.resolve("announced") + "\""
                        : "",
                target(),
                metrics(metricsPorts.get(0)),
                victims.toml(),
                slow.toml().replace(".replay]", ".slow]"),
                jobToml("victim", "replay", pids.resolve("victim"), VICTIM),
                jobToml(QUIET, "replay", root, QUIET_USER),
                jobToml("slow", "slow", pids.resolve("slow"), ATTACKER),
                jobToml("attackers", "replay", attackersFolder.resolve("pid"), ATTACKER));
        List<String> sections =
                new ArrayList<>(List.of(target(), attackers.toml().replace(".replay]", ".attackers]")));
        for (String job : ATTACKERS_JOBS) {
            sections.add(jobToml(job, "attackers", pids.resolve(job), ATTACKER));
        }
        attackersSource.startSource("", sections.toArray(String[]::new));
    }

    /** The attacker's jobs in the other source: the last ones are refused for their descriptors. */
    private List<Job> attackersJobs(boolean underAttack) {
        String crowd = System.getProperty("ppmr.demo.dir") + "/crowd-job";
        List<List<String>> programs = List.of(
                List.of("sleep", "600"),
                List.of(crowd, "300", "8000", "shared"),
                List.of(crowd, "300", "8000", "own"),
                List.of(crowd, "1", "12000", "named", "12"));
        List<Job> jobs = new ArrayList<>();
        for (int i = 0; i < (underAttack ? programs.size() : 1); i++) {
            String name = ATTACKERS_JOBS.get(i);
            jobs.add(new Job(
                    attackersSource.socket("source"),
                    name,
                    directory.resolve("pids").resolve(name),
                    ATTACKER,
                    programs.get(i)));
        }
        return jobs;
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

    private static String jobToml(String name, String checkpointer, Path pidFile, int uid) {
        return """
                [jobs.%4$s]
                user = %1$d
                group = %1$d
                checkpointer = "%2$s"
                ranks = [{rank = 0, pid_file = "%3$s"}]
                """.formatted(uid, checkpointer, pidFile, name);
    }

    @AfterEach
    void end() throws Exception {
        try {
            stop();
        } finally {
            attackersSource.close();
            services.close();
            slow.close();
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
            // The process that started the others is killed first, so that no further one is started.
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
                "hello=" + ProtocolVersion.NEWEST.number() + "," + ProtocolVersion.OLDEST.number() + ",1,1",
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

    /**
     * The attacker's job whose PID file is no PID file. It fails with a message that names the cause, in time, and no
     * other job fails.
     */
    private void failsByItsPidFile() throws Exception {
        String said;
        Job job = Job.sleeping(services.socket("source"), "attackers", directory.resolve("attackers/pid"), ATTACKER);
        try (ControlClient client = job.startInTurn()) {
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
        Job job = victim();
        for (int i = 0; i < WARM_UP; i++) {
            commits(job);
        }
        String key = Files.readString(directory.resolve("key"));
        List<Double> attacked = new ArrayList<>();
        List<Double> loaded = new ArrayList<>();
        Map<String, Integer> attackersOutcomes = new TreeMap<>();
        Map<String, Double> answersAttacked = new TreeMap<>();
        Map<String, Double> answersLoaded = new TreeMap<>();
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
            Moving own = new Moving(attackersJobs(underAttack), block / 2);
            moving = own;
            own.start();
            Operator operator = new Operator();
            operator.start();
            long blockEndNs = System.nanoTime() + BLOCK.toNanos();
            do {
                (underAttack ? attacked : loaded).add(commits(job));
            } while (System.nanoTime() - blockEndNs < 0);
            if (underAttack) {
                failsByItsPidFile();
                requireMeters();
            }
            Map<String, Double> answers = operator.end();
            answers.forEach(
                    (what, seconds) -> (underAttack ? answersAttacked : answersLoaded).merge(what, seconds, Math::max));
            stop();
            own.outcomes.forEach((outcome, count) -> attackersOutcomes.merge(outcome, count, Integer::sum));
        }
        Map<String, long[]> counts = counts();
        StringBuilder told = new StringBuilder();
        counts.forEach(
                (name, count) -> told.append(' ').append(name).append(' ').append(count[0]));
        LOG.info("attacks:{}; the attacker's own migrations: {}", told, attackersOutcomes);
        assertEquals(ATTACKS, counts.size(), "each attack was made:" + told);
        for (String name : ATTACKERS_JOBS) {
            assertTrue(
                    attackersOutcomes.keySet().stream().anyMatch(outcome -> outcome.startsWith(name + " ")),
                    "job " + name + " was moved: " + attackersOutcomes);
        }
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
        requireNotHeldUp(attacked, loaded);
        requireAnswers(answersAttacked, answersLoaded);
    }

    private void requireNotHeldUp(List<Double> attacked, List<Double> loaded) {
        double median = median(loaded);
        String found = "%d migrations under attack, median %.2f s, longest %.2f s; %d beside load, %.2f and %.2f s"
                .formatted(
                        attacked.size(), median(attacked), longest(attacked), loaded.size(), median, longest(loaded));
        LOG.info("{}: {} and {} times that median", found, median(attacked) / median, longest(attacked) / median);
        assertTrue(median(attacked) <= MOST_TIMES * median, found + "; seed " + seed);
        // A machine that delays the load without an attack delays all.
        assertTrue(
                longest(attacked) <= Math.max(MOST_TIMES_FOR_ONE * median, longest(loaded)), found + "; seed " + seed);
    }

    private void requireAnswers(Map<String, Double> attacked, Map<String, Double> loaded) {
        LOG.info("the operator waited at most so many seconds under attack {}, beside load {}", attacked, loaded);
        attacked.forEach((what, seconds) -> assertTrue(
                seconds <= Math.max(ANSWER_SECONDS, loaded.get(what)),
                what + " took " + seconds + " s under attack, and at most " + loaded.get(what) + " s beside load"));
    }

    private Job victim() {
        return Job.sleeping(services.socket("source"), "victim", directory.resolve("pids/victim"), VICTIM);
    }

    /** The attacker's tool waits more than it writes, so this migration fails, and the victim's turn follows. */
    @Test
    @Timeout(value = 30, unit = TimeUnit.MINUTES, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldComeToTheNextJobWithinAMinuteWhileAnotherToolWritesNextToNothing() throws Exception {
        Job job = victim();
        for (int i = 0; i < WARM_UP; i++) {
            commits(job);
        }
        Job slowJob = Job.sleeping(services.socket("source"), "slow", directory.resolve("pids/slow"), ATTACKER);
        List<Double> attacked = new ArrayList<>();
        List<Double> loaded = new ArrayList<>();
        List<Double> turns = new ArrayList<>();
        Operator operator = new Operator();
        operator.start();
        for (int i = 0; i < LEAST_OF_A_KIND; i++) {
            load();
            loaded.add(commits(job));
            CountDownLatch begun = new CountDownLatch(1);
            FutureTask<MigrationReport> drawn = new FutureTask<>(() -> drawnOut(slowJob, begun));
            new Thread(drawn, "slow job").start();
            assertTrue(begun.await(PATIENCE.toSeconds(), TimeUnit.SECONDS), "the slow job's migration begins");
            Moved moved = job.move();
            assertEquals(
                    Outcome.COMMITTED,
                    moved.report().outcome(),
                    () -> moved.report().reason() + logs());
            attacked.add(moved.seconds());
            turns.add(moved.turnSeconds());
            MigrationReport report = drawn.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
            assertTrue(report.slow(), report.reason());
            stop();
        }
        Map<String, Double> answers = operator.end();
        LOG.info(
                "turns came after at most {} s, median {} s; the operator waited at most so many seconds {}",
                longest(turns),
                median(turns),
                answers);
        requireNotHeldUp(attacked, loaded);
        assertTrue(longest(answers.values()) <= ANSWER_SECONDS, "the operator waited: " + answers);
    }

    private static MigrationReport drawnOut(Job job, CountDownLatch begun) throws Exception {
        Process original = job.original();
        try {
            Files.writeString(job.pidFile(), original.pid() + "\n");
            try (ControlClient client = job.startInTurn()) {
                begun.countDown();
                return client.awaitReport(PATIENCE, progress -> {});
            }
        } finally {
            original.destroyForcibly();
        }
    }

    /** Runs one migration, which must succeed. Returns its seconds. */
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

    private static double longest(Collection<Double> seconds) {
        return seconds.stream().max(Double::compare).orElseThrow();
    }

    private static double median(List<Double> seconds) {
        List<Double> sorted = seconds.stream().sorted().toList();
        return sorted.get(sorted.size() / 2);
    }
}
