package io.ppmr.system.pipeline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.fuse.Errno;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.fuse.FilesystemView.CallingProcess;
import io.ppmr.fuse.OpenFlags;
import io.ppmr.system.transport.ChunkWay;
import io.ppmr.system.transport.FaultyPuller;
import io.ppmr.system.transport.FaultyPuller.PullFault;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.ShrinkingMode;
import net.jqwik.api.Tag;
import org.agrona.BufferUtil;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Tests that all written bytes, in any order and with any delays on the way, are read as they were written. This
 * applies where the image fits pool and staging or is written in ascending order. Otherwise the migration fails with a
 * message that names the cause. It never hangs.
 */
public class PipelinePropertyTest {
    private static final Logger LOG = LoggerFactory.getLogger(PipelinePropertyTest.class);
    private static final CallingProcess ROOT = new CallingProcess(0, 0, 1);
    private static final OpenFlags WRITE = new OpenFlags(1);
    private static final OpenFlags READ = new OpenFlags(0);
    private static final List<Order> ORDERS = List.of(Order.values());
    private static final List<ChunkWay> WAYS = List.of(ChunkWay.values());
    private static final Duration STALL = Duration.ofSeconds(8);
    private static final long STANDSTILL_S = 20;
    /** A file of more pieces in random order takes minutes, and shows nothing more. */
    private static final int MOST_PIECES = 4_000;

    private enum Order {
        ASCENDING,
        DESCENDING,
        SCATTERED,
        OVERLAPPING
    }

    private record Piece(int offset, int length) {}

    private static final class Image {
        private final int rank;
        private final int file;
        private final byte[] content;
        private final List<Piece> pieces;

        private Image(int rank, int file, byte[] content, List<Piece> pieces) {
            this.rank = rank;
            this.file = file;
            this.content = content;
            this.pieces = pieces;
        }
    }

    /** Everything about a case follows from its seed. */
    private static final class Case {
        final Random random;
        final Pipeline.Shape shape;
        final Order order;
        final boolean onePieceWriter;
        final List<Image> images = new ArrayList<>();
        final AtomicLong calls = new AtomicLong();

        Case(long seed) {
            random = new Random(seed);
            int chunkBytes = (16 * 1024) << random.nextInt(2);
            boolean streamed = random.nextBoolean();
            order = ORDERS.get(random.nextInt(streamed ? 3 : 4));
            int files = 1 + random.nextInt(6);
            boolean manyRanks = random.nextBoolean();
            onePieceWriter = !manyRanks && random.nextBoolean();
            int targetChunks = 4 + random.nextInt(20);
            shape = new Pipeline.Shape(
                    chunkBytes,
                    4 + random.nextInt(12),
                    targetChunks,
                    Math.max(1, targetChunks / 8),
                    random.nextInt(3) == 0 ? 0 : (long) random.nextInt(streamed ? 64 : 256) * chunkBytes,
                    streamed,
                    manyRanks ? files : 1,
                    STALL,
                    WAYS.get(random.nextInt(WAYS.size())),
                    faults(seed));
            for (int file = 0; file < files; file++) {
                images.add(image(manyRanks ? file : 0, file));
            }
        }

        private Image image(int rank, int file) {
            byte[] content = new byte[random.nextInt(random.nextInt(8) == 0 ? 8192 : 14 * shape.chunkBytes())];
            int block = 1 + random.nextInt(random.nextBoolean() ? 5000 : 100_000);
            block = Math.max(block, content.length / MOST_PIECES);
            List<Piece> pieces = new ArrayList<>();
            for (int at = 0; at < content.length; at += block) {
                pieces.add(new Piece(at, Math.min(block, content.length - at)));
            }
            if (order == Order.DESCENDING) {
                Collections.reverse(pieces);
            } else if (order != Order.ASCENDING) {
                Collections.shuffle(pieces, random);
            }
            if (order == Order.OVERLAPPING) {
                for (int more = random.nextInt(20); more > 0 && content.length > 1; more--) {
                    int start = random.nextInt(content.length);
                    pieces.add(new Piece(start, 1 + random.nextInt(Math.min(50_000, content.length - start))));
                }
            }
            return new Image(rank, file, content, pieces);
        }

