package io.ppmr.cluster.job;

import com.fasterxml.jackson.core.JacksonException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/**
 * The record of a set: the images of all members at one moment. The images themselves have the rest. Immutable.
 *
 * @param id the set, also the name of its directories
 * @param incarnation the incarnation of the job that it is of
 * @param round its checkpoint
 * @param digest a digest over the digests of all images, in the order of the pods' names
 * @param bytes the size of all images
 * @param heldMs the longest time for which a member was held, in milliseconds
 * @param dumpMs the longest time of a dump, in milliseconds
 * @param syncMs the longest time until images were on the disk, in milliseconds
 * @param takenAtMs its time, in milliseconds since 1970
 * @param state where its images are
 */
public record JobSet(
        String id,
        long incarnation,
        long round,
        String digest,
        long bytes,
        long heldMs,
        long dumpMs,
        long syncMs,
        long takenAtMs,
        SetState state) {
    private static final int MOST_DIGEST = 64;
    private static final ObjectMapper JSON = JsonMapper.builder()
            .enable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
            .build();

    /** The places of a set's images. */
    public enum SetState {
        /** They are in the directory of checkpoints. */
        LOCAL,
        /** They are being copied to the second place. */
        COPYING,
        /** All of them are at the second place, too. */
        SAFE;

        /** Returns the state as people read it. */
        public String word() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    /** Returns the same set in another state. */
    JobSet in(SetState next) {
        return new JobSet(id, incarnation, round, digest, bytes, heldMs, dumpMs, syncMs, takenAtMs, next);
    }

    /** Returns true if the set consists of images with these digests, by pod. */
    public boolean isOf(Map<String, String> digests) {
        return digest.equals(JobRules.digestOf(digests));
    }

    /** Returns true if a text has the form of the digest of an image. */
    static boolean isDigest(String text) {
        return text != null && text.length() <= MOST_DIGEST && text.matches("[0-9a-f]+");
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
    public static Optional<JobSet> decode(byte[] bytes) {
        try {
            JobSet set = JSON.readValue(new String(bytes, StandardCharsets.UTF_8), JobSet.class);
            return set == null || set.id == null || set.digest == null || set.state == null
                    ? Optional.empty()
                    : Optional.of(set);
        } catch (JacksonException e) {
            return Optional.empty();
        }
    }
}
