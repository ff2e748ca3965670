package io.ppmr.checkpoint;

import io.ppmr.fuzz.Fuzz;
import io.ppmr.fuzz.FuzzPlan;
import io.ppmr.fuzz.Mutator;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Tests whole tables of /proc, made out of those that kernels have written. */
class KernelTableFuzzTest {
    private static final Path RECORDED = Path.of("../ppmr-linux/src/test/resources");
    private static final int MOST_BYTES = 8192;
    private static final Set<Long> WANTED = Set.of(3468599L, 3468600L, 3468601L);

    @TempDir
    private Path folder;

    private Path smaps;

    @BeforeEach
    void setUp() {
        smaps = folder.resolve("smaps");
    }

    private static Fuzz fuzz(FuzzPlan plan, String... files) throws IOException {
        List<byte[]> valid = new ArrayList<>();
        for (String file : files) {
            byte[] whole = Files.readAllBytes(RECORDED.resolve(file));
            valid.add(whole.length > MOST_BYTES / 2 ? Arrays.copyOf(whole, MOST_BYTES / 2) : whole);
        }
        Mutator mutator = new Mutator(
                valid, MOST_BYTES, "\n", " ", ":", "-", "-1", "99999999999999999999", "0A", "FFFF", "nsems", " kB");
        // A row is discarded before the next one is read. A row can be one line end.
        return new Fuzz(plan, mutator, List.of(IOException.class)).allocatesAtMost(1 << 20, 1024);
    }

    private static BufferedReader reader(byte[] input) {
        return new BufferedReader(new StringReader(new String(input, StandardCharsets.ISO_8859_1)));
    }

    private static Fuzz objects() throws IOException {
        return fuzz(
                FuzzPlan.SYSTEM_V_OBJECTS,
                "linux-6.18/sysvipc-shm",
                "linux-6.18/sysvipc-msg",
                "linux-6.18/sysvipc-sem");
    }

    private static void objects(byte[] input) throws IOException {
        SystemVTable table = new SystemVTable(reader(input));
        int numbers = 0;
        for (SystemVTable.Row row = table.next(); row != null; row = table.next()) {
            for (String column : List.of("key", "shmid", "semid", "msqid", "nsems", "cpid", "lspid", "uid", "cuid")) {
                numbers += row.number(column).isPresent() ? 1 : 0;
            }
        }
        if (numbers == 0) {
            throw new IOException("nothing in it is understood");
        }
    }

    private static Fuzz sockets() throws IOException {
        return fuzz(FuzzPlan.SOCKETS, "linux-6.18/net-tcp", "linux-6.18/net-udp", "linux-6.18/net-tcp6");
    }

    private static void sockets(byte[] input) throws IOException {
        InternetSockets sockets = new InternetSockets(WANTED, 0);
        sockets.read("tcp", reader(input), new ScanDeadline(Duration.ofMinutes(1)));
        for (long inode : WANTED) {
            sockets.of(inode).ifPresent(sockets::hasAccepted);
        }
    }

    private static Fuzz memory() throws IOException {
        return fuzz(FuzzPlan.MEMORY, "linux-3.10/pid-smaps", "linux-6.18/pid-smaps");
    }

    private void memory(byte[] input) throws IOException {
        // An overwritten file is flushed to the disk at once.
        Files.deleteIfExists(smaps);
        Files.write(smaps, input);
        ResidentMemory.unfiledBytesBySmaps(folder);
    }

    @Test
    void shouldReadOrPassOverEveryRowOfSystemVObjects() throws Exception {
        objects().inTheGate(KernelTableFuzzTest::objects);
    }

    @Test
    void shouldReadOrPassOverEveryRowOfSockets() throws Exception {
        sockets().inTheGate(KernelTableFuzzTest::sockets);
    }

    @Test
    void shouldReadOrRefuseEveryMemory() throws Exception {
        memory().inTheGate(this::memory);
    }

    @Test
    @Tag("soak")
    @Timeout(value = 30, unit = TimeUnit.MINUTES)
    void shouldReadOrPassOverHundredsOfThousandsOfTables() throws Exception {
        objects().forLong(KernelTableFuzzTest::objects);
        sockets().forLong(KernelTableFuzzTest::sockets);
        memory().forLong(this::memory);
    }
}
