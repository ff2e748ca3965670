package io.ppmr.transport.auth;

import java.security.SecureRandom;

/** A session's random name: 128 random bits. */
public record SessionId(long high, long low) {
    static final int BYTES = 16;

    /** The id of a connection that does not belong to a session yet. */
    public static final SessionId NONE = new SessionId(0, 0);

    public static SessionId random(SecureRandom random) {
        return new SessionId(random.nextLong(), random.nextLong());
    }

    @Override
    public String toString() {
        return String.format("%016x%016x", high, low);
    }
}
