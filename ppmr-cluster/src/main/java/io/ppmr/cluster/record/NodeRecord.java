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
 * @param untilMs in FENCING the end of the command's time limit, in milliseconds since 1970; else 0
 * @param fencedMs the begin of its last fence, in milliseconds since 1970; 0 if there was none
 */
public record NodeRecord(
        String bootId,
        String questions,
        String zone,
        List<String> roles,
        NodeStatus state,
        long sinceMs,
        boolean unprobed,
        long untilMs,
        long fencedMs) {
    private static final ObjectMapper JSON = JsonMapper.builder()
            .enable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
            .build();

    public NodeRecord {
        roles = roles == null ? List.of() : List.copyOf(roles);
    }

    /** Returns the record of the same node while the command to switch it off runs. */
    public NodeRecord fencing(long nowMs, long endMs) {
        return new NodeRecord(bootId, questions, zone, roles, NodeStatus.FENCING, nowMs, unprobed, endMs, nowMs);
    }

    /** Returns the record of the same node, whose boot was proved off. */
    public NodeRecord off(long nowMs) {
        return new NodeRecord(bootId, questions, zone, roles, NodeStatus.OFF, nowMs, unprobed, 0, fencedMs);
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
