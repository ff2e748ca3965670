package io.ppmr.cli.doctor;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.ppmr.protocol.Finding;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** What was found, in parts: this node, and a pair for each job. Owned by the command's thread. */
final class Report {
    private static final ObjectMapper JSON = new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT);

    /**
     * A part.
     *
     * @param about as a person reads it
     * @param findings in their order
     */
    record Part(String about, List<Finding> findings) {}

    private final List<Part> parts = new ArrayList<>();

    void add(String about, List<Finding> findings) {
        parts.add(new Part(about, List.copyOf(findings)));
    }

    long count(Finding.Level level) {
        return parts.stream()
                .flatMap(part -> part.findings().stream())
                .filter(finding -> finding.level() == level)
                .count();
    }

    void print(PrintWriter out) {
        for (Part part : parts) {
            out.println(part.about());
            for (Finding finding : part.findings()) {
                out.printf("  %-4s  %-13s %s%n", word(finding.level()), finding.check(), finding.text());
                if (!finding.remedy().isEmpty()) {
                    out.printf("  %-4s  %-13s -> %s%n", "", "", finding.remedy());
                }
            }
        }
        long failures = count(Finding.Level.FAIL);
        long warnings = count(Finding.Level.WARN);
        out.println(failures == 0 && warnings == 0 ? "all is well" : failures + " failures, " + warnings + " warnings");
    }

    void printJson(PrintWriter out) throws IOException {
        ObjectNode root = JSON.createObjectNode();
        root.put("failures", count(Finding.Level.FAIL)).put("warnings", count(Finding.Level.WARN));
        ArrayNode list = root.putArray("parts");
        for (Part part : parts) {
            ObjectNode one = list.addObject().put("about", part.about());
            ArrayNode findings = one.putArray("findings");
            for (Finding finding : part.findings()) {
                findings.addObject()
                        .put("level", word(finding.level()))
                        .put("check", finding.check())
                        .put("text", finding.text())
                        .put("remedy", finding.remedy());
            }
        }
        out.println(JSON.writeValueAsString(root));
    }

    private static String word(Finding.Level level) {
        return level.name().toLowerCase(Locale.ROOT);
    }
}
