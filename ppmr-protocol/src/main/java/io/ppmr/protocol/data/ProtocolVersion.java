package io.ppmr.protocol.data;

import java.util.Optional;

/**
 * The versions of the protocol that this release knows. docs/internals/versions.md defines how a version is added.
 */
public enum ProtocolVersion {
    V9(9, "all that no later version adds"),
    V10(10, "the boot ID of the sender's node in Begin and Accept");

    public static final ProtocolVersion OLDEST = V9;
    public static final ProtocolVersion NEWEST = V10;

    private final int number;
    private final String added;

    ProtocolVersion(int number, String added) {
        this.number = number;
        this.added = added;
    }

    static Optional<ProtocolVersion> of(int number) {
        for (ProtocolVersion version : values()) {
            if (version.number == number) {
                return Optional.of(version);
            }
        }
        return Optional.empty();
    }

    public int number() {
        return number;
    }

    /** Returns what this version has and the one before it does not have. */
    public String added() {
        return added;
    }

    public boolean isBefore(ProtocolVersion other) {
        return number < other.number;
    }
}
