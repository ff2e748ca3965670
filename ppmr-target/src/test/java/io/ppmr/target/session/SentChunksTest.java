package io.ppmr.target.session;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.data.CreditRequestFrame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ReadingMode;
import io.ppmr.target.image.ArrivingFile;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.agrona.BufferUtil;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Tests a transfer whose source sends the chunks: which chunks are accepted, and their agreement with the frames. */
class SentChunksTest {
    private static final int BLOCKED = CreditRequestFrame.BLOCKED;
    private static final int CHUNK_BYTES = TransferFixture.CHUNK_BYTES;

    private TransferFixture fixture;

    @BeforeEach
    void open() throws Exception {
        fixture = new TransferFixture(ReadingMode.RETAINED, true);
        fixture.create(1, "/rank-0/f");
        fixture.create(2, "/rank-0/g");
    }

    @AfterEach
    void close() {
        fixture.close();
    }

    private int grant(int file, long window) throws Exception {
        fixture.want(file, window, 1, BLOCKED);
        TransferFixture.Answer answer = fixture.next();
        assertEquals(FrameType.CREDIT, answer.type());
        assertEquals(file, answer.file());
        return (int) answer.value();
    }

    private byte[] read(int file, long offset, int length) throws Exception {
        ByteBuffer into = ByteBuffer.allocateDirect(length);
        assertEquals(length, fixture.transfer.images().file(file).read(BufferUtil.address(into), length, offset));
        byte[] got = new byte[length];
        into.get(0, got);
        return got;
    }

    @Test
    void shouldPublishArrivedBytesAndBeCompleteAtTheEnd() throws Exception {
        byte[] bytes = TransferFixture.bytes(CHUNK_BYTES);
        assertTrue(fixture.send(1, grant(1, 1), CHUNK_BYTES, bytes, false));
        assertArrayEquals(bytes, read(1, CHUNK_BYTES, CHUNK_BYTES));
        assertEquals(CHUNK_BYTES, fixture.transfer.progress().arrivedBytes());
        assertFalse(fixture.transfer.complete());
        fixture.value(FrameType.END_OF_FILE, 1, 2 * CHUNK_BYTES);
        fixture.value(FrameType.END_OF_FILE, 2, 0);
        fixture.value(FrameType.END_OF_IMAGE, 0, 0);
        assertTrue(fixture.transfer.complete());
        assertNull(fixture.failure());
    }

    @ParameterizedTest
    @CsvSource({
        "2, 0, 16384, 10, slot 0 is not granted to file 2",
        "9, 0, 16384, 10, slot 0 is not granted to file 9",
        "1, 1, 16384, 10, slot 1 is not granted to file 1",
        "1, -1, 16384, 10, slot -1 is not granted",
        "1, 5, 16384, 10, slot 5 is not granted",
        "1, 0, 16383, 10, are outside the window",
        "1, 0, 32768, 10, are outside the window",
        "1, 0, 32760, 10, are outside the window",
        "1, 0, -1, 10, are outside the window",
        "1, 0, 9223372036854775800, 10, are outside the window",
    })
    void shouldAcceptOnlyBytesWithACredit(int file, int slot, long offset, int length, String said) throws Exception {
        assertEquals(0, grant(1, 1));
        ProtocolException e = assertThrows(
                ProtocolException.class, () -> fixture.send(file, slot, offset, TransferFixture.bytes(length), false));
        assertTrue(e.getMessage().contains(said), e.getMessage());
    }

    @Test
    void shouldAcceptACreditOnceAndNoReturnedOne() throws Exception {
        int slot = grant(1, 1);
        assertTrue(fixture.send(1, slot, CHUNK_BYTES, TransferFixture.bytes(10), false));
        assertThrows(
                ProtocolException.class,
                () -> fixture.send(1, slot, CHUNK_BYTES + 10, TransferFixture.bytes(10), false));
        int other = grant(1, 2);
        fixture.giveBack(1, 2, other);
        assertThrows(
                ProtocolException.class,
                () -> fixture.send(1, other, 2 * CHUNK_BYTES, TransferFixture.bytes(10), false));
        int used = grant(1, 3);
        assertTrue(fixture.send(1, used, 3 * CHUNK_BYTES, TransferFixture.bytes(10), false));
        assertThrows(ProtocolException.class, () -> fixture.giveBack(1, 3, used));
    }

    @Test
    void shouldRefuseAChunkOfAnotherAttemptAndAnAdvertisement() throws Exception {
        int slot = grant(1, 1);
        ProtocolException e = assertThrows(
                ProtocolException.class,
                () -> fixture.advertise(1, slot, CHUNK_BYTES, TransferFixture.bytes(10), 0, 0));
        assertTrue(e.getMessage().contains("this transport does not use RDMA Read"), e.getMessage());
    }

