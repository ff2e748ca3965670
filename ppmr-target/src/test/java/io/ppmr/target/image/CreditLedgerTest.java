package io.ppmr.target.image;

import static io.ppmr.target.image.LedgerFixture.BOUNCE_BUFFERS;
import static io.ppmr.target.image.LedgerFixture.CHUNK_BYTES;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.data.CreditRequestFrame;
import io.ppmr.protocol.data.DenyReason;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.target.image.LedgerFixture.Granted;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class CreditLedgerTest {
    private static final int BLOCKED = CreditRequestFrame.BLOCKED;
    private static final int MIB = 1024 * 1024;

    private static RankImage streamed() {
        return new RankImage(0, name -> true);
    }

    private static RankImage retained() {
        return new RankImage(0, name -> false);
    }

    @Test
    void shouldGrantRequestsInOrder() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(8, 0, 1)) {
            ArrivingFile file = fixture.file(streamed());
            fixture.ledger.requestCredits(file, 0, 3, BLOCKED);
            List<ReceiveSlot> slots = fixture.takeSlots();
            assertEquals(
                    List.of(0L, 1L, 2L),
                    slots.stream().map(slot -> slot.window()).toList());
            for (ReceiveSlot slot : slots) {
                assertTrue(file.isHeld(slot.window()));
                assertSame(slot, fixture.ledger.slot(slot.index()));
            }
            assertFalse(fixture.ledger.hasBlockedWriter());
        }
    }

    @Test
    void shouldKeepChunksForWaitingReaders() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(8, 0, 2)) {
            ArrivingFile ahead = fixture.file(streamed());
            ArrivingFile waited = fixture.file(streamed());
            fixture.ledger.requestCredits(ahead, 5, 60, 0);
            assertEquals(6, fixture.takeSlots().size(), "two streams have no slot for what their readers read next");
            fixture.ledger.requestCredits(waited, 0, 1, BLOCKED);
            assertEquals(List.of(), fixture.takeGranted());
            assertTrue(fixture.ledger.hasBlockedWriter());
            fixture.waitingReader(waited, 4096);
            fixture.ledger.serve();
            Granted granted = fixture.takeGranted().get(0);
            assertSame(waited, granted.file());
            assertSame(ReceiveSlot.SlotKind.RESERVED, granted.slot().kind());
        }
    }

    @Test
    void shouldRefuseByNameWhenAWriterRequestsTooManyWindows() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, 0, 0)) {
            ArrivingFile file = fixture.file(streamed());
            String message = assertThrows(ProtocolException.class, () -> {
                        for (long window = 0; window < 1_000_000; window += CreditRequestFrame.MAX_COUNT) {
                            fixture.ledger.requestCredits(file, window, CreditRequestFrame.MAX_COUNT, 0);
                        }
                    })
                    .getMessage();
            assertTrue(message.contains("more than 256 windows ahead"), message);
        }
    }

    @Test
    void shouldStoreAWindowOnceWhenAWriterRequestsItRepeatedly() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, 0, 0)) {
            ArrivingFile file = fixture.file(streamed());
            for (int again = 0; again < 100_000; again++) {
                fixture.ledger.requestCredits(file, 8, CreditRequestFrame.MAX_COUNT, again % 2 == 0 ? BLOCKED : 0);
            }
            assertTrue(fixture.takeSlots().size() <= 4);
        }
    }

    @Test
    void shouldServeBlockedWritersWhenAllFilesTogetherRequestTooManyWindows() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, 0, 0)) {
            for (int i = 0; i < 1_000; i++) {
                ArrivingFile file = fixture.file(streamed());
                for (int part = 0; part < 3; part++) {
                    long window = 1 + part * (long) CreditRequestFrame.MAX_COUNT;
                    fixture.ledger.requestCredits(file, window, CreditRequestFrame.MAX_COUNT, 0);
                }
                fixture.ledger.fileEnded(file);
            }
            ArrivingFile last = fixture.file(streamed());
            fixture.waitingReader(last, 4096);
            fixture.takeSlots();
            fixture.ledger.requestCredits(last, 0, 1, BLOCKED);
            fixture.ledger.relieve();
            assertEquals(
                    List.of(last),
                    fixture.takeGranted().stream().map(Granted::file).toList());
        }
    }

    @Test
    void shouldReserveHalfOfThePoolAtMost() throws Exception {
        int chunks = 8;
        try (LedgerFixture fixture = new LedgerFixture(chunks, 0, 20)) {
            int reserved = 0;
            int general = 0;
            for (int i = 0; i < 20; i++) {
                ArrivingFile file = fixture.file(streamed());
                fixture.waitingReader(file, 4096);
                fixture.ledger.requestCredits(file, 0, 1, BLOCKED);
                for (ReceiveSlot slot : fixture.takeSlots()) {
                    reserved += slot.kind() == ReceiveSlot.SlotKind.RESERVED ? 1 : 0;
                    general += slot.kind() == ReceiveSlot.SlotKind.GENERAL ? 1 : 0;
                }
            }
            assertEquals(chunks / 2, reserved);
            assertTrue(reserved + general <= chunks, general + " general slots beside " + reserved + " reserved ones");
        }
    }

    @Test
    void shouldGrantAgainWhenAReaderHasEmptiedASlot() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, 0, 0)) {
            ArrivingFile file = fixture.file(streamed());
            for (long window = 0; window < 100; window++) {
                fixture.ledger.requestCredits(file, window, 1, BLOCKED);
                fixture.passOnFreed();
                fixture.ledger.serve();
                List<ReceiveSlot> slots = fixture.takeSlots();
                assertEquals(1, slots.size(), "window " + window);
                fixture.fill(file, slots.get(0));
                long start = Math.max(4096, window * CHUNK_BYTES);
                int bytes = (int) ((window + 1) * CHUNK_BYTES - start);
                assertEquals(bytes, fixture.read(file, start, bytes));
            }
            fixture.passOnFreed();
            assertEquals(4 + BOUNCE_BUFFERS, fixture.pool.freeChunks());
        }
    }

    @Test
    void shouldAcceptReturnedCredits() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, 0, 0)) {
            ArrivingFile file = fixture.file(streamed());
            fixture.ledger.requestCredits(file, 0, 1, BLOCKED);
            ReceiveSlot slot = fixture.takeSlots().get(0);
            fixture.ledger.onCreditReturned(file, slot.index());
            assertEquals(1, fixture.passOnFreed());
            assertEquals(4 + BOUNCE_BUFFERS, fixture.pool.freeChunks());
            assertFalse(file.isHeld(0));
            refused(() -> fixture.ledger.onCreditReturned(file, slot.index()));
        }
    }

    // ---- bounce buffers ---------------------------------------------------------------------------------------------

    @Test
    void shouldMovePiecesOfAHeldWindowThroughABounceBuffer() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, 0, 0)) {
            ArrivingFile file = fixture.file(streamed());
            fixture.ledger.requestCredits(file, 0, 1, BLOCKED);
            ReceiveSlot holder = fixture.takeSlots().get(0);
            fixture.bring(file, holder, 4096, 100);
            for (int piece = 1; piece < 50; piece++) {
                fixture.ledger.requestCredits(file, 0, 1, BLOCKED);
                ReceiveSlot bounce = fixture.takeSlots().get(0);
                assertSame(ReceiveSlot.SlotKind.BOUNCE, bounce.kind());
                fixture.bring(file, bounce, 4096 + 100 * piece, 100);
                assertEquals(1, fixture.passOnFreed());
            }
            assertTrue(file.isHeld(0));
            assertEquals(5000, fixture.read(file, 4096, 5000));
            assertEquals(3 + BOUNCE_BUFFERS, fixture.pool.freeChunks());
        }
    }

    @Test
    void shouldDelayAPieceWhenNoBounceBufferIsFree() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, 0, 0)) {
            RankImage rank = streamed();
            ArrivingFile[] files = {fixture.file(rank), fixture.file(rank), fixture.file(rank)};
            for (ArrivingFile file : files) {
                fixture.ledger.requestCredits(file, 0, 1, BLOCKED);
                fixture.bring(file, fixture.takeSlots().get(0), 4096, 100);
            }
            for (ArrivingFile file : files) {
                fixture.ledger.requestCredits(file, 0, 1, BLOCKED);
            }
            List<Granted> pieces = fixture.takeGranted();
            assertEquals(BOUNCE_BUFFERS, pieces.size());
            assertTrue(fixture.ledger.hasBlockedWriter());
            Granted first = pieces.get(0);
            fixture.bring(first.file(), first.slot(), 5000, 100);
            fixture.passOnFreed();
            fixture.ledger.serve();
            assertSame(files[2], fixture.takeGranted().get(0).file());
        }
    }

    // ---- retained files ---------------------------------------------------------------------------------------

    @Test
    void shouldSendARetainedFileThroughThePoolToStaging() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(8, 64 * CHUNK_BYTES, 0)) {
            ArrivingFile file = fixture.file(retained());
            fixture.ledger.requestCredits(file, 0, 28, BLOCKED);
            List<ReceiveSlot> slots = fixture.takeSlots();
            assertEquals(8 + BOUNCE_BUFFERS, slots.size(), "as many are under way at once as there are chunks");
            int granted = 0;
            while (!slots.isEmpty()) {
                granted += slots.size();
                for (ReceiveSlot slot : slots) {
                    assertFalse(file.isHeld(slot.window()));
                    fixture.fill(file, slot);
                }
                fixture.passOnFreed();
                fixture.ledger.serve();
                slots = fixture.takeSlots();
            }
            assertEquals(28, granted);
            assertEquals(28 * CHUNK_BYTES - 4096, fixture.staging.usedBytes());
            assertEquals(28 * CHUNK_BYTES - 4096, fixture.staging.writtenBytes());
            assertEquals(8 + BOUNCE_BUFFERS, fixture.pool.freeChunks());
            file.end(28 * CHUNK_BYTES);
            assertEquals(28 * CHUNK_BYTES, fixture.read(file, 0, 28 * CHUNK_BYTES));
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void shouldLeaveTheReserveToStreamsWhenARetainedFileArrives(boolean expected) throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(8, 64 * CHUNK_BYTES, expected ? 1 : 0)) {
            if (!expected) {
                fixture.file(streamed());
            }
            ArrivingFile file = fixture.file(retained());
            fixture.ledger.requestCredits(file, 0, 16, BLOCKED);
            assertEquals(7 + BOUNCE_BUFFERS, fixture.takeSlots().size());
        }
    }

    @Test
    void shouldMoveARetainedFileThroughBounceBuffersWhenStreamsFillThePool() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, 64 * CHUNK_BYTES, 0)) {
            fillPool(fixture, fixture.file(streamed()));
            ArrivingFile file = fixture.file(retained());
            for (int window = 0; window < 20; window++) {
                fixture.ledger.requestCredits(file, window, 1, BLOCKED);
                ReceiveSlot slot = fixture.takeSlots().get(0);
                assertSame(ReceiveSlot.SlotKind.BOUNCE, slot.kind());
                fixture.fill(file, slot);
                fixture.passOnFreed();
            }
            assertEquals(20 * CHUNK_BYTES - 4096, fixture.read(file, 4096, 20 * CHUNK_BYTES - 4096));
        }
    }

    @Test
    void shouldUseNoMoreSpaceWhenAWindowIsWrittenAgain() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, CHUNK_BYTES, 0)) {
            ArrivingFile file = fixture.file(retained());
            for (int again = 0; again < 5; again++) {
                fixture.ledger.requestCredits(file, 1, 1, BLOCKED);
                fixture.fill(file, fixture.takeSlots().get(0));
                fixture.passOnFreed();
                assertEquals(CHUNK_BYTES, fixture.staging.usedBytes());
            }
        }
    }

    @Test
    void shouldReleaseSpaceWhenACreditIsNotUsed() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, CHUNK_BYTES, 0)) {
            ArrivingFile file = fixture.file(retained());
            for (int again = 0; again < 5; again++) {
                fixture.ledger.requestCredits(file, again, 1, BLOCKED);
                fixture.ledger.onCreditReturned(file, fixture.takeSlots().get(0).index());
                fixture.passOnFreed();
            }
            assertEquals(0, fixture.staging.usedBytes());
        }
    }

    // ---- no space ---------------------------------------------------------------------------------------------

    @Test
    void shouldDenyBytesThatDoNotFitStagingAndNameTheKey() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, 3 * CHUNK_BYTES, 0)) {
            ArrivingFile file = fixture.file(retained());
            for (int window = 1; window <= 3; window++) {
                fixture.ledger.requestCredits(file, window, 1, BLOCKED);
                fixture.fill(file, fixture.takeSlots().get(0));
                fixture.passOnFreed();
            }
            assertEquals(3L * CHUNK_BYTES, fixture.staging.writtenBytes());
            fixture.ledger.requestCredits(file, 4, 1, BLOCKED);
            assertEquals(List.of(), fixture.takeGranted());
            assertEquals(List.of(), fixture.denied, "it may still find room");
            assertNull(fixture.ledger.relieve());
            assertEquals(1, fixture.denied.size());
            LedgerFixture.Denied denied = fixture.denied.get(0);
            assertEquals(4, denied.window());
            assertSame(DenyReason.NO_SPACE, denied.reason());
            assertTrue(denied.message().contains("/m.1/f1"), denied.message());
            assertTrue(denied.message().contains("staging is limited to 49152 bytes"), denied.message());
            assertTrue(denied.message().contains("raise staging.limit of the target"), denied.message());
            assertFalse(fixture.ledger.hasBlockedWriter());
            assertEquals(3 * CHUNK_BYTES, fixture.read(file, CHUNK_BYTES, 3 * CHUNK_BYTES));
        }
    }

    @Test
    void shouldNotDenyWhileAGrantIsUnused() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, 4 * CHUNK_BYTES, 0)) {
            RankImage rank = retained();
            ArrivingFile first = fixture.file(rank);
            ArrivingFile second = fixture.file(rank);
            fixture.ledger.requestCredits(first, 1, 4, BLOCKED);
            List<ReceiveSlot> slots = fixture.takeSlots();
            for (ReceiveSlot slot : slots.subList(0, 3)) {
                fixture.fill(first, slot);
            }
            fixture.passOnFreed();
            fixture.ledger.requestCredits(second, 1, 1, BLOCKED);
            fixture.ledger.relieve();
            assertEquals(List.of(), fixture.denied, "room is granted to a writer who may not need it");
            fixture.ledger.onCreditReturned(first, slots.get(3).index());
            fixture.passOnFreed();
            fixture.ledger.relieve();
            assertEquals(List.of(), fixture.denied);
            assertSame(second, fixture.takeGranted().get(0).file());
        }
    }

    @Test
    void shouldDenyARequestOfAnEndedFile() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, 0, 0)) {
            ArrivingFile file = fixture.file(streamed());
            fixture.ledger.fileEnded(file);
            fixture.ledger.requestCredits(file, 0, 1, BLOCKED);
            assertSame(DenyReason.NO_FILE, fixture.denied.get(0).reason());
        }
    }

    // ---- relief -----------------------------------------------------------------------------------------------

    @Test
    void shouldStageAChunkWithoutReaderForAWaitingReader() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, MIB, 0)) {
            ArrivingFile unread = fixture.file(new RankImage(0, name -> true));
            fillPool(fixture, unread);
            ArrivingFile waited = fixture.file(new RankImage(1, name -> true));
            fixture.ledger.requestCredits(waited, 0, 1, BLOCKED);
            fixture.waitingReader(waited, 4096);
            fixture.ledger.serve();
            assertEquals(List.of(), fixture.takeGranted());
            assertNull(fixture.ledger.relieve());
            assertEquals(1, fixture.passOnFreed());
            fixture.ledger.serve();
            assertSame(waited, fixture.takeGranted().get(0).file());
            assertEquals(CHUNK_BYTES - 4096, fixture.staging.writtenBytes());
            assertEquals(CHUNK_BYTES - 4096, fixture.staging.usedBytes());
            assertEquals(4 * CHUNK_BYTES - 4096, fixture.read(unread, 4096, 4 * CHUNK_BYTES - 4096));
            fixture.passOnFreed();
            assertEquals(0, fixture.staging.usedBytes());
        }
    }

    @Test
    void shouldStageForAReaderOfAnotherFileOfTheSameWriter() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, MIB, 0)) {
            RankImage rank = streamed();
            ArrivingFile first = fixture.file(rank);
            fillPool(fixture, first);
            ArrivingFile second = fixture.file(rank);
            fixture.waitingReader(second, 4096);
            fixture.ledger.requestCredits(first, 4, 1, BLOCKED);
            assertEquals(List.of(), fixture.takeGranted());
            assertNull(fixture.ledger.relieve());
            ReceiveSlot bounce = fixture.takeSlots().get(0);
            assertSame(ReceiveSlot.SlotKind.BOUNCE, bounce.kind());
            assertEquals(0, fixture.staging.usedBytes());
            fixture.fill(first, bounce);
            assertEquals(CHUNK_BYTES, fixture.staging.usedBytes());
            assertEquals(5 * CHUNK_BYTES - 4096, fixture.read(first, 4096, 5 * CHUNK_BYTES - 4096));
        }
    }

    @Test
    void shouldKeepAChunkForAReaderOfAPartlyStagedWindow() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, MIB, 0)) {
            ArrivingFile file = fixture.file(streamed());
            fillPool(fixture, file);
            fixture.ledger.requestCredits(file, 5, 1, BLOCKED);
            ReceiveSlot bounce = fixture.takeSlots().get(0);
            fixture.bring(file, bounce, 5L * CHUNK_BYTES + 100, 200);
            fixture.passOnFreed();
            fixture.ledger.requestCredits(file, 4, 1, BLOCKED);
            assertEquals(4 * CHUNK_BYTES - 4096, fixture.read(file, 4096, 4 * CHUNK_BYTES - 4096));
            fixture.passOnFreed();
            fixture.ledger.serve();
            fixture.fill(file, fixture.takeSlots().get(0));
            assertEquals(CHUNK_BYTES, fixture.read(file, 4L * CHUNK_BYTES, CHUNK_BYTES));
            fixture.passOnFreed();
            ArrivingFile other = fixture.file(streamed());
            fixture.ledger.requestCredits(other, 0, 8, 0);
            assertEquals(3, fixture.takeSlots().size(), "the reader's window has no receive slot yet");
        }
    }

    @Test
    void shouldNotStageAStreamWhenAReaderWaitsForAConcurrentOne() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, MIB, 0)) {
            RankImage rank = new RankImage(0, name -> true, true);
            ArrivingFile first = fixture.file(rank);
            fillPool(fixture, first);
            ArrivingFile second = fixture.file(rank);
            fixture.waitingReader(second, 4096);
            fixture.ledger.requestCredits(first, 4, 1, BLOCKED);
            assertEquals(List.of(), fixture.takeGranted());
            assertNull(fixture.ledger.relieve());
            assertEquals(List.of(), fixture.takeGranted());
            assertEquals(0, fixture.staging.usedBytes());
        }
    }

    @Test
    void shouldStageOnlyBytesBehindAGapOfAStream() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, MIB, 0)) {
            ArrivingFile file = fixture.file(streamed());
            fillPool(fixture, file);
            fixture.ledger.requestCredits(file, 4, 1, BLOCKED);
            assertEquals(List.of(), fixture.takeGranted(), "it is written in order, and read some day");
            for (long window : new long[] {6, 9, 7, 5}) {
                fixture.ledger.requestCredits(file, window, 1, BLOCKED);
                ReceiveSlot bounce = fixture.takeSlots().get(0);
                assertSame(ReceiveSlot.SlotKind.BOUNCE, bounce.kind(), "window " + window);
                fixture.fill(file, bounce);
                fixture.passOnFreed();
            }
            assertEquals(4 * CHUNK_BYTES, fixture.staging.usedBytes());
            assertEquals(CHUNK_BYTES - 4096, fixture.read(file, 4096, CHUNK_BYTES - 4096));
            fixture.passOnFreed();
            fixture.ledger.requestCredits(file, 4, 1, BLOCKED);
            fixture.fill(file, fixture.takeSlots().get(0));
            fixture.ledger.requestCredits(file, 8, 1, BLOCKED);
            assertEquals(List.of(), fixture.takeGranted(), "the gap before it was filled");
            file.truncate(7L * CHUNK_BYTES + 5);
            fixture.ledger.requestCredits(file, 8, 1, BLOCKED);
            assertEquals(1, fixture.takeGranted().size(), "there is one again");
        }
    }

    @Test
    void shouldRemoveRequestsThatAWriterPassed() throws Exception {
        int chunks = 80;
        try (LedgerFixture fixture = new LedgerFixture(chunks, 4 * MIB, 0)) {
            ArrivingFile file = fixture.file(streamed());
            for (int window = 0; window < chunks; window++) {
                fixture.ledger.requestCredits(file, window, 1, BLOCKED);
                fixture.fill(file, fixture.takeSlots().get(0));
            }
            for (int jump = 100; jump > 0; jump--) {
                fixture.ledger.requestCredits(file, chunks + 1000L * jump, 4, BLOCKED);
                fixture.fill(file, fixture.takeSlots().get(0));
                fixture.passOnFreed();
            }
            int lengthBytes = chunks * CHUNK_BYTES - 4096;
            assertEquals(lengthBytes, fixture.read(file, 4096, lengthBytes));
            fixture.passOnFreed();
            fixture.ledger.serve();
            assertTrue(fixture.takeGranted().size() <= 3, "more is granted than is probably needed next");
        }
    }

    @Test
    void shouldNameTheRemedyWhenThereIsNoRelief() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, 0, 0)) {
            ArrivingFile unread = fixture.file(new RankImage(0, name -> true));
            fillPool(fixture, unread);
            ArrivingFile waited = fixture.file(new RankImage(1, name -> true));
            fixture.ledger.requestCredits(waited, 0, 1, BLOCKED);
            fixture.waitingReader(waited, 4096);
            String wanting = fixture.ledger.relieve();
            assertTrue(wanting.contains("a restart waits for file /m.1/f2"), wanting);
            assertTrue(wanting.contains("staging is limited to 0 bytes"), wanting);
            assertTrue(wanting.contains("raise pool.size or staging.limit"), wanting);
        }
    }

    @Test
    void shouldNameTheOrderOfFilesWhenItCausesTheStall() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, 0, 0)) {
            RankImage rank = streamed();
            ArrivingFile first = fixture.file(rank);
            fillPool(fixture, first);
            ArrivingFile second = fixture.file(rank);
            fixture.waitingReader(second, 4096);
            fixture.ledger.requestCredits(first, 4, 1, BLOCKED);
            String wanting = fixture.ledger.relieve();
            assertTrue(wanting.contains("/m.1/f1 is written but not read"), wanting);
            assertTrue(wanting.contains("raise pool.size or staging.limit"), wanting);
        }
    }

    @Test
    void shouldChangeNothingWhenNoReaderWaits() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, MIB, 0)) {
            ArrivingFile unread = fixture.file(streamed());
            fillPool(fixture, unread);
            fixture.ledger.requestCredits(unread, 4, 1, BLOCKED);
            assertNull(fixture.ledger.relieve());
            assertEquals(List.of(), fixture.takeGranted());
            assertEquals(0, fixture.staging.writtenBytes());
        }
    }

    /** Fills every chunk of the pool with bytes without a reader. */
    private static void fillPool(LedgerFixture fixture, ArrivingFile file) throws Exception {
        for (int window = 0; window < 4; window++) {
            fixture.ledger.requestCredits(file, window, 1, BLOCKED);
            List<ReceiveSlot> slots = fixture.takeSlots();
            assertEquals(1, slots.size(), "window " + window);
            fixture.fill(file, slots.get(0));
        }
    }

    // ---- a broken source --------------------------------------------------------------------------------------

    @Test
    void shouldRefuseAnAdvertisementOutsideItsWindow() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, 0, 0)) {
            ArrivingFile file = fixture.file(streamed());
            fixture.ledger.requestCredits(file, 1, 1, BLOCKED);
            int slot = fixture.takeSlots().get(0).index();
            refused(() -> fixture.ledger.onAdvertised(file, slot, CHUNK_BYTES - 1, 10));
            refused(() -> fixture.ledger.onAdvertised(file, slot, 2 * CHUNK_BYTES - 9, 10));
            refused(() -> fixture.ledger.onAdvertised(file, slot, CHUNK_BYTES, 0));
            refused(() -> fixture.ledger.onAdvertised(file, slot, CHUNK_BYTES, -1));
            refused(() -> fixture.ledger.onAdvertised(file, slot, CHUNK_BYTES, CHUNK_BYTES + 1));
            refused(() -> fixture.ledger.onAdvertised(file, slot, Long.MAX_VALUE, 10));
            assertEquals(
                    CHUNK_BYTES,
                    fixture.ledger
                                    .onAdvertised(file, slot, CHUNK_BYTES, CHUNK_BYTES)
                                    .window()
                            * CHUNK_BYTES);
        }
    }

    @Test
    void shouldRefuseASlotThatIsNotGrantedToTheFile() throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, 0, 0)) {
            ArrivingFile file = fixture.file(streamed());
            ArrivingFile other = fixture.file(streamed());
            fixture.ledger.requestCredits(file, 0, 1, BLOCKED);
            ReceiveSlot slot = fixture.takeSlots().get(0);
            refused(() -> fixture.ledger.onAdvertised(other, slot.index(), 4096, 10));
            refused(() -> fixture.ledger.onAdvertised(file, slot.index() + 1, 4096, 10));
            refused(() -> fixture.ledger.onAdvertised(file, -1, 4096, 10));
            refused(() -> fixture.ledger.onAdvertised(file, 1000, 4096, 10));
            fixture.advertise(file, slot, 4096, 10);
            refused(() -> fixture.ledger.onAdvertised(file, slot.index(), 4096, 10));
            refused(() -> fixture.ledger.onCreditReturned(file, slot.index()));
        }
    }

    @Test
    void shouldRefuseARequestOfNoneOrTooManyWindows() {
        try (LedgerFixture fixture = new LedgerFixture(4, 0, 0)) {
            ArrivingFile file = fixture.file(streamed());
            for (int count :
                    new int[] {Integer.MIN_VALUE, -1, 0, CreditRequestFrame.MAX_COUNT + 1, Integer.MAX_VALUE}) {
                assertThrows(
                        ProtocolException.class,
                        () -> fixture.ledger.requestCredits(file, 0, count, 0),
                        "count " + count);
            }
            for (long window : new long[] {-1, Long.MIN_VALUE, Long.MAX_VALUE / CHUNK_BYTES, Long.MAX_VALUE}) {
                assertThrows(
                        ProtocolException.class,
                        () -> fixture.ledger.requestCredits(file, window, 1, 0),
                        "from " + window);
            }
        }
    }

    private static void refused(Executable step) {
        ProtocolException e = assertThrows(ProtocolException.class, step);
        assertTrue(e.getMessage().contains("/m.1/f"), e.getMessage());
    }
}
