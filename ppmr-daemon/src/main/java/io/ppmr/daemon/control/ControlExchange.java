package io.ppmr.daemon.control;

import java.io.IOException;
import java.time.Duration;
import java.util.function.BooleanSupplier;

/** A client's connection while its request is answered. Owned by the connection's thread. */
public final class ControlExchange {
    private static final Duration WRITE_LIMIT = Duration.ofSeconds(5);

    private final String user;
    private final LineChannel lines;
    private final ControlProtocol protocol;
    private final BooleanSupplier serving;

    ControlExchange(String user, LineChannel lines, ControlProtocol protocol, BooleanSupplier serving) {
        this.user = user;
        this.lines = lines;
        this.protocol = protocol;
        this.serving = serving;
    }

    /** Who asks. */
    public String user() {
        return user;
    }

    /** Sends an answer with one key. */
    public void say(String key, Object value) throws IOException {
        lines.writeLine(protocol.line(key, value), WRITE_LIMIT);
    }

    /** Whether the client still listens and the service still serves: otherwise nothing more is to be said. */
    public boolean isOpen() throws IOException {
        return serving.getAsBoolean() && !lines.peerHasClosed();
    }
}
