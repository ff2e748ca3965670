package io.ppmr.source.keep;

import io.ppmr.logging.LogContext;
import io.ppmr.source.image.ImageCopy;
import io.ppmr.source.image.ImageName;
import io.ppmr.source.keep.CopyBuffer.Block;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The copy of one attempt's images, while it is written (docs/architecture.md, "Keeping a copy"). Those who write
 * images put their changes into its buffer; its one thread, a daemon, makes them in files. Whatever goes wrong with the
 * files, or takes too long, ends the copy with a warning and nothing else. Made and closed by the migration's thread.
 */
final class KeptCopy implements ImageCopy, AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(KeptCopy.class);

    /** Where it stands; ends as KEPT or LOST. */
    private enum State {
        GROWING,
        /** Its names are known, nothing more comes. */
        WHOLE,
        /** It gets its final name at this moment. */
        NAMING,
        KEPT,
        LOST
    }

    private final CopyDirectory directory;
    private final CopyBuffer buffer;
    private final AtomicReference<State> state = new AtomicReference<>(State.GROWING);
    private final AtomicInteger lastNumber = new AtomicInteger();
    private final CountDownLatch over = new CountDownLatch(1);
    private final Duration patience;
    private volatile CopyReport report;
    private volatile Whole whole;
    private boolean closed;

    /** What is known of an image that is whole. */
    private record Whole(Manifest manifest, List<ImageName> names) {}

    /** Begins it, on a thread of its own. */
    KeptCopy(CopyDirectory directory, int bufferBytes, Duration patience) {
        this.directory = directory;
        this.patience = patience;
        this.buffer = new CopyBuffer(bufferBytes, patience.toNanos());
        LogContext.thread(this::run, "ppmr-copy").start();
    }

    // ---- those who write images ---------------------------------------------------------------------------------

    @Override
    public FileCopy newFile() {
        return new CopiedFile(this, lastNumber.incrementAndGet());
    }

    /** A block to fill; null if the copy is lost, which it is too when there is none for too long. */
    Block takeBlock() {
        State now = state.get();
        if (now != State.GROWING) {
            if (now == State.WHOLE || now == State.NAMING) {
                lose("the image was written to after its checkpoint had reported success");
            }
            return null;
        }
        try {
            Block block = buffer.take();
            if (block == null) {
                lose("its files take too long: the disk is slower than the migration, and the buffer was full for "
                        + patience.toMillis() + " ms in all");
            }
            return block;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            lose("a writer was interrupted");
            return null;
        }
    }

    void fill(Block block) {
        buffer.fill(block);
    }

    // ---- the migration's thread -----------------------------------------------------------------------------------

    /** Every checkpoint of the attempt has reported success, and nothing is written any more. */
    void whole(Manifest manifest, List<ImageName> names) {
        whole = new Whole(manifest, List.copyOf(names));
        state.compareAndSet(State.GROWING, State.WHOLE);
        buffer.wake();
    }

    /** Whether it is whole, so that it may yet be kept. */
    boolean isWhole() {
        return state.get() != State.GROWING && state.get() != State.LOST;
    }

    /** Ends it if it is not kept yet; whoever writes goes on without it. */
    void lose(String reason) {
        State now = state.get();
        while (now != State.KEPT && now != State.LOST && now != State.NAMING) {
            if (state.compareAndSet(now, State.LOST)) {
                LOG.warn("no copy is kept in {}: {}; the migration goes on", directory.partial(), reason);
                report = new CopyReport(false, directory.wanted().toString(), 0, reason);
                over.countDown();
                buffer.wake();
                return;
            }
            now = state.get();
        }
    }

    /** What became of it; what is not over by the deadline is lost. */
    CopyReport await(Duration deadline) throws InterruptedException {
        if (!over.await(deadline.toNanos(), TimeUnit.NANOSECONDS)) {
            lose("its files were not on the disk " + deadline.toSeconds() + " s after the migration");
            if (!over.await(deadline.toNanos(), TimeUnit.NANOSECONDS)) {
                return new CopyReport(
                        false, directory.wanted().toString(), 0, "the last step, its renaming, does not end");
            }
        }
        return report;
    }

    /** How it stands now. */
    CopyReport soFar() {
        CopyReport now = report;
        return now != null ? now : new CopyReport(false, directory.wanted().toString(), 0, "it is still being written");
    }

    /** Nobody writes images any more: the memory is freed as soon as the thread needs it no more either. */
    @Override
    public void close() {
        if (!closed) {
            closed = true;
            if (!isWhole()) {
                lose("the attempt ended before its checkpoint was whole");
            }
            buffer.release();
        }
    }

    // ---- the copy's thread ------------------------------------------------------------------------------------

    private void run() {
        try {
            directory.make();
            while (state.get() == State.GROWING || (state.get() == State.WHOLE && !buffer.isDrained())) {
                Block block = buffer.next();
                if (block != null) {
                    directory.apply(block);
                    buffer.giveBack(block);
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
            buffer.release();
        }
        if (state.get() == State.LOST) {
            directory.remove();
        }
    }

    private void finish() throws IOException {
        Manifest manifest = directory.finish(whole.manifest(), whole.names(), () -> state.get() == State.WHOLE);
        if (state.compareAndSet(State.WHOLE, State.NAMING)) {
            try {
                directory.giveName();
            } catch (IOException e) {
                state.set(State.WHOLE);
                throw e;
            }
            report = new CopyReport(true, directory.wanted().toString(), manifest.totalBytes(), "");
            LOG.info("{}", report.sentence());
            state.set(State.KEPT);
            over.countDown();
        }
    }
}
