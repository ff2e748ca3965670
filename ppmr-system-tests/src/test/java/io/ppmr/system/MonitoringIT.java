package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.monitoring.MonitoringFiles;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Prometheus scrapes a real source and target while they move a job, roll one back and hold one. Every expression of
 * the dashboard finds data, and the alert rules see what happened.
 */
@Tag("soak")
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class MonitoringIT {
    private static final String SEPARATOR = ": ";

    @TempDir
    private Path directory;

    /** A Prometheus of this test, on a port of its own. */
    private static final class Prometheus implements AutoCloseable {
        private final Process process;
        private final int port = Nodes.unusedAddress().getPort();
        private final double startS = nowS();

        Prometheus(Path directory, int sourcePort, int targetPort) throws IOException {
            Files.createDirectory(directory);
            Path rules = directory.resolve("rules.yml");
            Files.copy(MonitoringFiles.rules(), rules);
            Path config = Files.writeString(
                    directory.resolve("prometheus.yml"), """
                    global: {scrape_interval: 500ms, evaluation_interval: 500ms}
                    rule_files: ["%s"]
                    scrape_configs:
                      - job_name: ppmr-source
                        static_configs: [{targets: ["127.0.0.1:%d"]}]
                      - job_name: ppmr-target
                        static_configs: [{targets: ["127.0.0.1:%d"]}]
                    """.formatted(rules, sourcePort, targetPort));
            process = new ProcessBuilder(
                            MonitoringFiles.program("prometheus"),
                            "--config.file=" + config,
                            "--storage.tsdb.path=" + directory.resolve("data"),
                            "--web.listen-address=127.0.0.1:" + port)
                    .redirectErrorStream(true)
                    .redirectOutput(directory.resolve("log").toFile())
                    .start();
        }

        private static double nowS() {
            return System.currentTimeMillis() / 1000.0;
        }

        private JsonNode get(String path) throws IOException {
            try (InputStream in =
                    URI.create("http://127.0.0.1:" + port + path).toURL().openStream()) {
                return new ObjectMapper().readTree(in).get("data").get("result");
            }
        }

        private static String encoded(String expression) {
            return URLEncoder.encode(expression, StandardCharsets.UTF_8);
        }

        /** Returns the present value of an expression, or 0 without data. */
        double value(String expression) {
            try {
                JsonNode result = get("/api/v1/query?query=" + encoded(expression));
                return result.isEmpty() ? 0 : result.get(0).get("value").get(1).asDouble();
            } catch (IOException e) {
                // It starts, or loads its data.
                return 0;
            }
        }

        /** Returns the number of finite values of an expression since the start of this Prometheus. */
        int finiteValues(String expression) throws IOException {
            int finite = 0;
            for (JsonNode series : get("/api/v1/query_range?query=" + encoded(expression) + "&start=" + startS + "&end="
                    + nowS() + "&step=0.5")) {
                for (JsonNode value : series.get("values")) {
                    finite += Double.isFinite(Double.parseDouble(value.get(1).asText())) ? 1 : 0;
                }
            }
            return finite;
        }

        void awaitValue(String expression, double least) throws Exception {
            Conditions.until(expression + " reaches " + least, () -> value(expression) >= least);
        }

        @Override
        public void close() {
            process.destroy();
            try {
                if (!process.waitFor(Patience.of(30), TimeUnit.SECONDS)) {
                    process.destroyForcibly();
                }
            } catch (InterruptedException e) {
                process.destroyForcibly();
                Thread.currentThread().interrupt();
            }
        }
    }

    @Test
    void shouldShowEveryPanelWhenAMigrationIsCommittedRolledBackOrHeld() throws Exception {
        Assumptions.assumeTrue(
                Files.isExecutable(Path.of(MonitoringFiles.program("prometheus"))),
                "Debian's package prometheus is not here");
        int sourcePort = Nodes.unusedAddress().getPort();
        int targetPort = Nodes.unusedAddress().getPort();
        try (KillablePair pair = new KillablePair(
                        Files.createTempDirectory(directory, "pair"),
                        metrics(targetPort) + "[[rails]]\nname = \"lo\"\naddress = \"127.0.0.1:{port}\"\n",
                        metrics(sourcePort) + "[[rails]]\nname = \"lo\"\naddress = \"127.0.0.1\"\n");
                Prometheus prometheus = new Prometheus(directory.resolve("prometheus"), sourcePort, targetPort)) {
            prometheus.awaitValue("sum(up)", 2);
            commit(pair);
            prometheus.awaitValue("ppmr_source_migrations_total{outcome=\"committed\"}", 1);
            requireData(prometheus, "committed");
            rollBack(pair);
            prometheus.awaitValue("count(ALERTS{alertname=\"PpmrMigrationRolledBack\",alertstate=\"firing\"})", 1);
            hold(pair, prometheus);
            requireData(prometheus, "held");
        }
    }

    private static String metrics(int port) {
        return "[metrics]\nport = " + port + "\n";
    }

    private static void awaitIdle(KillablePair pair) throws Exception {
        Conditions.until("the migration ends", () -> {
            try (ControlClient client = new ControlClient(pair.socket(KillablePair.SOURCE))) {
                return !client.status().busy();
            }
        });
    }

    private static void commit(KillablePair pair) throws Exception {
        try (LedgerJob job = pair.job()) {
            pair.migrate();
            awaitIdle(pair);
            job.runsThere();
            job.killCopies();
        }
    }

    private static void rollBack(KillablePair pair) throws Exception {
        try (LedgerJob job = pair.job()) {
            job.restarts(1, "read 1m", "touch " + job.mark("read"), "await " + job.mark("go"));
            String id = pair.migrate();
            job.awaitMark("read");
            try (ControlClient client = new ControlClient(pair.socket(KillablePair.SOURCE))) {
                client.cancel(id);
            }
            awaitIdle(pair);
            try (ControlClient client = new ControlClient(pair.socket(KillablePair.SOURCE))) {
                assertEquals(
                        MigrationReport.Outcome.ROLLED_BACK,
                        client.status().last().outcome());
            }
            job.runsHere();
        }
    }

    /** An original is lost, and no copy can be made: the source holds the other one until an operator decides. */
    private static void hold(KillablePair pair, Prometheus prometheus) throws Exception {
        try (LedgerJob job = pair.job()) {
            job.restarts(1, "read 1m", "touch " + job.mark("read"), "await " + job.mark("go"), "open missing r");
            String id = pair.migrate();
            job.awaitMark("read");
            pair.awaitRecord(KillablePair.SOURCE, id, TransactionRecord.Sealed.class);
            job.killOriginal(0);
            job.set("go");
            pair.awaitRecord(KillablePair.SOURCE, id, TransactionRecord.Broken.class);
            prometheus.awaitValue("ppmr_source_migrations_held", 1);
            prometheus.awaitValue("count(ALERTS{alertname=\"PpmrMigrationHeld\",alertstate=\"pending\"})", 1);
        }
    }

    /** Requires that each expression of each panel gets a finite value. The last scrape may be yet to come. */
    private static void requireData(Prometheus prometheus, String when) throws Exception {
        Set<String> empty = new TreeSet<>();
        for (MonitoringFiles.DashboardPanel panel : MonitoringFiles.panels("4s")) {
            panel.expressions().forEach(expression -> empty.add(panel.title() + SEPARATOR + expression));
        }
        try {
            Conditions.until("every panel has data", () -> {
                for (String one : List.copyOf(empty)) {
                    if (prometheus.finiteValues(one.substring(one.indexOf(SEPARATOR) + SEPARATOR.length())) > 0) {
                        empty.remove(one);
                    }
                }
                return empty.isEmpty();
            });
        } catch (TimeoutException e) {
            assertEquals(Set.of(), empty, when);
        }
    }
}
