package io.ppmr.migration.keep;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.keep.Keeping.KeptImageReport;
import io.ppmr.source.image.ImageName;
import io.ppmr.source.image.ImageName.NameKind;
import io.ppmr.source.image.ImageTee;
import io.ppmr.source.image.ImageTee.FileCopy;
import io.ppmr.transport.auth.PreSharedKey;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import java.util.zip.CRC32C;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.lifecycle.AfterTry;
import net.jqwik.api.lifecycle.BeforeTry;
import org.agrona.BufferUtil;

class KeepingTest {
    private static final int MOST_BYTES = 300_000;
    private static final int FILES = 3;
    private static final Keeping.Bounds PATIENT =
            new Keeping.Bounds(1 << 20, Duration.ofSeconds(20), Duration.ofSeconds(20));
    private static final Map<Integer, List<ProcessIdentity>> ORIGINALS =
            Map.of(0, List.of(new ProcessIdentity("boot", 1, 2, 3)));

    private static final PreSharedKey KEY = new PreSharedKey(new byte[32]);

    private Path directory;

    @BeforeTry
    void make() throws IOException {
        directory = Files.createTempDirectory("keeping");
    }

    /** A lost copy removes its files itself, on its own thread, when all writers have been notified. */
    @AfterTry
    void remove() throws IOException {
        long deadlineNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (hasPartial() && System.nanoTime() - deadlineNs < 0) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
        }
        assertFalse(hasPartial(), "a copy that is lost leaves no files");
        while (!KeptImageNote.left(directory).isEmpty() && System.nanoTime() - deadlineNs < 0) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
        }
        assertEquals(List.of(), KeptImageNote.left(directory), "a copy that is over leaves no note");
        WorkDirectories.remove(directory);
    }

    private boolean hasPartial() throws IOException {
        try (Stream<Path> entries = Files.list(directory)) {
            return entries.anyMatch(entry -> entry.toString().endsWith(".partial"));
        }
    }

    private Keeping keeping() {
        return new Keeping(
                new Keeping.KeepRequest(Optional.of(directory), PATIENT),
                new Keeping.ImageOrigin("migration-1", "a/job", "criu", new JobUser(0, 0)),
                directory,
                KEY);
    }

    private static List<ImageName> names(List<FileCopy> copies, List<byte[]> due) {
        List<ImageName> names = new ArrayList<>();
        names.add(new ImageName("rank-0", NameKind.DIRECTORY, null, 0, null, 0, 0));
        for (int file = 0; file < copies.size(); file++) {
            names.add(
                    new ImageName("rank-0/" + file, NameKind.FILE, copies.get(file), due.get(file).length, null, 0, 0));
        }
        return names;
    }

    /** Random writes and truncations, in and out of order. */
    @Property(tries = 60)
    void shouldHaveTheFilesAsTheyWereWhenWritesAndCutsComeInAnyOrder(@ForAll long seed) throws Exception {
        Random random = new Random(seed);
        ByteBuffer memory = ByteBuffer.allocateDirect(MOST_BYTES);
        try (Keeping keeping = keeping()) {
            ImageTee copy = keeping.copyOf(1);
            List<FileCopy> copies = new ArrayList<>();
            List<byte[]> due = new ArrayList<>();
            for (int file = 0; file < FILES; file++) {
                copies.add(copy.newFile());
                due.add(new byte[0]);
            }
            for (int step = random.nextInt(40); step >= 0; step--) {
                int file = random.nextInt(FILES);
                byte[] now = due.get(file);
                if (random.nextInt(6) == 0) {
                    int size = random.nextInt(3) == 0 ? 0 : random.nextInt(MOST_BYTES);
                    copies.get(file).truncate(size);
                    due.set(file, Arrays.copyOf(now, size));
                } else {
                    int length = random.nextInt(random.nextBoolean() ? 100 : MOST_BYTES);
                    int offset = random.nextInt(3) == 0 ? random.nextInt(MOST_BYTES) : now.length;
                    byte[] bytes = new byte[length];
                    random.nextBytes(bytes);
                    memory.clear().put(bytes);
                    copies.get(file).write(BufferUtil.address(memory), length, offset);
                    if (length > 0) {
                        byte[] next = Arrays.copyOf(now, Math.max(now.length, offset + length));
                        System.arraycopy(bytes, 0, next, offset, length);
                        due.set(file, next);
                    }
                }
            }
            keeping.whole(1, names(copies, due), ORIGINALS);
            keeping.attemptOver(1);
            keeping.await();
            KeptImageReport report = keeping.report();
            assertTrue(report.kept(), report.reason());
            Path kept = Path.of(report.directory());
            ImageManifest manifest = ImageManifest.read(kept);
            assertEquals(
                    ImageManifest.digest(KEY, Files.readAllBytes(kept.resolve(ImageManifest.FILE_NAME))),
                    Files.readString(kept.resolve(ImageManifest.DIGEST_FILE_NAME)));
            assertEquals(ORIGINALS, manifest.originals());
            assertEquals(report.bytes(), manifest.totalBytes());
            for (int file = 0; file < FILES; file++) {
                assertArrayEquals(due.get(file), Files.readAllBytes(kept.resolve("rank-0/" + file)));
                CRC32C crc = new CRC32C();
                crc.update(due.get(file));
                assertEquals(
                        (int) crc.getValue(), manifest.entries().get(file + 1).crc32c());
            }
        }
    }

    @Example
    void shouldBeginAnewUntilOneIsWholeWhenAttemptsFollow() throws Exception {
        try (Keeping keeping = keeping()) {
            FileCopy early = keeping.copyOf(1).newFile();
            early.truncate(10);
            keeping.attemptOver(1);
            assertFalse(keeping.report().kept());
            assertTrue(
                    keeping.report().reason().contains("before its checkpoint was whole"),
                    keeping.report().reason());
            early.truncate(20);
            ImageTee second = keeping.copyOf(2);
            assertSame(second, keeping.copyOf(2), "one copy for all sessions of an attempt");
            FileCopy file = second.newFile();
            file.truncate(5);
            keeping.whole(2, names(List.of(file), List.of(new byte[5])), ORIGINALS);
            keeping.attemptOver(2);
            assertSame(ImageTee.NONE, keeping.copyOf(3));
            keeping.attemptOver(3);
            keeping.await();
            assertTrue(keeping.report().kept(), keeping.report().reason());
            assertTrue(
                    keeping.report().directory().endsWith(".2"),
                    keeping.report().directory());
            assertEquals(
                    2, ImageManifest.read(Path.of(keeping.report().directory())).attempt());
            awaitOne();
        }
    }

    /** Waits until no file of the previous attempt is left. */
    private void awaitOne() throws IOException {
        long deadlineNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (count() != 1) {
            assertTrue(System.nanoTime() < deadlineNs, "more than one copy is left");
            LockSupport.parkNanos(1_000_000);
        }
    }

    private long count() throws IOException {
        try (Stream<Path> all = Files.list(directory)) {
            return all.count();
        }
    }

    @Example
    void shouldLoseItWhenAFileIsNotAsLargeAsItsImage() throws Exception {
        try (Keeping keeping = keeping()) {
            FileCopy file = keeping.copyOf(1).newFile();
            file.truncate(5);
            keeping.whole(1, names(List.of(file), List.of(new byte[6])), ORIGINALS);
            keeping.await();
            assertFalse(keeping.report().kept(), "a file that is not as large as the image");
        }
    }

    @Example
    void shouldSayWhyWhenTheDirectoryIsNotThere() throws Exception {
        WorkDirectories.remove(directory);
        try (Keeping keeping = keeping()) {
            FileCopy file = keeping.copyOf(1).newFile();
            keeping.whole(1, names(List.of(file), List.of(new byte[0])), ORIGINALS);
            keeping.await();
            assertTrue(
                    keeping.report().reason().contains("is no directory"),
                    keeping.report().reason());
        }
        Files.createDirectory(directory);
    }

    @Example
    void shouldDoNothingWhenNoCopyIsWanted() {
        try (Keeping keeping = new Keeping(
                Keeping.KeepRequest.NONE,
                new Keeping.ImageOrigin("m", "j", "criu", new JobUser(0, 0)),
                directory,
                KEY)) {
            assertSame(ImageTee.NONE, keeping.copyOf(1));
            keeping.attemptOver(1);
            keeping.await();
            assertNull(keeping.report());
        }
    }
}
