package io.ppmr.transport.auth;

import io.ppmr.protocol.data.ProtocolException;
import java.io.EOFException;
import java.io.IOException;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.security.MessageDigest;
import java.util.Optional;
import org.bouncycastle.tls.AlertDescription;
import org.bouncycastle.tls.TlsFatalAlert;
import org.bouncycastle.tls.TlsFatalAlertReceived;
import org.bouncycastle.tls.TlsServerProtocol;

/**
 * The target's side of the {@link TlsHandshake}. It processes the received bytes and never blocks. A peer may send
 * {@value TlsProfile#MAX_HANDSHAKE_BYTES} bytes before it is authenticated. For one thread. The caller limits the
 * duration.
 */
final class TargetTlsHandshake {
    private static final int BUFFER_BYTES = 2048;

    private final SocketChannel channel;
    private final SocketAddress peer;
    private final PeerAuthenticator authenticator;
    private final TargetHandshake.Sessions sessions;
    private final TargetTls server;
    private final TlsServerProtocol tls = new TlsServerProtocol();
    private final byte[] bytes = new byte[BUFFER_BYTES];
    private int receivedBytes;

    TargetTlsHandshake(SocketChannel channel, PeerAuthenticator authenticator, TargetHandshake.Sessions sessions)
            throws IOException {
        this.channel = channel;
        this.peer = channel.getRemoteAddress();
        this.authenticator = authenticator;
        this.sessions = sessions;
        this.server = new TargetTls(authenticator, peer);
        tls.accept(server);
    }

    /** Sends a refusal to a peer that begins TLS at a service that does not encrypt. */
    static void refuse(SocketChannel channel) throws IOException {
        // Unread bytes would turn the end of the connection into a reset, which may overtake the refusal.
        ByteBuffer rest = ByteBuffer.allocate(TlsProfile.MAX_HANDSHAKE_BYTES);
        int read = channel.read(rest);
        while (read > 0) {
            read = channel.read(rest);
        }
        byte[] alert = {0x15, 3, 3, 0, 2, 2, (byte) AlertDescription.protocol_version};
        channel.write(ByteBuffer.wrap(alert));
    }

    /**
     * Processes bytes that were read before, and then the received ones.
     *
     * @return empty while more bytes are needed
     */
    Optional<TargetHandshake.Accepted> proceed(ByteBuffer before) throws IOException {
        byte[] first = new byte[before.remaining()];
        before.get(first);
        Optional<TargetHandshake.Accepted> accepted = offer(first, first.length);
        return accepted.isPresent() ? accepted : proceed();
    }

    Optional<TargetHandshake.Accepted> proceed() throws IOException {
        while (true) {
            int read = channel.read(ByteBuffer.wrap(bytes));
            if (read < 0) {
                throw new EOFException("peer " + peer + " ended the handshake early: its log has the reason. It may be"
                        + " too slow, or not be a ppmr service of this release");
            }
            if (read == 0) {
                return Optional.empty();
            }
            Optional<TargetHandshake.Accepted> accepted = offer(bytes, read);
            if (accepted.isPresent()) {
                return accepted;
            }
        }
    }

    private Optional<TargetHandshake.Accepted> offer(byte[] from, int length) throws IOException {
        receivedBytes += length;
        if (receivedBytes > TlsProfile.MAX_HANDSHAKE_BYTES) {
            throw new ProtocolException("peer " + peer + " sends more than " + TlsProfile.MAX_HANDSHAKE_BYTES
                    + " bytes before it is authenticated: refused");
        }
        try {
            tls.offerInput(from, 0, length);
        } catch (TlsFatalAlert | TlsFatalAlertReceived e) {
            send();
            throw named(e);
        }
        send();
        if (tls.isClosed()) {
            throw new IOException("peer " + peer + " ended the handshake early: its log has the reason");
        }
        boolean isWhole = server.exported() != null && tls.getAvailableInputBytes() >= TlsHandshake.OPENING_BYTES;
        return isWhole ? Optional.of(verifySource()) : Optional.empty();
    }

    boolean hasShownKey() {
        return server.hasShownKey();
    }

