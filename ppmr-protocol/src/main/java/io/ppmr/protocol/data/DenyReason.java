package io.ppmr.protocol.data;

/** The reason for which the target denies a slot. The code is part of the wire format. */
public enum DenyReason {
    /** Pool and staging are full, and readers cannot free them before the denied window arrives. */
    NO_SPACE(1),
    /** The file no longer exists at the target. */
    NO_FILE(2);

    private final int code;

    DenyReason(int code) {
        this.code = code;
    }

    public int code() {
        return code;
    }
}
