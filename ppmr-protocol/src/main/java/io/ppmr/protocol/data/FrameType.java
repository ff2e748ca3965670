package io.ppmr.protocol.data;

/**
 * The kinds of frame. The code of each is part of the wire format and never changes its
 * meaning; S is the source, T the target.
 */
public enum FrameType {
    /** S to T: a chunk can be pulled ({@link AdvertiseFrame}). */
    ADVERTISE(1),
    /** S to T: the writer of a file asks for credits ({@link CreditRequestFrame}). */
    CREDIT_REQUEST(2),
    /** S to T: a credit is not needed ({@link CreditFrame}). */
    CREDIT_RETURN(3),
    /** S to T: bytes of the first 4 KiB of a file ({@link FilePrefixFrame}). */
    FILE_PREFIX(4),
    /**
     * T to S: a chunk has arrived, the source may reuse it; on the connection on which it came ({@link ReleaseFrame}).
     */
    RELEASE(5),
    /** T to S: a slot for a window of a file ({@link CreditFrame}). */
    CREDIT(6),
    /** T to S: there will be no slot for a window of a file ({@link CreditFrame}). */
    CREDIT_DENIAL(7),
    /** S to T: a file was cut or extended to a size ({@link ValueFrame}). */
    TRUNCATE(8),
    /**
     * S to T: answer when all of the file that was advertised has arrived; the value is a token ({@link
     * ValueFrame}).
     */
    SYNC(9),
    /** T to S: the answer, with the same token ({@link ValueFrame}). */
    SYNCED(10),
    /** S to T: a file is whole, with its size ({@link ValueFrame}). */
    END_OF_FILE(11),
    /** S to T: every file of a rank is whole and no other will come; the value is the rank ({@link ValueFrame}). */
    END_OF_IMAGE(12),
    /** Either way: still there; the value is how many bytes of the peer's frames have come ({@link ValueFrame}). */
    HEARTBEAT(13),
    /** S to T, on a data connection: a chunk, whose bytes follow it ({@link ChunkFrame}). */
    CHUNK(14),
    /**
     * S to T, first on a data connection where there are rails: the rail's number replaces the file number, and the
     * value is the rail's generation, in the upper 32 bits, and the connection's number in it ({@link ValueFrame}).
     */
    RAIL(15),
    /**
     * Both ways, first on a connection that takes the place of the session's control connection: its number, from 1,
     * replaces the file number, and the value is the number of bytes of the peer's frames that arrived ({@link
     * ValueFrame}).
     */
    RESUME(16),
    /** Either way: a message of variable length (a control message, or a change of names). */
    MESSAGE(32),
    /** Either way: a full frame of a message that is too long for one; more of it follows ({@link MessageParts}). */
    MESSAGE_PART(33),
    /** Either way: the rest of such a message ({@link MessageParts}). */
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

    /** The type with this code, or null if there is none. */
    public static FrameType of(int code) {
        return BY_CODE[code & 0xFF];
    }
}
