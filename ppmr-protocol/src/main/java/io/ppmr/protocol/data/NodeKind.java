package io.ppmr.protocol.data;

/** The kind of a name in an image directory. The code is part of the wire format, the ordinal is not. */
public enum NodeKind {
    FILE(1),
    DIRECTORY(2),
    SYMLINK(3),
    /** A stream of the job's own files, which has no name in the image. */
    CARRIED(4);

    private final int code;

    NodeKind(int code) {
        this.code = code;
    }

    public int code() {
        return code;
    }

    public static NodeKind of(int code) throws ProtocolException {
        for (NodeKind kind : values()) {
            if (kind.code == code) {
                return kind;
            }
        }
        throw new ProtocolException("a name of unknown kind " + code + ": the peer is broken");
    }
}
