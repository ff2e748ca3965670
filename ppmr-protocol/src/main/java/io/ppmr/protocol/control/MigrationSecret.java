package io.ppmr.protocol.control;

import java.security.SecureRandom;
import net.openhft.chronicle.bytes.Bytes;

/**
 * A word that the source and the targets of one migration know and no other process: 128 random bits. The source tells
 * them to each target with {@link ControlMessage.Begin}; each further connection about the migration must show them
 * first ({@link ControlMessage.Participation}). Without them a node that only has the cluster's key could end a job by
 * a forged {@link ControlMessage.RollBack}.
 */
public record MigrationSecret(long high, long low) {
    /** The secret of a migration that has none or is not known: it accepts every peer. */
    public static final MigrationSecret NONE = new MigrationSecret(0, 0);

    /** A new one, for a migration that begins. */
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

    /** Returns whether who shows this may speak of a migration whose secret is {@code own}. */
    public boolean matches(MigrationSecret own) {
        // No early end by which the time would tell how much was right.
        return own.equals(NONE) || ((high ^ own.high) | (low ^ own.low)) == 0;
    }

    /** Logs show messages; they do not show this. */
    @Override
    public String toString() {
        return "secret";
    }
}
