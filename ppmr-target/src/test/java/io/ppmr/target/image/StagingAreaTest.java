package io.ppmr.target.image;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.PoolGeometry;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.agrona.UnsafeApi;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class StagingAreaTest {
    private static final int CHUNK_BYTES = 128 * 1024;
    private static final int STEP_BYTES = 16 * 1024 * 1024;
    private static final int INDEX_BYTES = 1 << 20;

    @TempDir
    private Path directory;

    private final PoolGeometry geometry = new PoolGeometry(CHUNK_BYTES, 16);

    @Test
    void shouldLeaveNoNameAndBeReadableByItsOwnerOnly() throws IOException {
        try (StagingArea staging = area(STEP_BYTES)) {
            assertEquals(List.of(), openFiles(), "a file before any is needed");
            assertNotNull(staging.claim());
            assertEquals(List.of(), names());
            List<Path> open = openFiles();
            assertEquals(1, open.size());
            assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(open.get(0))));
        }
        // Released by a thread of the library, so not at once.
        long deadlineNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(60L * Integer.getInteger("ppmr.patience", 1));
        while (!openFiles().isEmpty() && System.nanoTime() - deadlineNs < 0) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(5));
        }
        assertEquals(List.of(), openFiles(), "the file is still open after the end of the session");
    }

    @Test
    void shouldGrowInStepsUpToItsLimit() throws Exception {
        int slotsAStep = STEP_BYTES / CHUNK_BYTES;
        try (StagingArea staging = area(2L * STEP_BYTES + 3 * CHUNK_BYTES + 5)) {
            Set<Long> addresses = new HashSet<>();
            for (int i = 0; i < 2 * slotsAStep + 3; i++) {
                ReceiveSlot slot = staging.claim();
                assertEquals(i, slot.place());
                assertEquals(-1, slot.index());
                assertEquals(-1, slot.chunk());
                assertTrue(addresses.add(slot.address()), "two slots at one address");
                UnsafeApi.setMemory(slot.address(), CHUNK_BYTES, (byte) i);
                assertEquals((i + 1L) * CHUNK_BYTES, staging.usedBytes());
                staging.putToRest(slot);
            }
            assertEquals(2 * slotsAStep + 3, roomOf(openFiles().get(0)) / CHUNK_BYTES);
            for (int i = 0; i < 2 * slotsAStep + 3; i++) {
                long address = staging.address(i);
                assertEquals(address, staging.wake(i).address());
                assertEquals((byte) i, UnsafeApi.getByte(address), "first byte of slot " + i);
                assertEquals((byte) i, UnsafeApi.getByte(address + CHUNK_BYTES - 1), "last byte of slot " + i);
            }
            assertNull(staging.claim());
            assertTrue(staging.whyNone().contains("staging is limited to"), staging.whyNone());
        }
    }

    @Test
    void shouldGiveReleasedSlotsAgain() {
        try (StagingArea staging = area(2 * CHUNK_BYTES)) {
            ReceiveSlot first = staging.claim();
            ReceiveSlot second = staging.claim();
            assertNull(staging.claim());
            staging.release(first);
            assertEquals(CHUNK_BYTES, staging.usedBytes());
            assertSame(first, staging.claim());
            staging.putToRest(second);
            staging.release(1);
            assertEquals(1, staging.claim().place());
        }
    }

    @Test
    void shouldTakeNoMoreRoomThanItsLimit() throws Exception {
        try (StagingArea staging = area(4 * CHUNK_BYTES)) {
            assertNotNull(staging.claim());
            long usedBytes = roomOf(openFiles().get(0));
            assertTrue(usedBytes >= 4 * CHUNK_BYTES, usedBytes + " bytes are set aside for 4 chunks");
            assertTrue(usedBytes < 5 * CHUNK_BYTES, usedBytes + " bytes are taken where 4 chunks are allowed");
        }
    }

    @Test
    void shouldGiveNothingWhenThereIsNoStaging() throws IOException {
        try (StagingArea staging = area(0)) {
            assertNull(staging.claim());
            assertTrue(staging.whyNone().contains("limited to 0 bytes"), staging.whyNone());
            assertEquals(List.of(), openFiles());
        }
    }

    @Test
    void shouldSayWhyWhenItsDirectoryCannotBeWritten() {
        Path missing = directory.resolve("missing");
        try (StagingArea staging = new StagingArea(missing, geometry, STEP_BYTES, INDEX_BYTES)) {
            assertNull(staging.claim());
            assertTrue(staging.whyNone().contains("staging in " + missing + " cannot grow"), staging.whyNone());
        }
    }

    @Test
    void shouldHaveAReasonThoughNothingWasAskedFor() {
        try (StagingArea staging = area(STEP_BYTES)) {
            assertNotNull(staging.whyNone());
            assertNotNull(staging.claim());
            assertNotNull(staging.whyNone());
        }
    }

    private StagingArea area(long limitBytes) {
        return new StagingArea(directory, geometry, limitBytes, INDEX_BYTES);
    }

    private List<Path> names() throws IOException {
        try (DirectoryStream<Path> names = Files.newDirectoryStream(directory)) {
            List<Path> found = new ArrayList<>();
            names.forEach(found::add);
            return found;
        }
    }

    /** The descriptors of this process that are open on something in the directory, whether it has a name or not. */
    private List<Path> openFiles() throws IOException {
        List<Path> found = new ArrayList<>();
        try (DirectoryStream<Path> descriptors = Files.newDirectoryStream(Path.of("/proc/self/fd"))) {
            for (Path descriptor : descriptors) {
                if (opened(descriptor).startsWith(directory + "/")) {
                    found.add(descriptor);
                }
            }
        }
        return found;
    }

    private static String opened(Path descriptor) throws IOException {
        try {
            return Files.readSymbolicLink(descriptor).toString();
        } catch (NoSuchFileException e) {
            // Another thread of this process has closed it meanwhile.
            return "";
        }
    }

    private static long roomOf(Path descriptor) throws Exception {
        Path own = Path.of("/proc/" + ProcessHandle.current().pid() + "/fd/" + descriptor.getFileName());
        Process stat = new ProcessBuilder("stat", "-L", "-c", "%b %B", own.toString()).start();
        String[] numbers = new String(stat.getInputStream().readAllBytes(), StandardCharsets.US_ASCII)
                .strip()
                .split(" ", -1);
        assertEquals(0, stat.waitFor());
        return Long.parseLong(numbers[0]) * Long.parseLong(numbers[1]);
    }
}
