package io.ppmr.protocol.data;

/** Tells who copies where a session uses RDMA; the ordinal is not part of the wire format, the code is. */
public enum RdmaMode {
    /** The target reads chunks out of the source's pool. */
    READ(1),
    /** The source writes chunks into the target's pool. */
    WRITE(2);

    private final int code;

    RdmaMode(int code) {
        this.code = code;
    }

    public int code() {
        return code;
    }

    /** Gives the mode of a code; 0, which is no mode, is none of them. */
    public static RdmaMode of(int code) throws ProtocolException {
        for (RdmaMode mode : values()) {
            if (mode.code == code) {
                return mode;
            }
        }
        throw new ProtocolException("an unknown mode " + code + " of RDMA: the peer is broken");
    }
}
