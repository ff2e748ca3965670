package io.ppmr.transport.auth;

import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.transport.auth.PeerAuthenticator.Role;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.util.Optional;

/**
 * The target's side of the {@link Handshake}: continues with the bytes that have come, and never waits for a peer, so
 * that one thread serves all that are in their first seconds. Takes a few hundred bytes of memory, whatever the peer
 * sends. For one thread; how long a peer may take is its caller's to say.
 */
public final class TargetHandshake {
    private final SocketChannel channel;
    private final PeerAuthenticator authenticator;
    private final Sessions sessions;
    private ByteBuffer in = ByteBuffer.allocate(Handshake.OPENING_BYTES);
    private ConnectionKind kind;
    private SessionId session;
    private byte[] transcript;

    /** The facts that the target learns of a connection that passed. */
    public record Accepted(ConnectionKind kind, SessionId session) {}

    /** The sessions of a target. */
    public interface Sessions {
        boolean exists(SessionId session);

        /** Returns true if another session can be opened. */
        boolean hasPlace();

        /**
         * A new session, whose source has just been told that it is welcome.
         *
         * @param secret by which its source is known again
         */
        void open(SessionId session, byte[] secret);

        /** The secret of a session whose control connection may be replaced; null of any other. */
        byte[] secret(SessionId session);
    }

    /**
     * A handshake that begins.
     *
     * @param channel in non-blocking mode, and new, so that it takes the target's few bytes at once
     */
    public TargetHandshake(SocketChannel channel, PeerAuthenticator authenticator, Sessions sessions) {
        this.channel = channel;
        this.authenticator = authenticator;
        this.sessions = sessions;
    }

    /**
     * Goes on with what has come.
     *
     * @return empty while more must come
     * @throws IOException if the peer is no ppmr, or does not hold the key; nothing was done for it
     */
    public Optional<Accepted> proceed() throws IOException {
        while (true) {
            int read = channel.read(in);
            if (read < 0) {
                throw new EOFException(
                        "peer " + channel.getRemoteAddress() + " ended the handshake early: its log says why."
                                + " It may be too slow, hold another key, or be no ppmr service of this release");
            }
            if (in.hasRemaining()) {
                return Optional.empty();
            }
            in.flip().order(ByteOrder.LITTLE_ENDIAN);
            if (transcript != null) {
                return Optional.of(judge(Handshake.take(in, PeerAuthenticator.PROOF_BYTES)));
            }
            challenge();
            in = ByteBuffer.allocate(PeerAuthenticator.PROOF_BYTES);
        }
    }

    private void challenge() throws IOException {
        Handshake.requireOpening(in, authenticator, channel.getRemoteAddress());
        int kindCode = in.get();
        kind = ConnectionKind.of(kindCode);
        if (kind == null) {
            throw new ProtocolException(
                    "connection of unknown kind " + kindCode + " from " + channel.getRemoteAddress());
        }
        SessionId asked = new SessionId(in.getLong(), in.getLong());
        session = kind == ConnectionKind.CONTROL ? SessionId.random(Handshake.RANDOM) : asked;
        byte[] sourceNonce = Handshake.take(in, Handshake.NONCE_BYTES);
        byte[] nonce = Handshake.nonce();
        transcript = Handshake.transcript(kindCode, session, sourceNonce, nonce);
        ByteBuffer challenge = ByteBuffer.allocate(Handshake.OPENING_BYTES + PeerAuthenticator.PROOF_BYTES);
        challenge
                .put(Handshake.opening(authenticator, kindCode, session, nonce))
                .put(authenticator.prove(Role.TARGET, transcript))
                .flip();
        write(challenge);
    }

    private Accepted judge(byte[] proof) throws IOException {
        byte[] proved = transcript;
        if (kind == ConnectionKind.CONTROL_RESUME) {
            byte[] secret = sessions.secret(session);
            if (secret == null) {
                // Nothing can be proved of a session that is not there, and nothing is told but that.
                verdict(Handshake.NO_SUCH_SESSION);
                throw new IOException("control connection from " + channel.getRemoteAddress() + " for session "
                        + session + ", which is over or takes none: refused");
            }
            proved = Handshake.joined(transcript, secret);
        }
        if (!authenticator.verify(Role.SOURCE, proved, proof)) {
            verdict(Handshake.WRONG_PROOF);
            throw new IOException("peer " + channel.getRemoteAddress() + " does not hold this node's key"
                    + (kind == ConnectionKind.CONTROL_RESUME ? ", or is not the source of session " + session : "")
                    + ": refused (put the same key file on both nodes)");
        }
        if (kind == ConnectionKind.DATA && !sessions.exists(session)) {
            verdict(Handshake.NO_SUCH_SESSION);
            throw new IOException("data connection from " + channel.getRemoteAddress() + " for session " + session
                    + ", which is not open: refused");
        }
        if (kind == ConnectionKind.CONTROL && !sessions.hasPlace()) {
            verdict(Handshake.NO_PLACE);
            throw new IOException("control connection from " + channel.getRemoteAddress()
                    + ", which holds the key: refused, as this node serves as many sessions as it can");
        }
        verdict(Handshake.WELCOME);
        // Its data connections are read by this thread, so none is looked at before this. A peer that could not be
        // told leaves no session behind.
        if (kind == ConnectionKind.CONTROL) {
            sessions.open(session, Handshake.secret(authenticator, transcript));
        }
        return new Accepted(kind, session);
    }

    private void verdict(int code) throws IOException {
        ByteBuffer verdict = ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        write(verdict.putInt(code).flip());
    }

    private void write(ByteBuffer bytes) throws IOException {
        channel.write(bytes);
        if (bytes.hasRemaining()) {
            throw new IOException("peer " + channel.getRemoteAddress() + " takes nothing: it is no ppmr service");
        }
    }
}
