package io.ppmr.transport.auth;

/** The purpose of a connection. The code is part of the wire format. */
public enum ConnectionKind {
    /** Frames in both directions; opens a session. */
    CONTROL(1),
    /** Chunks of one session. */
    DATA(2),
    /** Frames of a session whose control connection failed. */
    CONTROL_RESUME(3);

    private final int code;

    ConnectionKind(int code) {
        this.code = code;
    }

    int code() {
        return code;
    }

    static ConnectionKind of(int code) {
        for (ConnectionKind kind : values()) {
            if (kind.code == code) {
                return kind;
            }
        }
        return null;
    }
}
