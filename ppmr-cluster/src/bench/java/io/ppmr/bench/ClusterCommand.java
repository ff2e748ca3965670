package io.ppmr.bench;

import io.ppmr.cluster.message.ClusterMessage;
import io.ppmr.cluster.record.SpareNeeds;
import io.ppmr.cluster.testbed.ClusterNodes;
import io.ppmr.cluster.testbed.ClusterNodes.ClusterNode;
import io.ppmr.cluster.zookeeper.ClusterUser;
import io.ppmr.daemon.config.KeyFile;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.FreePorts;
import io.ppmr.testbed.ProcessFigures;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.Testbed;
import io.ppmr.transport.auth.PreSharedKey;
import io.ppmr.transport.tcp.Connector;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** Measures a controller with many sessions of services. */
@Command(
        name = "cluster",
        description = "one controller with many sessions: time until all are there, its memory and processor time when"
                + " idle, time until lost ones are shown, time of a question for a spare node",
        mixinStandardHelpOptions = true)
public final class ClusterCommand extends ServiceCommands.ServiceCommand {
    private static final Duration LIMIT = Duration.ofMinutes(5);
    private static final int USER = 20001;
    /** One address of the loopback network for each controller. */
    private static final List<String> HOSTS = List.of("127.0.0.1", "127.0.0.2", "127.0.0.3");

    private static final Duration QUESTION_LIMIT = Duration.ofSeconds(5);
    private static final int QUESTIONS = 1000;
    private static final double PERCENT = 100;
    private static final double MICRO = 1e3;
    private static final double NANO = 1e9;
    private static final double MIB = 1 << 20;

    @Option(
            names = "--sessions",
            paramLabel = "N",
            defaultValue = "10000",
            description = "how many services (default: ${DEFAULT-VALUE})")
    private int sessions;

    @Option(
            names = "--lost",
            paramLabel = "N",
            defaultValue = "100",
            description = "how many of them fall silent (default: ${DEFAULT-VALUE})")
    private int lost;

    @Option(
            names = "--idle",
            paramLabel = "SECONDS",
            defaultValue = "60",
            description = "how long the idle controller is measured (default: ${DEFAULT-VALUE})")
    private int idleSeconds;

    @Option(
            names = "--service",
            description = "measure instead an idle service that has a session, beside one without a cluster")
    private boolean service;

    @Option(
            names = "--controllers",
            paramLabel = "N",
            defaultValue = "1",
            description = "how many controllers, one or three, which share the sessions (default: ${DEFAULT-VALUE})")
    private int controllers;

    @Option(
            names = "--migrations",
            paramLabel = "N",
            defaultValue = "0",
            description = "measure instead N migrations to a spare that the controller chooses, in turn with N to one"
                    + " that the configuration names")
    private int migrations;

    @Option(
            names = "--members",
            paramLabel = "N",
            split = ",",
            description = "measure instead checkpoints of a job over N nodes, whose sources are played")
    private List<Integer> members = List.of();

    @Option(
            names = "--checkpoints",
            paramLabel = "N",
            defaultValue = "7",
            description = "with --members, how many checkpoints of each job (default: ${DEFAULT-VALUE})")
    private int checkpoints;

    @Override
    Result measure() throws Exception {
        if (migrations > 0) {
            return measureMigrations();
        }
        if (!members.isEmpty()) {
            return measureMembers();
        }
        return service ? measureService() : measureController();
    }

