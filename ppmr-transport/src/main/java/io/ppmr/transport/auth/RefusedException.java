package io.ppmr.transport.auth;

import java.io.IOException;

/** The peer responded and refused the connection, so an immediate retry is useless. */
public final class RefusedException extends IOException {
    private static final long serialVersionUID = 1L;

    RefusedException(String message) {
        super(message);
    }
}
