package io.ppmr.transport.auth;

import java.io.IOException;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.security.MessageDigest;
import org.bouncycastle.tls.AlertDescription;
import org.bouncycastle.tls.TlsClientProtocol;
import org.bouncycastle.tls.TlsFatalAlert;
import org.bouncycastle.tls.TlsFatalAlertReceived;
import org.bouncycastle.tls.TlsProtocol;
import org.bouncycastle.tls.TlsServerProtocol;

/**
 * The handshake of an encrypted control connection: TLS 1.3, and in its first records
 *
 * <pre>
 *  S to T  opening    kind u8 | session 16 | proof 32                                                    49 bytes
 *  T to S  verdict    u32: 0 is welcome, else a reason | session 16 | proof 32                           52
 * </pre>
 *
 * <p>On a connection that replaces a session's control connection, both ends prove that they opened the session; on
 * others both proofs are zeros. A proof is over a value that only the two ends of the new connection have, so a relay
 * cannot pass it on. This class is the
 * source's side, which runs on the caller's thread, in blocking mode, until a deadline.
 */
public final class TlsHandshake {
    static final int OPENING_BYTES = 1 + SessionId.BYTES + ConnectionProof.PROOF_BYTES;
    static final int VERDICT_BYTES = Integer.BYTES + SessionId.BYTES + ConnectionProof.PROOF_BYTES;
    private static final int BUFFER_BYTES = 4096;

    private final HandshakeSocket socket;
    private final PeerAuthenticator authenticator;
    private final SourceTls client;
    private final TlsClientProtocol tls = new TlsClientProtocol();
    private final byte[] bytes = new byte[BUFFER_BYTES];

    public TlsHandshake(SocketChannel channel, PeerAuthenticator authenticator, long deadlineNs) {
        this.socket = new HandshakeSocket(channel, deadlineNs);
        this.authenticator = authenticator;
        this.client = new SourceTls(authenticator);
    }

    /**
     * Makes a handshake in memory, with a key of its own, where connections are encrypted. The first one of a process
     * loads hundreds of classes, which would delay the first real one; then a listener under attack could need its
     * place.
     */
    public static void prepare(Encryption encryption) throws IOException {
        if (encryption == Encryption.OFF) {
            return;
        }
        byte[] secret = new byte[ConnectionProof.PROOF_BYTES];
        Handshake.RANDOM.nextBytes(secret);
        PreSharedKey key = new PreSharedKey(secret);
        SourceTls source = new SourceTls(key);
        TlsClientProtocol client = new TlsClientProtocol();
        client.connect(source);
        TlsServerProtocol server = new TlsServerProtocol();
        server.accept(new TargetTls(key, "this service"));
        pass(client, server);
        pass(server, client);
        pass(client, server);
        client.writeApplicationData(new byte[OPENING_BYTES], 0, OPENING_BYTES);
        pass(client, server);
        if (server.getAvailableInputBytes() != OPENING_BYTES) {
            throw new IOException("TLS does not work in this JVM: a handshake in memory failed");
        }
    }

    private static void pass(TlsProtocol from, TlsProtocol to) throws IOException {
        byte[] sent = new byte[from.getAvailableOutputBytes()];
        from.readOutput(sent, 0, sent.length);
        to.offerInput(sent);
    }

    /** Opens a session. */
    public SessionKeys open() throws IOException {
        connect();
        ByteBuffer welcome = exchange(ConnectionKind.CONTROL, SessionId.NONE, new byte[ConnectionProof.PROOF_BYTES]);
        return client.exported().keys(new SessionId(welcome.getLong(), welcome.getLong()), authenticator);
    }

    /**
     * Opens a connection that takes the place of a session's control connection.
     *
     * @throws RefusedException if the target responds and has no such session
     * @throws IOException also if the peer has the shared key, and is not the target that opened the session
     */
    public void resume(SessionKeys first) throws IOException {
        connect();
        ByteBuffer welcome = exchange(
                ConnectionKind.CONTROL_RESUME,
                first.session(),
                client.exported().proof(ConnectionProof.Role.SOURCE, first.resumption()));
        welcome.position(welcome.position() + SessionId.BYTES);
        byte[] proof = Handshake.readBytes(welcome, ConnectionProof.PROOF_BYTES);
        if (!MessageDigest.isEqual(client.exported().proof(ConnectionProof.Role.TARGET, first.resumption()), proof)) {
            throw new IOException("peer " + peer() + " has the key, and is not the target of session " + first.session()
                    + ": another node on the way answers for it, or its service was replaced");
        }
        if (client.exported().version() != first.version().number()) {
            throw new IOException("target " + peer() + " uses another version of the protocol than in session "
                    + first.session() + ": its service was replaced");
        }
    }

    /** Returns the connection, after the handshake. */
    public PeerConnection connection() {
        return new PeerConnection(socket.channel(), tls);
    }

    private void connect() throws IOException {
        try {
            tls.connect(client);
            while (client.exported() == null) {
                send();
                receive();
            }
        } catch (TlsFatalAlertReceived e) {
            throw new IOException(reason(e.getAlertDescription()), e);
        } catch (TlsFatalAlert e) {
            throw new IOException(
                    "target " + peer() + " does not complete the handshake: " + e.getMessage()
                            + ". It may not be a ppmr service, or a host on the network changes bytes",
                    e);
        }
    }

    private String reason(short alert) throws IOException {
        String target = "target " + peer();
        return target
                + switch (alert) {
                    case AlertDescription.decrypt_error, AlertDescription.unknown_psk_identity ->
                        " does not have this node's key: put the same key file on both nodes";
                    case AlertDescription.no_application_protocol ->
                        " has no version of the protocol in common with this service, which has version "
                                + authenticator.versions() + "; the target's log names its versions: install the same"
                                + " release of ppmr on both nodes, or two releases of which one follows the other";
                    case AlertDescription.protocol_version ->
                        " does not encrypt its connections, and this node does: set encryption to the same value on"
                                + " both nodes";
                    default ->
                        " refuses the handshake: " + AlertDescription.getText(alert)
                                + "; the target's log has the reason";
                };
    }

    /** Returns the verdict behind its first field: the session and the proof. */
    private ByteBuffer exchange(ConnectionKind kind, SessionId session, byte[] proof) throws IOException {
        ByteBuffer opening = ByteBuffer.allocate(OPENING_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        opening.put((byte) kind.code()).putLong(session.high()).putLong(session.low());
        tls.writeApplicationData(opening.put(proof).array(), 0, OPENING_BYTES);
        send();
        while (tls.getAvailableInputBytes() < VERDICT_BYTES) {
            receive();
        }
        ByteBuffer verdict = ByteBuffer.allocate(VERDICT_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        tls.readInput(verdict.array(), 0, VERDICT_BYTES);
        Handshake.requireWelcome(verdict.getInt(), peer());
        return verdict;
    }

    private void send() throws IOException {
        while (tls.getAvailableOutputBytes() > 0) {
            int length = tls.readOutput(bytes, 0, Math.min(bytes.length, tls.getAvailableOutputBytes()));
            socket.write(ByteBuffer.wrap(bytes, 0, length));
        }
    }

    private void receive() throws IOException {
        if (tls.isClosed()) {
            throw new IOException("target " + peer() + " ended the handshake: its log has the reason");
        }
        int read = socket.read(bytes, 0);
        tls.offerInput(bytes, 0, read);
    }

    private SocketAddress peer() throws IOException {
        return socket.channel().getRemoteAddress();
    }
}
