package io.ppmr.transport.tcp;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.protocol.data.ChunkFrame;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ReleaseFrame;
import io.ppmr.transport.Arrivals;
import io.ppmr.transport.Loopback;
import io.ppmr.transport.SendContract;
import java.io.IOException;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Tests chunks that are sent when they are full, over real sockets. */
class TcpSendTest extends SendContract {
    private static final int CONNECTIONS = 3;
    private static final int LITTLE_BYTES = 16 * 1024;

    private final List<Loopback> pairs = new ArrayList<>();
    private int connections = 1;

    @AfterEach
    void closePairs() throws IOException {
        for (Loopback pair : pairs) {
            pair.close();
        }
    }

    @Override
    protected Ends join(BufferPool source, BufferPool target, Arrivals arrivals, Consumer<String> onFailure)
            throws IOException {
        List<SocketChannel> near = new ArrayList<>();
        List<SocketChannel> far = new ArrayList<>();
        for (int i = 0; i < connections; i++) {
            Loopback pair = pair();
            near.add(pair.near());
            far.add(pair.far());
        }
        return new Ends(new TcpChunkSender(source, near, onFailure), new TcpChunkReceiver(far, arrivals));
    }

    @Override
    protected int rounds(int most) {
        return most;
    }

    @Override
    protected String closedByTarget() {
        return "data connection to the target failed";
    }

    private Loopback pair() throws IOException {
        Loopback pair = Loopback.open();
        pairs.add(pair);
        return pair;
    }

    private void send(List<SocketChannel> near) {
        sender = new TcpChunkSender(sourcePool, near, failures::add);
        begin();
    }

    @Test
    void shouldDeliverEveryByteWhenThereAreSeveralConnections() throws Exception {
        connections = CONNECTIONS;
        bringEveryByte();
    }

    @Test
    void shouldSendEachChunkOnceWhenThereAreSeveralConnections() throws Exception {
        connections = CONNECTIONS;
        sendEachChunkOnce();
    }

    @Test
    void shouldFailByNameWhenTheTargetSendsWritable() throws Exception {
        open();
        IOException refused =
                assertThrows(IOException.class, () -> sender.onWritable(new DataMessage.Writable(1, 2, 3, 4, 5)));
        assertTrue(refused.getMessage().contains("1 data connections does not write"), refused.getMessage());
    }

