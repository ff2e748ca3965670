package io.ppmr.protocol.data;

/**
 * The types of frames. The code of each is part of the wire format and never changes its meaning. S is the source, T
 * the target.
 */
public enum FrameType {
    /** S to T: a chunk is ready for an RDMA Read ({@link AdvertiseFrame}). */
    ADVERTISE(1),
    /** S to T: requests credits for a file ({@link CreditRequestFrame}). */
    CREDIT_REQUEST(2),
    /** S to T: returns an unused credit ({@link CreditFrame}). */
    CREDIT_RETURN(3),
    /** S to T: bytes of the first 4 KiB of a file ({@link FilePrefixFrame}). */
    FILE_PREFIX(4),
    /**
     * T to S: a chunk arrived, so the source may reuse it. Sent on the chunk's own connection ({@link ReleaseFrame}).
     */
    RELEASE(5),
    /** T to S: a slot for a window of a file ({@link CreditFrame}). */
    CREDIT(6),
    /** T to S: the target denies a slot for a window of a file ({@link CreditFrame}). */
    CREDIT_DENIAL(7),
    /** S to T: a file was truncated or extended to a size ({@link ValueFrame}). */
    TRUNCATE(8),
    /**
     * S to T: requests a SYNCED when all bytes of the file that were sent before have arrived. The value is a token
     * ({@link ValueFrame}).
     */
    SYNC(9),
    /** T to S: the answer, with the same token ({@link ValueFrame}). */
    SYNCED(10),
    /** S to T: a file is complete. The value is its size ({@link ValueFrame}). */
    END_OF_FILE(11),
    /**
     * S to T: every file of a rank is complete and no other file follows. The value is the rank ({@link ValueFrame}).
     */
    END_OF_IMAGE(12),
    /**
     * In both directions: the sender is alive. The value is the number of received bytes of the peer's frames ({@link
     * ValueFrame}).
     */
    HEARTBEAT(13),
    /** S to T, on a data connection: a chunk, whose bytes follow ({@link ChunkFrame}). */
    CHUNK(14),
    /**
     * S to T, first on a data connection of a rail. The rail's number replaces the file number. The value is the rail's
     * generation in the upper 32 bits, and the connection's number in the lower ({@link ValueFrame}).
     */
    RAIL(15),
    /**
     * In both directions, first on a connection that replaces the session's control connection. Its number, from 1,
     * replaces the file number. The value is the number of received bytes of the peer's frames ({@link ValueFrame}).
     */
    RESUME(16),
    /** In both directions: a message of variable length (a control message, or a change of names). */
    MESSAGE(32),
    /**
     * In both directions: a full frame of a message that is too long for one frame. More frames follow ({@link
     * MessageParts}).
     */
    MESSAGE_PART(33),
    /** In both directions: the last frame of such a message ({@link MessageParts}). */
    MESSAGE_END(34);

    private static final FrameType[] BY_CODE = new FrameType[256];

    static {
        for (FrameType type : values()) {
            BY_CODE[type.code] = type;
        }
    }

    private final int code;

    FrameType(int code) {
        this.code = code;
    }

    public int code() {
        return code;
    }

    /** Returns the type with this code, or null if there is none. */
    public static FrameType of(int code) {
        return BY_CODE[code & 0xFF];
    }
}