        private static Supplier<FaultyPuller.Drawn> faults(long seed) {
            Random delays = new Random(~seed);
            int percent = delays.nextInt(3) * 20;
            return () -> delays.nextInt(100) < percent
                    ? new FaultyPuller.Drawn(PullFault.DELAY, 1 + delays.nextInt(8))
                    : FaultyPuller.Drawn.NOTHING;
        }

        boolean mustArrive() {
            if (order == Order.ASCENDING && !onePieceWriter && shape.streamed()) {
                return true;
            }
            long windows = 0;
            for (Image image : images) {
                windows += (image.content.length + shape.chunkBytes() - 1) / shape.chunkBytes();
            }
            long chunks = shape.streamed() ? shape.targetChunks() : 0;
            return windows <= chunks + shape.stagingBytes() / shape.chunkBytes();
        }

        @Override
        public String toString() {
            return shape + " " + order + (onePieceWriter ? " one writer" : "") + " files "
                    + images.stream()
                            .map(image -> image.content.length + "/" + image.pieces.size())
                            .toList();
        }
    }

    @Property(tries = 75, shrinking = ShrinkingMode.OFF)
    void shouldReadWhatWasWrittenOrFailByName(@ForAll long seed) throws Exception {
        run(seed);
    }

    @Tag("soak")
    @Property(tries = 1000, shrinking = ShrinkingMode.OFF)
    void shouldReadWhatWasWrittenOrFailByNameForLong(@ForAll long seed) throws Exception {
        run(seed);
    }

    private static void run(long seed) throws Exception {
        Case chosen = new Case(seed);
        run(chosen, "seed " + seed + ": " + chosen, Pipeline.of(chosen.shape));
    }

    /** Runs a case over another transport than its own. */
    public static void run(long seed, Pipeline.Joining joining) throws Exception {
        Case chosen = new Case(seed);
        run(chosen, "seed " + seed + ": " + chosen, new Pipeline(chosen.shape, joining));
    }

    /** Runs a case over a transport that also sends messages over the control connection. */
    static void run(long seed, Pipeline.LinkedJoining joining) throws Exception {
        Case chosen = new Case(seed);
        run(chosen, "seed " + seed + ": " + chosen, new Pipeline(chosen.shape, joining));
    }

    private static void run(Case chosen, String context, Pipeline pipeline) throws Exception {
        ExecutorService threads = Executors.newCachedThreadPool();
        List<byte[]> read;
        String failure;
        try {
            read = transfer(pipeline, chosen, threads, context);
            failure = pipeline.failure();
        } finally {
            pipeline.close();
            threads.shutdownNow();
            assertTrue(threads.awaitTermination(10, TimeUnit.SECONDS), context);
        }
        assertEquals(0, pipeline.leakedChunks(), context);
        if (read == null) {
            assertNotNull(failure, context);
            assertTrue(failure.contains("staging.limit"), context + " fails with: " + failure);
            assertTrue(!chosen.mustArrive(), context + " must arrive but fails with: " + failure);
            return;
        }
        assertNull(failure, context);
        for (int i = 0; i < read.size(); i++) {
            assertEquals(-1, Arrays.mismatch(chosen.images.get(i).content, read.get(i)), context + " file " + i);
        }
    }

