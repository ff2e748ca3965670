package io.ppmr.transport.auth;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.protocol.data.VersionRange;
import io.ppmr.transport.Loopback;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.Vector;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.bouncycastle.tls.PskIdentity;
import org.bouncycastle.tls.TlsServerProtocol;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class TlsHandshakeTest {
    private static final PreSharedKey KEY = key("0123456789abcdef0123456789abcdef");
    private static final PreSharedKey OTHER_KEY = key("fedcba9876543210fedcba9876543210");
    private static final int LONG_MS = 60_000 * Integer.getInteger("ppmr.patience", 1);

    /** For a source that waits for bytes that never come, since a length was changed. */
    private static final int SHORT_MS = 1000;

    private final Map<SessionId, SessionKeys> open = new ConcurrentHashMap<>();
    private boolean hasPlace = true;
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
    private Loopback pair;

    @BeforeEach
    void connect() throws IOException {
        pair = Loopback.open();
    }

    @AfterEach
    void disconnect() throws IOException {
        pair.close();
    }

    private void reconnect() throws IOException {
        disconnect();
        connect();
    }

    // ---- sessions ---------------------------------------------------------------------------------------------

    @Test
    void shouldGiveBothEndsTheSameKeysAndCarryBytesInBothDirections() throws Exception {
        Session session = openSession(KEY, KEY);
        SessionKeys there = open.get(session.keys().session());
        assertEquals(session.keys().session(), session.accepted().session());
        assertEquals(ProtocolVersion.NEWEST, session.keys().version());
        assertEquals(ProtocolVersion.NEWEST, session.accepted().version());
        assertArrayEquals(session.keys().resumption(), there.resumption());
        assertArrayEquals(proof(session.keys()), proof(there));

        byte[] sent = bytes(100_000);
        carry(session.near(), session.far(), sent);
        carry(session.far(), session.near(), sent);
    }

    @Test
    void shouldDeriveOtherKeysForEachSession() throws Exception {
        SessionKeys first = openSession(KEY, KEY).keys();
        reconnect();
        SessionKeys second = openSession(KEY, KEY).keys();
        assertNotEquals(hex(first.resumption()), hex(second.resumption()));
        assertNotEquals(hex(proof(first)), hex(proof(second)));
        assertNotEquals(hex(first.resumption()), hex(proof(first)));
    }

    @Test
    void shouldAcceptADataConnectionWithTheKeyOfItsSessionAlone() throws Exception {
        SessionKeys keys = openSession(KEY, KEY).keys();
        reconnect();
        SessionKeys others = openSession(KEY, KEY).keys();

        reconnect();
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY);
        assertEquals(keys.session(), data(keys.proof(), keys.session()));
        assertEquals(ConnectionKind.DATA, get(target).kind());
        assertEquals(keys.session(), get(target).session());

        reconnect();
        target = target(KEY);
        names(failureOf(() -> data(others.proof(), keys.session())), "does not have this node's key");
        pair.near().close();
        names(failureOf(target), "ended the handshake early");

        reconnect();
        target = target(KEY);
        failureOf(() -> data(KEY, keys.session()));
        names(failureOf(target), "does not encrypt its control connections");
    }

    @Test
    void shouldRefuseADataConnectionOfAnUnknownSession() throws Exception {
        SessionKeys keys = openSession(KEY, KEY).keys();
        open.clear();
        reconnect();
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY);
        CompletableFuture<Object> source = inBackground(() -> data(keys.proof(), keys.session()));
        names(failureOf(target), "for session " + keys.session() + ", which is not open: refused");
        disconnect();
        failureOf(source);
    }

    @Test
    void shouldReplaceTheControlConnectionForTheSourceOfTheSession() throws Exception {
        SessionKeys keys = openSession(KEY, KEY).keys();
        reconnect();
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY);
        source(KEY).resume(keys);
        assertEquals(ConnectionKind.CONTROL_RESUME, get(target).kind());
        assertEquals(keys.session(), get(target).session());
        assertTrue(get(target).connection().isEncrypted());
    }

    @Test
    void shouldNotReplaceTheControlConnectionForAnotherNodeWithTheKey() throws Exception {
        SessionKeys keys = openSession(KEY, KEY).keys();
        reconnect();
        SessionKeys others = openSession(KEY, KEY).keys();
        reconnect();
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY);
        SessionKeys mixed = new SessionKeys(keys.session(), keys.version(), keys.proof(), others.resumption());
        IOException e = failureOf(() -> {
            source(KEY).resume(mixed);
            return "accepted";
        });
        assertInstanceOf(RefusedException.class, e);
        names(failureOf(target), "is not the source of session " + keys.session());
    }

    /** Both ends have the shared key; the other node welcomes every connection. */
    @Test
    void shouldNotContinueAtAnotherNodeWithTheKey() throws Exception {
        SessionKeys keys = openSession(KEY, KEY).keys();
        reconnect();
        SocketChannel far = pair.far();
        far.configureBlocking(true);
        CompletableFuture<Boolean> other = CompletableFuture.supplyAsync(() -> isWelcomed(far));
        names(
                failureOf(() -> {
                    source(KEY).resume(keys);
                    return "accepted";
                }),
                "has the key, and is not the target of session " + keys.session());
        assertTrue(other.get(10, TimeUnit.SECONDS), "the other node has completed the handshake");
    }

    private static boolean isWelcomed(SocketChannel channel) {
        try {
            TlsServerProtocol tls = new TlsServerProtocol();
            tls.accept(new TargetTls(KEY, "the source"));
            ByteBuffer bytes = ByteBuffer.allocate(4096);
            while (tls.getAvailableInputBytes() < TlsHandshake.OPENING_BYTES) {
                if (channel.read(bytes.clear()) < 0) {
                    return false;
                }
                tls.offerInput(bytes.array(), 0, bytes.position());
                send(tls, channel);
            }
            tls.writeApplicationData(new byte[TlsHandshake.VERDICT_BYTES], 0, TlsHandshake.VERDICT_BYTES);
            send(tls, channel);
            return true;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void send(TlsServerProtocol tls, SocketChannel channel) throws IOException {
        byte[] output = new byte[tls.getAvailableOutputBytes()];
        tls.readOutput(output, 0, output.length);
        ByteBuffer unsent = ByteBuffer.wrap(output);
        while (unsent.hasRemaining()) {
            channel.write(unsent);
        }
    }

    @Test
    void shouldNotReplaceTheControlConnectionOfAnEndedSession() throws Exception {
        SessionKeys keys = openSession(KEY, KEY).keys();
        open.clear();
        reconnect();
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY);
        IOException e = failureOf(() -> {
            source(KEY).resume(keys);
            return "accepted";
        });
        names(assertInstanceOf(RefusedException.class, e), "its session ended");
        names(failureOf(target), "which ended or does not allow a resumption");
    }

    @Test
    void shouldReportToTheSourceThatThereAreTooManySessions() throws Exception {
        hasPlace = false;
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY);
        names(failureOf(() -> source(KEY).open()), "it has the maximum number of sessions");
        names(failureOf(target), "has the maximum number of sessions");
        assertEquals(Map.of(), open);
    }

    // ---- refusals ---------------------------------------------------------------------------------------------

    @Test
    void shouldRefuseAnotherKeyByNameAtBothEnds() throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(OTHER_KEY);
        names(
                failureOf(() -> source(KEY).open()),
                "does not have this node's key: put the same key file on both nodes");
        names(failureOf(target), "does not have this node's key: refused (put the same key file on both nodes)");
        assertEquals(Map.of(), open);
    }

    /** The name of a key is no secret: a host that has seen it on the network has no key with it. */
    @Test
    void shouldRefuseTheNameOfTheKeyWithoutTheKey() throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY);
        PeerAuthenticator thief =
                new NamedAs(OTHER_KEY, ImportedKey.of("a guess".getBytes(StandardCharsets.US_ASCII), name()));
        assertArrayEquals(KEY.imported().identity(), thief.imported().identity(), "the names are the same");
        names(failureOf(() -> source(thief).open()), "does not have this node's key");
        names(failureOf(target), "does not have this node's key: refused");
    }

    /** The library finds no such key, checks no binder then, and would exchange keys. */
    @Test
    @SuppressWarnings("JdkObsolete")
    void shouldKnowNoKeyWithAnAge() {
        byte[] name = KEY.imported().identity();
        Vector<PskIdentity> aged = new Vector<>(List.of(new PskIdentity(name, 1)));
        Vector<PskIdentity> genuine = new Vector<>(List.of(new PskIdentity(name, 0)));
        assertNull(new TargetTls(KEY, "a peer").getExternalPSK(aged));
        assertNotNull(new TargetTls(KEY, "a peer").getExternalPSK(genuine));
    }

    @Test
    void shouldNameTheEncryptionWhenTheTargetDoesNotEncrypt() throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY.with(Encryption.OFF));
        names(
                failureOf(() -> source(KEY).open()),
                "does not encrypt its connections, and this node does: set encryption to the same value");
        names(failureOf(target), "encrypts its control connections, and this node does not: set encryption");
    }

    @Test
    void shouldNameTheEncryptionWhenTheSourceDoesNotEncrypt() throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY);
        Handshake plain = new Handshake(pair.near(), KEY.with(Encryption.OFF), inMs());
        names(
                failureOf(() -> plain.asSource(ConnectionKind.CONTROL, SessionId.NONE)),
                "encrypts its control connections, and this node does not: set encryption to the same value");
        names(failureOf(target), "does not encrypt its control connections, and this node does");
        assertEquals(Map.of(), open);
    }

    /** The source of a replaced control connection that is not encrypted proves the session, and is refused. */
    @Test
    void shouldRefuseAControlConnectionThatIsNotEncryptedThoughItHasTheSessionsKey() throws Exception {
        SessionKeys keys = openSession(KEY, KEY).keys();
        for (ConnectionKind kind : List.of(ConnectionKind.CONTROL, ConnectionKind.CONTROL_RESUME)) {
            reconnect();
            CompletableFuture<TargetHandshake.Accepted> target = target(KEY);
            pair.near().write(Handshake.opening(keys.proof(), kind.code(), keys.session(), new byte[32]));
            names(failureOf(target), "that is not encrypted: refused");
        }
    }

    @ParameterizedTest
    @CsvSource({"10, 9, 10", "9, 8, 9", "9, 9, 9", "11, 10, 10", "12, 9, 10"})
    void shouldAgreeOnTheNewestVersionThatBothKnow(int newest, int oldest, int agreed) throws Exception {
        PeerAuthenticator other = new OtherVersions(KEY, new VersionRange(newest, oldest));
        assertEquals(agreed, openSession(KEY, other).keys().version().number());
        reconnect();
        assertEquals(agreed, openSession(other, KEY).accepted().version().number());
    }

    @ParameterizedTest
    @CsvSource({"8, 8, 8", "8, 7, 8 (and 7)", "12, 11, 12 (and 11)"})
    void shouldNameTheVersionsAtBothEndsWhenThereIsNoCommonOne(int newest, int oldest, String named) throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY);
        IOException atSource = failureOf(() ->
                source(new OtherVersions(KEY, new VersionRange(newest, oldest))).open());
        names(atSource, "which has version " + named + "; the target's log names its versions");
        IOException atTarget = failureOf(target);
        names(
                atTarget,
                "uses version " + named + " of the protocol, this service version 10 (and 9): install the same");
        assertEquals(Map.of(), open);
    }

    @ParameterizedTest
    @ValueSource(ints = {0x00, 0x14, 0x15, 0x17, 0x47, 0xFF})
    void shouldRefuseAFirstByteOfSomethingElse(int first) throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY);
        pair.near().write(ByteBuffer.allocate(56).put(0, (byte) first));
        names(failureOf(target), "is not a ppmr service: refused");
    }

    @Test
    void shouldLimitTheBytesOfAPeerThatIsNotAuthenticated() throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY);
        ByteBuffer endless = ByteBuffer.allocate(64 * 1024);
        // A ClientHello in records of 16 KiB, of which none is whole before the limit.
        endless.put(new byte[] {0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, (byte) 0xfc}).clear();
        CompletableFuture<Object> sent = inBackground(() -> {
            while (endless.hasRemaining()) {
                pair.near().write(endless);
            }
            return "sent";
        });
        names(failureOf(target), "sends more than 8192 bytes before it is authenticated: refused");
        disconnect();
        sent.handle((done, failure) -> done).get(LONG_MS, TimeUnit.MILLISECONDS);
    }

    // ---- a host between the ends ------------------------------------------------------------------------------

    /** A byte in seven of each side's handshake is changed. No changed one opens a session. */
    @Test
    void shouldOpenNoSessionWhenAByteOfTheHandshakeIsChanged() throws Exception {
        List<byte[]> recorded = new ArrayList<>();
        try (Between none = new Between(-1, -1)) {
            requireOpened("nothing is changed", none, true);
            recorded.add(none.recorded(0));
            recorded.add(none.recorded(1));
        }
        for (int direction = 0; direction < 2; direction++) {
            for (int at = 0; at < recorded.get(direction).length; at += 7) {
                if (!isInHeader(recorded.get(direction), at)) {
                    open.clear();
                    try (Between one = new Between(direction, at)) {
                        requireOpened("byte " + at + " of direction " + direction, one, false);
                    }
                }
            }
        }
    }

    /** A record's type and version have one value each in TLS 1.3. The library does not evaluate them meanwhile. */
    private static boolean isInHeader(byte[] recorded, int at) {
        int record = 0;
        while (record + 5 <= recorded.length) {
            if (at >= record && at < record + 3) {
                return true;
            }
            record += 5 + (ByteBuffer.wrap(recorded).getShort(record + 3) & 0xFFFF);
        }
        return false;
    }

    /** All that a source has sent in one handshake is sent again: the target draws another random number. */
    @Test
    void shouldOpenNoSessionForAReplay() throws Exception {
        byte[] recorded;
        try (Between between = new Between(-1, -1)) {
            requireOpened("nothing is changed", between, true);
            recorded = between.recorded(0);
        }
        open.clear();
        reconnect();
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY);
        pair.near().write(ByteBuffer.wrap(recorded));
        names(failureOf(target), "does not complete the handshake");
        assertEquals(Map.of(), open);
    }

    private void requireOpened(String what, Between between, boolean isExpected) throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(KEY, between.targetEnd());
        CompletableFuture<Object> source = inBackground(
                () -> new TlsHandshake(between.sourceEnd(), KEY, inMs(isExpected ? LONG_MS : SHORT_MS)).open());
        boolean isOpened;
        try {
            source.get(LONG_MS, TimeUnit.MILLISECONDS);
            get(target);
            isOpened = true;
        } catch (ExecutionException e) {
            assertInstanceOf(IOException.class, e.getCause());
            isOpened = false;
        }
        assertEquals(isExpected, isOpened, what);
    }

    /** A relay that changes one byte of a direction (0: from the source), closes what is broken, and records. */
    private static final class Between implements AutoCloseable {
        private final ServerSocketChannel server =
                ServerSocketChannel.open().bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
        private final SocketChannel sourceEnd = SocketChannel.open(server.getLocalAddress());
        private final SocketChannel fromSource = server.accept();
        private final SocketChannel toTarget = SocketChannel.open(server.getLocalAddress());
        private final SocketChannel targetEnd = server.accept();
        private final java.io.ByteArrayOutputStream[] passed = {
            new java.io.ByteArrayOutputStream(), new java.io.ByteArrayOutputStream()
        };
        /** Failures of connections, which the two ends report themselves. */
        private final Queue<IOException> ends = new ConcurrentLinkedQueue<>();

        private final int changedDirection;
        private final int changedAt;

        Between(int changedDirection, int changedAt) throws IOException {
            this.changedDirection = changedDirection;
            this.changedAt = changedAt;
            start(fromSource, toTarget, 0);
            start(toTarget, fromSource, 1);
        }

        private void start(SocketChannel from, SocketChannel to, int direction) {
            Thread thread = new Thread(() -> {
                byte[] buffer = new byte[4096];
                try (from;
                        to) {
                    for (int n = from.socket().getInputStream().read(buffer); n >= 0; ) {
                        int before = passed(direction);
                        if (direction == changedDirection && changedAt >= before && changedAt < before + n) {
                            buffer[changedAt - before] ^= 1;
                        }
                        synchronized (this) {
                            passed[direction].write(buffer, 0, n);
                        }
                        to.write(ByteBuffer.wrap(buffer, 0, n));
                        n = from.socket().getInputStream().read(buffer);
                    }
                } catch (IOException e) {
                    ends.add(e);
                }
            });
            thread.setDaemon(true);
            thread.start();
        }

        synchronized int passed(int direction) {
            return passed[direction].size();
        }

        synchronized byte[] recorded(int direction) {
            return passed[direction].toByteArray();
        }

        SocketChannel sourceEnd() {
            return sourceEnd;
        }

        SocketChannel targetEnd() {
            return targetEnd;
        }

        @Override
        public void close() throws IOException {
            for (SocketChannel channel : List.of(sourceEnd, fromSource, toTarget, targetEnd)) {
                channel.close();
            }
            server.close();
        }
    }

    // ---- records ----------------------------------------------------------------------------------------------

    @ParameterizedTest
    @ValueSource(strings = {"changed", "repeated", "dropped", "swapped"})
    void shouldEndTheConnectionWhenARecordIs(String how) throws Exception {
        Session session = openSession(KEY, KEY);
        List<byte[]> records = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            records.add(record(session, new byte[] {(byte) i, 1, 2, 3}));
        }
        switch (how) {
            case "changed" -> records.get(1)[9] ^= 1;
            case "repeated" -> records.add(1, records.get(0));
            case "dropped" -> records.remove(1);
            default -> records.set(1, records.set(2, records.get(1)));
        }
        for (byte[] record : records) {
            pair.near().write(ByteBuffer.wrap(record));
        }
        ByteBuffer in = ByteBuffer.allocate(64);
        session.far().channel().configureBlocking(false);
        assertThrows(
                IOException.class,
                () -> Loopback.until("it ended", () -> session.far().read(in) < 0));
        assertEquals(4, in.position(), "bytes before the wrong record count, no later ones");
        assertEquals(0, in.get(0));
        assertThrows(IOException.class, () -> session.far().read(in), "it stays ended");
    }

    /** Has the source send a record, and takes it off the network. */
    private byte[] record(Session session, byte[] text) throws IOException {
        session.near().channel().configureBlocking(true);
        session.far().channel().configureBlocking(true);
        assertEquals(text.length, session.near().write(ByteBuffer.wrap(text)));
        byte[] record = new byte[text.length + 22];
        assertEquals(record.length, pair.far().socket().getInputStream().readNBytes(record, 0, record.length));
        return record;
    }

    @Test
    void shouldTellAnEndInOrderFromACut() throws Exception {
        Session ended = openSession(KEY, KEY);
        ended.near().shutdownOutput();
        ended.far().channel().configureBlocking(true);
        assertEquals(-1, ended.far().read(ByteBuffer.allocate(8)));
        assertEquals(0, ended.far().write(ByteBuffer.wrap(new byte[8])), "nobody reads any more");

        reconnect();
        Session cut = openSession(KEY, KEY);
        pair.near().close();
        cut.far().channel().configureBlocking(true);
        IOException e = assertThrows(IOException.class, () -> cut.far().read(ByteBuffer.allocate(8)));
        names(e, "ended without an end of TLS");
    }

    @Test
    void shouldKeepBytesThatTheSocketDoesNotAccept() throws Exception {
        Session session = openSession(KEY, KEY);
        session.near().channel().configureBlocking(false);
        session.far().channel().configureBlocking(false);
        ByteBuffer sent = ByteBuffer.wrap(bytes(8 << 20));
        while (session.near().write(sent) > 0) {
            assertTrue(sent.hasRemaining(), "no socket keeps so much");
        }
        assertTrue(session.near().hasUnsent());
        ByteBuffer received = ByteBuffer.allocate(sent.capacity());
        Loopback.until("all arrived", () -> {
            session.near().write(sent);
            session.far().read(received);
            return !received.hasRemaining();
        });
        assertFalse(session.near().hasUnsent());
        assertArrayEquals(sent.array(), received.array());
    }

    /** The reader has less room than a record has bytes: the rest waits in memory, and the socket has nothing more. */
    @Test
    void shouldReportDecryptedBytesThatWereNotRead() throws Exception {
        Session session = openSession(KEY, KEY);
        session.near().write(ByteBuffer.wrap(new byte[100]));
        session.far().channel().configureBlocking(false);
        ByteBuffer small = ByteBuffer.allocate(60);
        Loopback.until("a part arrived", () -> session.far().read(small) > 0);
        assertEquals(60, small.position());
        assertTrue(session.far().hasReceived());
        assertEquals(40, session.far().read(small.clear()));
        assertFalse(session.far().hasReceived());
    }

    // ---- the key ----------------------------------------------------------------------------------------------

    /** Computed by another implementation of RFC 9258: docs/internals/protocol.md has the input. */
    @Test
    void shouldImportTheKeyAsRfc9258Defines() {
        ImportedKey key =
                ImportedKey.of("0123456789abcdef0123456789abcdef".getBytes(StandardCharsets.US_ASCII), "ppmr x");
        assertEquals("000670706d722078000470706d7203040002", hex(key.identity()));
        assertEquals(
                "654413a87272b6cdcde7fae6d9b0236382526b0590b9d86d3d2c75b4e9539c2b" + "31f572213e9430e16cefa2d2c43a3294",
                hex(key.key()));
    }

    private static String name() {
        byte[] identity = KEY.imported().identity();
        return new String(identity, 2, identity[1], StandardCharsets.US_ASCII);
    }

    // ---- both sides -------------------------------------------------------------------------------------------

    private record Session(SessionKeys keys, PeerConnection near, TargetHandshake.Accepted accepted) {
        PeerConnection far() {
            return accepted.connection();
        }
    }

    /** An end with the name of one key and the secret of another. */
    private record NamedAs(PreSharedKey key, ImportedKey imported) implements PeerAuthenticator {
        @Override
        public int mechanism() {
            return key.mechanism();
        }

        @Override
        public byte[] prove(Role role, byte[] transcript) {
            return key.prove(role, transcript);
        }

        @Override
        public boolean verify(Role role, byte[] transcript, byte[] proof) {
            return key.verify(role, transcript, proof);
        }

        @Override
        public byte[] seal(byte[] text) {
            return key.seal(text);
        }

        @Override
        public Encryption encryption() {
            return Encryption.CONTROL;
        }
    }

    /** An end of another release. */
    private record OtherVersions(PreSharedKey key, VersionRange versions) implements PeerAuthenticator {
        @Override
        public int mechanism() {
            return key.mechanism();
        }

        @Override
        public byte[] prove(Role role, byte[] transcript) {
            return key.prove(role, transcript);
        }

        @Override
        public boolean verify(Role role, byte[] transcript, byte[] proof) {
            return key.verify(role, transcript, proof);
        }

        @Override
        public byte[] seal(byte[] text) {
            return key.seal(text);
        }

        @Override
        public Encryption encryption() {
            return key.encryption();
        }

        @Override
        public ImportedKey imported() {
            return key.imported();
        }
    }

    private Session openSession(PeerAuthenticator sourceKey, PeerAuthenticator targetKey) throws Exception {
        CompletableFuture<TargetHandshake.Accepted> target = target(targetKey);
        TlsHandshake source = source(sourceKey);
        SessionKeys keys = source.open();
        assertEquals(ConnectionKind.CONTROL, get(target).kind());
        assertTrue(source.connection().isEncrypted() && get(target).connection().isEncrypted());
        return new Session(keys, source.connection(), get(target));
    }

    private TlsHandshake source(PeerAuthenticator key) {
        return new TlsHandshake(pair.near(), key, inMs());
    }

    private SessionId data(ConnectionProof proof, SessionId session) throws IOException {
        return new Handshake(pair.near(), proof, inMs()).asSource(ConnectionKind.DATA, session);
    }

    private CompletableFuture<TargetHandshake.Accepted> target(PeerAuthenticator key) {
        return target(key, pair.far());
    }

    private CompletableFuture<TargetHandshake.Accepted> target(PeerAuthenticator key, SocketChannel channel) {
        CompletableFuture<TargetHandshake.Accepted> accepted = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                accepted.complete(drive(channel, new TargetHandshake(channel, key, sessions)));
            } catch (IOException e) {
                accepted.completeExceptionally(closed(channel, e));
            }
        });
        thread.setDaemon(true);
        thread.start();
        return accepted;
    }

    /** A listener closes a refused connection. */
    private static IOException closed(SocketChannel channel, IOException reason) {
        try {
            channel.close();
        } catch (IOException e) {
            reason.addSuppressed(e);
        }
        return reason;
    }

    private static TargetHandshake.Accepted drive(SocketChannel channel, TargetHandshake handshake) throws IOException {
        channel.configureBlocking(false);
        long deadlineNs = inMs();
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

    private static void carry(PeerConnection from, PeerConnection to, byte[] bytes) throws Exception {
        from.channel().configureBlocking(false);
        to.channel().configureBlocking(false);
        ByteBuffer sent = ByteBuffer.wrap(bytes);
        ByteBuffer received = ByteBuffer.allocate(bytes.length);
        Loopback.until("all arrived", () -> {
            from.write(sent);
            to.read(received);
            return !received.hasRemaining();
        });
        assertArrayEquals(bytes, received.array());
    }

    private static byte[] proof(SessionKeys keys) {
        return keys.proof().prove(ConnectionProof.Role.SOURCE, new byte[] {1, 2, 3});
    }

    private static byte[] bytes(int length) {
        byte[] bytes = new byte[length];
        for (int i = 0; i < length; i++) {
            bytes[i] = (byte) (i * 31 + (i >> 8));
        }
        return bytes;
    }

    private static <T> CompletableFuture<T> inBackground(Callable<T> call) {
        CompletableFuture<T> done = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                done.complete(call.call());
            } catch (Exception e) {
                done.completeExceptionally(e);
            }
        });
        thread.setDaemon(true);
        thread.start();
        return done;
    }

    private static <T> T get(CompletableFuture<T> future) throws Exception {
        return future.get(LONG_MS, TimeUnit.MILLISECONDS);
    }

    private static IOException failureOf(CompletableFuture<?> future) throws Exception {
        return failureOf(() -> {
            try {
                return future.get(2L * LONG_MS, TimeUnit.MILLISECONDS);
            } catch (ExecutionException e) {
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

    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }

    private static long inMs() {
        return inMs(LONG_MS);
    }

    private static long inMs(int ms) {
        return System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
    }

    private static PreSharedKey key(String secret) {
        return new PreSharedKey(secret.getBytes(StandardCharsets.US_ASCII));
    }
}
