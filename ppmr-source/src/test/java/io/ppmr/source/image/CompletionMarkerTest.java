package io.ppmr.source.image;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.fuse.Errno;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.fuse.FilesystemView.CallingProcess;
import io.ppmr.fuse.OpenFlags;
import io.ppmr.protocol.data.DataMessage.NameChange;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ImageTraits;
import io.ppmr.protocol.data.ReadingMode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.agrona.BufferUtil;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * Tests files that are complete before their rank: the checkpointer's marker, and the time of the report to the target.
 */
class CompletionMarkerTest {
    private static final String RANK = "/m.1/rank-0/";
    private static final CallingProcess USER = new CallingProcess(7, 7, 1);
    private static final OpenFlags WRITE = new OpenFlags(1);

    private static final ImageTraits TRAITS = new ImageTraits() {
        @Override
        public ReadingMode readingMode() {
            return ReadingMode.RETAINED;
        }

        @Override
        public boolean streams(String name) {
            return name.endsWith(".stream");
        }

        @Override
        public Optional<String> completionMarkerName() {
            return Optional.of("list");
        }
    };

    private final List<String> told = new ArrayList<>();
    private final BufferPool pool = new BufferPool(new PoolGeometry(16 << 10, 4));
    private final FairClaims claims = new FairClaims(pool);
    private final OutgoingImageView view = new OutgoingImageView();
    private final ByteBuffer memory = ByteBuffer.allocateDirect(100);
    private OutgoingFiles files;

    /** Records the messages to the target. */
    private final class NotingOutlet implements Outlet {
        @Override
        public void requestCredits(OutgoingFile file, long window, int count, int flags) {
            throw new AssertionError("the first 4 KiB need no credit");
        }

        @Override
        public void returnCredit(OutgoingFile file, long window, int slot) {
            throw new AssertionError("no credit was given");
        }

        @Override
        public void sendPrefix(OutgoingFile file, int position, long address, int lengthBytes) {
            told.add("bytes of " + file.name());
        }

        @Override
        public void sendChunk(
                OutgoingFile file,
                int chunk,
                int offsetInChunk,
                long offset,
                int lengthBytes,
                int slot,
                long claimedNs) {
            throw new AssertionError("nothing is gathered");
        }

        @Override
        public void sendValue(FrameType type, int file, long value) {
            told.add(type + " "
                    + (type == FrameType.END_OF_FILE ? files.find(file).name() : value));
        }

        @Override
        public void sendNameChange(NameChange change) {
            told.add(change.getClass().getSimpleName());
        }

        @Override
        public void sync(OutgoingFile file) {
            told.add("sync");
        }

        @Override
        public void onPoolEmpty() {
            throw new AssertionError("no writer waits for a chunk");
        }

        @Override
        public void waitedForChunk(long tookNs) {
            throw new AssertionError("no writer waits for a chunk");
        }

        @Override
        public void waitedForSlot(OutgoingFile file, long tookNs) {
            throw new AssertionError("no writer waits for a credit");
        }
    }

    @BeforeEach
    void makeFiles() throws ErrnoException {
        files = new OutgoingFiles(
                "m.1",
                view.tree(),
                pool,
                claims,
                new NotingOutlet(),
                ImageTee.NONE,
                new ImageFailure(false),
                TRAITS,
                new WriterActivity(),
                List.of(0),
                7,
                7);
        view.add("m.1", files);
    }

    private long write(String name) throws ErrnoException {
        long handle = view.create(RANK + name, WRITE, 0600, USER);
        assertEquals(100, view.write(handle, BufferUtil.address(memory), 100, 0));
        return handle;
    }

    @Test
    void shouldReportRetainedFilesAsCompleteBeforeTheirMarkerIsVisible() throws Exception {
        view.release(write("core"));
        long stream = write("pages.stream");
        view.release(write("list.new"));
        told.clear();
        view.rename(RANK + "list.new", RANK + "list");
        assertEquals(List.of("END_OF_FILE " + RANK + "list.new", "END_OF_FILE " + RANK + "core", "Renamed"), told);
        told.clear();
        view.release(stream);
        files.endRank(0, System.nanoTime() + TimeUnit.SECONDS.toNanos(5), () -> false);
        // The end of each file is sent once.
        assertEquals(List.of("END_OF_FILE " + RANK + "pages.stream", "END_OF_IMAGE 0"), told);
    }

    @Test
    void shouldEndTheWaitForAHandleWhenTheMigrationIsCancelled() throws Exception {
        long held = write("core");
        AtomicInteger asked = new AtomicInteger();
        IOException failure = assertThrows(
                IOException.class,
                () -> files.endRank(
                        0, System.nanoTime() + TimeUnit.MINUTES.toNanos(10), () -> asked.incrementAndGet() == 2));
        assertTrue(failure.getMessage().contains("core was still open when the migration was cancelled"));
        assertEquals(2, asked.get(), "asked once more while it waited");
        view.release(held);
        files.endRank(0, System.nanoTime() + TimeUnit.SECONDS.toNanos(5), () -> true);
    }

    /** The kernel reports a close some time after it, and libfuse delays the report while the file is renamed. */
    @Test
    void shouldNotWaitForTheReleaseOfTheMarkerItself() throws Exception {
        long open = write("list.new");
        told.clear();
        view.rename(RANK + "list.new", RANK + "list");
        assertEquals(List.of("END_OF_FILE " + RANK + "list.new", "Renamed"), told);
        view.release(open);
        files.endRank(0, System.nanoTime() + TimeUnit.SECONDS.toNanos(5), () -> false);
    }

    @Test
    void shouldReportNothingWhenAnotherFileIsRenamed() throws Exception {
        view.release(write("core"));
        told.clear();
        view.rename(RANK + "core", RANK + "core.old");
        assertEquals(List.of("Renamed"), told);
    }

    @Test
    void shouldRefuseAWriteAfterTheFileWasReportedAsComplete() throws Exception {
        view.release(write("core"));
        view.release(write("list.new"));
        view.rename(RANK + "list.new", RANK + "list");
        long again = view.open(RANK + "core", WRITE, USER);
        assertEquals(Errno.EIO.negated(), view.write(again, BufferUtil.address(memory), 100, 0));
        assertThrows(ErrnoException.class, () -> view.truncate(RANK + "core", 5));
    }
}
