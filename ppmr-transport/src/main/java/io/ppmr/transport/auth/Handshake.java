package io.ppmr.transport.auth;

import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.transport.auth.PeerAuthenticator.Role;
import java.io.IOException;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;

/**
 * The first four messages of every connection, each of a fixed size, so that an unauthenticated peer can neither
 * send much nor wait
 * long. The source opens, the target proves itself first:
 *
 * <pre>
 *  S to T  hello      magic u32 | version u16 | mechanism u8 | kind u8 | session 16 | nonce 32       56 bytes
 *  T to S  challenge  magic u32 | version u16 | mechanism u8 | kind u8 | session 16 | nonce 32 | proof 32   88
 *  S to T  proof      proof 32                                                                       32
 *  T to S  verdict    u32: 0 is welcome, else a reason                                                4
 * </pre>
 *
 * <p>A control connection opens a session, whose random name the challenge carries; a data connection names the session
 * that it belongs to, and both proofs cover that name. A connection that takes the place of the session's control
 * connection proves besides that its source has made that one: its proof covers the session's secret, which only the
 * two ends of that handshake can derive, and which is never sent. This is the source's side, which runs on the caller's
 * thread, in blocking mode, to a deadline; the target's is {@link TargetHandshake}.
 */
public final class Handshake {
    private static final int MAGIC = 0x724D5050; // "PPMr"
    static final int OPENING_BYTES = 56;
    static final int NONCE_BYTES = 32;
    static final int WELCOME = 0;
    static final int NO_SUCH_SESSION = 1;
    static final int WRONG_PROOF = 2;
    static final int NO_PLACE = 3;
    static final SecureRandom RANDOM = new SecureRandom();

