package io.ppmr.fuse;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;

/**
 * Tests the behaviour that a client requires of every view: run against the view alone, then against a real mount of
 * it. A module that implements a view extends this class and provides the driver, already open, on an empty writable
 * root.
 */
@Timeout(120)
public abstract class FilesystemViewContract {
    private static final int REQUEST_BYTES = 128 * 1024;

    private FilesystemDriver files;

    /** Opens a driver on an empty filesystem. */
    protected abstract FilesystemDriver openDriver() throws Exception;

    /** Closes the driver of {@link #openDriver}. */
    protected abstract void closeDriver() throws Exception;

    @BeforeEach
    final void start() throws Exception {
        files = openDriver();
    }

    @AfterEach
    final void stop() throws Exception {
        closeDriver();
    }

    private static byte[] bytes(long seed, int length) {
        byte[] data = new byte[length];
        new Random(seed).nextBytes(data);
        return data;
    }

    private static void assertErrno(String errno, Executable call) {
        assertEquals(errno, assertThrows(FilesystemDriver.Failure.class, call).errno());
    }

    private void writeFile(String path, byte[] data) throws IOException {
        int file = files.open(path, "wct");
        assertEquals(data.length, files.write(file, data, 0));
        files.close(file);
    }

    private byte[] readFile(String path) throws IOException {
        int file = files.open(path, "r");
        byte[] data = files.read(file, (int) files.size(file), 0);
        files.close(file);
        return data;
    }

    @Test
    void shouldReadBackWhatWasWrittenWhenFileIsCreated() throws IOException {
        byte[] data = bytes(1, 3 * REQUEST_BYTES + 17);
        writeFile("/file", data);
        assertArrayEquals(data, readFile("/file"));
        assertEquals(data.length, files.stat("/file").sizeBytes());
    }

    @Test
    void shouldServeEmptyFileWhenNothingIsWritten() throws IOException {
        writeFile("/empty", new byte[0]);
        assertEquals(0, files.stat("/empty").sizeBytes());
        assertEquals(0, readFile("/empty").length);
    }

    @Test
    void shouldReadZerosWhenWriteLeavesHole() throws IOException {
        int file = files.open("/holes", "rwc");
        files.write(file, new byte[] {1}, 0);
        files.write(file, new byte[] {2}, REQUEST_BYTES + 5);
        byte[] expected = new byte[REQUEST_BYTES + 6];
        expected[0] = 1;
        expected[REQUEST_BYTES + 5] = 2;
        assertArrayEquals(expected, files.read(file, 2 * REQUEST_BYTES, 0));
        files.close(file);
    }

    @Test
    void shouldKeepEachByteWhenWritesArePositioned() throws IOException {
        byte[] data = bytes(2, 70_001);
        int file = files.open("/positioned", "rwc");
        for (int end = data.length; end > 0; end -= 1000) {
            int from = Math.max(0, end - 1000);
            files.write(file, Arrays.copyOfRange(data, from, end), from);
        }
        assertArrayEquals(data, files.read(file, data.length + 1, 0));
        assertArrayEquals(Arrays.copyOfRange(data, 777, 1777), files.read(file, 1000, 777));
        files.close(file);
    }

    @Test
    void shouldKeepOffsetsAboveFourGiBWhenFileIsBig() throws IOException {
        long offset = (5L << 30) + 3;
        byte[] data = bytes(3, 1000);
        int file = files.open("/big", "rwc");
        files.write(file, data, offset);
        assertEquals(offset + 1000, files.size(file));
        assertArrayEquals(data, files.read(file, 2000, offset));
        files.close(file);
    }

    @Test
    void shouldReturnEndOfFileWhenReadIsPastEnd() throws IOException {
        writeFile("/short", new byte[10]);
        int file = files.open("/short", "r");
        assertEquals(0, files.read(file, 10, 10).length);
        assertEquals(3, files.read(file, 10, 7).length);
        files.close(file);
    }

    @Test
    void shouldShrinkAndExtendWhenTruncated() throws IOException {
        int file = files.open("/cut", "rwc");
        files.write(file, bytes(4, 1000), 0);
        files.truncate(file, 10);
        assertEquals(10, files.size(file));
        files.write(file, new byte[] {9}, 19);
        byte[] data = files.read(file, 100, 0);
        assertArrayEquals(Arrays.copyOf(bytes(4, 1000), 10), Arrays.copyOf(data, 10));
        assertArrayEquals(new byte[] {0, 0, 0, 0, 0, 0, 0, 0, 0, 9}, Arrays.copyOfRange(data, 10, 20));
        files.close(file);
    }

    @Test
    void shouldStartEmptyWhenOpenedWithTruncate() throws IOException {
        writeFile("/again", new byte[100]);
        writeFile("/again", new byte[] {1, 2});
        assertArrayEquals(new byte[] {1, 2}, readFile("/again"));
    }

