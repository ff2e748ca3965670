package io.ppmr.transport;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Tests the contract of every transport with RDMA Read or its replacement. Each transport runs the same suite and
 * provides its ends.
 */
public abstract class PullContract {
    protected static final int CHUNK_BYTES = 16 * 1024;
    protected static final int CHUNKS = 32;
    protected static final int REGION_BYTES = CHUNKS * CHUNK_BYTES;
    private static final String CLOSED = "the transport was closed";

    protected final BufferPool sourcePool = new BufferPool(new PoolGeometry(CHUNK_BYTES, CHUNKS));
    protected final BufferPool targetPool = new BufferPool(new PoolGeometry(CHUNK_BYTES, CHUNKS));
    protected final AnswerBook answers = new AnswerBook();
    protected final List<String> exporterFailures = new CopyOnWriteArrayList<>();
    protected final Random random = new Random(20);
    protected RegionExporter exporter;
    protected ChunkPuller puller;

    /** Two connected ends over these pools. */
    public record Ends(RegionExporter exporter, ChunkPuller puller) {}

    protected abstract Ends join(
            BufferPool source, BufferPool target, PullListener listener, Consumer<String> onExporterFailure)
            throws Exception;

    /** Returns the number of repetitions of the repeated tests. */
    protected abstract int rounds(int most);

    /** Part of the reason for the failure of a pull outside of the source's region. */
    protected abstract String outsideReason();

    /** Returns true if the source performs operations of its own to serve a pull. */
    protected abstract boolean sourceWorks();

    protected final void open() throws Exception {
        Ends ends = join(sourcePool, targetPool, answers, exporterFailures::add);
        exporter = ends.exporter();
        puller = ends.puller();
    }

    @BeforeEach
    void fill() {
        byte[] bytes = new byte[REGION_BYTES];
        random.nextBytes(bytes);
        sourcePool.region().duplicate().put(bytes);
    }

    @AfterEach
    void closeEnds() {
        if (puller != null) {
            puller.close();
        }
        if (exporter != null) {
            exporter.close();
        }
    }

    /** Returns the block that starts at this offset of the source's region. */
    private RemoteBlock block(RemoteBlock block, long offset, int lengthBytes) {
        return block.set(exporter.address(0) + offset, exporter.key(), lengthBytes);
    }

    @Test
    void shouldCopyEveryBlockForAnyOffsetAndLength() throws Exception {
        open();
        RemoteBlock block = new RemoteBlock();
        int atOnce = Math.min(CHUNKS, puller.depth());
        int pulls = 0;
        for (int round = 0; round < rounds(300); round++) {
            int[] starts = new int[atOnce];
            int[] offsets = new int[atOnce];
            int[] lengths = new int[atOnce];
            for (int chunk = 0; chunk < atOnce; chunk++) {
                offsets[chunk] = random.nextInt(CHUNK_BYTES);
                lengths[chunk] = 1 + random.nextInt(CHUNK_BYTES - offsets[chunk]);
                starts[chunk] = random.nextInt(CHUNKS) * CHUNK_BYTES + random.nextInt(CHUNK_BYTES - lengths[chunk] + 1);
                targetPool.buffer(chunk).clear().put(new byte[CHUNK_BYTES]);
                puller.pull(pulls++, block(block, starts[chunk], lengths[chunk]), chunk, offsets[chunk]);
            }
            answers.requireEachOnce(pulls);
            for (int chunk = 0; chunk < atOnce; chunk++) {
                assertEquals(AnswerBook.PULLED, answers.answer(pulls - atOnce + chunk));
                requireArrived(chunk, starts[chunk], offsets[chunk], lengths[chunk]);
            }
        }
        assertEquals(List.of(), exporterFailures);
    }

    private void requireArrived(int chunk, int start, int offset, int length) {
        ByteBuffer got = targetPool.buffer(chunk).clear();
        assertEquals(sourcePool.region().slice(start, length), got.slice(offset, length));
        assertEquals(ByteBuffer.allocate(offset), got.slice(0, offset), "bytes before the block");
        int behind = offset + length;
        assertEquals(
                ByteBuffer.allocate(CHUNK_BYTES - behind),
                got.slice(behind, CHUNK_BYTES - behind),
                "bytes behind the block");
    }

    @Test
    void shouldGiveEachChunkItsAddressAndEachSessionItsKey() throws Exception {
        open();
        assertEquals(3L * CHUNK_BYTES, exporter.address(3) - exporter.address(0));
        Ends other = join(sourcePool, targetPool, new AnswerBook(), exporterFailures::add);
        try {
            assertNotEquals(exporter.key(), other.exporter().key());
        } finally {
            other.puller().close();
            other.exporter().close();
        }
    }

    @ParameterizedTest
    @CsvSource({
        "524280, 16, 0",
        "524288, 1, 0",
        "-1, 16, 0",
        "4294967296, 16, 0",
        "0, 0, 0",
        "0, -5, 0",
        "0, 16385, 0",
        "0, 16, 1"
    })
    void shouldFailByNameWhenABlockIsOutsideTheRegionOrItsKeyIsWrong(long offset, int length, long wrong)
            throws Exception {
        open();
        RemoteBlock block = new RemoteBlock().set(exporter.address(0) + offset, exporter.key() ^ wrong, length);
        puller.pull(7, block, 0, 0);
        answers.requireEachOnce(1);
        String reason = answers.answer(7);
        assertTrue(reason.contains(outsideReason()), reason);
    }

