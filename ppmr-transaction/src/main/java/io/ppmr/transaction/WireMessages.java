package io.ppmr.transaction;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.VoterState;
import io.ppmr.protocol.data.Message;
import io.ppmr.transaction.TransactionMessage.Where;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/**
 * The transaction's messages as they go over the wire; docs/protocol.md. Begin, Accepted and the vote carry more than
 * the transaction's part and are made by the services.
 */
public final class WireMessages {
    private WireMessages() {}

    /** The message as the protocol writes it; empty for those that the services make. */
    public static Optional<ControlMessage> toWire(TransactionMessage message) {
        String id = message.migrationId();
        if (message instanceof TransactionMessage.Confirm) {
            return Optional.of(new ControlMessage.Confirm(id));
        }
        if (message instanceof TransactionMessage.StillHeld) {
            return Optional.of(new ControlMessage.StillHeld(id));
        }
        if (message instanceof TransactionMessage.NotHeld not) {
            return Optional.of(new ControlMessage.NotHeld(id, not.reason()));
        }
        if (message instanceof TransactionMessage.Commit) {
            return Optional.of(new ControlMessage.Commit(id));
        }
        if (message instanceof TransactionMessage.Committed) {
            return Optional.of(new ControlMessage.Committed(id));
        }
        if (message instanceof TransactionMessage.RollBack back) {
            return Optional.of(new ControlMessage.RollBack(id, back.reason()));
        }
        if (message instanceof TransactionMessage.RolledBack back) {
            return Optional.of(new ControlMessage.RolledBack(id, back.reason()));
        }
        if (message instanceof TransactionMessage.Ask ask) {
            return Optional.of(new ControlMessage.Ask(id, ask.round(), TimeUnit.NANOSECONDS.toMillis(ask.promiseNs())));
        }
        if (message instanceof TransactionMessage.TakeOver) {
            return Optional.of(new ControlMessage.TakeOver(id));
        }
        if (message instanceof TransactionMessage.Standing standing) {
            return Optional.of(new ControlMessage.Standing(
                    id, VoterState.valueOf(standing.where().name()), standing.round()));
        }
        return Optional.empty();
    }

    /** What a message of the protocol says to the transaction; empty if it says nothing to it. */
    public static Optional<TransactionMessage> fromWire(int attempt, Message message) {
        TransactionMessage said = null;
        if (message instanceof ControlMessage.Accept accept) {
            throw new IllegalArgumentException("an answer to Begin names no migration: " + accept);
        } else if (message instanceof ControlMessage.Confirm m) {
            said = new TransactionMessage.Confirm(m.migrationId(), attempt);
        } else if (message instanceof ControlMessage.StillHeld m) {
            said = new TransactionMessage.StillHeld(m.migrationId(), attempt);
        } else if (message instanceof ControlMessage.NotHeld m) {
            said = new TransactionMessage.NotHeld(m.migrationId(), attempt, m.reason());
        } else if (message instanceof ControlMessage.Commit m) {
            said = new TransactionMessage.Commit(m.migrationId(), attempt);
        } else if (message instanceof ControlMessage.Committed m) {
            said = new TransactionMessage.Committed(m.migrationId(), attempt);
        } else if (message instanceof ControlMessage.RollBack m) {
            said = new TransactionMessage.RollBack(m.migrationId(), attempt, m.reason());
        } else if (message instanceof ControlMessage.RolledBack m) {
            said = new TransactionMessage.RolledBack(m.migrationId(), attempt, m.reason());
        } else if (message instanceof ControlMessage.Ask m) {
            long promiseNs = TimeUnit.MILLISECONDS.toNanos(m.promiseMs());
            said = new TransactionMessage.Ask(m.migrationId(), attempt, m.round(), promiseNs);
        } else if (message instanceof ControlMessage.TakeOver m) {
            said = new TransactionMessage.TakeOver(m.migrationId(), attempt);
        } else if (message instanceof ControlMessage.Standing m) {
            Where where = Where.valueOf(m.state().name());
            said = new TransactionMessage.Standing(m.migrationId(), attempt, where, m.round());
        }
        return Optional.ofNullable(said);
    }
}