    /** The agent does not check in between: the first chunk's credit is used when the second is requested. */
    @Test
    void shouldGrantAWindowAgainAfterItsFirstPieceArrived() throws Exception {
        byte[] bytes = TransferFixture.bytes(1000);
        assertTrue(fixture.send(1, grant(1, 1), CHUNK_BYTES, bytes, false));
        int second = grant(1, 1);
        assertTrue(fixture.send(1, second, CHUNK_BYTES + 500, bytes, false));
        byte[] expected = new byte[1500];
        System.arraycopy(bytes, 0, expected, 0, 500);
        System.arraycopy(bytes, 0, expected, 500, 1000);
        assertArrayEquals(expected, read(1, CHUNK_BYTES, 1500));
    }

    /** Otherwise a further piece of the window could be granted, arrive, and be replaced by the older bytes. */
    @Test
    void shouldNotMarkAChunkAsArrivedWhenItsBytesAreNotInTheFileYet() throws Exception {
        int slot = grant(1, 1);
        ArrivingFile file = fixture.transfer.images().file(1);
        CompletableFuture<Boolean> right = new CompletableFuture<>();
        Thread brings = new Thread(() -> {
            try {
                right.complete(fixture.send(1, slot, CHUNK_BYTES, TransferFixture.bytes(10), false));
            } catch (IOException e) {
                right.completeExceptionally(e);
            }
        });
        synchronized (file) {
            brings.start();
            TransferFixture.until("the thread that brings it is held up", () -> waitsFor(brings, file));
            assertFalse(fixture.transfer.hasWork(), "the agent is notified before the bytes are stored");
        }
        assertTrue(right.get(TransferFixture.DEADLINE_NS, TimeUnit.NANOSECONDS));
        assertTrue(fixture.transfer.hasWork());
        assertArrayEquals(TransferFixture.bytes(10), read(1, CHUNK_BYTES, 10));
    }

    private static boolean waitsFor(Thread thread, Object monitor) {
        ThreadInfo info = ManagementFactory.getThreadMXBean().getThreadInfo(thread.getId());
        return info != null
                && info.getThreadState() == Thread.State.BLOCKED
                && info.getLockInfo().getIdentityHashCode() == System.identityHashCode(monitor);
    }

    private void openStreamed() throws Exception {
        fixture.close();
        fixture = new TransferFixture(ReadingMode.STREAMED, true);
        fixture.create(1, "/rank-0/f");
    }

    @Test
    void shouldDiscardSkippedBytesWhenALaterChunkOvertakesThem() throws Exception {
        openStreamed();
        byte[] bytes = TransferFixture.bytes(CHUNK_BYTES);
        int first = grant(1, 1);
        int second = grant(1, 2);
        assertTrue(fixture.send(1, second, 2 * CHUNK_BYTES, bytes, false));
        assertArrayEquals(bytes, read(1, 2 * CHUNK_BYTES, CHUNK_BYTES));
        assertTrue(fixture.send(1, first, CHUNK_BYTES, bytes, false), fixture.failure());
        fixture.work();
        assertNull(fixture.failure());
        assertFalse(fixture.transfer.images().file(1).isHeld(1), "its receive slot is free again");
        fixture.value(FrameType.END_OF_FILE, 1, 3 * CHUNK_BYTES);
        fixture.value(FrameType.END_OF_IMAGE, 0, 0);
        assertTrue(fixture.transfer.complete());
    }

    @ParameterizedTest
    @CsvSource({"100, true", "99, false"})
    void shouldDiscardOnlyUnreadBytesOfAHalfReadWindow(int from, boolean dropped) throws Exception {
        openStreamed();
        byte[] bytes = TransferFixture.bytes(CHUNK_BYTES);
        int first = grant(1, 1);
        int second = grant(1, 2);
        assertTrue(fixture.send(1, first, CHUNK_BYTES, TransferFixture.bytes(200), false));
        assertArrayEquals(TransferFixture.bytes(100), read(1, CHUNK_BYTES, 100));
        int further = grant(1, 1);
        assertTrue(fixture.send(1, second, 2 * CHUNK_BYTES, bytes, false));
        assertArrayEquals(bytes, read(1, 2 * CHUNK_BYTES, CHUNK_BYTES));
        assertEquals(dropped, fixture.send(1, further, CHUNK_BYTES + from, TransferFixture.bytes(200), false));
        fixture.work();
        assertEquals(dropped, fixture.failure() == null, fixture.failure());
        if (!dropped) {
            assertTrue(fixture.failure().contains("were written again after a restart had read up to"));
        }
    }

    @Test
    void shouldFailByNameAndPublishNothingWhenBytesAreCorrupted() throws Exception {
        assertFalse(fixture.send(1, grant(1, 1), CHUNK_BYTES, TransferFixture.bytes(10), true));
        assertTrue(fixture.failure().contains("arrived changed (CRC32C "), fixture.failure());
        fixture.work();
        ByteBuffer into = ByteBuffer.allocateDirect(10);
        assertTrue(fixture.transfer.images().file(1).read(BufferUtil.address(into), 10, CHUNK_BYTES) < 0);
    }

    @Test
    void shouldFailByNameWhenAConnectionFails() throws Exception {
        fixture.arrivals.onProtocolError("data connection to the source failed: cut");
        assertEquals("data connection to the source failed: cut", fixture.failure());
    }
}
