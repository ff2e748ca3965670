package io.ppmr.transport.auth;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.fuzz.Fuzz;
import io.ppmr.fuzz.FuzzPlan;
import io.ppmr.fuzz.Mutator;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.protocol.data.VersionRange;
import io.ppmr.transport.PlayedChannel;
import io.ppmr.transport.auth.ConnectionProof.Role;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.bouncycastle.tls.TlsClientProtocol;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * An unauthenticated peer's first bytes at a target, and those of a peer at a target's address at a source. An input is
 * the peer's bytes, with ones where a byte of a right proof is changed.
 */
class HandshakeFuzzTest {
    private static final PreSharedKey KEY = new PreSharedKey(
                    "a key that only this test knows, 32 b".getBytes(StandardCharsets.UTF_8))
            .with(Encryption.OFF);
    private static final SessionId SESSION = new SessionId(77, 78);
    private static final int OPENING = Handshake.OPENING_BYTES;
    private static final int CHALLENGE = OPENING + PeerAuthenticator.PROOF_BYTES;

    private static final TargetHandshake.Sessions SESSIONS = new TargetHandshake.Sessions() {
        @Override
        public SessionKeys keys(SessionId session) {
            return session.equals(SESSION)
                    ? new SessionKeys(SESSION, ProtocolVersion.NEWEST, KEY, new byte[PeerAuthenticator.PROOF_BYTES])
                    : null;
        }

        @Override
        public boolean hasCapacity() {
            return true;
        }

        @Override
        public void open(SessionKeys keys) {
            if (keys.session().equals(SessionId.NONE)) {
                throw new AssertionError("a session without a name");
            }
        }

        @Override
        public boolean mayResume(SessionId session) {
            return session.equals(SESSION);
        }
    };

    private static byte[] opening(ConnectionKind kind, SessionId session, int further) {
        byte[] bytes = Handshake.opening(KEY, kind.code(), session, new byte[Handshake.NONCE_BYTES])
                .array();
        return Arrays.copyOf(bytes, OPENING + further);
    }

    private static Fuzz target() {
        List<byte[]> valid = List.of(
                opening(ConnectionKind.CONTROL, SessionId.NONE, PeerAuthenticator.PROOF_BYTES),
                opening(ConnectionKind.DATA, SESSION, PeerAuthenticator.PROOF_BYTES),
                opening(ConnectionKind.CONTROL_RESUME, SESSION, PeerAuthenticator.PROOF_BYTES));
        return new Fuzz(FuzzPlan.HANDSHAKE_AT_THE_TARGET, new Mutator(valid, 256), List.of(IOException.class))
                .allocatesAtMost(32 * 1024, 8);
    }

    private static Fuzz source() {
        byte[] valid = opening(ConnectionKind.CONTROL, SESSION, PeerAuthenticator.PROOF_BYTES + Integer.BYTES);
        return new Fuzz(FuzzPlan.HANDSHAKE_AT_THE_SOURCE, new Mutator(List.of(valid), 256), List.of(IOException.class))
                .allocatesAtMost(32 * 1024, 8);
    }

    private static Fuzz tlsTarget() throws IOException {
        TlsClientProtocol client = new TlsClientProtocol();
        client.connect(new SourceTls(KEY.with(Encryption.CONTROL)));
        byte[] hello = new byte[client.getAvailableOutputBytes()];
        client.readOutput(hello, 0, hello.length);
        return new Fuzz(FuzzPlan.TLS_AT_THE_TARGET, new Mutator(List.of(hello), 256), List.of(IOException.class))
                .allocatesAtMost(512 * 1024, 64);
    }

    private static byte[] changed(byte[] proof, byte[] input, int at) {
        byte[] sent = new byte[Math.max(0, Math.min(proof.length, input.length - at))];
        for (int i = 0; i < sent.length; i++) {
            sent[i] = (byte) (proof[i] ^ input[at + i]);
        }
        return sent;
    }

    private static VersionRange versions(byte[] opening) {
        return new VersionRange(opening[4] & 0xFF, opening[5] & 0xFF);
    }

    private static byte[] transcript(
            Handshake.Versions versions, byte kind, ByteBuffer session, ByteBuffer source, ByteBuffer target) {
        byte[] nonces = new byte[2 * Handshake.NONCE_BYTES];
        source.get(nonces, 0, Handshake.NONCE_BYTES);
        target.get(nonces, Handshake.NONCE_BYTES, Handshake.NONCE_BYTES);
        return Handshake.transcript(
                versions,
                kind,
                new SessionId(session.getLong(), session.getLong()),
                Arrays.copyOf(nonces, Handshake.NONCE_BYTES),
                Arrays.copyOfRange(nonces, Handshake.NONCE_BYTES, nonces.length));
    }