    /** Writes and reads at once. Returns null if a write or a read fails. */
    private static List<byte[]> transfer(Pipeline pipeline, Case chosen, ExecutorService threads, String context)
            throws Exception {
        List<Future<byte[]>> readers = new ArrayList<>();
        for (Image image : chosen.images) {
            long seed = chosen.random.nextLong();
            readers.add(threads.submit(() -> readImage(pipeline, chosen, image, seed)));
        }
        List<Future<Boolean>> writers = new ArrayList<>();
        if (chosen.onePieceWriter) {
            writers.add(threads.submit(() -> writeInTurn(pipeline, chosen)));
        } else {
            for (Image image : chosen.images) {
                writers.add(threads.submit(() -> writeImage(pipeline, chosen, image)));
            }
        }
        boolean good = true;
        for (Future<Boolean> writer : writers) {
            good &= await(writer, chosen, context);
        }
        if (good) {
            for (int rank = 0; rank < chosen.shape.ranks(); rank++) {
                pipeline.files().endRank(rank, System.nanoTime() + TimeUnit.SECONDS.toNanos(10), () -> false);
            }
        }
        List<byte[]> read = new ArrayList<>();
        for (Future<byte[]> reader : readers) {
            read.add(await(reader, chosen, context));
        }
        return good && !read.contains(null) ? read : null;
    }

    /** Waits as long as calls return, because small pieces in random order through a few chunks take long. */
    private static <T> T await(Future<T> task, Case chosen, String context) throws Exception {
        long before;
        do {
            before = chosen.calls.get();
            try {
                return task.get(STANDSTILL_S, TimeUnit.SECONDS);
            } catch (TimeoutException e) {
                LOG.info("{}: {} calls so far", context, chosen.calls.get());
            }
        } while (chosen.calls.get() > before);
        throw new AssertionError(context + " is stopped after " + before + " calls");
    }

    private static boolean writeInTurn(Pipeline pipeline, Case chosen) throws Exception {
        for (Image image : chosen.images) {
            if (!writeImage(pipeline, chosen, image)) {
                return false;
            }
        }
        return true;
    }

    private static boolean writeImage(Pipeline pipeline, Case chosen, Image image) throws Exception {
        new Random(image.content.length).nextBytes(image.content);
        ByteBuffer memory = ByteBuffer.allocateDirect(128 * 1024);
        long address = BufferUtil.address(memory);
        long handle;
        try {
            handle = pipeline.source().create(Pipeline.path(image.rank, image.file), WRITE, 0600, ROOT);
        } catch (ErrnoException e) {
            assertEquals(Errno.EIO, e.errno());
            return false;
        }
        try {
            for (Piece piece : image.pieces) {
                for (int done = 0; done < piece.length; ) {
                    int part = Math.min(piece.length - done, memory.capacity());
                    int at = piece.offset + done;
                    memory.clear().put(image.content, at, part);
                    int taken = pipeline.source().write(handle, address, part, at);
                    chosen.calls.incrementAndGet();
                    if (taken < 0) {
                        return false;
                    }
                    done += taken;
                }
            }
            return true;
        } finally {
            pipeline.source().release(handle);
        }
    }

    private static byte[] readImage(Pipeline pipeline, Case chosen, Image image, long seed) throws Exception {
        Random random = new Random(seed);
        ByteBuffer memory = ByteBuffer.allocateDirect(128 * 1024);
        long address = BufferUtil.address(memory);
        long handle;
        try {
            handle = pipeline.target().open(Pipeline.path(image.rank, image.file), READ, ROOT);
        } catch (ErrnoException e) {
            assertEquals(Errno.EIO, e.errno());
            return null;
        }
        byte[] content = new byte[image.content.length];
        int at = 0;
        while (true) {
            int wanted = 1 + random.nextInt(memory.capacity());
            int got = pipeline.target().read(handle, address, wanted, at);
            chosen.calls.incrementAndGet();
            if (got < 0) {
                assertEquals(Errno.EIO.negated(), got);
                return null;
            }
            assertTrue(got == Math.min(wanted, content.length - at), "a short read before the end");
            if (got == 0) {
                break;
            }
            memory.clear().get(content, at, got);
            at += got;
        }
        pipeline.target().release(handle);
        return content;
    }
}
