package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.control.ControlStatus;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.migration.target.Arrival;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The services as processes, controlled and inspected as an operator does. */
@Timeout(value = 240, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ServiceControlIT {
    private static final Duration PATIENCE = Patience.of(Duration.ofSeconds(60));
    private static final String ASKED = "requested by the health command";

    @TempDir
    private Path directory;

    @Tag("soak")
    @Test
    void shouldMoveOnceWhenTheHealthCommandFlaps() throws Exception {
        Path script = health();
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(
                                List.of("open image wcxn", "write 8m 64k", "close"),
                                List.of("open image r", "read 8m 64k", "close"));
                RealServices services = new RealServices(directory).sections("""
                                [triggers]
                                health = ["sh", "%s"]
                                health_interval = "20ms"
                                health_cooldown = "500ms"
                                """.formatted(script), "")) {
            phase("flapping");
            services.startTarget(job);
            services.startSource(job);
            awaitCalls(12);
            assertFalse(services.log("source").contains(ASKED), services.log("source"));
            phase("mostly bad");
            await(() -> services.log("source").contains("COMMITTED"));
            awaitCalls(calls() + 25);
            String log = services.log("source");
            assertEquals(2, log.split(ASKED, -1).length, log);
            try (ControlClient client = new ControlClient(directory.resolve("source.sock"))) {
                ControlStatus status = client.status();
                assertEquals(Outcome.COMMITTED, status.last().outcome());
                assertTrue(status.health().startsWith("has moved the job"), status.health());
                endCopies(status.last());
            }
        }
    }

    @Test
    void shouldShowMetersAndRollBackWhenAMigrationIsCancelled() throws Exception {
        int sourcePort = Nodes.unusedAddress().getPort();
        int targetPort = Nodes.unusedAddress().getPort();
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(
                                List.of("open image wcxn", "write 4m 64k", "pause 60000", "close"),
                                List.of("open image r", "read 4m 64k", "close"));
                RealServices services =
                        new RealServices(directory).sections(metrics(sourcePort), metrics(targetPort))) {
            services.startTarget(job);
            Process source = services.startSource(job);
            Path socket = directory.resolve("source.sock");
            try (ControlClient migrating = new ControlClient(socket);
                    ControlClient looking = new ControlClient(socket)) {
                String id = migrating.start(null, true).id();
                await(() ->
                        scrape(sourcePort).matches("(?s).*ppmr_source_data_bytes_total\\{stage=\"written\"} [1-9].*"));
                assertEquals(id, looking.status().id());
                send(source, "USR1");
                await(() -> services.log("source").contains("state: migration "));
                requireShown(services, id);
                try (ControlClient cancelling = new ControlClient(socket)) {
                    assertEquals(id, cancelling.cancel(id.substring(0, 8)));
                }
                MigrationReport report = migrating.awaitReport(PATIENCE, progress -> {});
                assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.toString());
                assertTrue(report.reason().contains("cancelled by user root"), report.reason());
            }
            assertTrue(job.originalsRun());
            try (ControlClient target = new ControlClient(directory.resolve("target.sock"))) {
                assertEquals("target", target.status().role());
            }
            requireGood("source", scrape(sourcePort), "ppmr_source_migrations_total{outcome=\"rolled_back\"} 1.0");
            requireGood("target", scrape(targetPort), "ppmr_target_chunks_total{stage=\"received\"} ");
        }
    }

    private ControlStatus targetStatus() throws IOException {
        try (ControlClient target = new ControlClient(directory.resolve("target.sock"))) {
            return target.status();
        }
    }

    /** A target shows the progress of the arriving migration. */
    private void requireShown(RealServices services, String id) throws Exception {
        await(() -> targetStatus().arrivals().stream().anyMatch(one -> one.readBytes() >= 4 << 20));
        ControlStatus status = targetStatus();
        Arrival arrival = status.arrivals().get(0);
        assertTrue(status.busy());
        assertEquals(id, arrival.id());
        assertEquals("replay", arrival.job());
        assertEquals(Arrival.ArrivalStep.ARRIVING, arrival.step());
        assertTrue(arrival.source().matches("127\\.0\\.0\\.1:\\d+"), arrival.source());
        assertTrue(arrival.arrivedBytes() >= 4 << 20 && arrival.bytesPerSecond() > 0, arrival.toString());
        assertTrue(arrival.expectedBytes() > 0 && arrival.seconds() > 0, arrival.toString());
        String json = services.command("status", "target", List.of("--json"));
        assertTrue(json.contains("\"arrivals\":[{\"id\":\"" + id), json);
        String plain = services.command("status", "target", List.of());
        assertTrue(plain.startsWith("0\nmigration " + id.substring(0, 8) + " of job replay from 127.0.0.1:"), plain);
        assertTrue(plain.contains("arriving  arrived 4.0 MiB of about "), plain);
    }

    private static void requireGood(String role, String scraped, String line) throws Exception {
        assertTrue(scraped.contains(line), role + ": " + scraped);
        String promtool = System.getenv().getOrDefault("PPMR_PROMTOOL", "promtool");
        Process check;
        try {
            check = new ProcessBuilder(promtool, "check", "metrics")
                    .redirectErrorStream(true)
                    .start();
        } catch (IOException e) {
            Assumptions.abort("promtool of Debian's package prometheus is not here: " + e.getMessage());
            return;
        }
        check.getOutputStream().write(scraped.getBytes(StandardCharsets.UTF_8));
        check.getOutputStream().close();
        String said = new String(check.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertTrue(check.waitFor(Patience.of(60), TimeUnit.SECONDS), "promtool must end");
        assertEquals("0: ", check.exitValue() + ": " + said, scraped);
    }

    private static String metrics(int port) {
        return "[metrics]\nport = " + port + "\n";
    }

    private static String scrape(int port) throws IOException {
        try (InputStream in =
                URI.create("http://127.0.0.1:" + port + "/metrics").toURL().openStream()) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    private static void send(Process process, String signal) throws Exception {
        assertTrue(new ProcessBuilder("kill", "-" + signal, String.valueOf(process.pid()))
                .start()
                .waitFor(60, TimeUnit.SECONDS));
    }

    private static void endCopies(MigrationReport report) {
        report.ranks().forEach(rank -> rank.pids()
                .forEach(pid -> ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly)));
    }

    /** A node health check that a test plays: by turns good and bad, or four times bad and once good. */
    private Path health() throws IOException {
        return Files.writeString(directory.resolve("health"), """
                cd %s
                n=$(($(cat calls 2>/dev/null || echo 0) + 1))
                echo $n >calls.new
                mv calls.new calls
                case $(cat phase) in
                flapping) exit $((n %% 2)) ;;
                *) [ $((n %% 5)) -eq 0 ] ;;
                esac
                """.formatted(directory));
    }

    private void phase(String phase) throws IOException {
        Files.writeString(directory.resolve("phase"), phase + "\n");
    }

    private int calls() throws IOException {
        Path calls = directory.resolve("calls");
        // The command rewrites it at each call, so it may be empty for a moment.
        String text = Files.exists(calls) ? Files.readString(calls).strip() : "";
        return text.isEmpty() ? 0 : Integer.parseInt(text);
    }

    private void awaitCalls(int count) throws Exception {
        await(() -> calls() >= count);
    }

    private static void await(Callable<Boolean> question) throws Exception {
        Conditions.until(PATIENCE, "the command or the service has done its part", question);
    }
}