    private IOException named(IOException cause) {
        if (server.refusal().isPresent()) {
            return server.refusal().get();
        }
        short alert = cause instanceof TlsFatalAlert raised
                ? raised.getAlertDescription()
                : ((TlsFatalAlertReceived) cause).getAlertDescription();
        if (alert == AlertDescription.unknown_psk_identity || alert == AlertDescription.decrypt_error) {
            return new IOException(
                    "peer " + peer + " does not have this node's key: refused (put the same key file on both nodes)",
                    cause);
        }
        return new IOException("peer " + peer + " does not complete the handshake: " + cause.getMessage(), cause);
    }

    private TargetHandshake.Accepted verifySource() throws IOException {
        ByteBuffer opening = ByteBuffer.allocate(TlsHandshake.OPENING_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        tls.readInput(opening.array(), 0, TlsHandshake.OPENING_BYTES);
        int kindCode = opening.get();
        ConnectionKind kind = ConnectionKind.of(kindCode);
        SessionId requested = new SessionId(opening.getLong(), opening.getLong());
        byte[] proof = Handshake.readBytes(opening, ConnectionProof.PROOF_BYTES);
        if (kind != ConnectionKind.CONTROL && kind != ConnectionKind.CONTROL_RESUME) {
            throw new ProtocolException("encrypted connection of unknown kind " + kindCode + " from " + peer);
        }
        return kind == ConnectionKind.CONTROL ? open() : resume(requested, proof);
    }

    private TargetHandshake.Accepted open() throws IOException {
        if (!sessions.hasCapacity()) {
            verdict(Handshake.NO_CAPACITY, SessionId.NONE);
            throw TargetHandshake.noCapacity(peer);
        }
        SessionKeys keys = server.exported().keys(SessionId.random(Handshake.RANDOM), authenticator);
        verdict(Handshake.WELCOME, keys.session());
        // If the verdict cannot be sent, no session remains.
        sessions.open(keys);
        return accepted(ConnectionKind.CONTROL, keys);
    }

    private TargetHandshake.Accepted resume(SessionId session, byte[] proof) throws IOException {
        SessionKeys keys = sessions.keys(session);
        if (keys == null || !sessions.mayResume(session)) {
            verdict(Handshake.NO_SUCH_SESSION, session);
            throw TargetHandshake.noSuchSession(peer, session);
        }
        if (!MessageDigest.isEqual(server.exported().proof(ConnectionProof.Role.SOURCE, keys.resumption()), proof)) {
            verdict(Handshake.WRONG_PROOF, session);
            throw new IOException("peer " + peer + " is not the source of session " + session + ": refused");
        }
        if (server.exported().version() != keys.version().number()) {
            verdict(Handshake.NO_SUCH_SESSION, session);
            throw new ProtocolException("connection from " + peer + " with version "
                    + server.exported().version() + " of the protocol for session " + session + ", which uses version "
                    + keys.version().number() + ": refused");
        }
        verdict(Handshake.WELCOME, session, server.exported().proof(ConnectionProof.Role.TARGET, keys.resumption()));
        return accepted(ConnectionKind.CONTROL_RESUME, keys);
    }

    private TargetHandshake.Accepted accepted(ConnectionKind kind, SessionKeys keys) {
        return new TargetHandshake.Accepted(kind, keys.session(), keys.version(), new PeerConnection(channel, tls));
    }

    private void verdict(int code, SessionId session) throws IOException {
        verdict(code, session, new byte[ConnectionProof.PROOF_BYTES]);
    }

    private void verdict(int code, SessionId session, byte[] proof) throws IOException {
        ByteBuffer verdict = ByteBuffer.allocate(TlsHandshake.VERDICT_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        verdict.putInt(code).putLong(session.high()).putLong(session.low()).put(proof);
        tls.writeApplicationData(verdict.array(), 0, TlsHandshake.VERDICT_BYTES);
        send();
    }

    /** The send buffer of a new connection has space for the target's few bytes. */
    private void send() throws IOException {
        int length = tls.getAvailableOutputBytes();
        byte[] output = new byte[length];
        tls.readOutput(output, 0, length);
        TargetHandshake.write(channel, ByteBuffer.wrap(output));
    }
}
