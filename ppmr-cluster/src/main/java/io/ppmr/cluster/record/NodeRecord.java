package io.ppmr.cluster.record;

import com.fasterxml.jackson.core.JacksonException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Optional;

/**
 * The record of a node that the controllers keep for the next active one. Only the active controller writes it.
 * Immutable.
 *
 * @param bootId the boot of the node that had the last session
 * @param questions where that node's services answered questions
 * @param zone its zone
 * @param roles its services
 * @param state its state
 * @param sinceMs the beginning of the state, in milliseconds since 1970
 * @param unprobed whether its firewall drops the controller's probe
 */
public record NodeRecord(
        String bootId,
        String questions,
        String zone,
        List<String> roles,
        NodeStatus state,
        long sinceMs,
        boolean unprobed) {
    private static final ObjectMapper JSON = JsonMapper.builder()
            .enable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
            .build();

    public NodeRecord {
        roles = roles == null ? List.of() : List.copyOf(roles);
    }

    /** Returns the record as JSON. */
    public byte[] encode() {
        try {
            return JSON.writeValueAsBytes(this);
        } catch (JacksonException e) {
            throw new IllegalStateException("a record of plain values cannot be written", e);
        }
    }

    /** Reads a record. Returns empty if it has another form. */
    public static Optional<NodeRecord> decode(byte[] bytes) {
        try {
            NodeRecord record = JSON.readValue(new String(bytes, StandardCharsets.UTF_8), NodeRecord.class);
            boolean sound = record != null
                    && record.bootId != null
                    && record.questions != null
                    && record.zone != null
                    && record.state != null;
            return sound ? Optional.of(record) : Optional.empty();
        } catch (JacksonException e) {
            return Optional.empty();
        }
    }
}
