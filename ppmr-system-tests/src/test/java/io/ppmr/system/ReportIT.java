package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.migration.samples.MigrationSamples;
import io.ppmr.migration.samples.SampleCurve;
import io.ppmr.migration.samples.SampleStore;
import io.ppmr.migration.samples.SampledValue;
import io.ppmr.testbed.Conditions;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Reports of real migrations have curves of both ends, and the figures of {@code ppmr show --json}. */
@Timeout(value = 180, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ReportIT {
    private static final long IMAGE_BYTES = 4 << 20;

    @TempDir
    private Path directory;

    private JsonNode last(RealServices services, String role) throws Exception {
        String json = services.command("history", role, List.of("--json"));
        JsonNode all = new ObjectMapper().readTree(json.substring(json.indexOf('\n') + 1));
        return all.get(all.size() - 1);
    }

    private MigrationSamples samples(String role, String id) throws Exception {
        SampleStore store = new SampleStore(directory.resolve(role + "-journal"));
        Conditions.until(
                "the " + role + " has kept samples", () -> store.find(id).isPresent());
        return store.find(id).orElseThrow();
    }

    private static long last(MigrationSamples samples, SampledValue value, int rank) {
        return samples.curve(value, rank).orElseThrow().last();
    }

    private static JsonNode step(JsonNode migration, String name) {
        for (JsonNode step : migration.get("steps")) {
            if (step.get("name").asText().equals(name)) {
                return step;
            }
        }
        throw new AssertionError("no step " + name + ": " + migration);
    }

    private String report(RealServices services, String role, String... more) throws Exception {
        Path html = directory.resolve(role + ".html");
        List<String> words = new ArrayList<>(List.of("-o", html.toString()));
        words.addAll(List.of(more));
        String said = services.command("report", role, words);
        assertTrue(said.startsWith("0\n"), said);
        String page = Files.readString(html);
        assertTrue(page.length() < 1_500_000, "too large: " + page.length());
        return page;
    }

    @Test
    void shouldHaveEqualFiguresInCurvesTableAndJsonWhenAMigrationIsCommitted() throws Exception {
        List<String> written = List.of("open image wcxn", "write 4m 64k", "close");
        List<String> read = List.of("open image r", "read 4m 64k", "close");
        try (ReplayJob job = new ReplayJob(directory).rank(written, read).rank(written, read);
                RealServices services = new RealServices(directory)) {
            services.startTarget(job);
            services.startSource(job);
            assertEquals(0, services.migrate(directory.resolve("report.json"), "replay"));
            JsonNode migration = last(services, "source");
            String id = migration.get("id").asText();
            MigrationSamples source = samples("source", id);
            MigrationSamples target = samples("target", id);
            for (SampledValue value : List.of(SampledValue.WRITTEN, SampledValue.SENT)) {
                assertEquals(2 * IMAGE_BYTES, last(source, value, SampleCurve.JOB), value.name());
                assertEquals(IMAGE_BYTES, last(source, value, 0), value.name());
                assertEquals(IMAGE_BYTES, last(source, value, 1), value.name());
            }
            for (SampledValue value : List.of(SampledValue.ARRIVED, SampledValue.READ)) {
                assertEquals(2 * IMAGE_BYTES, last(source, value, SampleCurve.JOB), value.name());
                assertEquals(2 * IMAGE_BYTES, last(target, value, SampleCurve.JOB), value.name());
                assertEquals(IMAGE_BYTES, last(target, value, 1), value.name());
            }
            assertEquals(2 * IMAGE_BYTES, step(migration, "write").get("bytes").asLong());
            assertEquals(
                    2 * IMAGE_BYTES, step(migration, "transfer").get("bytes").asLong());
            assertEquals(2 * IMAGE_BYTES, step(migration, "read").get("bytes").asLong());
            assertTrue(step(migration, "pause").get("durationMs").asLong() > 0);
            assertTrue(step(migration, "by tcp").get("bytes").asLong() > 0);
            String page = report(services, "source", id.substring(0, 8));
            String row =
                    "<td class=\"time\">the job</td>" + ("<td class=\"number\">" + 2 * IMAGE_BYTES + "</td>").repeat(4);
            assertTrue(page.contains(row), page);
            for (JsonNode step : migration.get("steps")) {
                if (step.get("bytes").asLong() > 0) {
                    assertTrue(page.contains(
                            "<td class=\"number\">" + step.get("bytes").asLong() + "</td>"));
                }
            }
            String atTarget = report(services, "target");
            assertTrue(atTarget.contains("data:image/svg+xml") && atTarget.contains("the target's journal"), atTarget);
        }
    }

    @Tag("soak")
    @Test
    void shouldHaveTheReasonAndTheCurvesWhenAMigrationIsRolledBack() throws Exception {
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(
                                List.of("open image wcxn", "write 1m 64k", "close"),
                                List.of("open image r", "read 1m 64k", "open missing r"));
                RealServices services = new RealServices(directory)) {
            services.startTarget(job);
            services.startSource(job);
            assertEquals(3, services.migrate(directory.resolve("report.json"), "replay"));
            JsonNode migration = last(services, "source");
            samples("source", migration.get("id").asText());
            String page = report(services, "source");
            assertTrue(page.contains("Rolled back: the job continues on its node. Reason: "), page);
            assertFalse(migration.get("reason").asText().isEmpty());
            assertTrue(step(migration, "roll_back").get("durationMs").asLong() >= 0);
            assertFalse(page.contains("has no samples"), page);
        }
    }
}
