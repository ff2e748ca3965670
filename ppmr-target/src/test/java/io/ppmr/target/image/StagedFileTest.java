package io.ppmr.target.image;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.ProcFiles;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.stream.Stream;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import org.agrona.BufferUtil;
import org.junit.jupiter.api.Test;

class StagedFileTest {
    private static final int PAGE = 4096;
    private static final int SPACE = 12 * PAGE;

    private final Staging staging = new Staging(Path.of("/dev/shm"), Long.MAX_VALUE / 2);

    /** Writes bytes, or removes them if {@code adds} is false. */
    record Step(boolean adds, int from, int lengthBytes) {}

    @Provide
    Arbitrary<List<Step>> steps() {
        Arbitrary<Integer> aligned = Arbitraries.integers().between(0, 11).map(page -> page * PAGE);
        Arbitrary<Integer> from =
                Arbitraries.oneOf(aligned, Arbitraries.integers().between(0, SPACE - 1));
        Arbitrary<Integer> length = Arbitraries.oneOf(
                Arbitraries.integers().between(1, 3 * PAGE),
                Arbitraries.of(1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, SPACE));
        return Combinators.combine(Arbitraries.of(true, true, true, false), from, length)
                .as(Step::new)
                .list()
                .ofMaxSize(60);
    }

    @Property(tries = 500)
    void shouldKeepTheLastWriteAndUseSpaceOnlyForIt(@ForAll("steps") List<Step> steps) throws Exception {
        StagedFile file = new StagedFile(staging);
        BitSet there = new BitSet();
        byte[] model = new byte[SPACE];
        int number = 0;
        for (Step step : steps) {
            int to = Math.min(SPACE, step.from + step.lengthBytes);
            if (step.adds) {
                ByteBuffer bytes = ByteBuffer.allocateDirect(to - step.from);
                bytes.put(ImageFixture.bytes(++number, to - step.from));
                bytes.get(0, model, step.from, to - step.from);
                file.write(BufferUtil.address(bytes), to - step.from, step.from);
                there.set(step.from, to);
            } else {
                long before = pages(there);
                there.clear(step.from, to);
                assertEquals(pages(there) < before, file.remove(step.from, to == SPACE ? Long.MAX_VALUE : to));
            }
            same(there, model, file);
        }
        file.close();
        assertEquals(0, staging.usedBytes());
        assertEquals(0, staging.mapBytes());
    }

    private static long pages(BitSet there) {
        long pages = 0;
        for (int at = there.nextSetBit(0); at >= 0; at = there.nextSetBit((at / PAGE + 1) * PAGE)) {
            pages++;
        }
        return pages;
    }

    private void same(BitSet there, byte[] model, StagedFile file) throws ImageException {
        assertEquals(pages(there) * PAGE, staging.usedBytes());
        assertEquals(SPACE - pages(there) * PAGE, file.missingBytes(0, SPACE));
        for (int at = 0; at < SPACE; at += 509) {
            int next = there.nextSetBit(at);
            assertEquals(next < 0 ? Long.MAX_VALUE : next, file.nextFrom(at));
            assertEquals(there.get(at) ? there.nextClearBit(at) : at, file.coveredTo(at, SPACE));
        }
        for (int from = there.nextSetBit(0); from >= 0; from = there.nextSetBit(there.nextClearBit(from))) {
            int length = there.nextClearBit(from) - from;
            ByteBuffer into = ByteBuffer.allocateDirect(length);
            file.read(BufferUtil.address(into), length, from);
            byte[] read = new byte[length];
            into.get(0, read);
            assertEquals(-1, Arrays.mismatch(read, Arrays.copyOfRange(model, from, from + length)), "from " + from);
        }
    }

    @Test
    void shouldFreeTheSpaceOfAHole() throws Exception {
        StagedFile file = new StagedFile(staging);
        int length = 64 * PAGE;
        ByteBuffer bytes = ByteBuffer.allocateDirect(length);
        Path descriptor = opened(() -> file.write(BufferUtil.address(bytes), length, 0));
        assertEquals(length, allocatedBytes(descriptor));
        file.remove(PAGE + 5, 33 * PAGE + 5);
        assertEquals(length - 31L * PAGE, allocatedBytes(descriptor));
        assertEquals(length - 31L * PAGE, staging.usedBytes());
        file.remove(PAGE, Long.MAX_VALUE);
        assertEquals(PAGE, allocatedBytes(descriptor));
        file.close();
        assertTrue(Files.notExists(descriptor, LinkOption.NOFOLLOW_LINKS));
    }