    /** Each source moves a process that sleeps, so that the choice of the spare is a large part. */
    private Result measureMigrations() throws Exception {
        Map<String, Object> details = new LinkedHashMap<>();
        Map<String, List<Double>> milliseconds = new LinkedHashMap<>();
        List<Run> runs = new ArrayList<>();
        try (Testbed testbed = Testbed.create("bench")) {
            Files.setPosixFilePermissions(testbed.folder(), PosixFilePermissions.fromString("rwxr-xr-x"));
            ClusterNodes cluster = new ClusterNodes(testbed, "2s", "20s");
            ClusterNode control = cluster.add("control");
            control.controller("");
            ClusterNode spare = cluster.add("spare");
            ServiceProcess target =
                    spare.beginTarget(ClusterNodes.quoted(control), "migrations = 32\n", ClusterNodes.criu(USER) + """
                    [staging]
                    limit = "64m"
                    """);
            List<ServiceProcess> started = new ArrayList<>(List.of(target));
            Map<String, ClusterNode> sources = new LinkedHashMap<>();
            for (String way : List.of("addresses", "cluster")) {
                ClusterNode source = cluster.add("by-" + way);
                String to = way.equals("cluster")
                        ? "cluster = true"
                        : "addresses = [\"%s:%d\"]".formatted(spare.address(), ClusterNodes.TARGET_PORT);
                StringBuilder jobs = new StringBuilder();
                for (int i = 0; i < migrations; i++) {
                    jobs.append(cluster.job(way + i, USER));
                }
                started.add(source.beginSource(
                        ClusterNodes.quoted(control), "", ClusterNodes.criu(USER) + "[target]\n" + to + "\n" + jobs));
                sources.put(way, source);
            }
            for (ServiceProcess service : started) {
                service.awaitReady(LIMIT);
            }
            for (ClusterNode node : List.of(spare, sources.get("addresses"), sources.get("cluster"))) {
                ClusterNodes.await(control.socket("controller"), node, "up", LIMIT);
            }
            for (int i = 0; i < migrations; i++) {
                for (Map.Entry<String, ClusterNode> source : sources.entrySet()) {
                    String job = source.getKey() + i;
                    source.getValue().startJob(job, USER);
                    Run run = move(source.getValue(), job);
                    runs.add(run);
                    milliseconds
                            .computeIfAbsent(source.getKey(), way -> new ArrayList<>())
                            .add(run.seconds * 1000);
                    spare.node().run(LIMIT, "pkill", "-KILL", "-u", "" + USER, "sleep");
                }
            }
        }
        Map<String, Double> medians = new LinkedHashMap<>();
        milliseconds.forEach((way, all) -> {
            medians.put(way, all.stream().sorted().toList().get(all.size() / 2));
            put(details, "milliseconds by " + way + ", median", medians.get(way));
        });
        put(details, "milliseconds more by cluster", medians.get("cluster") - medians.get("addresses"));
        return result(runs, null, details);
    }

    private static Run move(ClusterNode source, String job) throws Exception {
        try (ControlClient client = new ControlClient(source.socket("source"))) {
            long startNs = System.nanoTime();
            client.start(job, true);
            MigrationReport report = client.awaitReport(LIMIT, progress -> {});
            if (report.outcome() != MigrationReport.Outcome.COMMITTED) {
                throw new IOException("job " + job + " was not moved: " + report);
            }
            return new Run(0, seconds(startNs));
        }
    }

    /** Both targets run at the same time, so what else the machine does changes neither alone. */
    private Result measureService() throws Exception {
        Map<String, Object> details = new LinkedHashMap<>();
        try (Testbed testbed = Testbed.create("bench")) {
            Path folder = testbed.folder();
            int questions = FreePorts.one();
            startController(testbed, questions, FreePorts.one());
            String cluster = """
                    [cluster]
                    controllers = ["127.0.0.1:%d"]
                    """.formatted(questions);
            ServiceProcess with = begin(testbed, "with", cluster);
            ServiceProcess without = begin(testbed, "without", "");
            with.awaitReady(LIMIT);
            without.awaitReady(LIMIT);
            Path socket = folder.resolve("controller.sock");
            Conditions.until(LIMIT, "the node is up", () -> shows(socket, "1 up"));
            Map<ServiceProcess, ProcessFigures> before = Map.of(with, with.figures(), without, without.figures());
            long startNs = System.nanoTime();
            LockSupport.parkNanos(Duration.ofSeconds(idleSeconds).toNanos());
            Run run = figures(with, before.get(with), startNs);
            Run other = figures(without, before.get(without), startNs);
            put(details, "percent of a processor more", run.cpuPercent - other.cpuPercent);
            put(details, "wake-ups a second more", run.wakeupsPerSecond - other.wakeupsPerSecond);
            put(details, "MiB resident more", (run.peakRssBytes - other.peakRssBytes) / MIB);
            return result(List.of(run, other), null, details);
        }
    }

    private static ServiceProcess begin(Testbed testbed, String name, String cluster) throws Exception {
        return testbed.add(ServiceProcess.begin(
                null,
                ServiceProcess.java(),
                name,
                testbed.folder(),
                List.of("target"),
                """
                listen = "127.0.0.1:%d"
                key_file = "key"
                control_socket = "%s"
                transport = "tcp"
                warm_up_migrations = 0
                """.formatted(FreePorts.one(), testbed.folder().resolve(name + ".sock")) + cluster + """
                [checkpointers.none]
                type = "command"
                checkpoint = ["/bin/true"]
                restart = ["/bin/true"]
                """));
    }

