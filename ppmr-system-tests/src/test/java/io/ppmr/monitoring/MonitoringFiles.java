package io.ppmr.monitoring;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The files for a site's monitoring, as they are delivered, and the programs of Prometheus that read them. */
public final class MonitoringFiles {
    private static final Path FOLDER = Path.of(System.getProperty("ppmr.home"), "conf", "monitoring");

    private MonitoringFiles() {}

    /** A panel of the dashboard and its expressions, with the dashboard's variables filled in. */
    public record DashboardPanel(String title, List<String> expressions) {
        public DashboardPanel {
            expressions = List.copyOf(expressions);
        }
    }

    /** The file of the alert rules. */
    public static Path rules() {
        return FOLDER.resolve("ppmr-alerts.yml");
    }

    /**
     * Returns the panels of the dashboard.
     *
     * @param interval value for the dashboard's intervals, as Prometheus writes it
     */
    public static List<DashboardPanel> panels(String interval) throws IOException {
        List<DashboardPanel> panels = new ArrayList<>();
        for (JsonNode panel : dashboard().get("panels")) {
            List<String> expressions = new ArrayList<>();
            for (JsonNode target : panel.get("targets")) {
                expressions.add(target.get("expr")
                        .asText()
                        .replace("$__rate_interval", interval)
                        .replace("$instance", ".*"));
            }
            panels.add(new DashboardPanel(panel.get("title").asText(), expressions));
        }
        return panels;
    }

    static JsonNode dashboard() throws IOException {
        return new ObjectMapper().readTree(FOLDER.resolve("ppmr-dashboard.json").toFile());
    }

    static String rulesText() throws IOException {
        return Files.readString(rules(), StandardCharsets.UTF_8);
    }

    /** The command of a program of Debian's package prometheus. It may be absent. */
    public static String program(String name) {
        Path promtool = Path.of(System.getenv().getOrDefault("PPMR_PROMTOOL", "promtool"));
        return promtool.getNameCount() < 2
                ? name
                : promtool.resolveSibling(name).toString();
    }
}
