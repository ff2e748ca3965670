package io.ppmr.checkpoint;

import io.ppmr.daemon.jobs.ConfiguredJob;
import io.ppmr.fuzz.Fuzz;
import io.ppmr.fuzz.FuzzPlan;
import io.ppmr.fuzz.Mutator;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Tests what a job's user, or a restart command, writes into a PID file that a service reads. */
class PidFileFuzzTest {
    private static final int MOST_BYTES = 5000;
    private static final JobUser USER = new JobUser(0, 0);

    @TempDir
    private Path directory;

    private final Checkpointer checkpointer =
            CheckpointerSettings.Criu.of(List.of("criu")).create("criu", new NativePrograms(Path.of("/nowhere")));

    private static Fuzz fuzz() {
        List<byte[]> valid = Stream.of("4711\n", "2\n", " 214748364 \n")
                .map(text -> text.getBytes(StandardCharsets.UTF_8))
                .toList();
        Mutator mutator = new Mutator(
                valid,
                MOST_BYTES,
                "0",
                "-1",
                "+7",
                "2147483648",
                "9999999999",
                "\n",
                " ",
                "\u0662\u0663",
                "1e3",
                "0x10");
        return new Fuzz(FuzzPlan.PID_FILES, mutator, List.of(IOException.class, CheckpointException.class));
    }

    private void read(byte[] input) throws Exception {
        Path file = directory.resolve("pid");
        // An overwritten file is flushed to the disk at once.
        Files.deleteIfExists(file);
        Files.write(file, input);
        // A configured one is read by a thread of its own, which would be most of the time.
        boolean configured = input.length % 16 == 5;
        int pid = configured
                ? job(file).resolve().ranks().get(0).pid()
                : RestartSteps.readPid(file, USER, true)
                        .orElseThrow(() -> new IOException("there is nothing in " + file + " yet"));
        if (pid < 1) {
            throw new AssertionError("PID " + pid);
        }
    }

    private ConfiguredJob job(Path file) {
        return new ConfiguredJob("j", USER, checkpointer, List.of(new ConfiguredJob.RankSource(0, 0, file)));
    }

    @Test
    void shouldTakeOrRefuseByNameWhateverAPidFileHolds() throws Exception {
        fuzz().inTheGate(this::read);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 60, unit = TimeUnit.MINUTES)
    void shouldTakeOrRefuseByNameForLongWhateverAPidFileHolds() throws Exception {
        fuzz().forLong(this::read);
    }
}
