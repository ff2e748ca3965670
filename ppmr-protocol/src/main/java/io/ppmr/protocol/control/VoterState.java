package io.ppmr.protocol.control;

import io.ppmr.protocol.data.ProtocolException;

/** The state of a target in a migration whose source is lost. The code goes over the wire. */
public enum VoterState {
    /** It has voted. */
    PREPARED(1),
    /** It has voted, and keeps the promise that was asked for. */
    PROMISED(2),
    /** It has voted and listens to the first target alone. */
    TAKE_OVER_ACCEPTED(3),
    /** Its copies run. */
    COMMITTED(4),
    /** It has nothing, and will never have anything, of this attempt. */
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
        throw new ProtocolException("a voter's state of unknown code " + code + ": the peer is broken");
    }
}
