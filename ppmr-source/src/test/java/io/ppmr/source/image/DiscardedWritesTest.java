package io.ppmr.source.image;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.ChunkState;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.fuse.Errno;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.fuse.FilesystemView.CallingProcess;
import io.ppmr.fuse.OpenFlags;
import io.ppmr.protocol.data.ReadingMode;
import io.ppmr.source.image.TestOutlet.Mood;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.ShrinkingMode;
import org.agrona.BufferUtil;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Tests the result of a checkpointer's calls after a failure: accepted and discarded, or refused. */
class DiscardedWritesTest {
    private static final int CHUNK = 16 * 1024;
    private static final int CHUNKS = 4;
    private static final int LARGE = 3 * CHUNKS * CHUNK;
    private static final String RANK = "/m.1/rank-0/";
    private static final CallingProcess USER = new CallingProcess(7, 7, 1);
    private static final OpenFlags WRITE = new OpenFlags(1);

    /** A view with the files of one attempt. */
    private static final class Source {
        final BufferPool pool = new BufferPool(new PoolGeometry(CHUNK, CHUNKS));
        final FairClaims claims = new FairClaims(pool);
        final TestOutlet outlet = new TestOutlet(claims);
        final OutgoingImageView view = new OutgoingImageView();
        final OutgoingFiles files;
        final AtomicInteger copied = new AtomicInteger();
        private final ByteBuffer memory = BufferUtil.allocateDirectAligned(LARGE, 64);

        Source(boolean writesInProcess) throws ErrnoException {
            ImageTee copy = () -> new ImageTee.FileCopy() {
                @Override
                public void write(long address, int lengthBytes, long offset) {
                    copied.addAndGet(lengthBytes);
                }

                @Override
                public void truncate(long sizeBytes) {
                    copied.incrementAndGet();
                }
            };
            files = new OutgoingFiles(
                    "m.1",
                    view.tree(),
                    pool,
                    claims,
                    outlet,
                    copy,
                    new ImageFailure(writesInProcess),
                    () -> ReadingMode.STREAMED,
                    new WriterActivity(),
                    List.of(0),
                    7,
                    7);
            view.add("m.1", files);
        }

        int write(long handle, int lengthBytes, long offset) {
            return view.write(handle, BufferUtil.address(memory), lengthBytes, offset);
        }

        long size(String name) throws ErrnoException {
            return view.attributes(RANK + name).sizeBytes();
        }

        /** Stops the attempt like the migration's thread. */
        void fail() {
            outlet.fail();
            files.fail("a test");
        }

        void everyCallIsTaken(long open, long sizeSoFar) throws Exception {
            int frames = outlet.frames();
            int copiedSoFar = copied.get();
            assertEquals(100, write(open, 100, sizeSoFar));
            assertEquals(LARGE, write(open, LARGE, sizeSoFar + 100));
            assertEquals(sizeSoFar + 100 + LARGE, view.attributes(open).sizeBytes());
            assertEquals(1, write(open, 1, 1L << 40));
            assertEquals((1L << 40) + 1, size("a"));
            view.truncate(open, 4711);
            assertEquals(4711, size("a"));
            view.truncate(RANK + "a", 90_000);
            view.allocate(open, 0, 90_000, 10);
            assertEquals(90_010, size("a"));
            view.flush(open);
            view.fsync(open);
            view.makeDirectory(RANK + "d", 0700, USER);
            long made = view.create(RANK + "d/b", WRITE, 0600, USER);
            assertEquals(LARGE, write(made, LARGE, 0));
            view.symlink("b", RANK + "d/l", USER);
            view.changeMode(RANK + "d/b", 0400);
            view.changeOwner(RANK + "d/b", 8, 8);
            view.changeModificationTime(RANK + "d/b", 1_000_000);
            view.rename(RANK + "d/b", RANK + "c");
            view.release(made);
            assertEquals(LARGE, size("c"));
            assertEquals(0100400, view.attributes(RANK + "c").mode());
            assertEquals(8, view.attributes(RANK + "c").uid());
            assertEquals("b", view.readLink(RANK + "d/l"));
            view.unlink(RANK + "d/l");
            view.removeDirectory(RANK + "d");
            assertEquals(List.of("a", "c"), view.list("/m.1/rank-0"));
            long again = view.open(RANK + "c", new OpenFlags(1 | 512), USER);
            assertEquals(0, size("c"));
            view.release(again);
            view.release(open);
            assertEquals(frames, outlet.frames(), "nothing is sent to a failed target");
            assertEquals(copiedSoFar, copied.get(), "nothing more goes to the kept copy");
        }

        void completesNothing() {
            IOException failure =
                    assertThrows(IOException.class, () -> files.endRank(0, System.nanoTime(), () -> false));
            assertTrue(failure.getMessage().contains("/m.1"), failure.getMessage());
            assertNotNull(files.failure());
        }

        void leaksNothing() throws ErrnoException {
            files.fail("a test");
            files.discard();
            assertEquals(CHUNKS, pool.chunks(ChunkState.FREE));
        }
    }

