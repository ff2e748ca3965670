package io.ppmr.transport.auth;

import java.io.EOFException;

/** The peer closed its connection without a byte, as a probe does that only tries whether this node answers. */
public final class UnusedConnectionException extends EOFException {
    private static final long serialVersionUID = 1;

    UnusedConnectionException(String message) {
        super(message);
    }
}
