package io.ppmr.source.image;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.bufferpool.PoolGeometry;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import org.agrona.BufferUtil;
import org.junit.jupiter.api.Test;

/** Tests that a source with pieces in any order keeps no memory that grows with their number. */
class ScatteredWritesTest {
    private static final int CHUNK_BYTES = 128 << 10;
    /** A power of two, so that an odd step reaches each piece once. */
    private static final int PIECES = 1 << 21;

    private static final long STEP = 388_211;
    /** Four bytes for each piece. What other threads of this JVM allocate meanwhile is a small part of it. */
    private static final long HEAP_BYTES = 2 * PIECES;
    /** The first pieces are written before the measurement, because they load classes. */
    private static final int FIRST = 64;

    @Test
    void shouldKeepConstantHeapWhenPiecesAreWrittenInAnyOrder() throws Exception {
        BufferPool pool = new BufferPool(new PoolGeometry(CHUNK_BYTES, 4));
        FairClaims claims = new FairClaims(pool);
        OutgoingFile file = new OutgoingFile(
                1,
                "/m.1/rank-0/f",
                0,
                pool,
                claims,
                new TestOutlet(claims),
                ImageTee.FileCopy.NONE,
                new ImageFailure(false),
                new WriterActivity());
        ByteBuffer piece = ByteBuffer.allocateDirect(8);
        file.opened();
        long before = 0;
        // Half of the pieces, scattered over the file, so that few of them are adjacent.
        for (int number = 0; number < PIECES / 2; number++) {
            if (number == FIRST) {
                before = heapBytes();
            }
            long window = 1 + number * STEP % PIECES;
            assertEquals(8, file.write(BufferUtil.address(piece), 8, window * CHUNK_BYTES));
        }
        long grownBytes = heapBytes() - before;
        assertTrue(grownBytes < HEAP_BYTES, "the heap has grown by " + grownBytes + " bytes");
        file.closed();
    }

    private static long heapBytes() {
        System.gc();
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }
}
