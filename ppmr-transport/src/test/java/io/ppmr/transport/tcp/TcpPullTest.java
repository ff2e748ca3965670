package io.ppmr.transport.tcp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.transport.Loopback;
import io.ppmr.transport.RemoteBlock;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class TcpPullTest {
    private static final int CHUNK_BYTES = 16 * 1024;
    private static final int CHUNKS = 32;
    private static final int REGION_BYTES = CHUNKS * CHUNK_BYTES;

    private final BufferPool sourcePool = new BufferPool(new PoolGeometry(CHUNK_BYTES, CHUNKS));
    private final BufferPool targetPool = new BufferPool(new PoolGeometry(CHUNK_BYTES, CHUNKS));
    private final AnswerBook answers = new AnswerBook();
    private final List<String> exporterFailures = new CopyOnWriteArrayList<>();
    private final List<Loopback> pairs = new ArrayList<>();
    private final Random random = new Random(20);
    private TcpRegionExporter exporter;
    private TcpChunkPuller puller;

    @BeforeEach
    void fill() {
        byte[] bytes = new byte[REGION_BYTES];
        random.nextBytes(bytes);
        sourcePool.region().duplicate().put(bytes);
    }

    @AfterEach
    void close() throws IOException {
        if (puller != null) {
            puller.close();
        }
        if (exporter != null) {
            exporter.close();
        }
        for (Loopback pair : pairs) {
            pair.close();
        }
    }

    @Test
    void shouldBringEveryBlockToItsPlaceWhateverItsOffsetAndLength() throws Exception {
        open(3);
        RemoteBlock block = new RemoteBlock();
        int pulls = 0;
        for (int round = 0; round < 300; round++) {
            int[] addresses = new int[CHUNKS];
            int[] offsets = new int[CHUNKS];
            int[] lengths = new int[CHUNKS];
            for (int chunk = 0; chunk < CHUNKS; chunk++) {
                offsets[chunk] = random.nextInt(CHUNK_BYTES);
                lengths[chunk] = 1 + random.nextInt(CHUNK_BYTES - offsets[chunk]);
                addresses[chunk] = random.nextInt(REGION_BYTES - lengths[chunk] + 1);
                targetPool.buffer(chunk).clear().put(new byte[CHUNK_BYTES]);
                puller.pull(
                        pulls++, block.set(addresses[chunk], exporter.key(), lengths[chunk]), chunk, offsets[chunk]);
            }
            answers.requireEachOnce(pulls);
            for (int chunk = 0; chunk < CHUNKS; chunk++) {
                assertEquals(AnswerBook.PULLED, answers.answer(pulls - CHUNKS + chunk));
                requireArrived(chunk, addresses[chunk], offsets[chunk], lengths[chunk]);
            }
        }
        assertEquals(List.of(), exporterFailures);
    }

    private void requireArrived(int chunk, int address, int offset, int length) {
        ByteBuffer got = targetPool.buffer(chunk).clear();
        assertEquals(sourcePool.region().slice(address, length), got.slice(offset, length));
        assertEquals(ByteBuffer.allocate(offset), got.slice(0, offset), "bytes before the block");
        int behind = offset + length;
        assertEquals(
                ByteBuffer.allocate(CHUNK_BYTES - behind),
                got.slice(behind, CHUNK_BYTES - behind),
                "bytes behind the block");
    }

    @Test
    void shouldGiveEachChunkItsAddressAndEachSessionItsKey() throws Exception {
        open(1);
        assertEquals(0, exporter.address(0));
        assertEquals(3L * CHUNK_BYTES, exporter.address(3));
        try (TcpRegionExporter other = new TcpRegionExporter(sourcePool, List.of(), exporterFailures::add)) {
            assertNotEquals(exporter.key(), other.key());
        }
    }

    @ParameterizedTest
    @CsvSource({
        "524280, 16, 0",
        "524288, 1, 0",
        "-1, 16, 0",
        "-9223372036854775808, 16, 0",
        "9223372036854775800, 100, 0",
        "4294967296, 16, 0",
        "0, 0, 0",
        "0, -5, 0",
        "0, 16385, 0",
        "0, 16, 1"
    })
    void shouldFailByNameWhenABlockIsOutsideTheRegionOrItsKeyIsWrong(long address, int length, long wrong)
            throws Exception {
        open(1);
        puller.pull(7, new RemoteBlock().set(address, exporter.key() ^ wrong, length), 0, 0);
        answers.requireEachOnce(1);
        String reason = answers.answer(7);
        assertTrue(reason.contains("the advertised block is outside its region"), reason);
        Loopback.until("the exporter says so", () -> exporterFailures.size() == 1);
        String failure = exporterFailures.get(0);
        assertTrue(failure.contains("outside the exported region or has a wrong key"), failure);
    }

    @Test
    void shouldAnswerEveryPullOnceWhenTheConnectionIsCutInTheMiddle() throws Exception {
        Loopback pair = pair();
        puller = new TcpChunkPuller(targetPool, List.of(pair.near()), answers);
        for (int pull = 0; pull < CHUNKS; pull++) {
            puller.pull(pull, new RemoteBlock().set(0, 1, 1000), pull, 0);
        }
        ByteBuffer answer = ByteBuffer.allocate(16 + 1000 + 16 + 500).order(ByteOrder.LITTLE_ENDIAN);
        PullFrames.putAnswer(answer, 0, PullFrames.OK, 1000);
        answer.position(16 + 1000);
        PullFrames.putAnswer(answer, 1, PullFrames.OK, 1000);
        writeAll(pair.far(), answer.position(0));
        pair.far().close();
        answers.requireEachOnce(CHUNKS);
        assertEquals(AnswerBook.PULLED, answers.answer(0));
        for (long pull = 1; pull < CHUNKS; pull++) {
            assertTrue(answers.answer(pull).contains("data connection to the source failed"), answers.answer(pull));
        }
        puller.pull(100, new RemoteBlock().set(0, 1, 1000), 0, 0);
        answers.requireEachOnce(CHUNKS + 1);
        assertTrue(answers.answer(100).contains("data connection to the source failed"), answers.answer(100));
    }

    @Test
    void shouldAnswerEveryPullOnceWhenThePullerIsClosed() throws Exception {
        puller = new TcpChunkPuller(targetPool, List.of(pair().near(), pair().near()), answers);
        for (int pull = 0; pull < CHUNKS; pull++) {
            puller.pull(pull, new RemoteBlock().set(0, 1, 1000), pull, 0);
        }
        puller.close();
        assertEquals(CHUNKS, answers.count());
        for (long pull = 0; pull < CHUNKS; pull++) {
            assertEquals("the transport was closed", answers.answer(pull));
        }
        puller.close();
        puller.pull(100, new RemoteBlock().set(0, 1, 1000), 0, 0);
        answers.requireEachOnce(CHUNKS + 1);
        assertEquals("the transport was closed", answers.answer(100));
    }

    @Test
    void shouldAnswerEveryPullOnceWhenTheSourceGoesAwayWhilePullsAreStarted() throws Exception {
        int pulls = 0;
        for (int round = 0; round < 60; round++) {
            open(2);
            Thread cutter = new Thread(exporter::close);
            RemoteBlock block = new RemoteBlock().set(0, exporter.key(), CHUNK_BYTES);
            int cutAt = random.nextInt(60);
            for (int i = 0; i < 60; i++) {
                if (i == cutAt) {
                    cutter.start();
                }
                puller.pull(pulls++, block, i % CHUNKS, 0);
            }
            answers.requireEachOnce(pulls);
            cutter.join(5_000);
            puller.close();
        }
        assertEquals(List.of(), exporterFailures);
    }

    @Test
    void shouldRefuseAnAnswerThatWasNotAskedForNext() throws Exception {
        Loopback pair = pair();
        puller = new TcpChunkPuller(targetPool, List.of(pair.near()), answers);
        puller.pull(1, new RemoteBlock().set(0, 1, 1000), 0, 0);
        ByteBuffer answer = ByteBuffer.allocate(16).order(ByteOrder.LITTLE_ENDIAN);
        PullFrames.putAnswer(answer, 2, PullFrames.OK, 1000);
        writeAll(pair.far(), answer.flip());
        answers.requireEachOnce(1);
        assertTrue(answers.answer(1).contains("an answer to pull 2, which was not asked for next"), answers.answer(1));
    }

    @Test
    void shouldThrowWhenMorePullsAreStartedThanItsDepth() throws Exception {
        puller = new TcpChunkPuller(targetPool, List.of(pair().near(), pair().near()), answers);
        RemoteBlock block = new RemoteBlock().set(0, 1, 1000);
        assertEquals(128, puller.depth());
        for (int pull = 0; pull < puller.depth(); pull++) {
            puller.pull(pull, block, 0, 0);
        }
        assertThrows(IllegalStateException.class, () -> puller.pull(1000, block, 0, 0));
        puller.close();
        answers.requireEachOnce(128);
    }

    @Test
    void shouldTellOnceWhenTheTargetClosesAndNothingWhenItIsClosedItself() throws Exception {
        Loopback pair = pair();
        exporter = new TcpRegionExporter(sourcePool, List.of(pair.far()), exporterFailures::add);
        pair.near().close();
        Loopback.until("the exporter says so", () -> !exporterFailures.isEmpty());
        assertTrue(exporterFailures.get(0).contains("closed by the target"), exporterFailures.get(0));
        exporter.close();
        assertEquals(1, exporterFailures.size());

        TcpRegionExporter closing =
                new TcpRegionExporter(sourcePool, List.of(pair().far(), pair().far()), exporterFailures::add);
        closing.close();
        closing.close();
        assertEquals(1, exporterFailures.size());
    }

    @Test
    void shouldDrawTheFramesAsDocumented() {
        ByteBuffer request = ByteBuffer.allocate(PullFrames.REQUEST_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        PullFrames.putRequest(request, 0x1122334455667788L, 0x2122232425262728L, 0x3132333435363738L, 0x41424344);
        assertEquals(
                "8877665544332211" + "2827262524232221" + "3837363534333231" + "44434241" + "50554c4c", hex(request));
        ByteBuffer answer = ByteBuffer.allocate(PullFrames.ANSWER_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        PullFrames.putAnswer(answer, 0x1122334455667788L, PullFrames.OUTSIDE, 0x41424344);
        assertEquals("8877665544332211" + "01000000" + "44434241", hex(answer));
    }

    private static String hex(ByteBuffer bytes) {
        assertEquals(0, bytes.remaining());
        byte[] copy = new byte[bytes.capacity()];
        bytes.get(0, copy);
        return HexFormat.of().formatHex(copy);
    }

    private void open(int connections) throws IOException {
        List<SocketChannel> near = new ArrayList<>();
        List<SocketChannel> far = new ArrayList<>();
        for (int i = 0; i < connections; i++) {
            Loopback pair = pair();
            near.add(pair.near());
            far.add(pair.far());
        }
        exporter = new TcpRegionExporter(sourcePool, far, exporterFailures::add);
        puller = new TcpChunkPuller(targetPool, near, answers);
    }

    private Loopback pair() throws IOException {
        Loopback pair = Loopback.open();
        pairs.add(pair);
        return pair;
    }

    private static void writeAll(SocketChannel channel, ByteBuffer bytes) throws IOException {
        while (bytes.hasRemaining()) {
            channel.write(bytes);
        }
    }
}
