package io.ppmr.transport.auth;

import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.protocol.data.VersionRange;
import io.ppmr.transport.auth.PeerAuthenticator.Role;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.util.Optional;

/**
 * The target's side of the {@link Handshake}. It processes the received bytes and never blocks, so that one thread
 * serves all new connections. It needs a few hundred bytes of memory for any peer. For one thread. The caller limits
 * the duration.
 */
public final class TargetHandshake {
    private final SocketChannel channel;
    private final PeerAuthenticator authenticator;
    private final Sessions sessions;
    private ByteBuffer in = ByteBuffer.allocate(Handshake.OPENING_BYTES);
    private ConnectionKind kind;
    private SessionId session;
    private byte[] transcript;
    private ProtocolVersion version;

    /** The kind and the session of a connection that passed the handshake, and the version that both ends agreed on. */
    public record Accepted(ConnectionKind kind, SessionId session, ProtocolVersion version) {}

    /** The sessions of a target. */
    public interface Sessions {
        /** Returns the version that the session agreed on; null if it does not exist. */
        ProtocolVersion version(SessionId session);

        /** Returns true if another session can be opened. */
        boolean hasCapacity();

        /**
         * Opens a new session, whose source just received the welcome.
         *
         * @param secret identifies the session's source later
         */
        void open(SessionId session, byte[] secret, ProtocolVersion version);

        /** Returns the secret of a session whose control connection may be replaced; null for any other. */
        byte[] secret(SessionId session);
    }

    /**
     * Starts a handshake.
     *
     * @param channel a new channel in non-blocking mode, so that its send buffer has space for the target's few bytes
     */
    public TargetHandshake(SocketChannel channel, PeerAuthenticator authenticator, Sessions sessions) {
        this.channel = channel;
        this.authenticator = authenticator;
        this.sessions = sessions;
    }

    /**
     * Processes the received bytes.
     *
     * @return empty while more bytes are needed
     * @throws IOException if the peer is not ppmr, or does not have the key; the connection had no effect then
     */
    public Optional<Accepted> proceed() throws IOException {
        while (true) {
            int read = channel.read(in);
            if (read < 0 && transcript == null && in.position() == 0) {
                throw new UnusedConnectionException("peer " + channel.getRemoteAddress() + " sent nothing");
            }
            if (read < 0) {
                throw new EOFException(
                        "peer " + channel.getRemoteAddress() + " ended the handshake early: its log has the reason."
                                + " It may be too slow, have another key, or not be a ppmr service of this release");
            }
            if (in.hasRemaining()) {
                return Optional.empty();
            }
            in.flip().order(ByteOrder.LITTLE_ENDIAN);
            if (transcript != null) {
                return Optional.of(verifySource(Handshake.readBytes(in, PeerAuthenticator.PROOF_BYTES)));
            }
            challenge();
            in = ByteBuffer.allocate(PeerAuthenticator.PROOF_BYTES);
        }
    }

    private void challenge() throws IOException {
        VersionRange theirs = Handshake.requireOpening(in, authenticator, channel.getRemoteAddress());
        int kindCode = in.get();
        kind = ConnectionKind.of(kindCode);
        if (kind == null) {
            throw new ProtocolException(
                    "connection of unknown kind " + kindCode + " from " + channel.getRemoteAddress());
        }
        SessionId requested = new SessionId(in.getLong(), in.getLong());
        session = kind == ConnectionKind.CONTROL ? SessionId.random(Handshake.RANDOM) : requested;
        byte[] sourceNonce = Handshake.readBytes(in, Handshake.NONCE_BYTES);
        byte[] nonce = Handshake.nonce();
        transcript = Handshake.transcript(
                new Handshake.Versions(theirs, authenticator.versions()), kindCode, session, sourceNonce, nonce);
        ByteBuffer challenge = ByteBuffer.allocate(Handshake.OPENING_BYTES + PeerAuthenticator.PROOF_BYTES);
        challenge
                .put(Handshake.opening(authenticator, kindCode, session, nonce))
                .put(authenticator.prove(Role.TARGET, transcript))
                .flip();
        write(challenge);
        // The source names both ends' versions as well, so it first receives this end's.
        version = authenticator.versions().agreedWith(theirs, channel.getRemoteAddress());
    }

    private Accepted verifySource(byte[] proof) throws IOException {
        byte[] proved = transcript;
        if (kind == ConnectionKind.CONTROL_RESUME) {
            byte[] secret = sessions.secret(session);
            if (secret == null) {
                // Without a session nothing can be proved, and the answer reveals only that.
                verdict(Handshake.NO_SUCH_SESSION);
                throw new IOException("control connection from " + channel.getRemoteAddress() + " for session "
                        + session + ", which ended or does not allow a resumption: refused");
            }
            proved = Handshake.joined(transcript, secret);
        }
        if (!authenticator.verify(Role.SOURCE, proved, proof)) {
            verdict(Handshake.WRONG_PROOF);
            throw new IOException("peer " + channel.getRemoteAddress() + " does not have this node's key"
                    + (kind == ConnectionKind.CONTROL_RESUME ? ", or is not the source of session " + session : "")
                    + ": refused (put the same key file on both nodes)");
        }
        ProtocolVersion used = kind == ConnectionKind.CONTROL ? version : sessions.version(session);
        if (used == null) {
            verdict(Handshake.NO_SUCH_SESSION);
            throw new IOException("data connection from " + channel.getRemoteAddress() + " for session " + session
                    + ", which is not open: refused");
        }
        if (used != version) {
            verdict(Handshake.NO_SUCH_SESSION);
            throw new ProtocolException("connection from " + channel.getRemoteAddress() + " with version "
                    + version.number() + " of the protocol for session " + session + ", which uses version "
                    + used.number() + ": refused");
        }
        if (kind == ConnectionKind.CONTROL && !sessions.hasCapacity()) {
            verdict(Handshake.NO_CAPACITY);
            throw new IOException("control connection from " + channel.getRemoteAddress()
                    + ", which has the key: refused, because this node has the maximum number of sessions");
        }
        verdict(Handshake.WELCOME);
        // This thread also reads the data connections of the session, so it processes none before this. If the verdict
        // cannot be sent, no session remains.
        if (kind == ConnectionKind.CONTROL) {
            sessions.open(session, Handshake.secret(authenticator, transcript), version);
        }
        return new Accepted(kind, session, version);
    }

    private void verdict(int code) throws IOException {
        ByteBuffer verdict = ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        write(verdict.putInt(code).flip());
    }

    private void write(ByteBuffer bytes) throws IOException {
        channel.write(bytes);
        if (bytes.hasRemaining()) {
            throw new IOException("peer " + channel.getRemoteAddress() + " accepts no bytes: it is not a ppmr service");
        }
    }
}
