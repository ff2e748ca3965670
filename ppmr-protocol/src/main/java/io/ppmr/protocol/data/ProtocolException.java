package io.ppmr.protocol.data;

import java.io.IOException;

/** The peer violated the protocol, so the connection is closed. */
public final class ProtocolException extends IOException {
    private static final long serialVersionUID = 1L;

    public ProtocolException(String message) {
        super(message);
    }

    public ProtocolException(String message, Throwable cause) {
        super(message, cause);
    }
}
