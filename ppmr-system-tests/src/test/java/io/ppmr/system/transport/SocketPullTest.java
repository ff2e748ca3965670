package io.ppmr.system.transport;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.transport.AnswerBook;
import io.ppmr.transport.Loopback;
import io.ppmr.transport.PullContract;
import io.ppmr.transport.PullListener;
import io.ppmr.transport.RemoteBlock;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The contract over sockets, and what is their own: frames and connections. */
class SocketPullTest extends PullContract {
    private static final int CONNECTIONS = 3;

    private final List<Loopback> pairs = new ArrayList<>();

    @AfterEach
    void closePairs() throws IOException {
        for (Loopback pair : pairs) {
            pair.close();
        }
    }

    @Override
    protected Ends join(BufferPool source, BufferPool target, PullListener listener, Consumer<String> onExporterFailure)
            throws IOException {
        List<SocketChannel> near = new ArrayList<>();
        List<SocketChannel> far = new ArrayList<>();
        for (int i = 0; i < CONNECTIONS; i++) {
            Loopback pair = pair();
            near.add(pair.near());
            far.add(pair.far());
        }
        AtomicBoolean told = new AtomicBoolean();
        return new Ends(
                new SocketExporter(source, far, reason -> {
                    // Each connection reports the loss, and the contract queries whether one does.
                    if (told.compareAndSet(false, true)) {
                        onExporterFailure.accept(reason);
                    }
                }),
                new SocketPuller(target, near, listener));
    }

    @Override
    protected int rounds(int most) {
        return most;
    }

    @Override
    protected String outsideReason() {
        return "the advertised block is outside its region";
    }

    @Override
    protected boolean sourceWorks() {
        return true;
    }

    @ParameterizedTest
    @CsvSource({"-9223372036854775808, 16, 0", "9223372036854775800, 100, 0", "0, 16, 1"})
    void shouldSayAtTheSourceWhenItIsAskedForWhatIsOutsideItsRegion(long address, int length, long wrong)
            throws Exception {
        open();
        puller.pull(7, new RemoteBlock().set(address, exporter.key() ^ wrong, length), 0, 0);
        answers.requireEachOnce(1);
        assertTrue(answers.answer(7).contains(outsideReason()), answers.answer(7));
        Loopback.until("the exporter says so", () -> exporterFailures.size() == 1);
        String failure = exporterFailures.get(0);
        assertTrue(failure.contains("outside the region or has a wrong key"), failure);
    }

    @Test
    void shouldAnswerEveryPullOnceWhenTheConnectionIsCutInTheMiddle() throws Exception {
        Loopback pair = pair();
        puller = new SocketPuller(targetPool, List.of(pair.near()), answers);
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
    void shouldAnswerEveryPullOnceWhenThePullerOfASilentSourceIsClosed() throws Exception {
        puller = new SocketPuller(targetPool, List.of(pair().near(), pair().near()), answers);
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
    void shouldRefuseAnAnswerThatWasNotAskedForNext() throws Exception {
        Loopback pair = pair();
        puller = new SocketPuller(targetPool, List.of(pair.near()), answers);
        puller.pull(1, new RemoteBlock().set(0, 1, 1000), 0, 0);
        ByteBuffer answer = ByteBuffer.allocate(16).order(ByteOrder.LITTLE_ENDIAN);
        PullFrames.putAnswer(answer, 2, PullFrames.OK, 1000);
        writeAll(pair.far(), answer.flip());
        answers.requireEachOnce(1);
        assertTrue(answers.answer(1).contains("an answer to pull 2, which was not asked for next"), answers.answer(1));
    }

    @Test
    void shouldThrowWhenMorePullsAreStartedThanItsDepth() throws Exception {
        puller = new SocketPuller(targetPool, List.of(pair().near(), pair().near()), answers);
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