    @Test
    void shouldAcceptAndDiscardEveryCallAfterTheAttemptFailed() throws Exception {
        Source source = new Source(true);
        long open = source.view.create(RANK + "a", WRITE, 0600, USER);
        assertEquals(20_000, source.write(open, 20_000, 0));
        source.fail();
        source.everyCallIsTaken(open, 20_000);
        source.leaksNothing();
    }

    @ParameterizedTest
    @EnumSource(
            value = Mood.class,
            names = {"DENIES", "CUT"})
    void shouldAcceptTheFailingWriteOfAnInProcessWriter(Mood mood) throws Exception {
        Source source = new Source(true);
        long open = source.view.create(RANK + "a", WRITE, 0600, USER);
        assertEquals(20_000, source.write(open, 20_000, 0));
        source.outlet.mood(mood);
        assertEquals(LARGE, source.write(open, LARGE, 20_000), "the write that meets it is taken in full");
        assertEquals(20_000 + LARGE, source.size("a"));
        source.completesNothing();
        source.everyCallIsTaken(open, 20_000 + LARGE);
        source.leaksNothing();
    }

    @Test
    void shouldAcceptEachOtherFailingCallOfAnInProcessWriter() throws Exception {
        List<Call> calls = List.of(
                (source, open) -> source.view.truncate(open, 5),
                (source, open) -> source.view.flush(open),
                (source, open) -> source.view.fsync(open),
                (source, open) -> source.view.release(open),
                (source, open) -> source.view.release(source.view.create(RANK + "b", WRITE, 0600, USER)),
                (source, open) -> source.view.makeDirectory(RANK + "b", 0700, USER),
                (source, open) -> source.view.symlink("a", RANK + "b", USER),
                (source, open) -> source.view.rename(RANK + "a", RANK + "b"),
                (source, open) -> source.view.changeMode(RANK + "a", 0400),
                (source, open) -> source.view.unlink(RANK + "a"));
        for (Call call : calls) {
            Source source = new Source(true);
            long open = source.view.create(RANK + "a", WRITE, 0600, USER);
            assertEquals(20_000, source.write(open, 20_000, 0));
            source.outlet.mood(Mood.CUT);
            call.make(source, open);
            source.completesNothing();
            source.leaksNothing();
        }
    }

    private interface Call {
        void make(Source source, long open) throws ErrnoException;
    }

    @Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    @ParameterizedTest
    @EnumSource(
            value = Mood.class,
            names = {"SILENT", "TAKES_NOTHING"})
    void shouldWakeAWaitingWriterAndAcceptItsWriteWhenTheAttemptFails(Mood mood) throws Exception {
        Source source = new Source(true);
        long open = source.view.create(RANK + "a", WRITE, 0600, USER);
        source.outlet.mood(mood);
        CompletableFuture<Integer> write = CompletableFuture.supplyAsync(() -> source.write(open, LARGE, 0));
        awaitThat(() -> mood == Mood.SILENT
                ? source.outlet.frames() >= 2
                : source.claims.waiting() > 0 && source.pool.chunks(ChunkState.FREE) == 0);
        source.fail();
        assertEquals(LARGE, write.get(60, TimeUnit.SECONDS));
        assertEquals(LARGE, source.size("a"));
        source.everyCallIsTaken(open, LARGE);
        source.leaksNothing();
    }

    @Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    @Test
    void shouldWakeAWaitingFsyncWhenTheAttemptFails() throws Exception {
        Source source = new Source(true);
        long open = source.view.create(RANK + "a", WRITE, 0600, USER);
        assertEquals(5000, source.write(open, 5000, 0));
        source.outlet.mood(Mood.TAKES_NOTHING);
        int before = source.outlet.frames();
        CompletableFuture<Void> fsync = CompletableFuture.runAsync(() -> {
            try {
                source.view.fsync(open);
            } catch (ErrnoException e) {
                throw new IllegalStateException(e);
            }
        });
        awaitThat(() -> source.outlet.frames() > before);
        source.fail();
        fsync.get(60, TimeUnit.SECONDS);
    }

    private static void awaitThat(BooleanSupplier condition) {
        while (!condition.getAsBoolean()) {
            Thread.onSpinWait();
        }
    }

    @Test
    void shouldAcceptWritesOfAnOpenFileAfterItsAttemptEnded() throws Exception {
        Source source = new Source(true);
        long open = source.view.create(RANK + "a", WRITE, 0600, USER);
        source.fail();
        source.view.remove("m.1");
        source.files.discard();
        OutgoingFiles next = new OutgoingFiles(
                "m.2", source.view.tree(), source.pool, source.claims, source.outlet, List.of(0), 7, 7);
        source.view.add("m.2", next);
        long other = source.view.create("/m.2/rank-0/a", WRITE, 0600, USER);
        assertEquals(LARGE, source.write(open, LARGE, 0));
        assertEquals(LARGE, source.write(other, LARGE, 0));
        source.view.fsync(open);
        source.view.release(open);
        source.view.release(other);
        next.endRank(0, System.nanoTime() + TimeUnit.SECONDS.toNanos(5), () -> false);
    }

