package io.ppmr.transport.auth;

import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.protocol.data.VersionRange;
import io.ppmr.transport.auth.ConnectionProof.Role;
import java.io.EOFException;
import java.io.IOException;
import java.net.SocketAddress;
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
    private static final int MECHANISM_OFFSET = 6;
    private static final int SESSION_OFFSET = 8;

    private final SocketChannel channel;
    private final PeerAuthenticator authenticator;
    private final Sessions sessions;
    private ByteBuffer in = ByteBuffer.allocate(Handshake.OPENING_BYTES);
    private ConnectionKind kind;
    private SessionId session;
    private byte[] transcript;
    private ProtocolVersion version;
    /** The proof of this connection: of the key, or of its session. */
    private ConnectionProof proof;
    /** Null until the peer begins TLS. */
    private TargetTlsHandshake tls;

    /**
     * A connection that passed the handshake.
     *
     * @param version the version that both ends agreed on
     */
    public record Accepted(
            ConnectionKind kind, SessionId session, ProtocolVersion version, PeerConnection connection) {}

    /** The sessions of a target. */
    public interface Sessions {
        /** Returns the keys of a session; null if it does not exist. */
        SessionKeys keys(SessionId session);

        /** Returns true if another session can be opened. */
        boolean hasCapacity();

        /** Opens a new session, whose source just received the welcome. */
        void open(SessionKeys keys);

        /** Returns true if the control connection of a session may be replaced. */
        boolean mayResume(SessionId session);
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
        if (tls != null) {
            return tls.proceed();
        }
        while (true) {
            int read = channel.read(in);
            if (transcript == null && in.position() > 0 && in.get(0) == TlsProfile.FIRST_BYTE) {
                requireEncryption();
                tls = new TargetTlsHandshake(channel, authenticator, sessions);
                return tls.proceed(in.flip());
            }
            if (read < 0 && transcript == null && in.position() == 0) {
                throw new UnusedConnectionException("peer " + channel.getRemoteAddress() + " sent nothing");
            }
            if (read < 0) {
                throw new EOFException(
                        "peer " + channel.getRemoteAddress() + " ended the handshake early: its log has the reason."
                                + " It may be too slow, have another key or another encryption, or not be a ppmr"
                                + " service of this release");
            }
            if (in.hasRemaining()) {
                return Optional.empty();
            }
            in.flip().order(ByteOrder.LITTLE_ENDIAN);
            if (transcript != null) {
                return Optional.of(verifySource(Handshake.readBytes(in, ConnectionProof.PROOF_BYTES)));
            }
            challenge();
            in = ByteBuffer.allocate(ConnectionProof.PROOF_BYTES);
        }
    }

    /** Returns true if the peer has shown the key, though the handshake is not complete. */
    public boolean hasShownKey() {
        return tls != null && tls.hasShownKey();
    }

    private void requireEncryption() throws IOException {
        if (authenticator.encryption() == Encryption.OFF) {
            TargetTlsHandshake.refuse(channel);
            throw new ProtocolException("peer " + channel.getRemoteAddress()
                    + " encrypts its control connections, and this node does not: set encryption to the same value on"
                    + " both nodes");
        }
    }

    /** Selects the proof. Where control connections are encrypted, all others are the data connections of a session. */
    private void selectProof() throws IOException {
        proof = authenticator;
        if (authenticator.encryption() == Encryption.OFF || in.getInt(0) != Handshake.MAGIC) {
            return;
        }
        SessionId requested = new SessionId(in.getLong(SESSION_OFFSET), in.getLong(SESSION_OFFSET + Long.BYTES));
        if (in.get(MECHANISM_OFFSET) != SessionProof.MECHANISM) {
            ByteBuffer answer = ByteBuffer.allocate(Handshake.OPENING_BYTES + ConnectionProof.PROOF_BYTES);
            answer.put(Handshake.opening(
                    new SessionProof(Handshake.nonce(), authenticator.versions()), 0, requested, Handshake.nonce()));
            write(channel, answer.clear());
            throw new ProtocolException("peer " + channel.getRemoteAddress()
                    + " does not encrypt its control connections, and this node does: set encryption to the same value"
                    + " on both nodes");
        }
        SessionKeys keys = sessions.keys(requested);
        if (keys == null) {
            throw new IOException("data connection from " + channel.getRemoteAddress() + " for session " + requested
                    + ", which is not open: refused");
        }
        if (ConnectionKind.of(in.get(MECHANISM_OFFSET + 1)) != ConnectionKind.DATA) {
            throw new ProtocolException(
                    "control connection from " + channel.getRemoteAddress() + " that is not encrypted: refused");
        }
        proof = keys.proof();
    }

    private void challenge() throws IOException {
        selectProof();
        VersionRange theirs = Handshake.requireOpening(in, proof, channel.getRemoteAddress());
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
                new Handshake.Versions(theirs, proof.versions()), kindCode, session, sourceNonce, nonce);
        ByteBuffer challenge = ByteBuffer.allocate(Handshake.OPENING_BYTES + ConnectionProof.PROOF_BYTES);
        challenge
                .put(Handshake.opening(proof, kindCode, session, nonce))
                .put(proof.prove(Role.TARGET, transcript))
                .flip();
        write(channel, challenge);
        // The source names both ends' versions as well, so it first receives this end's.
        version = proof.versions().agreedWith(theirs, channel.getRemoteAddress());
    }

    private Accepted verifySource(byte[] received) throws IOException {
        byte[] proved = transcript;
        SessionKeys keys = kind == ConnectionKind.CONTROL ? null : sessions.keys(session);
        if (kind == ConnectionKind.CONTROL_RESUME) {
            if (keys == null || !sessions.mayResume(session)) {
                // Without a session nothing can be proved, and the answer reveals only that.
                verdict(Handshake.NO_SUCH_SESSION);
                throw noSuchSession(channel.getRemoteAddress(), session);
            }
            proved = Handshake.joined(transcript, keys.resumption());
        }
        if (!proof.verify(Role.SOURCE, proved, received)) {
            verdict(Handshake.WRONG_PROOF);
            throw new IOException("peer " + channel.getRemoteAddress() + " does not have this node's key"
                    + (kind == ConnectionKind.CONTROL_RESUME ? ", or is not the source of session " + session : "")
                    + ": refused (put the same key file on both nodes)");
        }
        if (kind == ConnectionKind.CONTROL) {
            return open();
        }
        requireSession(keys);
        verdict(Handshake.WELCOME);
        return new Accepted(kind, session, version, new PeerConnection(channel));
    }

    private void requireSession(SessionKeys keys) throws IOException {
        if (keys == null) {
            verdict(Handshake.NO_SUCH_SESSION);
            throw new IOException("data connection from " + channel.getRemoteAddress() + " for session " + session
                    + ", which is not open: refused");
        }
        if (keys.version() != version) {
            verdict(Handshake.NO_SUCH_SESSION);
            throw new ProtocolException("connection from " + channel.getRemoteAddress() + " with version "
                    + version.number() + " of the protocol for session " + session + ", which uses version "
                    + keys.version().number() + ": refused");
        }
    }

    private Accepted open() throws IOException {
        if (!sessions.hasCapacity()) {
            verdict(Handshake.NO_CAPACITY);
            throw noCapacity(channel.getRemoteAddress());
        }
        verdict(Handshake.WELCOME);
        // This thread also reads the data connections of the session, so it processes none before this. If the verdict
        // cannot be sent, no session remains.
        sessions.open(new SessionKeys(session, version, authenticator, Handshake.secret(authenticator, transcript)));
        return new Accepted(kind, session, version, new PeerConnection(channel));
    }

    static IOException noCapacity(SocketAddress peer) {
        return new IOException("control connection from " + peer
                + ", which has the key: refused, because this node has the maximum number of sessions");
    }

    static IOException noSuchSession(SocketAddress peer, SessionId session) {
        return new IOException("control connection from " + peer + " for session " + session
                + ", which ended or does not allow a resumption: refused");
    }

    private void verdict(int code) throws IOException {
        ByteBuffer verdict = ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        write(channel, verdict.putInt(code).flip());
    }

    static void write(SocketChannel channel, ByteBuffer bytes) throws IOException {
        channel.write(bytes);
        if (bytes.hasRemaining()) {
            throw new IOException("peer " + channel.getRemoteAddress() + " accepts no bytes: it is not a ppmr service");
        }
    }
}
