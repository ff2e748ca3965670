package io.ppmr.slurm;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.fuzz.Fuzz;
import io.ppmr.fuzz.FuzzPlan;
import io.ppmr.fuzz.Mutator;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Tests what a job's user writes into the file by which a rank is announced. */
class AnnouncementFuzzTest {
    private static final int MOST_BYTES = 5000;

    @TempDir
    private Path directory;

    private final Checkpointer checkpointer =
            CheckpointerSettings.Criu.of(List.of("criu")).create("criu", new NativePrograms(Path.of("/nowhere")));
    private final ProcessIdentity self =
            new ProcessTable().find((int) ProcessHandle.current().pid()).orElseThrow();
    private AnnouncedJobs jobs;
    private Path announcement;
    private JobName own;

    @BeforeEach
    void announce() throws IOException {
        jobs = new AnnouncedJobs(directory, Map.of("criu", checkpointer), Set.of("criu"));
        jobs.prepare();
        Path folder = jobs.folderOf(ProcessHandle.current().info().user().orElseThrow());
        own = new JobName(Integer.parseInt(folder.getFileName().toString()), "slurm-7.0");
        announcement = Files.createDirectory(folder.resolve("slurm-7.0")).resolve("rank-0");
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private Fuzz announcements() {
        String valid =
                "pid = " + self.pid() + "\nstart_ticks = " + self.startTimeTicks() + "\ncheckpointer = \"criu\"\n";
        Mutator mutator = new Mutator(
                List.of(bytes(valid), bytes(valid + "spares = [\"node-7:7411\", \"node-8:7411\"]\n")),
                MOST_BYTES,
                "[",
                "]",
                "{",
                "}",
                "[[",
                "a.",
                "a={",
                "a=[",
                "[a.b]\n",
                "[[a]]\n",
                "\"",
                "\"\"\"",
                "'''",
                "\\u",
                "\\U0010FFFF",
                "\\ud800",
                "\\UFFFFFFFF",
                "\n",
                "#",
                "=",
                ".",
                ",",
                "0x",
                "1e",
                "inf",
                "nan",
                "9223372036854775808",
                "1979-05-27T07:32:00Z",
                "99:99:99",
                "1979-02-31",
                "0001-01-01",
                "pid = ",
                "spares = ",
                "pid.a = 1\n",
                ":99999",
                "true");
        return new Fuzz(FuzzPlan.ANNOUNCEMENTS, mutator, List.of(RequestException.class))
                .allocatesAtMost(256 * 1024, 512);
    }

    private void find(byte[] input) throws Exception {
        // An overwritten file is flushed to the disk at once.
        Files.deleteIfExists(announcement);
        Files.write(announcement, input);
        if (jobs.find(own).isEmpty()) {
            throw new RequestException("no process of the rank runs");
        }
    }

    @Test
    void shouldTakeOrRefuseByNameWhateverIsAnnounced() throws Exception {
        announcements().inTheGate(this::find);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 60, unit = TimeUnit.MINUTES)
    void shouldTakeOrRefuseByNameForLongWhateverIsAnnounced() throws Exception {
        announcements().forLong(this::find);
    }
}
