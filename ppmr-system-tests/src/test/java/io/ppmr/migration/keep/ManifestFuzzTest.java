package io.ppmr.migration.keep;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.StoppedProcesses;
import io.ppmr.fuzz.Fuzz;
import io.ppmr.fuzz.FuzzPlan;
import io.ppmr.fuzz.Mutator;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.protocol.control.PodAddresses;
import io.ppmr.protocol.control.PodFacts;
import io.ppmr.protocol.control.PodSpecification;
import io.ppmr.source.image.ImageName.NameKind;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The manifest of a kept copy that was changed. Most of them have the right checksum. */
class ManifestFuzzTest {
    private static final ImageManifest ONE = new ImageManifest(
            "0.1.0",
            "a job",
            "criu",
            new JobUser(7, 8),
            "m-1",
            2,
            1_700_000_000_000L,
            "node-a",
            Map.of(
                    0, List.of(new ProcessIdentity("boot", 4026531836L, 12, 345)),
                    3, List.of(new ProcessIdentity("boot", 5, 6, 7), new ProcessIdentity("boot", 5, 8, 9))),
            List.of(
                    new ImageManifest.ManifestEntry(NameKind.DIRECTORY, "rank-0", 0, 0, ""),
                    new ImageManifest.ManifestEntry(NameKind.FILE, "rank-0/a b\nc%ü", 1L << 40, 0xFEDCBA98, ""),
                    new ImageManifest.ManifestEntry(NameKind.FILE, "rank-0/plain", 0, 0, ""),
                    new ImageManifest.ManifestEntry(NameKind.SYMLINK, "rank-0/link", 0, 0, "../else where")));

    /** The manifest of a pod's image, of a set of a job over several nodes. */
    private static final ImageManifest OF_POD = new ImageManifest(
            "0.3.0",
            "ring",
            "criu",
            new JobUser(7, 8),
            "checkpoint-1",
            1,
            1_700_000_000_000L,
            "node-a",
            Map.of(0, List.of(new ProcessIdentity("boot", 5, 6, 7))),
            List.of(new ImageManifest.ManifestEntry(NameKind.FILE, "rank-0/pages-1.img", 4096, 7, "")),
            Optional.of(new MemberImage(
                    "1-1-00000000",
                    4,
                    new PodFacts(
                            new PodSpecification(
                                    "p1", "ring", "mpi", List.of("A=b c", "B="), List.of("./ring", "5 6"), 3, "600s"),
                            7,
                            8,
                            new PodAddresses("10.20.0.10", "fd00::10", "02:50:0a:14:00:0a"),
                            24,
                            1500,
                            List.of("/usr", "/home dir"),
                            7,
                            false),
                    List.of(new MemberImage.WrittenFile("/home dir/out", 12)),
                    Optional.of(new StoppedProcesses(List.of(1, 7), List.of(-1, 0), List.of(1))))));

    @TempDir
    private Path directory;

    /** The sum of all read values. It is not private, so that the compilers do not remove it. */
    long sum;

    private static Fuzz fuzz() {
        Mutator mutator = new Mutator(
                List.of(
                        ONE.text().getBytes(StandardCharsets.UTF_8),
                        OF_POD.text().getBytes(StandardCharsets.UTF_8)),
                64 * 1024,
                "rank ",
                "process ",
                "directory ",
                "file ",
                "symlink ",
                "set ",
                "pod ",
                "open ",
                "mount ",
                "command ",
                "environment ",
                "user ",
                "migration ",
                "written ",
                "\n",
                " ",
                "%",
                "%zz",
                "%00",
                "..",
                "/",
                "-1",
                "99999999999999999999",
                "crc32c ");
        return new Fuzz(FuzzPlan.MANIFESTS, mutator, List.of(IOException.class))
                .repairedBy(ManifestFuzzTest::withChecksum)
                .allocatesAtMost(256 * 1024, 256);
    }

    private static byte[] withChecksum(byte[] input) {
        int end = input.length - 1;
        while (end > 0 && input[end - 1] != '\n') {
            end--;
        }
        end = Math.max(0, end);
        CRC32C crc = new CRC32C();
        crc.update(input, 0, end);
        byte[] last = ("crc32c " + Integer.toHexString((int) crc.getValue()) + "\n").getBytes(StandardCharsets.UTF_8);
        byte[] whole = Arrays.copyOf(input, end + last.length);
        System.arraycopy(last, 0, whole, end, last.length);
        return whole;
    }

    private void read(byte[] input) throws IOException {
        Path file = directory.resolve(ImageManifest.FILE_NAME);
        // An overwritten file is flushed to the disk at once.
        Files.deleteIfExists(file);
        Files.write(file, input);
        ImageManifest read = ImageManifest.read(directory);
        for (ImageManifest.ManifestEntry entry : read.entries()) {
            if (leadsOut(entry.path()) || entry.sizeBytes() < 0) {
                throw new AssertionError(entry.toString());
            }
        }
        // What a restart uses of it before it trusts the manifest, and what is written again.
        read.pod().ifPresent(image -> sum += image.hashCode());
        sum += read.text().length();
        if (read.totalBytes() < 0) {
            throw new AssertionError("its files have " + read.totalBytes() + " bytes");
        }
    }

    /** As text: not every name can be a path in the locale of this JVM. */
    private static boolean leadsOut(String path) {
        int depth = path.startsWith("/") ? -1 : 0;
        boolean out = depth < 0;
        for (String part : path.split("/", -1)) {
            depth += part.equals("..") ? -1 : part.isEmpty() || part.equals(".") ? 0 : 1;
            out |= depth < 0;
        }
        return out;
    }

    @Test
    void shouldTakeOrRefuseByNameWhateverAManifestHolds() throws Exception {
        fuzz().inTheGate(this::read);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 60, unit = TimeUnit.MINUTES)
    void shouldTakeOrRefuseByNameForLongWhateverAManifestHolds() throws Exception {
        fuzz().forLong(this::read);
    }
}
