package io.ppmr.target.session;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.data.CreditRequestFrame;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ReadingMode;
import io.ppmr.target.image.ArrivingFile;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.agrona.BufferUtil;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class TransferTest {
    private static final int BLOCKED = CreditRequestFrame.BLOCKED;

    private TransferFixture fixture;

    @BeforeEach
    void open() throws Exception {
        fixture = new TransferFixture();
    }

    @AfterEach
    void close() throws Exception {
        fixture.close();
    }

    @Test
    void shouldPullPublishAndReleaseAnAdvertisedChunk() throws Exception {
        fixture.create(1, "/rank-0/f");
        fixture.want(1, 0, 1, BLOCKED);
        TransferFixture.Answer grant = fixture.next();
        assertEquals(FrameType.CREDIT, grant.type());
        byte[] bytes = TransferFixture.bytes(500);
        fixture.advertise(1, (int) grant.value(), 4096, bytes, 0, 17);
        assertEquals(1, fixture.puller.underWay());
        assertFalse(fixture.transfer.complete());
        fixture.puller.bring();
        fixture.work();
        assertEquals(new TransferFixture.Answer(FrameType.RELEASE, 1, 17), fixture.next());
        fixture.value(FrameType.END_OF_FILE, 1, 4596);
        fixture.value(FrameType.END_OF_IMAGE, 0, 0);
        assertTrue(fixture.transfer.complete());
        ByteBuffer into = ByteBuffer.allocateDirect(1000);
        ArrivingFile file = fixture.transfer.images().file(1);
        assertEquals(500, file.read(BufferUtil.address(into), 1000, 4096));
        byte[] got = new byte[500];
        into.get(0, got);
        assertEquals(Arrays.toString(bytes), Arrays.toString(got));
        assertNull(fixture.failure());
        assertEquals(500, fixture.transfer.report(0).readBytes());
        assertEquals(500, fixture.transfer.progress().arrivedBytes());
    }

    @Test
    void shouldEndWaitsWhenConnectionIsLostBeforeTheTransferBegins() throws Exception {
        fixture.create(1, "/rank-0/f");
        ArrivingFile file = fixture.transfer.images().file(1);
        fixture.endWhoseSourceIsLost().begin(fixture.transfer);
        assertTrue(String.valueOf(fixture.failure()).contains("connection to the source was lost"));
        ByteBuffer into = ByteBuffer.allocateDirect(10);
        assertTrue(file.read(BufferUtil.address(into), 10, 0) < 0, "a read of what will not come fails");
    }

    @Test
    void shouldFailAndNotBeCompleteWhenBytesAreCorrupted() throws Exception {
        int slot = grantOne();
        byte[] bytes = TransferFixture.bytes(500);
        fixture.advertise(1, slot, 4096, bytes, 0, 0);
        fixture.puller.corrupt();
        fixture.work();
        requireFailed("arrived changed (CRC32C ");
    }

    @Test
    void shouldFailAndNotBeCompleteWhenAPullFails() throws Exception {
        int slot = grantOne();
        fixture.advertise(1, slot, 4096, TransferFixture.bytes(500), 0, 0);
        fixture.puller.fail("the wire is cut");
        fixture.work();
        requireFailed("the wire is cut");
    }

    private int grantOne() throws Exception {
        fixture.create(1, "/rank-0/f");
        fixture.want(1, 0, 1, BLOCKED);
        return (int) fixture.next().value();
    }

    private void requireFailed(String reason) throws Exception {
        fixture.value(FrameType.END_OF_FILE, 1, 4596);
        fixture.value(FrameType.END_OF_IMAGE, 0, 0);
        fixture.work();
        assertFalse(fixture.transfer.complete(), "complete though a chunk has not come");
        assertTrue(fixture.failure().contains(reason), fixture.failure());
        assertTrue(
                fixture.awaitMessage(DataMessage.TransferFailure.class).reason().contains(reason));
        ByteBuffer into = ByteBuffer.allocateDirect(10);
        assertTrue(fixture.transfer.images().file(1).read(BufferUtil.address(into), 10, 4096) < 0);
    }

    @Test
    void shouldRefuseByNameWhenTheSourceHasTooManyFsyncs() throws Exception {
        fixture.create(1, "/rank-0/f");
        fixture.want(1, 0, 1, BLOCKED);
        int slot = (int) fixture.next().value();
        fixture.advertise(1, slot, 4096, TransferFixture.bytes(100), 0, 0);
        ProtocolException refusal = assertThrows(ProtocolException.class, () -> {
            for (int token = 0; token < 100_000; token++) {
                fixture.value(FrameType.SYNC, 1, token);
            }
        });
        assertTrue(refusal.getMessage().contains("more than 16384 pending fsyncs"), refusal.getMessage());
    }

    @Test
    void shouldAnswerASyncAfterAdvertisedBytesArrived() throws Exception {
        fixture.create(1, "/rank-0/f");
        fixture.create(2, "/rank-0/g");
        fixture.value(FrameType.SYNC, 1, 70);
        assertEquals(new TransferFixture.Answer(FrameType.SYNCED, 1, 70), fixture.next());
        fixture.want(1, 0, 2, BLOCKED);
        int first = (int) fixture.next().value();
        int second = (int) fixture.next().value();
        fixture.advertise(1, first, 4096, TransferFixture.bytes(100), 0, 0);
        fixture.advertise(1, second, TransferFixture.CHUNK_BYTES, TransferFixture.bytes(100), 1, 1);
        fixture.value(FrameType.SYNC, 1, 71);
        fixture.value(FrameType.SYNC, 2, 72);
        assertEquals(new TransferFixture.Answer(FrameType.SYNCED, 2, 72), fixture.next());
        fixture.puller.bring();
        fixture.work();
        assertEquals(FrameType.RELEASE, fixture.next().type());
        fixture.puller.bring();
        fixture.work();
        assertEquals(FrameType.RELEASE, fixture.next().type());
        assertEquals(new TransferFixture.Answer(FrameType.SYNCED, 1, 71), fixture.next());
    }

    @Test
    void shouldRefuseAnAdvertisementOutOfOrder() throws Exception {
        int slot = grantOne();
        ProtocolException e = assertThrows(
                ProtocolException.class, () -> fixture.advertise(1, slot, 4096, TransferFixture.bytes(10), 1, 0));
        assertTrue(e.getMessage().contains("advertisement 1 instead of 0"), e.getMessage());
    }

    @Test
    void shouldFailByNameWhenTheSourceNamesAnUnknownFile() throws Exception {
        fixture.value(FrameType.TRUNCATE, 9, 0);
        assertTrue(fixture.failure().contains("file 9, which it never created"), fixture.failure());
    }

    @Test
    void shouldFailByNameWhenNamesDiffer() throws Exception {
        fixture.transfer.onNameChange(new DataMessage.Removed("/rank-0/none"));
        assertTrue(fixture.failure().contains("names at the source and at the target differ"), fixture.failure());
    }

    @Test
    void shouldRefuseAFrameThatIsNotForATarget() {
        ProtocolException e = assertThrows(ProtocolException.class, () -> fixture.value(FrameType.SYNCED, 0, 0));
        assertTrue(e.getMessage().contains("frame SYNCED is not for a target"), e.getMessage());
    }

    @Test
    void shouldFreeEverythingWhenItIsClosed() throws Exception {
        int slot = grantOne();
        fixture.want(1, 1, 1, BLOCKED);
        fixture.advertise(1, slot, 4096, TransferFixture.bytes(500), 0, 0);
        fixture.transfer.close();
        assertEquals(fixture.pool.geometry().chunkCount(), fixture.pool.freeChunks());
        assertEquals(List.of(), fixture.shownNames());
    }

    @Test
    void shouldLetARetainedImageFillTheWholePool() throws Exception {
        TransferFixture retained = new TransferFixture(ReadingMode.RETAINED);
        try {
            retained.create(1, "/rank-0/f");
            for (int window = 0; window < TransferFixture.POOL_CHUNKS; window++) {
                retained.want(1, window, 1, BLOCKED);
                assertEquals(FrameType.CREDIT, retained.next().type(), "window " + window);
            }
        } finally {
            retained.close();
        }
    }

    // ---- the watch --------------------------------------------------------------------------------------------

    @Test
    void shouldFailByNameWhenNothingMovesForTheStallLimit() throws Exception {
        long startNs = System.nanoTime();
        fixture.create(1, "/rank-0/f");
        fixture.workAt(startNs);
        fixture.workAt(startNs + TimeUnit.SECONDS.toNanos(TransferFixture.STALL_S));
        assertNull(fixture.failure());
        fixture.value(FrameType.TRUNCATE, 1, 5000);
        fixture.workAt(startNs + TimeUnit.SECONDS.toNanos(2L * TransferFixture.STALL_S));
        assertNull(fixture.failure(), "something had moved");
        fixture.workAt(startNs + TimeUnit.SECONDS.toNanos(2L * TransferFixture.STALL_S) + 1);
        assertTrue(fixture.failure().contains("nothing was written, transferred or read for"), fixture.failure());
        assertTrue(fixture.failure().contains("the checkpointers write nothing"), fixture.failure());
    }

    @Test
    void shouldReportAWaitingRestart() throws Exception {
        long startNs = System.nanoTime();
        fixture.create(1, "/rank-0/f");
        ArrivingFile file = fixture.transfer.images().file(1);
        CompletableFuture<Integer> reader = CompletableFuture.supplyAsync(
                () -> file.read(BufferUtil.address(ByteBuffer.allocateDirect(10)), 10, 0));
        awaitReader(file);
        fixture.workAt(startNs);
        fixture.workAt(startNs + TimeUnit.SECONDS.toNanos(TransferFixture.STALL_S) + 1);
        assertTrue(fixture.failure().contains("a restart waits for bytes that no checkpointer writes"));
        fixture.work();
        assertTrue(reader.get(TransferFixture.DEADLINE_NS, TimeUnit.NANOSECONDS) < 0);
    }

    @Test
    void shouldNotFailWhenACompleteImageMakesNoProgress() throws Exception {
        long startNs = System.nanoTime();
        fixture.value(FrameType.END_OF_IMAGE, 0, 0);
        fixture.workAt(startNs);
        fixture.workAt(startNs + TimeUnit.SECONDS.toNanos(100L * TransferFixture.STALL_S));
        assertNull(fixture.failure());
    }

    @Test
    void shouldFailEarlierAndNameTheRemedyWhenThereIsNoSpaceForAWaitingReader() throws Exception {
        // From here on the clock is stopped, for any duration of the test's own steps.
        long startNs = System.nanoTime();
        fixture.workAt(startNs);
        fixture.create(1, "/rank-0/f");
        byte[] chunk = TransferFixture.bytes(TransferFixture.CHUNK_BYTES);
        for (int window = 1; window <= TransferFixture.POOL_CHUNKS; window++) {
            fixture.want(1, window, 1, BLOCKED);
            TransferFixture.Answer grant = fixture.nextOrNull();
            if (grant == null) {
                break;
            }
            fixture.advertise(
                    1, (int) grant.value(), (long) window * TransferFixture.CHUNK_BYTES, chunk, window - 1, 0);
            fixture.puller.bring();
            fixture.work();
            assertEquals(FrameType.RELEASE, fixture.next().type());
        }
        CompletableFuture<Integer> first = waitingReader(2);
        assertEquals(FrameType.CREDIT, fixture.next().type(), "the chunk that is kept for a reader");
        CompletableFuture<Integer> second = waitingReader(3);
        assertNull(fixture.nextOrNull());
        for (int i = 1; i <= 20 && fixture.failure() == null; i++) {
            fixture.workAt(startNs + TimeUnit.MILLISECONDS.toNanos(60L * i));
        }
        assertNull(fixture.failure(), "it failed within 1.2 s");
        fixture.workAt(startNs + TimeUnit.SECONDS.toNanos(TransferFixture.STALL_S) / 2 + 2);
        assertTrue(fixture.failure().contains("raise pool.size or staging.limit"), fixture.failure());
        fixture.work();
        assertTrue(first.get(TransferFixture.DEADLINE_NS, TimeUnit.NANOSECONDS) < 0);
        assertTrue(second.get(TransferFixture.DEADLINE_NS, TimeUnit.NANOSECONDS) < 0);
    }

    /** A reader that waits for the first bytes of a new file, and a writer that is blocked there. */
    private CompletableFuture<Integer> waitingReader(int id) throws Exception {
        fixture.create(id, "/rank-0/f" + id);
        ArrivingFile file = fixture.transfer.images().file(id);
        // Readers block, so each has a separate thread: the common pool may have only one.
        CompletableFuture<Integer> reader = CompletableFuture.supplyAsync(
                () -> file.read(BufferUtil.address(ByteBuffer.allocateDirect(10)), 10, 4096),
                task -> new Thread(task, "test-reader").start());
        awaitReader(file);
        fixture.want(id, 0, 1, BLOCKED);
        return reader;
    }

    /** Waits until its rank also reports the reader. */
    private static void awaitReader(ArrivingFile file) {
        TransferFixture.until(
                "the reader waits", () -> file.readerWaits() && file.rank().hasWaitingReader());
    }
}