    private interface Writing {
        void run() throws ImageException;
    }

    /** Returns the descriptor that a step opens, by the name of its file. */
    private static Path opened(Writing step) throws Exception {
        List<Path> before = staged();
        step.run();
        return staged().stream()
                .filter(path -> !before.contains(path))
                .findFirst()
                .orElseThrow();
    }

    private static List<Path> staged() throws IOException {
        try (Stream<Path> all = Files.list(Path.of("/proc/self/fd"))) {
            return all.filter(StagedFileTest::isStaged).toList();
        }
    }

    private static boolean isStaged(Path descriptor) {
        try {
            return Files.readSymbolicLink(descriptor).toString().contains("ppmr-staging-");
        } catch (IOException e) {
            // The descriptor of the listing itself, or of another thread, which was closed meanwhile.
            return false;
        }
    }

    private static long allocatedBytes(Path descriptor) throws IOException {
        return ProcFiles.status(descriptor.toString()).orElseThrow().allocatedBytes();
    }

    @Test
    void shouldRefuseByNameWhenTooManySmallPiecesArrive() throws Exception {
        StagedFile file = new StagedFile(staging);
        ByteBuffer bytes = ByteBuffer.allocateDirect(1);
        long address = BufferUtil.address(bytes);
        // Each piece may add two runs, and adds one.
        for (int piece = 0; piece < Staging.MAX_PARTS - 1; piece++) {
            file.write(address, 1, 2L * piece);
        }
        String message = assertThrows(ImageException.class, () -> file.write(address, 1, 2L * Staging.MAX_PARTS + 1))
                .getMessage();
        assertTrue(message.contains("more than 131072 pieces that are not whole pages"), message);
        file.close();
        assertEquals(0, staging.usedBytes());
    }

    /** A restart may punch holes like this: nothing changes when the limit is reached. */
    @Test
    void shouldChangeNothingWhenTooManySmallPiecesAreRemoved() throws Exception {
        StagedFile file = new StagedFile(staging);
        int length = 64 * PAGE;
        ByteBuffer bytes = ByteBuffer.allocateDirect(length);
        file.write(BufferUtil.address(bytes), length, 0);
        for (int cut = 0; cut < length / 4; cut++) {
            file.remove(2L * cut + 1, 2L * cut + 2);
        }
        assertEquals(length, staging.usedBytes());
        StagedFile other = new StagedFile(staging);
        other.write(BufferUtil.address(bytes), length, 0);
        assertThrows(ImageException.class, () -> {
            for (int cut = 0; cut < length / 2; cut++) {
                other.remove(2L * cut + 1, 2L * cut + 2);
            }
        });
        long there = other.nextFrom(0);
        for (int again = 0; again < 1000; again++) {
            long at = length - 2L * again - 2;
            assertThrows(ImageException.class, () -> other.remove(at, at + 1));
            assertTrue(other.coveredTo(at, at + 2) >= at + 2);
        }
        assertEquals(0, there);
        assertEquals(2L * length, staging.usedBytes());
        file.close();
        other.remove(0, Long.MAX_VALUE);
        assertEquals(0, staging.usedBytes());
        other.write(BufferUtil.address(bytes), 1, 0);
        other.close();
    }

    @Test
    void shouldOpenItsFileAgainWhenItWasEmptied() throws Exception {
        StagedFile file = new StagedFile(staging);
        ByteBuffer bytes = ByteBuffer.allocateDirect(PAGE);
        for (int again = 0; again < 3; again++) {
            bytes.put(0, (byte) (again + 1));
            file.write(BufferUtil.address(bytes), PAGE, 5L * PAGE);
            assertTrue(file.remove(5L * PAGE, 6L * PAGE));
            assertEquals(5L * PAGE, file.coveredTo(5L * PAGE, 6L * PAGE));
        }
        file.close();
        staging.close();
    }
}
