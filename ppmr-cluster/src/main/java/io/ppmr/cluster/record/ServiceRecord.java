package io.ppmr.cluster.record;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.core.JacksonException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * The record that a service keeps of itself while it has a session. It is a JSON object of at most {@link #MAX_BYTES}.
 * Immutable.
 *
 * @param bootId the kernel's boot_id
 * @param address where sources connect; empty at a source
 * @param questions where it answers the controller's questions
 * @param zone the zone of its configuration; empty for none
 * @param release the release of ppmr
 * @param memoryBytes memory that is available to processes
 * @param stagingBytes the staging space for images
 * @param places the migrations that it can receive now; 0 at a source
 * @param load the load of one minute for each processor, in hundredths
 * @param tools the usable checkpointers, by their names
 * @param cpu a digest of the processor's features
 * @param findings the number of its checkpointers that cannot be used
 */
public record ServiceRecord(
        @JsonProperty("boot") String bootId,
        @JsonProperty("address") String address,
        @JsonProperty("questions") String questions,
        @JsonProperty("zone") String zone,
        @JsonProperty("release") String release,
        @JsonProperty("memory") long memoryBytes,
        @JsonProperty("staging") long stagingBytes,
        @JsonProperty("places") int places,
        @JsonProperty("load") int load,
        @JsonProperty("tools") List<String> tools,
        @JsonProperty("cpu") String cpu,
        @JsonProperty("findings") int findings) {
    /** The limit of a record, which a peer writes and all controllers hold. */
    public static final int MAX_BYTES = 512;

    /** The form of a zone. */
    public static final Pattern ZONE = Pattern.compile("[A-Za-z0-9._-]{0,32}");

    private static final Pattern BOOT_ID = Pattern.compile("[0-9a-f-]{36}");
    /** Numbers only: the name of a record is looked up by no controller, and by no other node. */
    private static final Pattern ADDRESS = Pattern.compile(
            "((25[0-5]|2[0-4]\\d|1?\\d?\\d)(\\.(25[0-5]|2[0-4]\\d|1?\\d?\\d)){3}|\\[[0-9a-fA-F:]+(%[a-z0-9.]+)?\\])"
                    + ":[1-9]\\d{0,4}");

    private static final Pattern WORD = Pattern.compile("[A-Za-z0-9._+-]{1,64}");
    /** A figure counts as changed when it has changed by one part of so many. */
    private static final int NOTED_PART = 8;

    private static final ObjectMapper JSON = JsonMapper.builder()
            // A newer release may have further fields.
            .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
            .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
            .enable(DeserializationFeature.FAIL_ON_NULL_FOR_PRIMITIVES)
            .build();

    public ServiceRecord {
        tools = tools == null ? List.of() : List.copyOf(tools);
    }

    /** Returns the record as JSON. Leaves out the last tools if it would be too long. */
    public byte[] encode() {
        List<String> kept = new ArrayList<>(tools);
        byte[] bytes = with(kept).json();
        while (bytes.length > MAX_BYTES && !kept.isEmpty()) {
            kept.remove(kept.size() - 1);
            bytes = with(kept).json();
        }
        return bytes;
    }

    private ServiceRecord with(List<String> kept) {
        return new ServiceRecord(
                bootId,
                address,
                questions,
                zone,
                release,
                memoryBytes,
                stagingBytes,
                places,
                load,
                kept,
                cpu,
                findings);
    }

    private byte[] json() {
        try {
            return JSON.writeValueAsBytes(this);
        } catch (JacksonException e) {
            throw new IllegalStateException("a record of plain values cannot be written", e);
        }
    }

    /** Reads a record. Returns empty if it has another form: no record of a service of this release. */
    public static Optional<ServiceRecord> decode(byte[] bytes) {
        if (bytes == null || bytes.length == 0 || bytes.length > MAX_BYTES) {
            return Optional.empty();
        }
        try {
            ServiceRecord record = JSON.readValue(new String(bytes, StandardCharsets.UTF_8), ServiceRecord.class);
            return record != null && record.isSound() ? Optional.of(record) : Optional.empty();
        } catch (JacksonException | NullPointerException e) {
            return Optional.empty();
        }
    }

    private boolean isSound() {
        return matches(BOOT_ID, bootId)
                && address != null
                && (address.isEmpty() || ADDRESS.matcher(address).matches())
                && matches(ADDRESS, questions)
                && matches(ZONE, zone)
                && matches(WORD, release)
                && matches(WORD, cpu)
                && memoryBytes >= 0
                && stagingBytes >= 0
                && places >= 0
                && load >= 0
                && findings >= 0
                && tools.stream().allMatch(tool -> matches(WORD, tool));
    }

    private static boolean matches(Pattern pattern, String text) {
        return text != null && pattern.matcher(text).matches();
    }

    /** Returns true if this record has moved away from an earlier one by so much that it must be written again. */
    public boolean differsFrom(ServiceRecord earlier) {
        return !with(List.of()).sameWords(earlier)
                || !tools.equals(earlier.tools)
                || places != earlier.places
                || findings != earlier.findings
                || moved(memoryBytes, earlier.memoryBytes)
                || moved(stagingBytes, earlier.stagingBytes)
                || moved(load, earlier.load);
    }

    private boolean sameWords(ServiceRecord other) {
        return bootId.equals(other.bootId)
                && address.equals(other.address)
                && questions.equals(other.questions)
                && zone.equals(other.zone)
                && release.equals(other.release)
                && cpu.equals(other.cpu);
    }

    private static boolean moved(long now, long before) {
        return Math.abs(now - before) * NOTED_PART > Math.max(now, before);
    }
}
