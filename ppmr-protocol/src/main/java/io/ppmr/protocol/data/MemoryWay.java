package io.ppmr.protocol.data;

/** The way in which a job's private memory gets into its copies. A later constant needs more of both nodes. */
public enum MemoryWay {
    /** As a part of the images, which wait at the target until they are complete. */
    IMAGES(0),
    /** Streamed into the held copies while the held originals are read. */
    STREAMED(1),
    /** Copied in rounds while the job computes. The copies are filled from that store when the job is held. */
    PRECOPIED(2);

    private final int code;

    MemoryWay(int code) {
        this.code = code;
    }

    /** Returns its number in the protocol. */
    public int code() {
        return code;
    }

    /** Returns the way with a number of the protocol. */
    public static MemoryWay of(int code) throws ProtocolException {
        for (MemoryWay way : values()) {
            if (way.code == code) {
                return way;
            }
        }
        throw new ProtocolException("unknown way of sending memory " + code + ": the peer is broken");
    }
}
