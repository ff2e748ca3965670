package io.ppmr.daemon.control;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.ppmr.migration.keep.Keeping.KeptImageReport;
import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationQueue;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.transaction.operator.Resolution;
import java.io.IOException;
import java.io.OutputStream;
import java.util.List;

/**
 * The lines of the control socket, each a JSON object with one key. Optional parts answer further requests.
 *
 * <pre>
 *   {"request": "migrate", "job": NAME, "to": [HOST:PORT], "keep": DIR, "wait": true,
 *    "without_cluster": true}
 *                                          "started", then progress lines and a report or an error;
 *                                          without wait "started" alone
 *   {"request": "cancel", "id": ID}        "cancelling" or "refused"; with the id "waiting" the jobs that a trigger
 *                                          has yet to move stay here, and "cancelling" names them
 *   {"request": "resolve", "id": ID, "outcome": "commit"|"rollback", "targets_off": [NAME],
 *    "source_off": false, "first_off": false, "carry_out": false}
 *                                          "resolution"; without carry_out it describes the consequences
 *   {"request": "status", "lines": false}  one status line; with lines "lines", for people
 *   {"request": "watch"}                   "watching", then as migrate, of the running or the next migration
 *   {"request": "migration_records", "id": ID}
 *                                          "records", from which ppmr report draws a page, or "refused";
 *                                          a job's owner gets those of own jobs
 *   {"started": {"id": ID, "job": NAME}}  {"watching": true}  {"cancelling": ID}
 *   {"progress": {...}}  {"report": {...}}  {"status": {...}}
 *   {"lines": [TEXT]}
 *   {"refused": TEXT}  {"unknown": TEXT} if there is no such job  {"error": TEXT}
 * </pre>
 *
 * The fields of progress and report are those of {@link MigrationProgress} and {@link MigrationReport}. It is immutable
 * and safe for any thread.
 */
public final class ControlProtocol {
    static final String REQUEST = "request";
    public static final String MIGRATE = "migrate";
    public static final String CANCEL = "cancel";
    public static final String RESOLVE = "resolve";
    public static final String STATUS = "status";
    public static final String WATCH = "watch";
    /** The key of an answer for people, one text a line. */
    public static final String LINES = "lines";

    static final String CANCELLING = "cancelling";
    static final String RESOLUTION = "resolution";
    static final String STARTED = "started";
    static final String WATCHING = "watching";
    static final String PROGRESS = "progress";
    static final String REPORT = "report";
    public static final String REFUSED = "refused";
    static final String UNKNOWN = "unknown";
    public static final String ERROR = "error";

    /** Maximum number of values: the words and variables of a command, and some more. */
    private static final int MAX_TOKENS = 8500;

    /** A line of a service's answer. One component is not null. */
    record ReplyLine(
            MigrationQueue.Started started,
            Boolean watching,
            String cancelling,
            Resolution resolution,
            MigrationProgress progress,
            MigrationReport report,
            ControlStatus status,
            String refused,
            String unknown,
            String error) {}

    private final ObjectMapper mapper =
            new ObjectMapper().configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);

    /** The protocol of a client, which sends one request and ends. */
    static ControlProtocol ofClient() {
        return new ControlProtocol(false);
    }

    /** The protocol of a service. */
    ControlProtocol() {
        this(true);
    }

    private ControlProtocol(boolean prepared) {
        if (prepared) {
            prepare();
        }
    }

    /** Writes each type once. The first use of a type costs a tenth of a second, which a migration must not pay. */
    private void prepare() {
        warmUp(PROGRESS, new MigrationProgress(MigrationProgress.SourceStep.CONNECT, 0, 0, 0, 0, 0, 0, ""));
        warmUp(
                REPORT,
                new MigrationReport(
                        "",
                        "",
                        "",
                        MigrationReport.Outcome.REFUSED,
                        "",
                        MigrationReport.MovedImages.NONE,
                        MigrationReport.MigrationTimes.NONE,
                        MigrationReport.ServiceMemory.NONE,
                        List.of(new MigrationReport.MovedRank(0, List.of())),
                        new KeptImageReport(false, "", 0, ""),
                        false));
    }

    /** Writes a line with one key, without its end, in pieces of some kilobytes. */
    void write(OutputStream to, String key, Object value) throws IOException {
        JsonGenerator generator = mapper.createGenerator(to).disable(JsonGenerator.Feature.AUTO_CLOSE_TARGET);
        generator.writeStartObject();
        generator.writePOJOField(key, value);
        generator.writeEndObject();
        generator.close();
    }

    private void warmUp(String key, Object value) {
        try {
            write(OutputStream.nullOutputStream(), key, value);
        } catch (IOException e) {
            throw new IllegalStateException("a record of plain values cannot be written", e);
        }
    }

    /** Returns the line of a request of that name. */
    String request(String name, Object fields) {
        ObjectNode node = mapper.valueToTree(fields);
        return line(node.put(REQUEST, name));
    }

    private String line(JsonNode node) {
        try {
            return mapper.writeValueAsString(node);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("a tree of plain values cannot be written", e);
        }
    }

    /** Parses a request after counting its values. On the heap an empty object has forty times the size of its text. */
    JsonNode parseRequest(String line) throws IOException {
        try (JsonParser parser = mapper.createParser(line)) {
            int tokens = 0;
            while (parser.nextToken() != null) {
                tokens++;
                if (tokens > MAX_TOKENS) {
                    throw new IOException("a request of more than " + MAX_TOKENS + " values: " + shortened(line));
                }
            }
        } catch (JsonProcessingException e) {
            throw new IOException("not JSON: " + shortened(line), e);
        }
        return parse(line);
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
            throw new IOException("the other side's message cannot be read (is it of another version?): " + node, e);
        }
    }

    private static String shortened(String line) {
        int most = 80;
        return line.length() > most ? line.substring(0, most) + "..." : line;
    }
}
