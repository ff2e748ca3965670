package io.ppmr.protocol.control;

import io.ppmr.protocol.data.ProtocolException;

/** The state of a target in a migration whose source is lost. The code is part of the wire format. */
public enum VoterState {
    /** It voted. */
    PREPARED(1),
    /** It voted, and keeps the requested promise. */
    PROMISED(2),
    /** It voted, and accepts messages only from the first target. */
    TAKE_OVER_ACCEPTED(3),
    /** Its copies run. */
    COMMITTED(4),
    /** It has no resources of this attempt, and will not get any. */
    ROLLED_BACK(5);

    private final int code;

    VoterState(int code) {
        this.code = code;
    }

    public int code() {
        return code;
    }

    static VoterState of(int code) throws ProtocolException {
        for (VoterState state : values()) {
            if (state.code == code) {
                return state;
            }
        }
        throw new ProtocolException("unknown participant state " + code + ": the peer is broken");
    }
}
