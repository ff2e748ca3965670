package io.ppmr.transport.auth;

import java.io.IOException;

/** The peer answers, and will not have the connection: to try again at once is of no use. */
public final class RefusedException extends IOException {
    private static final long serialVersionUID = 1L;

    RefusedException(String message) {
        super(message);
    }
}