    @Test
    void shouldNotBlockAWriterAndKeepTheOrderWhenTheTargetAcceptsNothing() throws Exception {
        Loopback pair = pair();
        pair.near().setOption(StandardSocketOptions.SO_SNDBUF, LITTLE_BYTES);
        pair.far().setOption(StandardSocketOptions.SO_RCVBUF, LITTLE_BYTES);
        taken.hold();
        receiver = new TcpChunkReceiver(List.of(pair.far()), taken);
        send(List.of(pair.near()));
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            // A writer that waited for the target would wait forever.
            sender.send(chunk, 0, CHUNK_BYTES, 1, (chunk % 2) * (long) CHUNK_BYTES, chunk, 0, false);
        }
        assertEquals(0, taken.count());
        taken.unblock();
        StringBuilder expected = new StringBuilder();
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            awaitRelease(chunk);
            assertArrayEquals(part(sourcePool, chunk, 0, CHUNK_BYTES), taken.bytes(chunk));
            expected.append(chunk).append(' ');
        }
        assertEquals(expected.toString(), taken.order());
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 20, 47, 48, 49, 1000, 1047})
    void shouldReportAtTheTargetThatAConnectionEndedInTheMiddleOfAChunk(int sentBytes) throws Exception {
        Loopback pair = pair();
        receiver = new TcpChunkReceiver(List.of(pair.far()), taken);
        pair.near().write(frames(1000, 0).limit(sentBytes));
        pair.near().close();
        if (sentBytes == 0) {
            // Between two chunks it is no failure, because a session ends in the same way.
            receiver.close();
            assertEquals(List.of(), taken.onProtocolError());
            return;
        }
        Loopback.until(
                "the target reports the error", () -> taken.onProtocolError().size() == 1);
        assertTrue(
                taken.onProtocolError().get(0).contains("data connection to the source failed: java.io.EOFException"),
                taken.onProtocolError().get(0));
        assertEquals(0, taken.count());
    }

    /** Returns a chunk as a source sends it. */
    private static ByteBuffer frames(int lengthBytes, long order) {
        ByteBuffer bytes = ByteBuffer.allocateDirect(ChunkFrame.LENGTH_BYTES + lengthBytes);
        UnsafeBuffer view = new UnsafeBuffer(bytes);
        ChunkFrame.encode(view, 0, ATTEMPT, 1, 0, lengthBytes, 0, 2, 3, 0);
        ChunkFrame.number(view, 0, order);
        return bytes;
    }

    @ParameterizedTest
    @CsvSource({
        "order, chunk 1 instead of 0",
        "version, frame of format 99",
        "type, frame RELEASE of 48 bytes instead of a chunk",
        "length, frame CHUNK of 64 bytes instead of a chunk",
        "slot, slot 16 is not granted",
    })
    void shouldRefuseByNameAndReadNoFurtherWhenTheSourceBreaksTheProtocol(String what, String said) throws Exception {
        Loopback pair = pair();
        receiver = new TcpChunkReceiver(List.of(pair.far()), taken);
        ByteBuffer bytes = frames(100, what.equals("order") ? 1 : 0);
        UnsafeBuffer view = new UnsafeBuffer(bytes);
        switch (what) {
            case "version" -> view.putByte(4, (byte) 99);
            case "type" -> view.putByte(5, (byte) FrameType.RELEASE.code());
            case "length" -> view.putInt(0, 64);
            case "slot" -> ChunkFrame.encode(view, 0, ATTEMPT, 1, 0, 100, 0, 2, CHUNKS, 0);
            default -> assertEquals("order", what);
        }
        pair.near().write(bytes);
        pair.near().write(frames(100, 0));
        Loopback.until(
                "the target reports the error", () -> taken.onProtocolError().size() == 1);
        assertTrue(
                taken.onProtocolError().get(0).contains(said),
                taken.onProtocolError().get(0));
        assertEquals(0, taken.count());
    }

    /** Each byte is sent after the previous one was read, so that no pause reaches the delay of a release. */
    @Test
    void shouldReleaseAChunkInTimeWhenTheNextOneComesByteByByte() throws Exception {
        Loopback pair = pair();
        receiver = new TcpChunkReceiver(List.of(pair.far()), taken, TimeUnit.MILLISECONDS.toNanos(500));
        pair.near().write(frames(100, 0));
        int length = 4_000;
        ByteBuffer next = frames(length, 1);
        for (int i = ChunkFrame.LENGTH_BYTES; i < next.capacity(); i++) {
            next.put(i, (byte) 7);
        }
        pair.near().write(next.limit(ChunkFrame.LENGTH_BYTES + 101));
        pair.near().configureBlocking(false);
        ByteBuffer release = ByteBuffer.allocateDirect(ReleaseFrame.LENGTH_BYTES);
        int sent = 101;
        while (pair.near().read(release) == 0) {
            int last = sent - 1;
            Loopback.until(
                    "byte " + last + " is taken",
                    () -> targetPool.buffer(3).duplicate().clear().get(last) == 7);
            assertTrue(sent < length, "the release waits for the next chunk's end");
            // A fast machine would finish before a release is due.
            LockSupport.parkNanos(TimeUnit.MICROSECONDS.toNanos(200));
            pair.near().write(next.limit(ChunkFrame.LENGTH_BYTES + ++sent));
        }
        assertEquals(FrameType.RELEASE, Frame.requireValid(new UnsafeBuffer(release), 0));
    }

    @ParameterizedTest
    @CsvSource({
        "16, 5, 32, 'chunk 16, which was not sent here'",
        "-1, 5, 32, 'chunk -1, which was not sent here'",
        "0, 5, 32, 'chunk 0, which was not sent here'",
        "0, 4, 32, frame RELEASE of attempt 4 instead of RELEASE of attempt 5",
        "0, 5, 40, frame RELEASE of attempt 5 instead of RELEASE of attempt 5",
    })
    void shouldRefuseByNameAtTheSourceAnInvalidRelease(int chunk, int attempt, int length, String said)
            throws Exception {
        Loopback pair = pair();
        send(List.of(pair.near()));
        ByteBuffer bytes = ByteBuffer.allocateDirect(ReleaseFrame.LENGTH_BYTES);
        UnsafeBuffer view = new UnsafeBuffer(bytes);
        ReleaseFrame.encode(view, 0, attempt, 1, 0, chunk);
        Frame.writeHeader(view, 0, FrameType.RELEASE, length, attempt, 1);
        pair.far().write(bytes);
        Loopback.until("the source reports the error", () -> failures.size() == 1);
        assertTrue(failures.get(0).contains(said), failures.get(0));
    }

    /** Its chunk would be reused for other bytes, which would then be sent to this target. */
    @Test
    void shouldRefuseByNameTheReleaseOfAnUnsentChunkOrASecondRelease() throws Exception {
        Loopback pair = pair();
        pair.near().setOption(StandardSocketOptions.SO_SNDBUF, LITTLE_BYTES);
        pair.far().setOption(StandardSocketOptions.SO_RCVBUF, LITTLE_BYTES);
        send(List.of(pair.near()));
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            sender.send(chunk, 0, CHUNK_BYTES, 1, (long) chunk * CHUNK_BYTES, chunk, 0, false);
        }
        ByteBuffer bytes = ByteBuffer.allocateDirect(ReleaseFrame.LENGTH_BYTES);
        ReleaseFrame.encode(new UnsafeBuffer(bytes), 0, ATTEMPT, 1, 0, CHUNKS - 1);
        pair.far().write(bytes);
        Loopback.until("the source reports the error", () -> failures.size() == 1);
        assertTrue(failures.get(0).contains("chunk 15, which was not sent here"), failures.get(0));
        assertEquals(0, released[CHUNKS - 1].availablePermits());

        sender.close();
        Loopback other = pair();
        send(List.of(other.near()));
        sender.send(0, 0, 100, 1, 0, 0, 0, false);
        ReleaseFrame.encode(new UnsafeBuffer(bytes.clear()), 0, ATTEMPT, 1, 0, 0);
        other.far().write(bytes);
        awaitRelease(0);
        other.far().write(bytes.flip());
        Loopback.until("the source reports the error", () -> failures.size() == 2);
        assertTrue(failures.get(1).contains("chunk 0, which was not sent here"), failures.get(1));
    }

    @Test
    void shouldAcceptReleasesThatArriveInParts() throws Exception {
        Loopback pair = pair();
        send(List.of(pair.near()));
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            sender.send(chunk, 0, 100, 1, (long) chunk * CHUNK_BYTES, chunk, 0, false);
        }
        ByteBuffer bytes = ByteBuffer.allocateDirect(ReleaseFrame.LENGTH_BYTES * CHUNKS);
        UnsafeBuffer view = new UnsafeBuffer(bytes);
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            ReleaseFrame.encode(view, chunk * ReleaseFrame.LENGTH_BYTES, ATTEMPT, 1, 0, chunk);
        }
        Random random = new Random(1);
        while (bytes.position() < bytes.capacity()) {
            bytes.limit(Math.min(bytes.capacity(), bytes.position() + 1 + random.nextInt(50)));
            pair.far().write(bytes);
        }
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            awaitRelease(chunk);
        }
        assertEquals(List.of(), failures);
    }
}
