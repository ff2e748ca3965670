package io.ppmr.bench;

import io.ppmr.cluster.message.ClusterMessage;
import io.ppmr.cluster.record.SpareNeeds;
import io.ppmr.cluster.zookeeper.ClusterUser;
import io.ppmr.daemon.config.KeyFile;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.ProcessFigures;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.Testbed;
import io.ppmr.transport.auth.PreSharedKey;
import io.ppmr.transport.tcp.Connector;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.time.Duration;
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

    @Override
    Result measure() throws Exception {
        return service ? measureService() : measureController();
    }

    /** Both targets run at the same time, so what else the machine does changes neither alone. */
    private Result measureService() throws Exception {
        Map<String, Object> details = new LinkedHashMap<>();
        try (Testbed testbed = Testbed.create("bench")) {
            Path folder = testbed.folder();
            int questions = freePort();
            startController(testbed, questions, freePort());
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
                """.formatted(freePort(), testbed.folder().resolve(name + ".sock")) + cluster + """
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

    private static ServiceProcess startController(Testbed testbed, int questions, int clients) throws Exception {
        Path folder = testbed.folder();
        KeyFile.create(folder.resolve("key"));
        KeyFile.create(folder.resolve("controller-key"));
        return testbed.add(ServiceProcess.start(
                "controller", folder, """
                listen = "127.0.0.1:%d"
                client_port = %d
                key_file = "key"
                controller_key_file = "controller-key"
                data = "data"
                control_socket = "%s"
                """.formatted(questions, clients, folder.resolve("controller.sock"))));
    }

    private Result measureController() throws Exception {
        Map<String, Object> details = new LinkedHashMap<>();
        Run idle;
        try (Testbed testbed = Testbed.create("bench")) {
            Path folder = testbed.folder();
            int questions = freePort();
            int clients = freePort();
            Path socket = folder.resolve("controller.sock");
            ServiceProcess controller = startController(testbed, questions, clients);
            PreSharedKey key = PreSharedKey.load(folder.resolve("key"));
            Duration session = Duration.ofSeconds(20);
            try (ManySessions many = new ManySessions(
                    new InetSocketAddress(InetAddress.getLoopbackAddress(), clients),
                    ClusterUser.service(key),
                    ClusterUser.controller(PreSharedKey.load(folder.resolve("controller-key"))),
                    session,
                    sessions)) {
                long startNs = System.nanoTime();
                many.start();
                Conditions.until(LIMIT, "all sessions are there", () -> many.created() == sessions);
                double created = seconds(startNs);
                Conditions.until(LIMIT, "all nodes are up", () -> shows(socket, sessions + " up"));
                put(details, "sessions", sessions);
                put(details, "seconds until all records were there", created);
                put(details, "seconds until the controller showed all", seconds(startNs));
                idle = idle(controller, details);
                spares(questions, key, details);
                long silentNs = System.nanoTime();
                many.mute(lost);
                Conditions.until(LIMIT, "the lost ones are shown", () -> shows(socket, lost + " service_down"));
                put(details, "seconds until " + lost + " lost services were shown", seconds(silentNs));
                put(details, "of which the session's time-out", (double) session.toSeconds());
            }
        }
        return result(List.of(idle), null, details);
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

    private Run idle(ServiceProcess controller, Map<String, Object> details) throws IOException {
        ProcessFigures before = controller.figures();
        long startNs = System.nanoTime();
        LockSupport.parkNanos(Duration.ofSeconds(idleSeconds).toNanos());
        Run run = figures(controller, before, startNs);
        put(details, "percent of a processor, idle", run.cpuPercent);
        put(details, "wake-ups a second, idle", run.wakeupsPerSecond);
        put(details, "most resident MiB", run.peakRssBytes / MIB);
        return run;
    }

    /** One connection sends all questions, so the handshake is not measured. */
    private void spares(int port, PreSharedKey key, Map<String, Object> details) throws IOException {
        ClusterMessage question =
                new ClusterMessage.FindSpares(new SpareNeeds("other", "", SpareNeeds.Where.ANY, "criu", 1, 0));
        long[] times = new long[QUESTIONS];
        try (Connector.TargetRequests requests = new Connector(
                        new InetSocketAddress(InetAddress.getLoopbackAddress(), port), key, QUESTION_LIMIT)
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

    private static int freePort() throws IOException {
        try (ServerSocket free = new ServerSocket(0)) {
            return free.getLocalPort();
        }
    }
}