    private static final byte[] SECRET_OF = "ppmr control session ".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] NO_SECRET = {};

    private final SocketChannel channel;
    private final PeerAuthenticator authenticator;
    private final long deadlineNs;
    private byte[] opened;

    public Handshake(SocketChannel channel, PeerAuthenticator authenticator, long deadlineNs) {
        this.channel = channel;
        this.authenticator = authenticator;
        this.deadlineNs = deadlineNs;
    }

    /**
     * The source's side.
     *
     * @param session the session of a data connection, {@link SessionId#NONE} for a control connection
     * @return the session that the connection belongs to
     */
    public SessionId asSource(ConnectionKind kind, SessionId session) throws IOException {
        return asSource(kind, session, NO_SECRET);
    }

    /**
     * The source's side of a connection that takes the place of a session's control connection.
     *
     * @param secret the session's, {@link #secret} of the handshake that has opened it
     * @return the session
     */
    public SessionId resumeAsSource(SessionId session, byte[] secret) throws IOException {
        return asSource(ConnectionKind.CONTROL_RESUME, session, secret);
    }

    /** After a control connection's handshake: the secret of the session that it has opened. */
    public byte[] secret() {
        return secret(authenticator, opened);
    }

    static byte[] secret(PeerAuthenticator authenticator, byte[] transcript) {
        return authenticator.seal(joined(SECRET_OF, transcript));
    }

    static byte[] joined(byte[] first, byte[] second) {
        return ByteBuffer.allocate(first.length + second.length)
                .put(first)
                .put(second)
                .array();
    }

    private SessionId asSource(ConnectionKind kind, SessionId session, byte[] secret) throws IOException {
        byte[] nonce = nonce();
        write(opening(authenticator, kind.code(), session, nonce));
        ByteBuffer challenge = read(OPENING_BYTES + PeerAuthenticator.PROOF_BYTES);
        requireOpening(challenge, authenticator, channel.getRemoteAddress());
        challenge.get();
        SessionId given = new SessionId(challenge.getLong(), challenge.getLong());
        byte[] targetNonce = take(challenge, NONCE_BYTES);
        byte[] proof = take(challenge, PeerAuthenticator.PROOF_BYTES);
        byte[] transcript = transcript(kind.code(), given, nonce, targetNonce);
        if (!authenticator.verify(Role.TARGET, transcript, proof)) {
            throw new IOException("target " + channel.getRemoteAddress()
                    + " does not hold this node's key: put the same key file on both nodes");
        }
        write(ByteBuffer.wrap(authenticator.prove(Role.SOURCE, joined(transcript, secret))));
        int verdict = read(Integer.BYTES).getInt();
        if (verdict != WELCOME) {
            throw new RefusedException(
                    "target " + channel.getRemoteAddress() + " refuses the connection: " + reason(verdict));
        }
        opened = transcript;
        return given;
    }

    private static String reason(int verdict) {
        return switch (verdict) {
            case NO_SUCH_SESSION -> "its session is over";
            case NO_PLACE -> "it serves as many sessions as it can: try again later or elsewhere";
            case WRONG_PROOF -> "this node does not hold the target's key: put the same key file on both nodes";
            default ->
                "for reason " + verdict + ", which this release does not know: install the same release of ppmr"
                        + " on both nodes";
        };
    }

    static ByteBuffer opening(PeerAuthenticator authenticator, int kindCode, SessionId session, byte[] nonce) {
        ByteBuffer opening = ByteBuffer.allocate(OPENING_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        opening.putInt(MAGIC).putShort((short) Frame.VERSION).put((byte) authenticator.mechanism());
        opening.put((byte) kindCode)
                .putLong(session.high())
                .putLong(session.low())
                .put(nonce);
        return opening.flip();
    }

    /** Takes magic, version and mechanism off the front of a peer's first message. */
    static void requireOpening(ByteBuffer opening, PeerAuthenticator authenticator, SocketAddress peer)
            throws ProtocolException {
        if (opening.getInt() != MAGIC) {
            throw new ProtocolException("peer " + peer + " is no ppmr service: refused");
        }
        int version = opening.getShort() & 0xFFFF;
        if (version != Frame.VERSION) {
            throw new ProtocolException("peer " + peer + " speaks version " + version
                    + " of the protocol, this service version " + Frame.VERSION
                    + ": install the same release of ppmr on both nodes");
        }
        int mechanism = opening.get();
        if (mechanism != authenticator.mechanism()) {
            throw new ProtocolException("peer " + peer + " uses authentication mechanism " + mechanism + ", this node "
                    + authenticator.mechanism() + ": configure the same on both nodes");
        }
    }

    static byte[] transcript(int kindCode, SessionId session, byte[] sourceNonce, byte[] targetNonce) {
        ByteBuffer transcript = ByteBuffer.allocate(2 + SessionId.BYTES + 2 * NONCE_BYTES);
        transcript.put((byte) Frame.VERSION).put((byte) kindCode);
        transcript.putLong(session.high()).putLong(session.low());
        return transcript.put(sourceNonce).put(targetNonce).array();
    }

    static byte[] nonce() {
        byte[] nonce = new byte[NONCE_BYTES];
        RANDOM.nextBytes(nonce);
        return nonce;
    }

    static byte[] take(ByteBuffer from, int lengthBytes) {
        byte[] bytes = new byte[lengthBytes];
        from.get(bytes);
        return bytes;
    }

    private void write(ByteBuffer bytes) throws IOException {
        while (bytes.hasRemaining()) {
            channel.write(bytes);
        }
    }

    private ByteBuffer read(int lengthBytes) throws IOException {
        Socket socket = channel.socket();
        byte[] bytes = new byte[lengthBytes];
        int have = 0;
        while (have < lengthBytes) {
            int read = readSome(socket, bytes, have);
            if (read < 0) {
                throw new IOException(
                        "peer " + channel.getRemoteAddress() + " ended the handshake early: its log says why."
                                + " It may be too slow, hold another key, or be no ppmr service of this release");
            }
            have += read;
        }
        return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    private int readSome(Socket socket, byte[] bytes, int have) throws IOException {
        long leftMs = (deadlineNs - System.nanoTime()) / 1_000_000;
        if (leftMs <= 0) {
            throw tooSlow();
        }
        socket.setSoTimeout((int) Math.min(leftMs, Integer.MAX_VALUE));
        try {
            return socket.getInputStream().read(bytes, have, bytes.length - have);
        } catch (SocketTimeoutException e) {
            throw (IOException) tooSlow().initCause(e);
        }
    }

    private SocketTimeoutException tooSlow() throws IOException {
        return new SocketTimeoutException("peer " + channel.getRemoteAddress()
                + " did not finish the handshake in time: it hangs, or is no ppmr service");
    }
}
