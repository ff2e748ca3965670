package io.ppmr.protocol.data;

import java.io.IOException;

/** The peer sent what the protocol does not allow; the connection ends. */
public final class ProtocolException extends IOException {
    private static final long serialVersionUID = 1L;

    public ProtocolException(String message) {
        super(message);
    }

    public ProtocolException(String message, Throwable cause) {
        super(message, cause);
    }
}