    private static ByteBuffer part(byte[] bytes, int at) {
        return ByteBuffer.wrap(bytes, at, bytes.length - at).order(ByteOrder.LITTLE_ENDIAN);
    }

    private static void connect(byte[] input) throws Exception {
        byte[] first = Arrays.copyOf(input, Math.min(input.length, OPENING));
        PlayedChannel channel = new PlayedChannel(() -> first, told -> {
            if (told.length != CHALLENGE) {
                return new byte[0];
            }
            byte[] transcript = transcript(
                    new Handshake.Versions(versions(first), versions(told)),
                    told[7],
                    part(told, 8),
                    part(first, 24),
                    part(told, 24));
            byte[] proved = told[7] == ConnectionKind.CONTROL_RESUME.code()
                    ? Handshake.joined(transcript, new byte[PeerAuthenticator.PROOF_BYTES])
                    : transcript;
            return changed(KEY.prove(Role.SOURCE, proved), input, OPENING);
        });
        TargetHandshake handshake = new TargetHandshake(channel, KEY, SESSIONS);
        int rounds = 0;
        while (handshake.proceed().isEmpty()) {
            if (++rounds > 2) {
                throw new AssertionError("more is awaited of a peer that has closed");
            }
        }
        if (channel.toldBytes() > CHALLENGE + Integer.BYTES) {
            throw new AssertionError("a peer is told " + channel.toldBytes() + " bytes");
        }
        for (int i = OPENING; i < CHALLENGE; i++) {
            if (input[i] != 0) {
                throw new AssertionError("a wrong proof is taken");
            }
        }
    }

    /** A peer that proved nothing beyond its first message is not admitted, and is sent one answer at most. */
    private static void connectByTls(byte[] input) throws Exception {
        PlayedChannel channel = new PlayedChannel(() -> input, told -> new byte[0]);
        TargetHandshake handshake = new TargetHandshake(channel, KEY.with(Encryption.CONTROL), SESSIONS);
        try {
            for (int rounds = 0; rounds < 3; rounds++) {
                assertTrue(handshake.proceed().isEmpty(), "a peer without a Finished is admitted");
            }
            throw new AssertionError("more is awaited of a peer that has closed");
        } catch (EOFException e) {
            assertTrue(channel.toldBytes() < 1024, "a peer is told " + channel.toldBytes() + " bytes");
        }
    }

    private static void answer(byte[] input) throws Exception {
        byte[] none = new byte[0];
        PlayedChannel channel = new PlayedChannel(() -> none, told -> {
            if (told.length != OPENING) {
                return none;
            }
            byte[] said = input.clone();
            if (input.length >= CHALLENGE) {
                byte[] transcript = transcript(
                        new Handshake.Versions(versions(told), versions(input)),
                        told[7],
                        part(input, 8),
                        part(told, 24),
                        part(input, 24));
                byte[] proof = KEY.prove(Role.TARGET, transcript);
                System.arraycopy(changed(proof, input, OPENING), 0, said, OPENING, proof.length);
            }
            return said;
        });
        long deadlineNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        new Handshake(channel, KEY, deadlineNs).asSource(ConnectionKind.CONTROL, SessionId.NONE);
        for (int i = OPENING; i < CHALLENGE; i++) {
            if (input[i] != 0) {
                throw new AssertionError("a wrong proof is taken");
            }
        }
    }

    @Test
    void shouldTakeOrRefuseByNameWhateverAStrangerSaysToATarget() throws Exception {
        target().inTheGate(HandshakeFuzzTest::connect);
    }

    @Test
    void shouldTakeOrRefuseByNameWhateverIsSaidToASource() throws Exception {
        source().inTheGate(HandshakeFuzzTest::answer);
    }

    @Test
    void shouldRefuseByNameWhateverAStrangerSaysInTls() throws Exception {
        tlsTarget().inTheGate(HandshakeFuzzTest::connectByTls);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 30, unit = TimeUnit.MINUTES)
    void shouldRefuseByNameForLongWhateverAStrangerSaysInTls() throws Exception {
        tlsTarget().forLong(HandshakeFuzzTest::connectByTls);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 30, unit = TimeUnit.MINUTES)
    void shouldTakeOrRefuseByNameForLongWhateverAStrangerSaysToATarget() throws Exception {
        target().forLong(HandshakeFuzzTest::connect);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 30, unit = TimeUnit.MINUTES)
    void shouldTakeOrRefuseByNameForLongWhateverIsSaidToASource() throws Exception {
        source().forLong(HandshakeFuzzTest::answer);
    }
}