    private static Run figures(ServiceProcess service, ProcessFigures before, long startNs) throws IOException {
        ProcessFigures after = service.figures();
        Run run = new Run(0, seconds(startNs));
        run.cpuPercent = PERCENT * (after.cpuSeconds() - before.cpuSeconds()) / run.seconds;
        run.wakeupsPerSecond = (after.wakeUps() - before.wakeUps()) / run.seconds;
        run.peakRssBytes = after.peakRssBytes();
        return run;
    }

    /** A controller of the measurement, and its control socket. */
    private record Controlling(ServiceProcess process, Path socket) {}

    private static ServiceProcess startController(Testbed testbed, int questions, int clients) throws Exception {
        keys(testbed.folder());
        ServiceProcess controller = begin(testbed, testbed.folder(), HOSTS.get(0), questions, clients, "")
                .process();
        controller.awaitReady(LIMIT);
        return controller;
    }

    private static void keys(Path folder) throws IOException {
        KeyFile.create(folder.resolve("key"));
        KeyFile.create(folder.resolve("controller-key"));
    }

    private static Controlling begin(Testbed testbed, Path own, String host, int questions, int clients, String lines)
            throws Exception {
        Path socket = own.resolve("controller.sock");
        return new Controlling(
                testbed.add(ServiceProcess.begin(
                        null,
                        ServiceProcess.java(),
                        "controller",
                        own,
                        List.of("controller"),
                        """
                        listen = "%s:%d"
                        client_port = %d
                        key_file = "%s"
                        controller_key_file = "%s"
                        data = "%s"
                        control_socket = "%s"
                        """.formatted(
                                                host,
                                                questions,
                                                clients,
                                                testbed.folder().resolve("key"),
                                                testbed.folder().resolve("controller-key"),
                                                own.resolve("data"),
                                                socket)
                                + lines)),
                socket);
    }

    private List<Controlling> beginControllers(Testbed testbed, int questions, int clients) throws Exception {
        keys(testbed.folder());
        List<Controlling> all = new ArrayList<>();
        List<String> hosts = HOSTS.subList(0, controllers);
        String members = controllers == 1
                ? ""
                : "members = [\"" + String.join("\", \"", hosts) + "\"]\nquorum_port = " + FreePorts.one()
                        + "\nelection_port = " + FreePorts.one() + "\nme = ";
        for (int me = 1; me <= controllers; me++) {
            all.add(begin(
                    testbed,
                    testbed.folder("controller-" + me),
                    hosts.get(me - 1),
                    questions,
                    clients,
                    members.isEmpty() ? "" : members + me + "\n"));
        }
        for (Controlling one : all) {
            one.process().awaitReady(LIMIT);
        }
        return all;
    }

    /** Each number of members has controllers of its own. */
    private Result measureMembers() throws Exception {
        requireControllers();
        Map<String, Object> details = new LinkedHashMap<>();
        List<Run> runs = new ArrayList<>();
        put(details, "controllers", controllers);
        for (int count : members) {
            try (Testbed testbed = Testbed.create("bench")) {
                measureMembers(testbed, count, runs, details);
            }
        }
        return result(runs, null, details);
    }

    private void measureMembers(Testbed testbed, int count, List<Run> runs, Map<String, Object> details)
            throws Exception {
        int questions = FreePorts.one();
        int clients = FreePorts.one();
        List<Controlling> all = beginControllers(testbed, questions, clients);
        PreSharedKey key = PreSharedKey.load(testbed.folder().resolve("key"));
        PreSharedKey controllerKey = PreSharedKey.load(testbed.folder().resolve("controller-key"));
        List<String> hosts = HOSTS.subList(0, controllers);
        try (ManySessions sessions = new ManySessions(
                        hosts.stream()
                                .map(host -> new InetSocketAddress(host, clients))
                                .toList(),
                        ClusterUser.service(key),
                        ClusterUser.controller(controllerKey),
                        "source",
                        Duration.ofSeconds(20),
                        count);
                PlayedMembers played = new PlayedMembers(
                        hosts.stream()
                                .map(host -> new InetSocketAddress(host, questions))
                                .toList(),
                        key,
                        count)) {
            sessions.start();
            Conditions.until(LIMIT, "all nodes are up", () -> active(all, count + " up") != null);
            long startNs = System.nanoTime();
            played.register(LIMIT);
            put(details, count + " members: seconds until all were registered", seconds(startNs));
            sessions.follow(played.path(), played);
            for (int i = 0; i < checkpoints; i++) {
                Run run = new Run(0, played.checkpoint(LIMIT));
                runs.add(run);
            }
            played.figures().forEach((what, figure) -> put(details, count + " members: " + what, figure));
        }
    }

    private void requireControllers() {
        if (controllers != 1 && controllers != HOSTS.size()) {
            throw new IllegalArgumentException("--controllers must be 1 or " + HOSTS.size());
        }
    }