    @Test
    void shouldRefuseWhenExclusiveCreateMeetsFile() throws IOException {
        writeFile("/there", new byte[1]);
        assertErrno("EEXIST", () -> files.open("/there", "wcx"));
    }

    @Test
    void shouldReturnENOENTWhenNameIsMissing() {
        assertErrno("ENOENT", () -> files.stat("/none"));
        assertErrno("ENOENT", () -> files.open("/none", "r"));
        assertErrno("ENOENT", () -> files.delete("/none"));
        assertErrno("ENOENT", () -> files.rename("/none", "/other"));
        assertErrno("ENOENT", () -> files.open("/none/below", "wc"));
    }

    @Test
    void shouldReplaceTargetWhenRenamed() throws IOException {
        writeFile("/image.tmp", new byte[] {1});
        writeFile("/image", new byte[] {2, 2});
        files.rename("/image.tmp", "/image");
        assertArrayEquals(new byte[] {1}, readFile("/image"));
        assertErrno("ENOENT", () -> files.stat("/image.tmp"));
    }

    @Test
    void shouldKeepOpenFileUsableWhenRenamedOrUnlinked() throws IOException {
        int file = files.open("/first", "rwc");
        files.write(file, new byte[] {1}, 0);
        files.rename("/first", "/second");
        files.write(file, new byte[] {2}, 1);
        files.delete("/second");
        files.write(file, new byte[] {3}, 2);
        assertArrayEquals(new byte[] {1, 2, 3}, files.read(file, 10, 0));
        assertEquals(List.of(), files.list("/"));
        files.close(file);
    }

    @Test
    void shouldListAndRemoveWhenDirectoriesAreUsed() throws IOException {
        files.makeDirectory("/rank-0");
        writeFile("/rank-0/a", new byte[1]);
        writeFile("/rank-0/b", new byte[1]);
        assertEquals(Set.of("a", "b"), new TreeSet<>(files.list("/rank-0")));
        assertErrno("ENOTEMPTY", () -> files.delete("/rank-0"));
        assertErrno("EEXIST", () -> files.makeDirectory("/rank-0"));
        files.rename("/rank-0", "/rank-1");
        assertEquals(1, readFile("/rank-1/a").length);
        files.delete("/rank-1/a");
        files.delete("/rank-1/b");
        files.delete("/rank-1");
        assertEquals(List.of(), files.list("/"));
    }

    @Test
    void shouldListAllWhenDirectoryIsLarge() throws IOException {
        Set<String> names = new TreeSet<>();
        for (int i = 0; i < 1000; i++) {
            names.add("a-rather-long-name-of-a-checkpoint-file-" + i);
            writeFile("/a-rather-long-name-of-a-checkpoint-file-" + i, new byte[0]);
        }
        assertEquals(names, new TreeSet<>(files.list("/")));
    }

    @Test
    void shouldKeepTextWhenSymlinkIsMade() throws IOException {
        files.symlink("dmtcp_restart_script_1.sh", "/dmtcp_restart_script.sh");
        assertEquals("dmtcp_restart_script_1.sh", files.readLink("/dmtcp_restart_script.sh"));
        assertEquals(FileType.SYMLINK, files.stat("/dmtcp_restart_script.sh").mode() & FileType.MASK);
    }

    @Test
    void shouldShowModeAndTimeWhenChanged() throws IOException {
        writeFile("/context", new byte[1]);
        files.changeMode("/context", 0400);
        assertEquals(FileType.REGULAR | 0400, files.stat("/context").mode());
        files.changeModificationTime("/context", 1_234_567_890L);
        assertEquals(1_234_567_890L, files.stat("/context").modifiedEpochS());
    }

    @Test
    void shouldSucceedWhenSynced() throws IOException {
        int file = files.open("/synced", "wc");
        files.write(file, new byte[5], 0);
        files.fsync(file);
        files.close(file);
        assertEquals(5, files.stat("/synced").sizeBytes());
    }

    @Test
    void shouldReportCapacity() throws IOException {
        assertTrue(files.capacityBytes() > 0);
    }

    @Test
    void shouldKeepFilesApartWhenManyThreadsWrite() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(16);
        try {
            List<Future<?>> all = new ArrayList<>();
            for (int thread = 0; thread < 16; thread++) {
                int number = thread;
                all.add(threads.submit(() -> {
                    byte[] data = bytes(number, 300_000 + number);
                    writeFile("/parallel-" + number, data);
                    assertArrayEquals(data, readFile("/parallel-" + number));
                    return true;
                }));
            }
            for (Future<?> one : all) {
                one.get(60, TimeUnit.SECONDS);
            }
        } finally {
            threads.shutdownNow();
        }
    }
}
