package io.ppmr.protocol.data;

/** The side that copies chunks over RDMA. The code is part of the wire format, the ordinal is not. */
public enum RdmaMode {
    /** The target reads chunks from the source's pool. */
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

    /** Returns the mode with this code. Throws for other codes, including 0, which means no RDMA. */
    public static RdmaMode of(int code) throws ProtocolException {
        for (RdmaMode mode : values()) {
            if (mode.code == code) {
                return mode;
            }
        }
        throw new ProtocolException("unknown RDMA mode " + code + ": the peer is broken");
    }
}
