package io.ppmr.cli.control;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.ppmr.source.MigrationProgress;
import io.ppmr.source.MigrationReport;
import java.io.IOException;
import java.util.List;

/**
 * The lines of the control socket, each a JSON object with one key.
 *
 * <pre>
 *   {"request": "migrate", "job": NAME, "to": [HOST:PORT], "wait": true}
 *                                          "started", then progress lines and a report or an error;
 *                                          without wait "started" alone
 *   {"request": "cancel", "id": ID}        "cancelling" or "refused"
 *   {"request": "resolve", "id": ID, "outcome": "commit"|"rollback", "targets_off": [NAME],
 *    "source_off": false, "first_off": false, "carry_out": false}
 *                                          "resolution"; without carry_out it says what it would mean
 *   {"request": "status"}                  one status line
 *   {"request": "watch"}                   "watching", then as migrate, of the running or the next migration
 *   {"started": {"id": ID, "job": NAME}}  {"watching": true}  {"cancelling": ID}
 *   {"progress": {...}}  {"report": {...}}  {"status": {...}}
 *   {"refused": TEXT}  {"error": TEXT}
 * </pre>
 *
 * The fields of progress and report are those of {@link MigrationProgress} and {@link MigrationReport}. Immutable, for
 * any thread.
 */
final class ControlProtocol {
    static final String REQUEST = "request";
    static final String MIGRATE = "migrate";
    static final String CANCEL = "cancel";
    static final String CANCELLING = "cancelling";
    static final String ID = "id";
    static final String RESOLVE = "resolve";
    static final String RESOLUTION = "resolution";
    static final String OUTCOME = "outcome";
    static final String COMMIT = "commit";
    static final String ROLLBACK = "rollback";
    static final String TARGETS_OFF = "targets_off";
    static final String SOURCE_OFF = "source_off";
    static final String FIRST_OFF = "first_off";
    static final String CARRY_OUT = "carry_out";
    static final String STATUS = "status";
    static final String WATCH = "watch";
    static final String JOB = "job";
    static final String TO = "to";
    static final String WAIT = "wait";
    static final String STARTED = "started";
    static final String WATCHING = "watching";
    static final String PROGRESS = "progress";
    static final String REPORT = "report";
    static final String REFUSED = "refused";
    static final String ERROR = "error";

    private final ObjectMapper mapper =
            new ObjectMapper().configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);

    ControlProtocol() {
        // The first use of a type costs a tenth of a second, which a migration should not pay.
        line(PROGRESS, new MigrationProgress(MigrationProgress.Step.CONNECT, 0, 0, 0, 0, 0, 0));
        line(
                REPORT,
                new MigrationReport(
                        "",
                        "",
                        MigrationReport.Outcome.REFUSED,
                        "",
                        0,
                        0,
                        0,
                        0,
                        0,
                        0,
                        0,
                        0,
                        0,
                        0,
                        List.of(new MigrationReport.MovedRank(0, List.of()))));
    }

    ObjectNode object() {
        return mapper.createObjectNode();
    }

    /** A line with one key. */
    String line(String key, Object value) {
        ObjectNode node = mapper.createObjectNode();
        node.set(key, mapper.valueToTree(value));
        return line(node);
    }

    String line(ObjectNode node) {
        try {
            return mapper.writeValueAsString(node);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("a tree of plain values cannot be written", e);
        }
    }

    JsonNode parse(String line) throws IOException {
        try {
            JsonNode node = mapper.readTree(line);
            if (node == null || !node.isObject()) {
                throw new IOException("not a JSON object: " + shortened(line));
            }
            return node;
        } catch (JsonProcessingException e) {
            throw new IOException("not JSON: " + shortened(line), e);
        }
    }

    <T> T value(JsonNode node, Class<T> type) throws IOException {
        try {
            return mapper.treeToValue(node, type);
        } catch (JsonProcessingException e) {
            throw new IOException("the service's answer cannot be read (is it of another version?): " + node, e);
        }
    }

    private static String shortened(String line) {
        int most = 80;
        return line.length() > most ? line.substring(0, most) + "..." : line;
    }
}
