package io.ppmr.protocol;

/** Where a target stands in a migration whose source is lost. The code goes over the wire. */
public enum VoterState {
    PREPARED(1),
    COMMITTED(2),
    ROLLED_BACK(3);

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
