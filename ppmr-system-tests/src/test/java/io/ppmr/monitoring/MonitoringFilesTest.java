package io.ppmr.monitoring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import io.ppmr.daemon.metrics.MetricsDocs;
import io.ppmr.linux.Command;
import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The alert rules fire when they must and only then, and rules and dashboard name no meter that does not exist. */
class MonitoringFilesTest {
    private static final String TESTS = "ppmr-alerts-test.yml";
    private static final Pattern METER = Pattern.compile("\\bppmr_(?:source|target)_[a-z0-9_]+");
    private static final Pattern CASE =
            Pattern.compile("alertname: (\\w+)\\s+eval_time: \\w+\\s+exp_alerts:(?<none> \\[])?");

    @TempDir
    private Path directory;

    @Test
    void shouldFireOrNotWhenPromtoolPlaysTheCases() throws Exception {
        Files.copy(MonitoringFiles.rules(), directory.resolve("ppmr-alerts.yml"));
        Path tests = Files.writeString(directory.resolve(TESTS), cases());
        Command.CommandResult result;
        try {
            result = Command.of(List.of(MonitoringFiles.program("promtool"), "test", "rules", tests.toString()))
                    .run(Patience.of(Duration.ofSeconds(60)));
        } catch (IOException e) {
            Assumptions.abort("promtool of Debian's package prometheus is not here: " + e.getMessage());
            return;
        }
        assertEquals(0, result.exitCode(), result.output());
    }

    @Test
    void shouldHaveACaseThatFiresAndOneThatDoesNotWhenThereIsARule() throws Exception {
        Set<String> fires = new TreeSet<>();
        Set<String> quiet = new TreeSet<>();
        Matcher found = CASE.matcher(cases());
        while (found.find()) {
            (found.group("none") == null ? fires : quiet).add(found.group(1));
        }
        Set<String> rules = new TreeSet<>();
        Matcher alert = Pattern.compile("- alert: (\\w+)").matcher(MonitoringFiles.rulesText());
        while (alert.find()) {
            rules.add(alert.group(1));
        }
        assertFalse(rules.isEmpty());
        assertEquals(rules, fires);
        assertEquals(rules, quiet);
    }

    @Test
    void shouldNameOnlyExistingMetersWhenRulesAndPanelsAreRead() throws Exception {
        Set<String> existing = new HashSet<>();
        for (String name : meters(MetricsDocs.page())) {
            existing.add(name);
            for (String suffix : List.of("_bucket", "_count", "_sum", "_max")) {
                existing.add(name + suffix);
            }
        }
        StringBuilder used = new StringBuilder(MonitoringFiles.rulesText());
        for (MonitoringFiles.DashboardPanel panel : MonitoringFiles.panels("1m")) {
            used.append(String.join("\n", panel.expressions())).append('\n');
        }
        Set<String> unknown = meters(used.toString());
        assertTrue(unknown.size() > 10, unknown.toString());
        unknown.removeAll(existing);
        assertEquals(Set.of(), unknown);
    }

    @Test
    void shouldFillTheWidthWithoutOverlapWhenPanelsAreLaidOut() throws Exception {
        Set<String> taken = new HashSet<>();
        Set<Integer> ids = new HashSet<>();
        for (JsonNode panel : MonitoringFiles.dashboard().get("panels")) {
            assertTrue(ids.add(panel.get("id").asInt()), panel.toString());
            assertFalse(panel.get("description").asText().isEmpty(), panel.toString());
            JsonNode place = panel.get("gridPos");
            int right = place.get("x").asInt() + place.get("w").asInt();
            assertTrue(right <= 24, panel.toString());
            for (int x = place.get("x").asInt(); x < right; x++) {
                for (int y = 0; y < place.get("h").asInt(); y++) {
                    assertTrue(taken.add(x + "," + (place.get("y").asInt() + y)), panel.toString());
                }
            }
        }
        int rows = taken.stream()
                .mapToInt(at -> Integer.parseInt(at.substring(at.indexOf(',') + 1)))
                .max()
                .orElseThrow();
        assertEquals(24 * (rows + 1), taken.size(), "a gap in the dashboard");
    }

    private static Set<String> meters(String text) {
        Set<String> names = new TreeSet<>();
        Matcher found = METER.matcher(text);
        while (found.find()) {
            names.add(found.group());
        }
        return names;
    }

    private static String cases() throws IOException {
        try (InputStream in = MonitoringFilesTest.class.getResourceAsStream(TESTS)) {
            assertNotNull(in, TESTS);
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
    }
}
