package io.ppmr.transport.auth;

import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.protocol.data.VersionRange;
import io.ppmr.transport.auth.ConnectionProof.Role;
import java.io.IOException;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.List;

/**
 * The first four messages of a connection that is not encrypted, each of a fixed size, so that an unauthenticated peer
 * can neither send much nor wait long. The source begins, and the target sends its proof first:
 *
 * <pre>
 *  S to T  hello      magic u32 | versions 2 x u8 | mechanism u8 | kind u8 | session 16 | nonce 32       56 bytes
 *  T to S  challenge  magic u32 | versions 2 x u8 | mechanism u8 | kind u8 | session 16 | nonce 32 | proof 32   88
 *  S to T  proof      proof 32                                                                           32
 *  T to S  verdict    u32: 0 is welcome, else a reason                                                    4
 * </pre>
 *
 * <p>The versions are the newest and the oldest version of the protocol that the sender knows. The connection uses the
 * newest one that both know.
 *
 * <p>A control connection opens a session, whose random name is in the challenge. A data connection sends the name of
 * its session, and both proofs include that name. A connection that replaces a session's control connection also proves
 * that its source opened the session. Its proof includes the session's secret, which is never sent. Only the two ends
 * of the first handshake can derive it. This class is the source's side, which runs on the caller's thread, in blocking
 * mode, until a deadline. {@link TargetHandshake} is the target's side.
 */
public final class Handshake {
    static final int MAGIC = 0x724D5050; // "PPMr"
    static final int OPENING_BYTES = 56;
    static final int NONCE_BYTES = 32;
    static final int WELCOME = 0;
    static final int NO_SUCH_SESSION = 1;
    static final int WRONG_PROOF = 2;
    static final int NO_CAPACITY = 3;
    static final SecureRandom RANDOM = new SecureRandom();

    private static final byte[] SECRET_OF = "ppmr control session ".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] NO_SECRET = {};

    private final SocketChannel channel;
    private final ConnectionProof authenticator;
    private final HandshakeSocket socket;
    private byte[] opened;
    private ProtocolVersion version;

    /** The versions that the two ends of a connection sent. */
    record Versions(VersionRange source, VersionRange target) {}

    public Handshake(SocketChannel channel, ConnectionProof authenticator, long deadlineNs) {
        this.channel = channel;
        this.authenticator = authenticator;
        this.socket = new HandshakeSocket(channel, deadlineNs);
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
     * @param first of the handshake that opened the session
     * @return the session
     */
    public SessionId resumeAsSource(SessionKeys first) throws IOException {
        return asSource(ConnectionKind.CONTROL_RESUME, first.session(), first.resumption());
    }

    /** After the handshake: the version of the protocol that both ends agreed on. */
    public ProtocolVersion version() {
        return version;
    }

    /** After a control connection's handshake: what both ends of the session that it opened have in common. */
    public SessionKeys keys(PeerAuthenticator key, SessionId session) {
        return new SessionKeys(session, version, key, secret(key, opened));
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
        socket.write(opening(authenticator, kind.code(), session, nonce));
        ByteBuffer challenge = read(OPENING_BYTES + ConnectionProof.PROOF_BYTES);
        VersionRange theirs = requireOpening(challenge, authenticator, channel.getRemoteAddress());
        // A peer without a common version may compute other proofs, so this comes first.
        ProtocolVersion agreed = authenticator.versions().agreedWith(theirs, channel.getRemoteAddress());
        challenge.get();
        SessionId assigned = new SessionId(challenge.getLong(), challenge.getLong());
        byte[] targetNonce = readBytes(challenge, NONCE_BYTES);
        byte[] proof = readBytes(challenge, ConnectionProof.PROOF_BYTES);
        byte[] transcript =
                transcript(new Versions(authenticator.versions(), theirs), kind.code(), assigned, nonce, targetNonce);
        if (!authenticator.verify(Role.TARGET, transcript, proof)) {
            throw new IOException("target " + channel.getRemoteAddress()
                    + " does not have this node's key: put the same key file on both nodes");
        }
        socket.write(ByteBuffer.wrap(authenticator.prove(Role.SOURCE, joined(transcript, secret))));
        int verdict = read(Integer.BYTES).getInt();
        requireWelcome(verdict, channel.getRemoteAddress());
        opened = transcript;
        version = agreed;
        return assigned;
    }

    static void requireWelcome(int verdict, SocketAddress target) throws RefusedException {
        if (verdict != WELCOME) {
            throw new RefusedException("target " + target + " refuses the connection: " + reason(verdict));
        }
    }

    private static String reason(int verdict) {
        return switch (verdict) {
            case NO_SUCH_SESSION -> "its session ended";
            case NO_CAPACITY -> "it has the maximum number of sessions: try again later or another target";
            case WRONG_PROOF -> "this node does not have the target's key: put the same key file on both nodes";
            default -> "unknown reason " + verdict + ": install the same release of ppmr" + " on both nodes";
        };
    }

    static ByteBuffer opening(ConnectionProof authenticator, int kindCode, SessionId session, byte[] nonce) {
        ByteBuffer opening = ByteBuffer.allocate(OPENING_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        VersionRange versions = authenticator.versions();
        opening.putInt(MAGIC).put((byte) versions.newest()).put((byte) versions.oldest());
        opening.put((byte) authenticator.mechanism())
                .put((byte) kindCode)
                .putLong(session.high())
                .putLong(session.low())
                .put(nonce);
        return opening.flip();
    }

    /** Takes magic, versions and mechanism off the front of a peer's first message, and returns the versions. */
    static VersionRange requireOpening(ByteBuffer opening, ConnectionProof authenticator, SocketAddress peer)
            throws ProtocolException {
        if (opening.getInt() != MAGIC) {
            throw new ProtocolException("peer " + peer + " is not a ppmr service: refused");
        }
        VersionRange versions = new VersionRange(opening.get() & 0xFF, opening.get() & 0xFF);
        int mechanism = opening.get();
        if (mechanism != authenticator.mechanism() && mechanism == SessionProof.MECHANISM) {
            throw new ProtocolException("peer " + peer + " encrypts its control connections, and this node does not:"
                    + " set encryption to the same value on both nodes");
        }
        if (mechanism != authenticator.mechanism()) {
            throw new ProtocolException("peer " + peer + " uses authentication mechanism " + mechanism + ", this node "
                    + authenticator.mechanism() + ": configure the same on both nodes");
        }
        return versions;
    }

    static byte[] transcript(
            Versions versions, int kindCode, SessionId session, byte[] sourceNonce, byte[] targetNonce) {
        ByteBuffer transcript = ByteBuffer.allocate(5 + SessionId.BYTES + 2 * NONCE_BYTES);
        for (VersionRange range : List.of(versions.source(), versions.target())) {
            transcript.put((byte) range.newest()).put((byte) range.oldest());
        }
        transcript.put((byte) kindCode);
        transcript.putLong(session.high()).putLong(session.low());
        return transcript.put(sourceNonce).put(targetNonce).array();
    }

    static byte[] nonce() {
        byte[] nonce = new byte[NONCE_BYTES];
        RANDOM.nextBytes(nonce);
        return nonce;
    }

    static byte[] readBytes(ByteBuffer from, int lengthBytes) {
        byte[] bytes = new byte[lengthBytes];
        from.get(bytes);
        return bytes;
    }

    private ByteBuffer read(int lengthBytes) throws IOException {
        byte[] bytes = new byte[lengthBytes];
        int received = 0;
        while (received < lengthBytes) {
            received += socket.read(bytes, received);
        }
        return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }
}
