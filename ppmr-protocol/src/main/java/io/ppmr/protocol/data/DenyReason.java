package io.ppmr.protocol.data;

/** The reason for which the target denies a slot; the code is part of the wire format. */
public enum DenyReason {
    /** Pool and staging are used up, and what they hold cannot be read before what is denied. */
    NO_SPACE(1),
    /** The file is gone at the target. */
    NO_FILE(2);

    private final int code;

    DenyReason(int code) {
        this.code = code;
    }

    public int code() {
        return code;
    }
}