    @Test
    void shouldServeANewSessionAfterOneWithAForbiddenPull() throws Exception {
        open();
        puller.pull(1, new RemoteBlock().set(exporter.address(0), exporter.key() ^ 1, 16), 0, 0);
        answers.requireEachOnce(1);
        assertNotEquals(AnswerBook.PULLED, answers.answer(1));
        closeEnds();
        open();
        puller.pull(2, block(new RemoteBlock(), 0, CHUNK_BYTES), 0, 0);
        answers.requireEachOnce(2);
        assertEquals(AnswerBook.PULLED, answers.answer(2));
    }

    @Test
    void shouldStartDelayedPullsWithTheLastOne() throws Exception {
        open();
        RemoteBlock block = new RemoteBlock();
        int atOnce = Math.min(CHUNKS, puller.depth());
        for (int round = 1; round <= rounds(50); round++) {
            for (int chunk = 0; chunk < atOnce; chunk++) {
                long pullId = (long) (round - 1) * atOnce + chunk;
                puller.pull(
                        pullId,
                        block(block, (long) chunk * CHUNK_BYTES, CHUNK_BYTES),
                        chunk,
                        0,
                        chunk + 1 < atOnce && random.nextInt(4) > 0);
            }
            answers.requireEachOnce(round * atOnce);
            for (int chunk = 0; chunk < atOnce; chunk++) {
                assertEquals(AnswerBook.PULLED, answers.answer((long) (round - 1) * atOnce + chunk));
                requireArrived(chunk, chunk * CHUNK_BYTES, 0, CHUNK_BYTES);
            }
        }
        assertEquals(List.of(), exporterFailures);
    }

    @Test
    void shouldFailDelayedPullsWhenThePullerIsClosed() throws Exception {
        open();
        RemoteBlock block = block(new RemoteBlock(), 0, CHUNK_BYTES);
        puller.pull(0, block, 0, 0, true);
        puller.pull(1, block, 1, 0, true);
        puller.close();
        answers.requireEachOnce(2);
        for (long pull = 0; pull < 2; pull++) {
            String answer = answers.answer(pull);
            assertTrue(answer.equals(AnswerBook.PULLED) || answer.equals(CLOSED), answer);
        }
    }

    @Test
    void shouldAnswerEveryPullOnceWhenThePullerIsClosed() throws Exception {
        open();
        int pulls = Math.min(CHUNKS, puller.depth());
        for (int pull = 0; pull < pulls; pull++) {
            puller.pull(pull, block(new RemoteBlock(), 0, CHUNK_BYTES), pull, 0);
        }
        puller.close();
        assertEquals(pulls, answers.count(), "answers before close returns");
        for (long pull = 0; pull < pulls; pull++) {
            String answer = answers.answer(pull);
            assertTrue(answer.equals(AnswerBook.PULLED) || answer.equals(CLOSED), answer);
        }
        puller.close();
        puller.pull(100, block(new RemoteBlock(), 0, 1000), 0, 0);
        answers.requireEachOnce(pulls + 1);
        assertEquals(CLOSED, answers.answer(100));
    }

    @Test
    void shouldAnswerEveryPullOnceWhenTheSourceGoesAwayWhilePullsAreStarted() throws Exception {
        int pulls = 0;
        for (int round = 0; round < rounds(60); round++) {
            open();
            int most = Math.min(CHUNKS, puller.depth());
            Thread cutter = new Thread(exporter::close);
            RemoteBlock block = block(new RemoteBlock(), 0, CHUNK_BYTES);
            int cutAt = random.nextInt(most);
            for (int i = 0; i < most; i++) {
                if (i == cutAt) {
                    cutter.start();
                }
                puller.pull(pulls++, block, i, 0);
            }
            answers.requireEachOnce(pulls);
            cutter.join(60_000);
            puller.close();
        }
        assertEquals(List.of(), exporterFailures);
    }

    @Test
    void shouldReportOnceWhenTheTargetClosesAndNothingWhenItIsClosedItself() throws Exception {
        open();
        puller.close();
        Loopback.until("the exporter reports the error", () -> !exporterFailures.isEmpty());
        assertTrue(exporterFailures.get(0).contains("closed by the target"), exporterFailures.get(0));
        exporter.close();
        assertEquals(1, exporterFailures.size());

        open();
        exporter.close();
        exporter.close();
        puller.close();
        assertEquals(1, exporterFailures.size());
    }

    /**
     * Chunks are advertised, and their releases are withheld until all are read. The test checks the source's
     * operations.
     */
    @Test
    void shouldCountTheSourcesOperationsWhenAllChunksArePulled() throws Exception {
        open();
        puller.pull(0, block(new RemoteBlock(), 0, CHUNK_BYTES), 0, 0);
        answers.requireEachOnce(1);
        long before = exporter.operations();
        int pulls = 1;
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            puller.pull(pulls++, block(new RemoteBlock(), (long) chunk * CHUNK_BYTES, CHUNK_BYTES), chunk, 0);
            answers.requireEachOnce(pulls);
        }
        long steps = exporter.operations() - before;
        assertEquals(sourceWorks() ? CHUNKS : 0, steps, "steps of the source for " + CHUNKS + " pulls");
    }
}
