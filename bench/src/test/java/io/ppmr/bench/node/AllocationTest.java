package io.ppmr.bench.node;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.sun.management.ThreadMXBean;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.protocol.data.DenyReason;
import io.ppmr.protocol.data.FilePrefixFrame;
import io.ppmr.source.image.ImageFailure;
import io.ppmr.source.image.ImageTee;
import io.ppmr.source.image.OutgoingFile;
import io.ppmr.source.image.WriterActivity;
import io.ppmr.target.image.ArrivingFile;
import io.ppmr.target.image.CreditLedger;
import io.ppmr.target.image.ImageListener;
import io.ppmr.target.image.RankImage;
import io.ppmr.target.image.ReceiveSlot;
import io.ppmr.target.image.Staging;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import org.agrona.BufferUtil;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The data path allocates nothing on the Java heap, neither for a write, nor for a chunk, nor for a read. This is true
 * of compiled code, as in a warmed-up service. A round may allocate a little until the compiler is done.
 */
class AllocationTest {
    private static final int CHUNK_BYTES = 16 * 1024;
    private static final int CHUNKS = 5_000;
    private static final int ROUNDS = 60;

    /** Kept, since asking for it allocates. */
    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    private final PoolGeometry geometry = new PoolGeometry(CHUNK_BYTES, 8);
    private static final long RETAINED_WINDOWS = 64;

    private final ByteBuffer memory = BufferUtil.allocateDirectAligned(CHUNK_BYTES, 64);
    private final long address = BufferUtil.address(memory);

    @Test
    void shouldAllocateNothingWhenChunksAreWritten() throws Exception {
        BufferPool pool = new BufferPool(geometry);
        FairClaims claims = new FairClaims(pool);
        OutgoingFile file = new OutgoingFile(
                1,
                "/m/rank-0/f",
                0,
                pool,
                claims,
                new SourceNode.Discard(claims, true),
                ImageTee.FileCopy.NONE,
                new ImageFailure(false),
                new WriterActivity());
        file.opened();
        assertEquals(0, leastAllocated(from -> write(file, from, CHUNKS)), "bytes for " + CHUNKS + " chunks");
    }

    private void write(OutgoingFile file, long from, int chunks) {
        for (long chunk = from; chunk < from + chunks; chunk++) {
            if (file.write(address, CHUNK_BYTES, chunk * CHUNK_BYTES) != CHUNK_BYTES) {
                throw new AssertionError("chunk " + chunk + " was not taken");
            }
        }
    }

    @ParameterizedTest(name = "streamed {0}")
    @ValueSource(booleans = {true, false})
    void shouldAllocateNothingWhenChunksAreGrantedArriveAndAreRead(boolean streamed) throws Exception {
        try (Target target = new Target(streamed)) {
            assertEquals(0, leastAllocated(from -> target.run(from, CHUNKS)), "bytes for " + CHUNKS + " chunks");
        }
    }

    /** One round, from this chunk on. */
    private interface Round {
        void run(long from) throws Exception;
    }

    /** Returns what a round allocates once all is compiled. */
    private static long leastAllocated(Round round) throws Exception {
        long least = Long.MAX_VALUE;
        for (int number = 0; number < ROUNDS && least > 0; number++) {
            long before = THREADS.getCurrentThreadAllocatedBytes();
            round.run((long) number * CHUNKS);
            least = Math.min(least, THREADS.getCurrentThreadAllocatedBytes() - before);
        }
        return least;
    }

    /** One file at the target, all of it on the test's thread. */
    private final class Target implements ImageListener, CreditLedger.Decisions, AutoCloseable {
        private final ByteBuffer head = ByteBuffer.allocateDirect(FilePrefixFrame.PREFIX_BYTES);
        private final BufferPool pool = new BufferPool(geometry.plus(1));
        private final Staging staging = new Staging(Path.of("/dev/shm"), RETAINED_WINDOWS * CHUNK_BYTES);
        private final CreditLedger ledger = new CreditLedger(pool, 1, staging, 0, () -> 0, this);
        private final boolean streamed;
        private final ArrivingFile file;
        private ReceiveSlot granted;

        private Target(boolean streamed) throws Exception {
            this.streamed = streamed;
            file = new ArrivingFile(
                    1,
                    "/m/rank-0/f",
                    new RankImage(0, name -> streamed),
                    geometry,
                    BufferUtil.address(head),
                    staging,
                    this);
            ledger.fileCreated(file);
        }

        private void run(long from, int chunks) throws Exception {
            for (long next = from + 1; next <= from + chunks; next++) {
                // A retained file is written again and again, since it is kept.
                long window = streamed ? next : next % RETAINED_WINDOWS + 1;
                ledger.requestCredits(file, window, 1, 0);
                long offset = window * CHUNK_BYTES;
                ReceiveSlot slot = ledger.onAdvertised(file, granted.index(), offset, CHUNK_BYTES);
                file.onPieceAnnounced(slot, offset, CHUNK_BYTES);
                file.onArrived(slot);
                if (file.read(address, CHUNK_BYTES, offset) != CHUNK_BYTES) {
                    throw new AssertionError("window " + window + " was not read");
                }
            }
        }

        @Override
        public void granted(ArrivingFile to, ReceiveSlot slot) {
            granted = slot;
        }

        @Override
        public void denied(ArrivingFile to, long window, DenyReason reason, String message) {
            throw new AssertionError(message);
        }

        @Override
        public void slotFree(ReceiveSlot slot) {
            ledger.onSlotFree(slot);
        }

        @Override
        public void stagingFree() {
            throw new AssertionError("there is no staging here");
        }

        @Override
        public void stagingFailed(ArrivingFile of, String reason) {
            throw new AssertionError("there is no staging here");
        }

        @Override
        public void readerWaits(ArrivingFile of) {
            throw new AssertionError("what is read here has arrived");
        }

        @Override
        public void uncoveredStreams(int change) {
            // One stream needs no reserve here.
        }

        @Override
        public void seekRefused(ArrivingFile of, long offset) {
            throw new AssertionError("nothing is read twice here");
        }

        @Override
        public void close() {
            file.discard();
        }
    }
}