    @Test
    void shouldReturnEioAfterTheTimeForDiscarding() throws Exception {
        Source source = new Source(true);
        long open = source.view.create(RANK + "a", WRITE, 0600, USER);
        source.fail();
        assertEquals(100, source.write(open, 100, 0));
        source.files.refuse();
        everyCallFails(source, open);
    }

    @Test
    void shouldReturnEioWhenTheCheckpointerRunsBesideTheProcess() throws Exception {
        Source source = new Source(false);
        long open = source.view.create(RANK + "a", WRITE, 0600, USER);
        source.fail();
        everyCallFails(source, open);
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void shouldSendNothingWhenAHandleIsReleasedAfterTheFailure(boolean writesInProcess) throws Exception {
        Source source = new Source(writesInProcess);
        long open = source.view.create(RANK + "a", WRITE, 0600, USER);
        assertEquals(20_000, source.write(open, 20_000, 0));
        source.fail();
        source.files.refuse();
        int frames = source.outlet.frames();
        source.view.release(open);
        assertEquals(frames, source.outlet.frames(), "the connection may be closed by now");
    }

    private static void everyCallFails(Source source, long open) {
        assertEquals(Errno.EIO.negated(), source.write(open, 100, 0));
        List<Call> calls = List.of(
                (s, handle) -> s.view.truncate(handle, 5),
                (s, handle) -> s.view.flush(handle),
                (s, handle) -> s.view.fsync(handle),
                (s, handle) -> s.view.create(RANK + "b", WRITE, 0600, USER),
                (s, handle) -> s.view.makeDirectory(RANK + "b", 0700, USER),
                (s, handle) -> s.view.rename(RANK + "a", RANK + "b"),
                (s, handle) -> s.view.unlink(RANK + "a"));
        for (Call call : calls) {
            ErrnoException failure = assertThrows(ErrnoException.class, () -> call.make(source, open));
            assertEquals(Errno.EIO, failure.errno());
        }
    }

    @Test
    void shouldReturnEnospcWhenThereIsNoSpaceAndTheCheckpointerRunsBesideTheProcess() throws Exception {
        Source source = new Source(false);
        long open = source.view.create(RANK + "a", WRITE, 0600, USER);
        source.outlet.mood(Mood.DENIES);
        assertEquals(Errno.ENOSPC.negated(), source.write(open, LARGE, 0));
    }

    // ---- any calls, interrupted anywhere -------------------------------------------------------------------------

    /** Names and sizes as a plain filesystem shows them. */
    @Property(tries = 300, shrinking = ShrinkingMode.OFF)
    void shouldShowTheNamesAndSizesOfAPlainFilesystemWhenItFailsAnywhere(@ForAll long seed) throws Exception {
        Random random = new Random(seed);
        Source source = new Source(true);
        source.outlet.cutAfter(random.nextInt(60));
        boolean denies = random.nextInt(3) == 0;
        Map<String, Long> sizes = new TreeMap<>();
        Map<String, Long> open = new TreeMap<>();
        for (int step = 0; step < 60; step++) {
            if (denies && step == 20) {
                source.outlet.mood(Mood.DENIES);
            }
            step(source, random, sizes, open);
            Map<String, Long> shown = new TreeMap<>();
            for (String name : source.view.list("/m.1/rank-0")) {
                shown.put(name, source.size(name));
            }
            assertEquals(sizes, shown, "seed " + seed + " step " + step);
        }
        for (long handle : open.values()) {
            source.view.release(handle);
        }
        source.leaksNothing();
    }

    private static void step(Source source, Random random, Map<String, Long> sizes, Map<String, Long> open)
            throws ErrnoException {
        String name = "f" + random.nextInt(4);
        if (!sizes.containsKey(name)) {
            open.put(name, source.view.create(RANK + name, WRITE, 0600, USER));
            sizes.put(name, 0L);
            return;
        }
        long handle = open.get(name);
        long size = sizes.get(name);
        switch (random.nextInt(7)) {
            case 0 -> {
                long cut = random.nextInt(200_000);
                source.view.truncate(handle, cut);
                sizes.put(name, cut);
            }
            case 1 -> source.view.fsync(handle);
            case 2 -> source.view.flush(handle);
            case 3 -> {
                String other = "f" + random.nextInt(4);
                source.view.rename(RANK + name, RANK + other);
                if (!other.equals(name)) {
                    Long replaced = open.remove(other);
                    if (replaced != null) {
                        source.view.release(replaced);
                    }
                    sizes.put(other, sizes.remove(name));
                    open.put(other, open.remove(name));
                }
            }
            case 4 -> {
                source.view.release(handle);
                open.put(name, source.view.open(RANK + name, WRITE, USER));
            }
            default -> {
                int length = 1 + random.nextInt(2 * CHUNK);
                long offset = random.nextBoolean() ? size : random.nextInt(100_000);
                assertEquals(length, source.write(handle, length, offset));
                sizes.put(name, Math.max(size, offset + length));
            }
        }
    }
}
