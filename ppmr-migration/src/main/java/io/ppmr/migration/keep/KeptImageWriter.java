package io.ppmr.migration.keep;

import io.ppmr.linux.LogContext;
import io.ppmr.migration.keep.Keeping.KeptImageReport;
import io.ppmr.source.image.ImageName;
import io.ppmr.source.image.ImageTee;
import io.ppmr.source.image.ImageTee.FileCopy;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.agrona.BufferUtil;
import org.agrona.UnsafeApi;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The kept images of one attempt, while they are written (docs/internals/architecture.md, "Kept images"). Writers of
 * images put their changes into its buffer. Its one daemon thread applies them to files. If the files fail or are too
 * slow, the copy ends with a warning, and the migration continues. Made and closed by the migration's thread.
 */
final class KeptImageWriter implements ImageTee, AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(KeptImageWriter.class);

    /** The states of a copy. The last one is KEPT or LOST. */
    private enum State {
        GROWING,
        /** The names are known, and no change follows. */
        WHOLE,
        /** The copy gets its final name now. */
        NAMING,
        KEPT,
        LOST
    }

    /** Maximum size of one write by the kernel. */
    static final int BLOCK_BYTES = 128 << 10;

    private static final int SIDES = 2;

    /** One change of one file. Owned by the thread that removed it from a queue. */
    static final class Block {
        private final ByteBuffer bytes;
        private final long address;
        private KeptImageFile file;
        private long offset;
        private boolean truncates;

        Block(ByteBuffer bytes) {
            this.bytes = bytes;
            this.address = BufferUtil.address(bytes);
        }

        void write(KeptImageFile to, long fromAddress, int lengthBytes, long atOffset) {
            UnsafeApi.copyMemory(fromAddress, address, lengthBytes);
            bytes.limit(lengthBytes).position(0);
            file = to;
            offset = atOffset;
            truncates = false;
        }

        void truncate(KeptImageFile which, long sizeBytes) {
            file = which;
            offset = sizeBytes;
            truncates = true;
        }

        KeptImageFile file() {
            return file;
        }

        /** Returns the offset of its bytes in the file, or the new size. */
        long offset() {
            return offset;
        }

        boolean truncates() {
            return truncates;
        }

        ByteBuffer bytes() {
            return bytes;
        }
    }

    private final KeptImageDirectory directory;
    /**
     * The memory between the writers of images and the copy's thread. Its blocks circulate between the free and the
     * filled ones. It is freed after both sides released it, because the thread may hang in a file for longer than the
     * migration.
     */
    private final ByteBuffer buffer;

    private final BlockingQueue<Block> free;
    private final BlockingQueue<Block> filled;
    /** Wakes the thread that applies filled blocks. It is no change. */
    private final Block wakeUp;

    /** The remaining total time for which writers may be delayed. */
    private final AtomicLong patienceNs;

    private final AtomicInteger holders = new AtomicInteger(SIDES);
    private final AtomicReference<State> state = new AtomicReference<>(State.GROWING);
    private final AtomicInteger lastNumber = new AtomicInteger();
    private final CountDownLatch over = new CountDownLatch(1);
    private final Duration patience;
    private volatile KeptImageReport report;
    private volatile Whole whole;
    private boolean closed;

    /** The manifest and the names of a complete image. */
    private record Whole(ImageManifest manifest, List<ImageName> names) {}

    /** Begins the copy on its own thread. */
    KeptImageWriter(KeptImageDirectory directory, int bufferBytes, Duration patience) {
        this.directory = directory;
        this.patience = patience;
        this.patienceNs = new AtomicLong(patience.toNanos());
        int blocks = Math.max(1, bufferBytes / BLOCK_BYTES);
        // This is no aligned slice of another buffer, because only a whole buffer can be freed.
        buffer = ByteBuffer.allocateDirect(blocks * BLOCK_BYTES);
        free = new ArrayBlockingQueue<>(blocks);
        // One more element than blocks, for the block that only wakes.
        filled = new ArrayBlockingQueue<>(blocks + 1);
        for (int block = 0; block < blocks; block++) {
            free.add(new Block(buffer.slice(block * BLOCK_BYTES, BLOCK_BYTES)));
        }
        wakeUp = new Block(buffer.slice(0, 0));
        LogContext.thread(this::run, "ppmr-copy").start();
    }

    // ---- writers of images ----------------------------------------------------------------------------------------

    @Override
    public FileCopy newFile() {
        return new KeptImageFile(this, lastNumber.incrementAndGet());
    }

    /** Returns a block to fill, or null if the copy is lost. The copy is also lost if no block is free for too long. */
    Block takeBlock() {
        State now = state.get();
        if (now != State.GROWING) {
            if (now == State.WHOLE || now == State.NAMING) {
                lose("the image was written to after its checkpoint had reported success");
            }
            return null;
        }
        try {
            Block block = free.poll();
            if (block != null) {
                return block;
            }
            long startNs = System.nanoTime();
            block = free.poll(Math.max(0, patienceNs.get()), TimeUnit.NANOSECONDS);
            patienceNs.addAndGet(startNs - System.nanoTime());
            if (block == null) {
                lose("the disk is slower than the migration, and the buffer was full for " + patience.toMillis()
                        + " ms in all");
            }
            return block;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            lose("a writer was interrupted");
            return null;
        }
    }

    void fill(Block block) {
        filled.add(block);
    }

    // ---- the migration's thread -----------------------------------------------------------------------------------

    /** Completes the copy. Called when every checkpoint of the attempt reported success and the images are complete. */
    void whole(ImageManifest manifest, List<ImageName> names) {
        whole = new Whole(manifest, List.copyOf(names));
        state.compareAndSet(State.GROWING, State.WHOLE);
        filled.offer(wakeUp);
    }

    /** Returns true if the copy is complete and may still be kept. */
    boolean isWhole() {
        return state.get() != State.GROWING && state.get() != State.LOST;
    }

    /** Drops the copy unless it is complete. The writers continue without it. */
    void lose(String reason) {
        State now = state.get();
        while (now != State.KEPT && now != State.LOST && now != State.NAMING) {
            if (state.compareAndSet(now, State.LOST)) {
                LOG.warn("no copy is kept in {}: {}; the migration continues", directory.partial(), reason);
                report = new KeptImageReport(false, directory.wanted().toString(), 0, reason);
                over.countDown();
                filled.offer(wakeUp);
                return;
            }
            now = state.get();
        }
    }

    /** Waits for the report. A copy that is not over by the deadline is lost. */
    KeptImageReport await(Duration deadline) throws InterruptedException {
        if (!over.await(deadline.toNanos(), TimeUnit.NANOSECONDS)) {
            lose("its files were not on the disk " + deadline.toSeconds() + " s after the migration");
            if (!over.await(deadline.toNanos(), TimeUnit.NANOSECONDS)) {
                return new KeptImageReport(
                        false, directory.wanted().toString(), 0, "the last step, its renaming, does not end");
            }
        }
        return report;
    }

    /** Returns the present report. */
    KeptImageReport soFar() {
        KeptImageReport now = report;
        return now != null
                ? now
                : new KeptImageReport(false, directory.wanted().toString(), 0, "it is still being written");
    }

    /** Releases the writers' share of the buffer. The buffer is freed when the copy thread releases its share. */
    @Override
    public void close() {
        if (!closed) {
            closed = true;
            if (!isWhole()) {
                lose("the attempt ended before its checkpoint was whole");
            }
            release();
        }
    }

    /** Releases one side's share of the memory. The last release frees it. */
    private void release() {
        if (holders.decrementAndGet() == 0) {
            BufferUtil.free(buffer);
        }
    }

    // ---- the copy's thread ------------------------------------------------------------------------------------

    private void run() {
        try {
            directory.make();
            while (state.get() == State.GROWING || (state.get() == State.WHOLE && !filled.isEmpty())) {
                Block block = filled.take();
                if (block != wakeUp) {
                    directory.apply(block);
                    free.add(block);
                }
            }
            if (state.get() == State.WHOLE) {
                finish();
            }
        } catch (IOException | RuntimeException e) {
            LOG.debug("a copy is lost", e);
            lose(e instanceof IOException ? String.valueOf(e.getMessage()) : e.toString());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            lose("its thread was interrupted");
        } finally {
            release();
        }
        if (state.get() == State.LOST) {
            directory.remove();
        }
    }

    private void finish() throws IOException {
        ImageManifest manifest = directory.finish(whole.manifest(), whole.names(), () -> state.get() == State.WHOLE);
        if (state.compareAndSet(State.WHOLE, State.NAMING)) {
            try {
                directory.giveName();
            } catch (IOException e) {
                state.set(State.WHOLE);
                throw e;
            }
            report = new KeptImageReport(true, directory.wanted().toString(), manifest.totalBytes(), "");
            LOG.info("{}", report.sentence());
            state.set(State.KEPT);
            over.countDown();
        }
    }
}
