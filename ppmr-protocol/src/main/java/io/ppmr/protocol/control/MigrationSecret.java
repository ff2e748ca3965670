package io.ppmr.protocol.control;

import java.security.SecureRandom;
import net.openhft.chronicle.bytes.Bytes;

/**
 * A random number of 128 bits that only the source and the targets of one migration know. The source sends it to each
 * target in {@link ControlMessage.Begin}. Each further connection about the migration must send it first ({@link
 * ControlMessage.Participation}). Without it a node that only has the cluster's key could end a job by a forged {@link
 * ControlMessage.RollBack}.
 */
public record MigrationSecret(long high, long low) {
    /** The secret of a migration that has none, or is unknown: it accepts every peer. */
    public static final MigrationSecret NONE = new MigrationSecret(0, 0);

    /** Creates a secret for a new migration. */
    public static MigrationSecret random() {
        SecureRandom random = new SecureRandom();
        return new MigrationSecret(random.nextLong(), random.nextLong());
    }

    static MigrationSecret read(Bytes<?> in) {
        return new MigrationSecret(in.readLong(), in.readLong());
    }

    void write(Bytes<?> out) {
        out.writeLong(high).writeLong(low);
    }

    /** Returns whether a peer with this secret may send messages about a migration whose secret is {@code own}. */
    public boolean matches(MigrationSecret own) {
        // Compares without an early exit, so that the duration does not reveal the number of correct bits.
        return own.equals(NONE) || ((high ^ own.high) | (low ^ own.low)) == 0;
    }

    /** Logs contain messages but must not contain the secret. */
    @Override
    public String toString() {
        return "secret";
    }
}
