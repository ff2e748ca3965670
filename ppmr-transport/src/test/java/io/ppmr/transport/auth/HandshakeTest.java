package io.ppmr.transport.auth;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.protocol.data.VersionRange;
import io.ppmr.transport.Loopback;
import io.ppmr.transport.auth.ConnectionProof.Role;
import java.io.IOException;
import java.io.InputStream;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class HandshakeTest {
    private static final PreSharedKey KEY = key("0123456789abcdef0123456789abcdef");
    private static final PreSharedKey OTHER_KEY = key("fedcba9876543210fedcba9876543210");
    private static final int LONG_MS = 60_000 * Integer.getInteger("ppmr.patience", 1);
    private static final byte NEWEST = (byte) ProtocolVersion.NEWEST.number();
    private static final byte OLDEST = (byte) ProtocolVersion.OLDEST.number();
    private static final int HELLO_BYTES = 56;
    private static final int CHALLENGE_BYTES = 88;

    private final Map<SessionId, SessionKeys> open = new ConcurrentHashMap<>();
    private final TargetHandshake.Sessions sessions = new TargetHandshake.Sessions() {
        @Override
        public SessionKeys keys(SessionId session) {
            return open.get(session);
        }

        @Override
        public boolean hasCapacity() {
            return hasPlace;
        }

        @Override
        public void open(SessionKeys keys) {
            open.put(keys.session(), keys);
        }

        @Override
        public boolean mayResume(SessionId session) {
            return open.containsKey(session);
        }
    };
    private boolean hasPlace = true;
    private Loopback pair;

    @BeforeEach
    void connect() throws IOException {
        pair = Loopback.open();
    }

    @AfterEach
    void disconnect() throws IOException {
        pair.close();
    }

    @Test
    void shouldOpenASessionAndAcceptItsDataConnections() throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY, LONG_MS);
        SessionId session = source(KEY).asSource(ConnectionKind.CONTROL, SessionId.NONE);
        requireAccepted(ConnectionKind.CONTROL, session, target.get(LONG_MS, TimeUnit.MILLISECONDS));
        assertNotEquals(SessionId.NONE, session);
        assertEquals(Set.of(session), open.keySet());

        pair.close();
        connect();
        target = target(KEY, LONG_MS);
        assertEquals(session, source(KEY).asSource(ConnectionKind.DATA, session));
        requireAccepted(ConnectionKind.DATA, session, target.get(LONG_MS, TimeUnit.MILLISECONDS));
        assertEquals(Set.of(session), open.keySet());
    }

    @Test
    void shouldRefuseADataConnectionOfAnUnknownSessionOnBothSides() throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY, LONG_MS);
        IOException atSource = failureOf(() -> source(KEY).asSource(ConnectionKind.DATA, new SessionId(1, 2)));
        names(atSource, "refuses the connection: its session ended");
        names(failureOf(target), "for session 00000000000000010000000000000002, which is not open");
    }

    @Test
    void shouldReplaceTheControlConnectionForTheSourceOfTheSession() throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY, LONG_MS);
        Handshake first = source(KEY);
        SessionId session = first.asSource(ConnectionKind.CONTROL, SessionId.NONE);
        target.get(LONG_MS, TimeUnit.MILLISECONDS);
        SessionKeys keys = first.keys(KEY, session);
        assertArrayEquals(open.get(session).resumption(), keys.resumption(), "both ends derive the same");

        pair.close();
        connect();
        target = target(KEY, LONG_MS);
        source(KEY).resumeAsSource(keys);
        requireAccepted(ConnectionKind.CONTROL_RESUME, session, target.get(LONG_MS, TimeUnit.MILLISECONDS));
    }

    @Test
    void shouldNotReplaceTheControlConnectionForAnotherNodeWithTheKey() throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY, LONG_MS);
        SessionId session = source(KEY).asSource(ConnectionKind.CONTROL, SessionId.NONE);
        target.get(LONG_MS, TimeUnit.MILLISECONDS);

        // It knows the session's name, and opens a session of its own.
        pair.close();
        connect();
        target = target(KEY, LONG_MS);
        Handshake other = source(KEY);
        SessionId second = other.asSource(ConnectionKind.CONTROL, SessionId.NONE);
        target.get(LONG_MS, TimeUnit.MILLISECONDS);
        for (byte[] secret : new byte[][] {other.keys(KEY, second).resumption(), new byte[32], {}}) {
            pair.close();
            connect();
            CompletableFuture<TargetHandshake.Accepted> refusing = target(KEY, LONG_MS);
            IOException e = failureOf(() -> source(KEY).resumeAsSource(keys(session, secret)));
            assertInstanceOf(RefusedException.class, e);
            names(failureOf(refusing), "is not the source of session " + session);
        }
    }

    @Test
    void shouldNotReplaceTheControlConnectionForAReplay() throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY, LONG_MS);
        Handshake first = source(KEY);
        SessionId session = first.asSource(ConnectionKind.CONTROL, SessionId.NONE);
        target.get(LONG_MS, TimeUnit.MILLISECONDS);

        pair.close();
        connect();
        target = target(KEY, LONG_MS);
        ByteBuffer hello = hello(3, session);
        write(hello.duplicate());
        ByteBuffer challenge = read(CHALLENGE_BYTES);
        byte[] transcript = transcript(3, session.high(), session.low(), hello, part(challenge, 24, 32));
        byte[] proof = KEY.prove(
                Role.SOURCE, Handshake.joined(transcript, open.get(session).resumption()));
        write(ByteBuffer.wrap(proof));
        assertEquals(0, read(4).getInt(), "the source itself is welcome");
        target.get(LONG_MS, TimeUnit.MILLISECONDS);

        pair.close();
        connect();
        target = target(KEY, LONG_MS);
        write(hello.duplicate());
        read(CHALLENGE_BYTES);
        write(ByteBuffer.wrap(proof));
        assertEquals(2, read(4).getInt(), "every byte of it was sent again");
        names(failureOf(target), "is not the source of session");
    }

    @Test
    void shouldNotReplaceTheControlConnectionOfAnEndedSession() throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY, LONG_MS);
        IOException e = failureOf(() -> source(KEY).resumeAsSource(keys(new SessionId(1, 2), new byte[32])));
        names(assertInstanceOf(RefusedException.class, e), "its session ended");
        names(failureOf(target), "for session 00000000000000010000000000000002, which ended or does not allow");
    }

    @Test
    void shouldFindAtTheSourceThatTheTargetHoldsAnotherKey() throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(OTHER_KEY, LONG_MS);
        IOException atSource = failureOf(() -> source(KEY).asSource(ConnectionKind.CONTROL, SessionId.NONE));
        names(atSource, "does not have this node's key: put the same key file on both nodes");
        pair.near().close();
        names(failureOf(target), "ended the handshake early: its log has the reason");
        assertEquals(Map.of(), open);
    }

    /** A monitor's probe of the port is nothing for a log. */
    @Test
    void shouldTellAConnectionWithoutAByteFromAnAttemptThatFailed() throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY, LONG_MS);
        pair.near().close();
        assertInstanceOf(UnusedConnectionException.class, failureOf(target));
    }

    @Test
    void shouldRefuseAtTheTargetASourceThatProvesNothing() throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY, LONG_MS);
        write(hello());
        read(CHALLENGE_BYTES);
        write(ByteBuffer.allocate(32));
        assertEquals(2, read(4).getInt());
        names(failureOf(target), "does not have this node's key: refused");
        assertEquals(Map.of(), open);
    }

    @Test
    void shouldRefuseAtTheTargetItsOwnProofSentBack() throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY, LONG_MS);
        write(hello());
        ByteBuffer challenge = read(CHALLENGE_BYTES);
        write(challenge.slice(HELLO_BYTES, 32));
        assertEquals(2, read(4).getInt());
        names(failureOf(target), "does not have this node's key: refused");
    }

    @Test
    void shouldNameTheSourceTheReasonOfATargetThatRefusesItsProof() throws Exception {
        CompletableFuture<Void> rawTarget = CompletableFuture.runAsync(() -> {
            ByteBuffer hello = readQuietly(HELLO_BYTES);
            ByteBuffer challenge = ByteBuffer.allocate(CHALLENGE_BYTES).order(ByteOrder.LITTLE_ENDIAN);
            challenge.put(hello.slice(0, 8)).putLong(5).putLong(6).put(new byte[32]);
            challenge.put(KEY.prove(Role.TARGET, transcript(1, 5, 6, hello, new byte[32])));
            writeQuietly(challenge.flip());
            readQuietly(32);
            writeQuietly(ByteBuffer.wrap(new byte[] {2, 0, 0, 0}));
        });
        Handshake source = new Handshake(pair.far(), KEY, inMs(LONG_MS));
        IOException e = failureOf(() -> source.asSource(ConnectionKind.CONTROL, SessionId.NONE));
        names(e, "this node does not have the target's key");
        rawTarget.get(LONG_MS, TimeUnit.MILLISECONDS);
    }

    @Test
    void shouldWriteTheFourMessagesAsDrawn() throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY, LONG_MS);
        ByteBuffer hello = hello();
        write(hello.duplicate());
        ByteBuffer challenge = read(CHALLENGE_BYTES);
        assertArrayEquals(
                new byte[] {'P', 'P', 'M', 'r', NEWEST, OLDEST, 1, 1}, part(challenge, 0, 8), "its first bytes");
        long high = challenge.getLong(8);
        long low = challenge.getLong(16);
        byte[] nonce = part(challenge, 24, 32);
        byte[] transcript = transcript(1, high, low, hello, nonce);
        assertTrue(KEY.verify(Role.TARGET, transcript, part(challenge, HELLO_BYTES, 32)));
        write(ByteBuffer.wrap(KEY.prove(Role.SOURCE, transcript)));
        assertEquals(0, read(4).getInt());
        assertEquals(
                new SessionId(high, low),
                target.get(LONG_MS, TimeUnit.MILLISECONDS).session());
    }

    @ParameterizedTest
    @CsvSource({
        "0, 71, is not a ppmr service",
        "3, 0, is not a ppmr service",
        "4, 1, uses version 1 (oldest 9) of the protocol",
        "4, 8, uses version 8 (oldest 9) of the protocol",
        "5, 0, 'uses version 10 (oldest 0) of the protocol, this service version 10 (and 9): install the same'",
        "5, 11, uses version 10 (oldest 11) of the protocol",
        "6, 9, uses authentication mechanism 9",
        "7, 0, connection of unknown kind 0",
        "7, 4, connection of unknown kind 4"
    })
    void shouldRefuseAtTheTargetAHelloOfSomethingElse(int place, byte value, String reason) throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY, LONG_MS);
        write(hello().put(place, value));
        names(assertInstanceOf(ProtocolException.class, failureOf(target)), reason);
        assertEquals(Map.of(), open);
    }

    @ParameterizedTest
    @CsvSource({
        "0, 71, is not a ppmr service",
        "4, 1, 'uses version 1 (oldest 9) of the protocol, this service version 10 (and 9): install the same'",
        "6, 9, uses authentication mechanism 9"
    })
    void shouldRefuseAtTheSourceAChallengeOfSomethingElse(int place, byte value, String reason) throws Exception {
        write(ByteBuffer.allocate(CHALLENGE_BYTES)
                .put(hello())
                .position(CHALLENGE_BYTES)
                .put(place, value)
                .flip());
        Handshake source = new Handshake(pair.far(), KEY, inMs(LONG_MS));
        IOException e = failureOf(() -> source.asSource(ConnectionKind.CONTROL, SessionId.NONE));
        names(assertInstanceOf(ProtocolException.class, e), reason);
    }

    @Test
    void shouldTimeOutAtTheSourceWhenTheTargetSendsNothing() throws Exception {
        long startNs = System.nanoTime();
        Handshake source = new Handshake(pair.near(), KEY, inMs(200));
        IOException e = failureOf(() -> source.asSource(ConnectionKind.CONTROL, SessionId.NONE));
        names(assertInstanceOf(SocketTimeoutException.class, e), "did not finish the handshake");
        names(e, pair.far().getLocalAddress().toString());
        long tookMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startNs);
        assertTrue(tookMs < LONG_MS, "it took " + tookMs + " ms");
    }

    @Test
    void shouldProcessEachByteAtTheTargetWithoutBlocking() throws Exception {
        pair.far().configureBlocking(false);
        TargetHandshake handshake = new TargetHandshake(pair.far(), KEY, sessions);
        assertEquals(Optional.empty(), handshake.proceed());
        ByteBuffer hello = hello();
        for (int i = 0; i < HELLO_BYTES - 1; i++) {
            write(hello.limit(i + 1));
            assertEquals(Optional.empty(), handshake.proceed());
        }
        assertEquals(0, pair.near().socket().getInputStream().available(), "nothing is sent before the whole hello");
        write(hello.limit(HELLO_BYTES));
        Loopback.until("the challenge arrived", () -> {
            assertEquals(Optional.empty(), handshake.proceed());
            return pair.near().socket().getInputStream().available() == CHALLENGE_BYTES;
        });
    }

    @Test
    void shouldReportToTheSourceThatThereAreTooManySessions() throws Exception {
        hasPlace = false;
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY, LONG_MS);
        IOException atSource = failureOf(() -> source(KEY).asSource(ConnectionKind.CONTROL, SessionId.NONE));
        names(atSource, "it has the maximum number of sessions");
        names(failureOf(target), "has the maximum number of sessions");
        assertEquals(Map.of(), open);
    }

    // ---- versions ---------------------------------------------------------------------------------------------

    /** An end of another release: it has the key, and other versions of the protocol. */
    private record OtherRelease(VersionRange versions) implements PeerAuthenticator {
        static OtherRelease of(int newest, int oldest) {
            return new OtherRelease(new VersionRange(newest, oldest));
        }

        @Override
        public int mechanism() {
            return KEY.mechanism();
        }

        @Override
        public byte[] prove(Role role, byte[] transcript) {
            return KEY.prove(role, transcript);
        }

        @Override
        public byte[] seal(byte[] text) {
            return KEY.seal(text);
        }

        @Override
        public Encryption encryption() {
            return KEY.encryption();
        }

        @Override
        public ImportedKey imported() {
            return KEY.imported();
        }

        @Override
        public boolean verify(Role role, byte[] transcript, byte[] proof) {
            return KEY.verify(role, transcript, proof);
        }
    }

    @ParameterizedTest
    @CsvSource({"10, 9, 10", "9, 8, 9", "9, 9, 9", "11, 10, 10", "12, 9, 10", "255, 1, 10"})
    void shouldAgreeOnTheNewestVersionThatBothKnow(int newest, int oldest, int agreed) throws Exception {
        for (boolean isSourceOther : List.of(true, false)) {
            PeerAuthenticator other = OtherRelease.of(newest, oldest);
            CompletableFuture<TargetHandshake.Accepted> target = target(isSourceOther ? KEY : other, LONG_MS);
            Handshake source = source(isSourceOther ? other : KEY);
            source.asSource(ConnectionKind.CONTROL, SessionId.NONE);
            assertEquals(agreed, source.version().number());
            assertEquals(
                    source.version(), target.get(LONG_MS, TimeUnit.MILLISECONDS).version());
            pair.close();
            connect();
        }
    }

    @ParameterizedTest
    @CsvSource({"8, 8, 8", "8, 7, 8 (and 7)", "12, 11, 12 (and 11)"})
    void shouldNameTheVersionsOfBothAtBothEndsWhenThereIsNoCommonOne(int newest, int oldest, String named)
            throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY, LONG_MS);
        IOException atSource = failureOf(
                () -> source(OtherRelease.of(newest, oldest)).asSource(ConnectionKind.CONTROL, SessionId.NONE));
        names(assertInstanceOf(ProtocolException.class, atSource), "uses version 10 (and 9) of the protocol");
        names(atSource, "this service version " + named + ": install the same release of ppmr on both nodes, or two");
        IOException atTarget = failureOf(target);
        names(assertInstanceOf(ProtocolException.class, atTarget), "uses version " + named + " of the protocol");
        names(atTarget, "this service version 10 (and 9): install the same release of ppmr on both nodes, or two");
        assertEquals(Map.of(), open);
    }

    /** Someone between the ends makes each take the other for one of the release before. */
    @ParameterizedTest
    @CsvSource({"true, false", "false, true", "true, true"})
    void shouldRefuseWhenSomeoneBetweenTheEndsLowersTheVersion(boolean inHello, boolean inChallenge) throws Exception {
        try (Loopback behind = Loopback.open()) {
            SocketChannel channel = behind.far();
            CompletableFuture<TargetHandshake.Accepted> target = target(KEY, LONG_MS, channel);
            CompletableFuture<IOException> source = new CompletableFuture<>();
            Thread thread = new Thread(() -> {
                try {
                    new Handshake(pair.far(), KEY, inMs(LONG_MS)).asSource(ConnectionKind.CONTROL, SessionId.NONE);
                    source.completeExceptionally(new AssertionError("the lowered version was accepted"));
                } catch (IOException e) {
                    source.complete(e);
                }
            });
            thread.start();
            ByteBuffer hello = read(HELLO_BYTES);
            behind.near().write(inHello ? hello.put(4, OLDEST) : hello);
            behind.near().socket().setSoTimeout(LONG_MS);
            ByteBuffer challenge =
                    ByteBuffer.wrap(behind.near().socket().getInputStream().readNBytes(CHALLENGE_BYTES));
            write(inChallenge ? challenge.put(4, OLDEST) : challenge);
            names(source.get(LONG_MS, TimeUnit.MILLISECONDS), "does not have this node's key");
            behind.near().close();
            names(failureOf(target), "ended the handshake early");
            assertEquals(Map.of(), open);
        }
    }

    @Test
    void shouldRefuseAConnectionOfASessionThatUsesAnotherVersion() throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY, LONG_MS);
        SessionId session = source(KEY).asSource(ConnectionKind.CONTROL, SessionId.NONE);
        target.get(LONG_MS, TimeUnit.MILLISECONDS);

        pair.close();
        connect();
        target = target(KEY, LONG_MS);
        IOException atSource = failureOf(() -> source(OtherRelease.of(9, 9)).asSource(ConnectionKind.DATA, session));
        assertInstanceOf(RefusedException.class, atSource);
        names(failureOf(target), "with version 9 of the protocol for session " + session + ", which uses version 10");
    }

    // ---- both sides -------------------------------------------------------------------------------------------

    private Handshake source(PeerAuthenticator key) {
        return new Handshake(pair.near(), key, inMs(LONG_MS));
    }

    private CompletableFuture<TargetHandshake.Accepted> target(PeerAuthenticator key, long deadlineMs) {
        return target(key, deadlineMs, pair.far());
    }

    private CompletableFuture<TargetHandshake.Accepted> target(
            PeerAuthenticator key, long deadlineMs, SocketChannel channel) {
        CompletableFuture<TargetHandshake.Accepted> accepted = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                accepted.complete(drive(channel, new TargetHandshake(channel, key, sessions), inMs(deadlineMs)));
            } catch (IOException e) {
                accepted.completeExceptionally(e);
            }
        });
        thread.setDaemon(true);
        thread.start();
        return accepted;
    }

    /** Waits for the peer like a listener, which limits the peer's time. */
    private static TargetHandshake.Accepted drive(SocketChannel channel, TargetHandshake handshake, long deadlineNs)
            throws IOException {
        channel.configureBlocking(false);
        try (Selector selector = Selector.open()) {
            channel.register(selector, SelectionKey.OP_READ);
            while (System.nanoTime() - deadlineNs < 0) {
                Optional<TargetHandshake.Accepted> accepted = handshake.proceed();
                if (accepted.isPresent()) {
                    return accepted.get();
                }
                selector.select(10);
                selector.selectedKeys().clear();
            }
            throw new SocketTimeoutException("the peer has not proved anything in time");
        }
    }

    private static ByteBuffer hello() {
        return ByteBuffer.allocate(HELLO_BYTES)
                .put(new byte[] {'P', 'P', 'M', 'r', NEWEST, OLDEST, 1, 1})
                .position(HELLO_BYTES)
                .flip();
    }

    private static ByteBuffer hello(int kind, SessionId session) {
        return hello().duplicate()
                .order(ByteOrder.LITTLE_ENDIAN)
                .put(7, (byte) kind)
                .putLong(8, session.high())
                .putLong(16, session.low());
    }

    private static byte[] transcript(int kind, long high, long low, ByteBuffer hello, byte[] targetNonce) {
        return ByteBuffer.allocate(85)
                .put(hello.slice(4, 2))
                .put(new byte[] {NEWEST, OLDEST})
                .put((byte) kind)
                .putLong(high)
                .putLong(low)
                .put(hello.slice(24, 32))
                .put(targetNonce)
                .array();
    }

    private static byte[] part(ByteBuffer bytes, int offset, int lengthBytes) {
        byte[] part = new byte[lengthBytes];
        bytes.get(offset, part);
        return part;
    }

    private void write(ByteBuffer bytes) throws IOException {
        while (bytes.hasRemaining()) {
            pair.near().write(bytes);
        }
    }

    private void writeQuietly(ByteBuffer bytes) {
        try {
            write(bytes);
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private ByteBuffer read(int lengthBytes) throws IOException {
        pair.near().socket().setSoTimeout(LONG_MS);
        InputStream in = pair.near().socket().getInputStream();
        return ByteBuffer.wrap(in.readNBytes(lengthBytes)).order(ByteOrder.LITTLE_ENDIAN);
    }

    private ByteBuffer readQuietly(int lengthBytes) {
        try {
            return read(lengthBytes);
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private static IOException failureOf(CompletableFuture<?> future) throws Exception {
        return failureOf(() -> {
            try {
                // The limits of the two sides apply first, and have better messages.
                return future.get(2L * LONG_MS, TimeUnit.MILLISECONDS);
            } catch (java.util.concurrent.ExecutionException e) {
                throw (IOException) e.getCause();
            }
        });
    }

    private static IOException failureOf(Callable<?> call) throws Exception {
        try {
            throw new AssertionError("it did not fail but gave " + call.call());
        } catch (IOException e) {
            return e;
        }
    }

    private static void names(IOException e, String reason) {
        assertTrue(e.getMessage().contains(reason), e.getMessage());
    }

    private static long inMs(long ms) {
        return System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
    }

    private static PreSharedKey key(String secret) {
        return new PreSharedKey(secret.getBytes(StandardCharsets.US_ASCII)).with(Encryption.OFF);
    }

    private static SessionKeys keys(SessionId session, byte[] resumption) {
        return new SessionKeys(session, ProtocolVersion.NEWEST, KEY, resumption);
    }

    private static void requireAccepted(ConnectionKind kind, SessionId session, TargetHandshake.Accepted accepted) {
        assertEquals(
                List.of(kind, session, ProtocolVersion.NEWEST, false),
                List.of(
                        accepted.kind(),
                        accepted.session(),
                        accepted.version(),
                        accepted.connection().isEncrypted()));
    }
}
