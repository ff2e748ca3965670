package io.ppmr.target.image;

import static io.ppmr.target.image.ImageFixture.CHUNK_BYTES;
import static io.ppmr.target.image.ImageFixture.HEAD_BYTES;
import static io.ppmr.target.image.ImageFixture.bytes;
import static io.ppmr.target.image.ImageFixture.get;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.fuse.Errno;
import io.ppmr.target.image.ImageFixture.Got;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class ArrivingFileTest {
    private final ImageFixture streamed = new ImageFixture(true);
    private final ImageFixture retained = new ImageFixture(false);

    // ---- waiting ----------------------------------------------------------------------------------------------

    @Test
    void shouldBlockAReaderUntilTheBytesArrive() throws Exception {
        byte[] bytes = bytes(1, 1000);
        long startNs = System.nanoTime();
        CompletableFuture<Got> got = streamed.readAndWait(HEAD_BYTES, 1000);
        int waits = streamed.waits.get();
        // A waiting reader checks its file every second.
        long passedS = TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - startNs);
        assertTrue(waits <= 1 + passedS, waits + " waits in " + passedS + " s");
        ReceiveSlot slot = streamed.advertise(HEAD_BYTES, bytes);
        assertFalse(got.isDone(), "advertised bytes were read before they arrived");
        streamed.arrive(slot);
        assertArrayEquals(bytes, get(got).bytes());
        assertFalse(streamed.file.readerWaits());
        assertFalse(streamed.rank.hasWaitingReader());
        assertEquals(1000, streamed.bytesRead.get());
    }

    @Test
    void shouldNotReturnFewerBytesThanRequestedBeforeTheEnd() throws Exception {
        byte[] bytes = bytes(2, 3000);
        streamed.bring(HEAD_BYTES, Arrays.copyOf(bytes, 1000));
        CompletableFuture<Got> got = streamed.readLater(HEAD_BYTES, 5000);
        ImageFixture.until("the reader waits", streamed.file::readerWaits);
        streamed.bring(HEAD_BYTES + 1000, Arrays.copyOfRange(bytes, 1000, 3000));
        ImageFixture.until("the reader waits again", () -> streamed.waits.get() >= 2);
        assertFalse(got.isDone());
        streamed.file.end(HEAD_BYTES + 3000);
        assertArrayEquals(bytes, get(got).bytes());
        assertEquals(0, streamed.read(HEAD_BYTES + 3000, 100).result());
    }

    @Test
    void shouldWakeAReaderAtTheEnd() throws Exception {
        CompletableFuture<Got> got = streamed.readAndWait(0, 100);
        streamed.file.end(0);
        assertEquals(0, get(got).result());
    }

    @Test
    void shouldWakeEveryReaderWhenTheMigrationFails() throws Exception {
        List<CompletableFuture<Got>> readers = List.of(
                streamed.readAndWait(0, 100),
                streamed.readAndWait(HEAD_BYTES, 100),
                streamed.readAndWait(1_000_000, 100));
        streamed.file.fail("broken");
        for (CompletableFuture<Got> reader : readers) {
            assertEquals(Errno.EIO.negated(), get(reader).result());
        }
        assertEquals(Errno.EIO.negated(), streamed.read(0, 1).result());
    }

    @Test
    void shouldEndTheReadOfAnInterruptedThread() throws Exception {
        LinkedBlockingQueue<Integer> results = new LinkedBlockingQueue<>();
        LinkedBlockingQueue<Boolean> marks = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> {
            results.add(streamed.read(HEAD_BYTES, 10).result());
            marks.add(Thread.currentThread().isInterrupted());
        });
        reader.start();
        ImageFixture.until("the reader waits", streamed.file::readerWaits);
        reader.interrupt();
        assertEquals(Errno.EINTR.negated(), results.poll(ImageFixture.DEADLINE_NS, TimeUnit.NANOSECONDS));
        assertEquals(true, marks.poll(ImageFixture.DEADLINE_NS, TimeUnit.NANOSECONDS));
        assertFalse(streamed.rank.hasWaitingReader());
    }

    // ---- the prefix -------------------------------------------------------------------------------------------

    @Test
    void shouldReturnThePrefixAgainAfterLaterReads() throws Exception {
        byte[] head = bytes(3, HEAD_BYTES);
        byte[] rest = bytes(4, 2000);
        streamed.head(0, head);
        streamed.bring(HEAD_BYTES, rest);
        byte[] all = streamed.read(0, HEAD_BYTES + 2000).bytes();
        assertArrayEquals(head, Arrays.copyOf(all, HEAD_BYTES));
        assertArrayEquals(rest, Arrays.copyOfRange(all, HEAD_BYTES, all.length));
        assertArrayEquals(Arrays.copyOf(head, 100), streamed.read(0, 100).bytes());
        assertArrayEquals(
                Arrays.copyOfRange(head, 4000, HEAD_BYTES),
                streamed.read(4000, 96).bytes());
        assertEquals(0, streamed.seeksRefused.get());
    }

    @Test
    void shouldAcceptPiecesOfThePrefixInAnyOrder() throws Exception {
        byte[] head = bytes(5, 300);
        streamed.head(200, Arrays.copyOfRange(head, 200, 300));
        CompletableFuture<Got> got = streamed.readAndWait(0, 300);
        streamed.head(0, Arrays.copyOf(head, 100));
        streamed.head(100, Arrays.copyOfRange(head, 100, 200));
        assertArrayEquals(head, get(got).bytes());
        assertEquals(300, streamed.file.size());
    }

    @Test
    void shouldFailWhenThePrefixChangesBehindItsReader() throws Exception {
        streamed.head(0, bytes(6, 100));
        streamed.read(0, 50);
        streamed.head(0, bytes(6, 100));
        byte[] later = bytes(6, 100);
        later[60] ^= 1;
        streamed.head(0, later);
        later[49] ^= 1;
        refused(() -> streamed.head(0, later), "were changed after a restart had read them");
        retained.head(0, bytes(6, 100));
        retained.read(0, 100);
        retained.head(0, later);
        assertArrayEquals(later, retained.read(0, 100).bytes());
    }

    // ---- streamed and retained --------------------------------------------------------------------------------

    @Test
    void shouldFreeASlotAsSoonAsItWasRead() throws Exception {
        ReceiveSlot first = streamed.bring(HEAD_BYTES, bytes(7, CHUNK_BYTES - HEAD_BYTES));
        ReceiveSlot second = streamed.bring(CHUNK_BYTES, bytes(8, CHUNK_BYTES));
        streamed.read(HEAD_BYTES, CHUNK_BYTES - HEAD_BYTES - 1);
        assertEquals(List.of(), streamed.free);
        streamed.read(CHUNK_BYTES - 1, 1);
        assertEquals(List.of(first), streamed.free);
        assertNull(first.file());
        assertFalse(streamed.file.isHeld(0));
        streamed.read(CHUNK_BYTES, CHUNK_BYTES);
        assertEquals(List.of(first, second), streamed.free);
    }

    @Test
    void shouldFreeSkippedBytes() throws Exception {
        ReceiveSlot skipped = streamed.bring(HEAD_BYTES, bytes(7, CHUNK_BYTES - HEAD_BYTES));
        streamed.bring(CHUNK_BYTES, bytes(8, CHUNK_BYTES));
        assertEquals(100, streamed.read(CHUNK_BYTES, 100).result());
        assertEquals(List.of(skipped), streamed.free);
    }

    @Test
    void shouldRefuseToReadAStreamTwice() throws Exception {
        streamed.bring(HEAD_BYTES, bytes(9, 2000));
        streamed.read(HEAD_BYTES, 1000);
        assertEquals(Errno.ESPIPE.negated(), streamed.read(HEAD_BYTES + 999, 10).result());
        assertEquals(1, streamed.seeksRefused.get());
        assertEquals(1000, streamed.read(HEAD_BYTES + 1000, 1000).result());
    }

    @Test
    void shouldReadARetainedFileAgainAndAgain() throws Exception {
        byte[] bytes = bytes(10, 8000);
        retained.bring(HEAD_BYTES, bytes);
        for (int i = 0; i < 3; i++) {
            assertArrayEquals(bytes, retained.read(HEAD_BYTES, 8000).bytes());
            assertArrayEquals(
                    Arrays.copyOfRange(bytes, 500, 600),
                    retained.read(HEAD_BYTES + 500, 100).bytes());
        }
        assertEquals(0, retained.seeksRefused.get());
    }

    @Test
    void shouldFailWhenAStreamIsRewrittenBehindItsReader() throws Exception {
        streamed.bring(HEAD_BYTES, bytes(11, 1000));
        streamed.read(HEAD_BYTES, 500);
        streamed.bring(HEAD_BYTES + 500, bytes(12, 100));
        refused(
                () -> streamed.advertise(HEAD_BYTES + 499, bytes(12, 100)),
                "a streamed image cannot be rewritten behind its reader: configure the checkpointer as retained");
        assertArrayEquals(bytes(12, 100), streamed.read(HEAD_BYTES + 500, 100).bytes());
    }

    @Test
    void shouldFailWhenAStreamIsTruncatedBehindItsReader() throws Exception {
        streamed.bring(HEAD_BYTES, bytes(11, 1000));
        streamed.read(HEAD_BYTES, 500);
        streamed.file.truncate(HEAD_BYTES + 500);
        refused(() -> streamed.file.truncate(HEAD_BYTES + 499), "bytes after a restart had read further");
    }

    @Test
    void shouldFreePunchedHolesOfARetainedFile() throws Exception {
        retained.bring(HEAD_BYTES, bytes(13, 1000));
        assertEquals(4096, retained.staging.usedBytes());
        retained.file.punchHole(HEAD_BYTES, 999);
        assertEquals(4096, retained.staging.usedBytes());
        retained.file.punchHole(HEAD_BYTES + 999, 1);
        assertEquals(0, retained.staging.usedBytes());
        assertEquals(1, retained.stagingFreed.get());
    }

    @Test
    void shouldFreeAChunkAsSoonAsARetainedFileHasItsBytes() throws Exception {
        ReceiveSlot slot = retained.advertise(HEAD_BYTES, bytes(13, 1000));
        assertEquals(List.of(), retained.free);
        retained.arrive(slot);
        assertEquals(List.of(slot), retained.free);
        assertArrayEquals(bytes(13, 1000), retained.read(HEAD_BYTES, 1000).bytes());
    }

    // ---- size, holes, end -------------------------------------------------------------------------------------

    @Test
    void shouldReturnZerosForAGapOnlyAtTheEnd() throws Exception {
        streamed.head(100, bytes(14, 10));
        streamed.bring(20_000, bytes(15, 100));
        CompletableFuture<Got> got = streamed.readAndWait(0, 30_000);
        streamed.file.truncate(25_000);
        ImageFixture.until("the reader looks again", () -> streamed.waits.get() >= 2);
        assertFalse(got.isDone(), "a gap was read before the end, though it may still be filled");
        streamed.file.end(25_000);
        byte[] expected = new byte[25_000];
        System.arraycopy(bytes(14, 10), 0, expected, 100, 10);
        System.arraycopy(bytes(15, 100), 0, expected, 20_000, 100);
        assertArrayEquals(expected, get(got).bytes());
    }

    @Test
    void shouldReturnZerosAfterATruncationAndExtension() throws Exception {
        retained.head(0, bytes(16, HEAD_BYTES));
        retained.bring(HEAD_BYTES, bytes(16, 5000));
        retained.file.truncate(1000);
        retained.file.truncate(6000);
        retained.file.end(6000);
        byte[] expected = Arrays.copyOf(bytes(16, 1000), 6000);
        assertArrayEquals(expected, retained.read(0, 10_000).bytes());
        assertEquals(0, retained.staging.usedBytes());
    }

    @Test
    void shouldFailWhenItEndsWithAnotherSizeThanAtTheSource() throws Exception {
        streamed.head(0, bytes(17, 100));
        refused(() -> streamed.file.end(101), "ends with 101 bytes at the source but with 100 here");
        streamed.file.end(100);
        assertTrue(streamed.file.hasEnded());
    }

    // ---- slots ------------------------------------------------------------------------------------------------

    @Test
    void shouldJoinAPieceThatArrivesBeforeItsDestination() throws Exception {
        ReceiveSlot holder = streamed.advertise(HEAD_BYTES, bytes(18, 100));
        ReceiveSlot piece = streamed.advertise(HEAD_BYTES + 50, bytes(19, 100));
        streamed.arrive(piece);
        assertEquals(List.of(), streamed.free, "the piece waits in its own chunk");
        streamed.arrive(holder);
        assertEquals(List.of(piece), streamed.free);
        byte[] expected = Arrays.copyOf(bytes(18, 100), 150);
        System.arraycopy(bytes(19, 100), 0, expected, 50, 100);
        assertArrayEquals(expected, streamed.read(HEAD_BYTES, 150).bytes());
    }

    @Test
    void shouldFreeAnUnusedSlot() {
        ReceiveSlot holder = streamed.grant(3);
        ReceiveSlot piece = streamed.grant(3);
        streamed.file.returnCredit(holder);
        assertEquals(List.of(), streamed.free, "a piece may still come into it");
        streamed.file.returnCredit(piece);
        assertEquals(2, streamed.free.size());
        assertFalse(streamed.file.isHeld(3));
    }

    @Test
    void shouldReadAMovedChunkFromStaging() throws Exception {
        byte[] bytes = bytes(20, 5000);
        ReceiveSlot slot = streamed.bring(HEAD_BYTES, bytes);
        assertTrue(streamed.file.canEvict(slot));
        assertTrue(streamed.file.evict(slot));
        assertEquals(List.of(slot), streamed.free);
        assertFalse(streamed.file.isHeld(0));
        assertEquals(1, streamed.uncovered.get(), "the rest of its window needs a receive slot");
        assertEquals(8192, streamed.staging.usedBytes());
        assertArrayEquals(bytes, streamed.read(HEAD_BYTES, 5000).bytes());
        assertEquals(0, streamed.staging.usedBytes());
        assertEquals(1, streamed.stagingFreed.get());
    }

    @Test
    void shouldReturnStagedBytesOnlyUntilNewOnesAreAdvertised() throws Exception {
        byte[] old = bytes(20, 5000);
        assertTrue(streamed.file.evict(streamed.bring(HEAD_BYTES, old)));
        byte[] later = bytes(21, 1000);
        ReceiveSlot slot = streamed.advertise(HEAD_BYTES + 2000, later);
        CompletableFuture<Got> got = streamed.readAndWait(HEAD_BYTES + 1000, 3000);
        streamed.arrive(slot);
        byte[] expected = Arrays.copyOfRange(old, 1000, 4000);
        System.arraycopy(later, 0, expected, 1000, 1000);
        assertArrayEquals(expected, get(got).bytes());
    }

    @Test
    void shouldReportWhyBytesCannotBeStaged() throws Exception {
        ImageFixture lost = new ImageFixture(false, new Staging(Path.of("/no-such-folder"), CHUNK_BYTES));
        ReceiveSlot slot = lost.bring(HEAD_BYTES, bytes(22, 300));
        assertEquals(List.of(slot), lost.free);
        assertEquals(1, lost.stagingFailures.size());
        assertTrue(lost.stagingFailures.get(0).contains("/no-such-folder"), lost.stagingFailures.toString());
        assertTrue(lost.stagingFailures.get(0).contains("staging.directory"), lost.stagingFailures.toString());
    }

    @Test
    void shouldNotMoveAChunkThatIsAwaitedOrUnderWay() throws Exception {
        ReceiveSlot slot = streamed.advertise(HEAD_BYTES, bytes(21, 100));
        assertFalse(streamed.file.canEvict(slot), "on its way");
        streamed.arrive(slot);
        assertTrue(streamed.file.canEvict(slot));
        ReceiveSlot piece = streamed.grant(0);
        assertFalse(streamed.file.canEvict(slot), "a piece comes into it");
        streamed.file.returnCredit(piece);
        CompletableFuture<Got> got = streamed.readAndWait(HEAD_BYTES + 5000, 10);
        assertFalse(streamed.file.canEvict(slot), "a reader waits in its window");
        streamed.file.fail("over");
        get(got);
    }

    @Test
    void shouldKeepARemovedFileWhileItIsOpen() throws Exception {
        ReceiveSlot slot = streamed.bring(HEAD_BYTES, bytes(22, 100));
        streamed.file.opened();
        streamed.file.remove();
        assertEquals(List.of(), streamed.free);
        assertArrayEquals(bytes(22, 100), streamed.read(HEAD_BYTES, 100).bytes());
        streamed.file.closed();
        assertEquals(List.of(slot), streamed.free);
        ReceiveSlot late = streamed.bring(CHUNK_BYTES, bytes(22, 100));
        assertEquals(List.of(slot, late), streamed.free, "it cannot be read any longer");
    }

    @Test
    void shouldFreeEverySlotOnceWhenItIsDiscarded() throws Exception {
        ReceiveSlot neverArrived = streamed.advertise(HEAD_BYTES, bytes(23, 100));
        ReceiveSlot arrived = streamed.bring(CHUNK_BYTES, bytes(23, 100));
        ReceiveSlot granted = streamed.grant(5);
        streamed.file.discard();
        assertEquals(3, streamed.free.size());
        assertTrue(streamed.free.containsAll(List.of(neverArrived, arrived, granted)));
    }

    @Test
    void shouldCountItsReadersNeedBeforeItFreesASlot() throws Exception {
        // Otherwise the agent could grant that slot to a file without a reader, and keep none for this one's reader.
        streamed.bring(HEAD_BYTES, bytes(24, CHUNK_BYTES - HEAD_BYTES));
        assertEquals(0, streamed.uncovered.get());
        streamed.read(HEAD_BYTES, CHUNK_BYTES - HEAD_BYTES);
        streamed.bring(CHUNK_BYTES, bytes(24, 100));
        assertEquals(0, streamed.uncovered.get());
        streamed.read(CHUNK_BYTES, 100);
        assertEquals(List.of(1, 1), streamed.uncoveredWhenFreed);
        assertEquals(1, streamed.uncovered.get());
    }

    private static void refused(Executable step, String reason) {
        ImageException e = assertThrows(ImageException.class, step);
        assertTrue(e.getMessage().contains(reason), e.getMessage());
        assertTrue(e.getMessage().contains("/m.1/rank-0/f"), e.getMessage());
    }
}