    private Result measureController() throws Exception {
        requireControllers();
        Map<String, Object> details = new LinkedHashMap<>();
        List<Run> idle = new ArrayList<>();
        try (Testbed testbed = Testbed.create("bench")) {
            Path folder = testbed.folder();
            int questions = FreePorts.one();
            int clients = FreePorts.one();
            List<Controlling> all = beginControllers(testbed, questions, clients);
            PreSharedKey key = PreSharedKey.load(folder.resolve("key"));
            Duration session = Duration.ofSeconds(20);
            try (ManySessions many = new ManySessions(
                    HOSTS.subList(0, controllers).stream()
                            .map(host -> new InetSocketAddress(host, clients))
                            .toList(),
                    ClusterUser.service(key),
                    ClusterUser.controller(PreSharedKey.load(folder.resolve("controller-key"))),
                    "target",
                    session,
                    sessions)) {
                long startNs = System.nanoTime();
                many.start();
                Conditions.until(LIMIT, "all sessions are there", () -> many.created() == sessions);
                double created = seconds(startNs);
                Conditions.until(LIMIT, "all nodes are up", () -> active(all, sessions + " up") != null);
                put(details, "controllers", controllers);
                put(details, "sessions", sessions);
                put(details, "seconds until all records were there", created);
                put(details, "seconds until the controller showed all", seconds(startNs));
                idle.addAll(idle(all, details));
                Controlling active = active(all, sessions + " up");
                spares(HOSTS.get(all.indexOf(active)), questions, key, details);
                long silentNs = System.nanoTime();
                many.mute(lost);
                Conditions.until(LIMIT, "the lost ones are shown", () -> active(all, lost + " service_down") != null);
                put(details, "seconds until " + lost + " lost services were shown", seconds(silentNs));
                put(details, "of which the session's time-out", (double) session.toSeconds());
            }
        }
        return result(idle, null, details);
    }

    /** Returns the active controller if it shows this figure, or null. */
    private static Controlling active(List<Controlling> all, String figure) throws IOException {
        for (Controlling one : all) {
            if (shows(one.socket(), figure)) {
                return one;
            }
        }
        return null;
    }

    private static boolean shows(Path socket, String figure) throws IOException {
        try (ControlClient client = new ControlClient(socket)) {
            return client.status().transport().contains(figure);
        }
    }

    private static double seconds(long startNs) {
        return (System.nanoTime() - startNs) / NANO;
    }

    private void put(Map<String, Object> details, String what, double figure) {
        details.put(what, figure);
        out.printf(Locale.ROOT, "%s: %.2f%n", what, figure);
    }

    private List<Run> idle(List<Controlling> all, Map<String, Object> details) throws IOException {
        List<ProcessFigures> before = new ArrayList<>();
        for (Controlling one : all) {
            before.add(one.process().figures());
        }
        long startNs = System.nanoTime();
        LockSupport.parkNanos(Duration.ofSeconds(idleSeconds).toNanos());
        List<Run> runs = new ArrayList<>();
        for (int i = 0; i < all.size(); i++) {
            Run run = figures(all.get(i).process(), before.get(i), startNs);
            String which = all.size() == 1 ? "" : ", controller " + (i + 1);
            put(details, "percent of a processor, idle" + which, run.cpuPercent);
            put(details, "wake-ups a second, idle" + which, run.wakeupsPerSecond);
            put(details, "most resident MiB" + which, run.peakRssBytes / MIB);
            runs.add(run);
        }
        return runs;
    }

    /** One connection sends all questions, so the handshake is not measured. */
    private void spares(String host, int port, PreSharedKey key, Map<String, Object> details) throws IOException {
        ClusterMessage question =
                new ClusterMessage.FindSpares(new SpareNeeds("other", "", SpareNeeds.Where.ANY, "criu", 1, 0));
        long[] times = new long[QUESTIONS];
        try (Connector.TargetRequests requests = new Connector(new InetSocketAddress(host, port), key, QUESTION_LIMIT)
                .connectForRequests(ClusterMessage::read, QUESTION_LIMIT)) {
            for (int i = 0; i < QUESTIONS; i++) {
                long startNs = System.nanoTime();
                requests.request(() -> question, QUESTION_LIMIT);
                times[i] = System.nanoTime() - startNs;
            }
        }
        Arrays.sort(times);
        put(details, "microseconds to find a spare node, median", times[QUESTIONS / 2] / MICRO);
        put(
                details,
                "microseconds to find a spare node, of a hundred the slowest",
                times[QUESTIONS * 99 / 100] / MICRO);
    }
}
