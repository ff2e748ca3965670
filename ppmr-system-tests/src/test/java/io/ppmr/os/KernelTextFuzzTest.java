package io.ppmr.linux;

import io.ppmr.fuzz.Fuzz;
import io.ppmr.fuzz.FuzzPlan;
import io.ppmr.fuzz.Mutator;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tests single lines of /proc, made out of those that kernels have written. */
class KernelTextFuzzTest {
    private static final Path RECORDED = Path.of("../ppmr-linux/src/test/resources");
    private static final int MOST_BYTES = 8192;

    private static Mutator lines(String... files) throws IOException {
        List<byte[]> valid = new ArrayList<>();
        for (String file : files) {
            for (String line : Files.readAllLines(RECORDED.resolve(file), StandardCharsets.ISO_8859_1)) {
                valid.add(line.getBytes(StandardCharsets.ISO_8859_1));
            }
        }
        return new Mutator(
                valid,
                MOST_BYTES,
                "-",
                " ",
                ":",
                ")",
                "(",
                "\\040",
                "\\",
                "99999999999999999999",
                "-1",
                " - ",
                "0x7f",
                "/");
    }

    private static Fuzz fuzz(FuzzPlan plan, Mutator mutator) {
        return new Fuzz(plan, mutator, List.of(IOException.class)).allocatesAtMost(256 * 1024, 1024);
    }

    private static String text(byte[] input) {
        return new String(input, StandardCharsets.ISO_8859_1);
    }

    private static Fuzz mounts() throws IOException {
        return fuzz(FuzzPlan.MOUNTS, lines("linux-6.18/mountinfo"));
    }

    private static void mount(byte[] input) throws IOException {
        requireTaken(MountEntry.parse(text(input)));
    }

    private static Fuzz mappings() throws IOException {
        return fuzz(FuzzPlan.MAPPINGS, lines("linux-3.10/pid-maps", "linux-6.18/pid-maps"));
    }

    private static void mapping(byte[] input) throws IOException {
        requireTaken(MappingLine.parse(text(input)));
    }

    private static Fuzz stats() throws IOException {
        return new Fuzz(
                FuzzPlan.PROCESS_STATS,
                lines("linux-3.10/pid-stat", "linux-6.18/pid-stat"),
                List.of(IllegalArgumentException.class));
    }

    private static void stat(byte[] input) {
        ProcStat.parse(text(input));
    }

    @Test
    void shouldReadOrPassOverEveryMount() throws Exception {
        mounts().inTheGate(KernelTextFuzzTest::mount);
    }

    @Test
    void shouldReadOrPassOverEveryMapping() throws Exception {
        mappings().inTheGate(KernelTextFuzzTest::mapping);
    }

    @Test
    void shouldReadOrRefuseEveryProcess() throws Exception {
        stats().inTheGate(KernelTextFuzzTest::stat);
    }

    @Test
    @Tag("soak")
    @Timeout(value = 30, unit = TimeUnit.MINUTES)
    void shouldReadOrPassOverHundredsOfThousandsOfMountsMappingsAndProcesses() throws Exception {
        mounts().forLong(KernelTextFuzzTest::mount);
        mappings().forLong(KernelTextFuzzTest::mapping);
        stats().forLong(KernelTextFuzzTest::stat);
    }

    private static void requireTaken(Optional<?> parsed) throws IOException {
        if (parsed.isEmpty()) {
            throw new IOException("the line is passed over");
        }
    }
}
