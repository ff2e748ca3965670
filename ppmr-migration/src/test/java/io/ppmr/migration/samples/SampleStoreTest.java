package io.ppmr.migration.samples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Samples survive a round to the disk, within their limits, whatever the journal's folder allows. */
class SampleStoreTest {
    private static final int ALL_CURVES = 70;

    @TempDir
    private Path journal;

    /** Samples of random bytes, which do not compress. */
    private static MigrationSamples random(int points, int curves) {
        Random random = new Random(points);
        List<SampleCurve> all = IntStream.range(0, curves)
                .mapToObj(i -> new SampleCurve(
                        List.of(SampledValue.values()).get(i % 4),
                        i / 4 - 1,
                        random.longs(points, 0, 1L << 40).boxed().toList()))
                .toList();
        return new MigrationSamples(
                1_700_000_000_000L,
                IntStream.range(0, points).mapToObj(i -> 10L * i).toList(),
                all);
    }

    @Test
    void shouldReturnEqualSamplesWhenTheyWereSaved() throws IOException {
        MigrationSamples samples = random(MigrationSamples.MAX_POINTS, 8);
        new SampleStore(journal).save("m-1", samples);
        assertEquals(Optional.of(samples), new SampleStore(journal).find("m-1"));
        assertEquals(Optional.empty(), new SampleStore(journal).find("m-2"));
        assertEquals(
                "rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(journal.resolve("samples"))));
    }

    @Test
    void shouldDropPointsAndKeepTheLastOneWhenAFileWouldBeTooLarge() throws IOException {
        MigrationSamples samples = random(MigrationSamples.MAX_POINTS, ALL_CURVES);
        new SampleStore(journal).save("m-1", samples);
        assertTrue(Files.size(journal.resolve("samples/m-1.samples")) <= 64 << 10);
        MigrationSamples found = new SampleStore(journal).find("m-1").orElseThrow();
        assertTrue(found.timesMs().size() < MigrationSamples.MAX_POINTS, "nothing had to be dropped");
        assertEquals(ALL_CURVES, found.curves().size());
        for (int i = 0; i < ALL_CURVES; i++) {
            assertEquals(
                    samples.curves().get(i).bytes().get(0),
                    found.curves().get(i).bytes().get(0));
            assertEquals(samples.curves().get(i).last(), found.curves().get(i).last());
        }
    }

    @Test
    void shouldRemoveTheOldestWhenAllTogetherAreTooLarge() throws IOException {
        MigrationSamples samples = random(MigrationSamples.MAX_POINTS, 8);
        SampleStore first = new SampleStore(journal);
        first.save("m-0", samples);
        long oneBytes = Files.size(journal.resolve("samples/m-0.samples"));
        SampleStore store = new SampleStore(journal, 3 * oneBytes);
        for (int i = 0; i < 6; i++) {
            store.save("m-" + i, samples);
            Files.setLastModifiedTime(journal.resolve("samples/m-" + i + ".samples"), FileTime.fromMillis(1000L * i));
            try (Stream<Path> files = Files.list(journal.resolve("samples"))) {
                assertTrue(files.count() <= 3, "more than the limit allows");
            }
        }
        assertTrue(store.find("m-2").isEmpty());
        assertEquals(Optional.of(samples), store.find("m-3"));
        assertEquals(Optional.of(samples), store.find("m-5"));
    }

    @Test
    void shouldRemoveWhatAKilledServiceLeftWhenOthersAreSaved() throws IOException {
        SampleStore store = new SampleStore(journal);
        store.save("m-1", random(2, 1));
        Path left = Files.write(journal.resolve("samples/m-2.new"), new byte[7]);
        store.save("m-3", random(2, 1));
        assertFalse(Files.exists(left));
    }

    @Test
    void shouldRefuseWhenAFileIsDamaged() throws IOException {
        SampleStore store = new SampleStore(journal);
        store.save("m-1", random(MigrationSamples.MAX_POINTS, 8));
        Path file = journal.resolve("samples/m-1.samples");
        byte[] whole = Files.readAllBytes(file);
        Random random = new Random(7);
        for (int length = 0; length < whole.length; length += 1 + random.nextInt(whole.length / 50)) {
            Files.write(file, Arrays.copyOf(whole, length));
            assertThrows(IOException.class, () -> store.find("m-1"));
        }
        Files.write(file, new byte[(64 << 10) + 1]);
        assertTrue(assertThrows(IOException.class, () -> store.find("m-1"))
                .getMessage()
                .contains("larger than"));
    }

    @Test
    void shouldRefuseNamesThatLeaveTheFolder() {
        SampleStore store = new SampleStore(journal);
        for (String name : List.of("", "../journal", "a/b", ".", "a.b", "x".repeat(65))) {
            assertThrows(IllegalArgumentException.class, () -> store.save(name, random(1, 1)), name);
            assertThrows(IllegalArgumentException.class, () -> store.find(name), name);
        }
    }
}
