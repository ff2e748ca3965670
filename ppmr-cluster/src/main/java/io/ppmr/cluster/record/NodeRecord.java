package io.ppmr.cluster.record;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.core.JacksonException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

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
 * @param fencesMs the beginnings of its fences within an hour before the last one, in milliseconds since 1970
 */
public record NodeRecord(
        String bootId,
        String questions,
        String zone,
        List<String> roles,
        NodeStatus state,
        long sinceMs,
        boolean unprobed,
        @JsonInclude(JsonInclude.Include.NON_DEFAULT) long untilMs,
        @JsonInclude(JsonInclude.Include.NON_EMPTY) List<Long> fencesMs) {
    /** So many fences of a node are kept at most: a record has a limit. */
    private static final int MOST_FENCES = 32;

    private static final long HOUR_MS = Duration.ofHours(1).toMillis();

    private static final ObjectMapper JSON = JsonMapper.builder()
            .enable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
            .build();

    public NodeRecord {
        roles = roles == null ? List.of() : List.copyOf(roles);
        fencesMs = fencesMs == null ? List.of() : List.copyOf(fencesMs);
    }

    /** Returns the fences of the hour before this one, and this one. */
    public static List<Long> withFence(List<Long> fencesMs, long nowMs) {
        List<Long> all = Stream.concat(fencesMs.stream().filter(begun -> nowMs - begun < HOUR_MS), Stream.of(nowMs))
                .toList();
        return all.subList(Math.max(0, all.size() - MOST_FENCES), all.size());
    }

    /** Returns the record of the same node while the command to switch it off runs. */
    public NodeRecord fencing(long nowMs, long endMs) {
        return new NodeRecord(
                bootId, questions, zone, roles, NodeStatus.FENCING, nowMs, unprobed, endMs, withFence(fencesMs, nowMs));
    }

    /** Returns the record of the same node, whose boot was proved off. */
    public NodeRecord off(long nowMs) {
        return new NodeRecord(bootId, questions, zone, roles, NodeStatus.OFF, nowMs, unprobed, 0, fencesMs);
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
