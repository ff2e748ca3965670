package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer.RestartTask;
import io.ppmr.checkpoint.CheckpointerSettings.NamespacePolicy;
import io.ppmr.linux.ProcessIdentity;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Tests that restored ranks outlive the service that restored them. A child JVM restarts one, and is then killed with
 * SIGKILL.
 */
@Timeout(180)
class ServiceDeathIT {
    private JobFixture fixture;
    private Path images;

    @BeforeEach
    void setUp() throws Exception {
        fixture = new JobFixture();
        images = fixture.userDirectory("images");
    }

    @AfterEach
    void tearDown() throws Exception {
        if (fixture != null) {
            fixture.close();
        }
    }

    private static Checkpointer checkpointer(String which, NativePrograms programs) throws CheckpointException {
        return which.equals("criu")
                ? CheckpointerSettings.Criu.of(CriuInstall.program()).create("criu", programs)
                : new CheckpointerSettings.Blcr(
                                programs.directory().resolve("cr_checkpoint").toString(),
                                programs.directory().resolve("cr_restart").toString(),
                                false,
                                NamespacePolicy.AUTO)
                        .create("blcr", programs);
    }

    /** The child JVM restarts a rank, prints its processes and then its helper processes, and waits to be killed. */
    static final class Service {
        private Service() {}

        public static void main(String[] arguments) throws Exception {
            NativePrograms programs = NativePrograms.fromSystemProperty();
            JobUser user = new JobUser(Integer.parseInt(arguments[2]), Integer.parseInt(arguments[2]));
            Path images = Path.of(arguments[1]);
            HeldRank held = JobFixture.finish(checkpointer(arguments[0], programs)
                    .restart(new RestartTask(0, user, images, images.resolveSibling("work-child"), JobFixture.LIMIT)));
            StringBuilder text = new StringBuilder();
            held.processes().forEach(process -> text.append(process.pid()).append('\n'));
            text.append("companions\n");
            held.helperProcesses().forEach(process -> text.append(process.pid()).append('\n'));
            Path part = images.resolveSibling("held.part");
            Files.writeString(part, text);
            Files.move(part, images.resolveSibling("held"));
            new CountDownLatch(1).await();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"criu"})
    void shouldKeepRestoredProcessesWhenTheServiceIsKilled(String which) throws Exception {
        String program = which.equals("criu") ? "plain-job" : "selfckpt-job";
        // This comes before the job, because unpacking CRIU can take longer than the job runs.
        Checkpointer checkpointer = checkpointer(which, fixture.programs);
        JobFixture.Job job =
                fixture.start(program, "a", "--size", "8m", "--passes", "160", "--seed", "3", "--pace", "50");
        HeldRank original = JobFixture.finish(checkpointer.checkpoint(fixture.checkpoint(0, job.root(), images, "c")));
        original.end(JobFixture.LIMIT);

        Process service = startService(which);
        try {
            Path report = fixture.base.resolve("held");
            assertTrue(
                    Polling.until(JobFixture.LIMIT, () -> Files.exists(report) || !service.isAlive())
                            && Files.exists(report),
                    () -> "the service has not restored the rank; see " + fixture.base);
            List<ProcessIdentity> processes = new ArrayList<>();
            List<ProcessIdentity> companions = new ArrayList<>();
            List<ProcessIdentity> target = processes;
            for (String line : Files.readAllLines(report)) {
                if (line.equals("companions")) {
                    target = companions;
                } else {
                    target.add(fixture.table.of(Integer.parseInt(line)));
                }
            }
            assertEquals(1, companions.size());
            service.destroyForcibly().waitFor();

            HeldRank adopted = new HeldRank(0, processes, companions);
            adopted.requireHeld();
            assertTrue(fixture.table.isAlive(companions.get(0)));
            adopted.release();
            fixture.requireResult(job);
            fixture.requireNothingLeft();
        } finally {
            service.destroyForcibly().waitFor();
        }
    }

    /** The rows that the gate leaves out. */
    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {"blcr"})
    void shouldKeepRestoredProcessesWhenTheServiceIsKilledAsWell(String which) throws Exception {
        shouldKeepRestoredProcessesWhenTheServiceIsKilled(which);
    }

    private Process startService(String which) throws Exception {
        List<String> command = List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-cp",
                System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                "-Dppmr.native.dir=" + fixture.bin,
                "-Dppmr.criu.dir=" + System.getProperty("ppmr.criu.dir"),
                "-Dppmr.criu.install=" + System.getProperty("ppmr.criu.install"),
                Service.class.getName(),
                which,
                images.toString(),
                Integer.toString(fixture.user.uid()));
        Process service = new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(fixture.base.resolve("service.out").toFile())
                .start();
        assertTrue(Polling.until(Duration.ofSeconds(1), service::isAlive));
        return service;
    }
}
