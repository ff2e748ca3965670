package io.ppmr.pods;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.daemon.jobs.ConfiguredJob;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.daemon.service.Migrations;
import io.ppmr.daemon.service.MoveOptions;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.MigrationQueue;
import io.ppmr.protocol.control.PodAddresses;
import io.ppmr.protocol.control.PodSpecification;
import io.ppmr.transport.auth.PreSharedKey;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Pods in the records of a node, each with this process as its init. */
class PodJobsTest {
    private static final int USER = 4711;
    private static final int OTHER = 4712;

    @TempDir
    private Path directory;

    private final ProcessIdentity self =
            new ProcessTable().find((int) ProcessHandle.current().pid()).orElseThrow();
    private PodJobs jobs;

    private static PodTemplate template(String name, Optional<String> checkpointer) {
        return new PodTemplate(
                name,
                new PodTemplate.PodNetwork("br0", 24, Optional.empty(), Optional.empty(), "02:50", 1500),
                List.of(),
                new PodTemplate.Mounts(List.of(), List.of()),
                new PodTemplate.PodLimits(1, 1, Optional.empty(), Optional.empty()),
                checkpointer,
                Optional.empty(),
                Optional.empty(),
                PodTemplate.OnLoss.HOLD);
    }

    private static Checkpointer tool(String name) {
        return CheckpointerSettings.Criu.of(List.of("criu")).create(name, new NativePrograms(Path.of("/nowhere")));
    }

    @BeforeEach
    void setUp() {
        Map<String, PodTemplate> templates = Map.of(
                "usual", template("usual", Optional.of("criu")),
                "newer", template("newer", Optional.of("criu2")),
                "fixed", template("fixed", Optional.empty()));
        Pods pods = new Pods(
                templates,
                new PodSettings(directory, List.of("crun"), PodSettings.Cgroups.DISABLED, List.of()),
                new NativePrograms(Path.of("/nowhere")),
                Map.of(),
                new PreSharedKey(new byte[32]));
        jobs = new PodJobs(pods, Map.of("criu", tool("criu"), "criu2", tool("criu2")));
    }

    private void pod(int uid, String name, String job, String template) throws IOException {
        PodRecord record = new PodRecord(
                new PodSpecification(name, job, template, List.of(), List.of("true")),
                uid,
                100,
                new PodAddresses("10.20.0.10", "", "02:50:0a:14:00:0a"),
                "br0",
                "ppmr0a14000a",
                List.of(),
                1,
                self,
                true,
                0,
                null);
        Path folder = Files.createDirectory(directory.resolve(uid + "-" + name));
        Files.write(folder.resolve("pod.json"), new ObjectMapper().writeValueAsBytes(record));
    }

    @Test
    void shouldBeOneJobOfTheirUserWhenPodsWereGivenIt() throws Exception {
        pod(USER, "second", "both", "usual");
        pod(USER, "first", "both", "usual");
        pod(USER, "alone", null, "usual");
        pod(OTHER, "stranger", "both", "usual");
        assertEquals(
                List.of(new JobName(USER, "alone"), new JobName(USER, "both"), new JobName(OTHER, "both")),
                jobs.names());
        ConfiguredJob both = jobs.find(new JobName(USER, "both")).orElseThrow();
        assertEquals(new JobUser(USER, 100), both.user());
        assertEquals(
                List.of("first", "second"),
                List.of(
                        both.pods().get(0).specification().name(),
                        both.pods().get(1).specification().name()));
        assertEquals(2, both.ranks().size());
        assertEquals(
                List.of("both"),
                both.pods().values().stream()
                        .map(pod -> pod.specification().job())
                        .distinct()
                        .toList());
        assertEquals(
                "alone",
                jobs.find(new JobName(USER, "alone"))
                        .orElseThrow()
                        .pods()
                        .get(0)
                        .specification()
                        .job());
        // A pod of a job is moved with it, and by no name of its own.
        assertEquals(Optional.empty(), jobs.find(new JobName(USER, "first")));
        assertEquals(List.of(new JobName(USER, "both")), jobs.named("both", Optional.of("" + USER)));
    }

    @Test
    void shouldTakeAPodWithoutAJobWhenItHasTheJobsName() throws Exception {
        pod(USER, "both", null, "usual");
        pod(USER, "other", "both", "usual");
        assertEquals(
                2, jobs.find(new JobName(USER, "both")).orElseThrow().ranks().size());
    }

    @Test
    void shouldBeRefusedByNameBeforeItIsMovedWhenACopyIsToBeKept() throws Exception {
        pod(USER, "alone", null, "usual");
        ConfiguredJob job = jobs.find(new JobName(USER, "alone")).orElseThrow();
        Migrations migrations = new Migrations(
                Map.of("alone", job), Optional.empty(), new MigrationQueue((id, order, cancellation, watcher) -> {
                    throw new AssertionError("it is moved");
                }));
        RequestException refusal = assertThrows(
                RequestException.class,
                () -> migrations.start(
                        "alone",
                        Optional.empty(),
                        new MoveOptions(List.of(), Optional.of(directory), OptionalLong.empty()),
                        "a test",
                        event -> {}));
        assertTrue(refusal.getMessage().contains("no pod can be restarted from a copy yet"), refusal.getMessage());
        assertEquals(Optional.empty(), migrations.state().running());
    }

    @Test
    void shouldBeRefusedByNameWhenPodsOfOneJobCannotMoveTogether() throws Exception {
        pod(USER, "first", "both", "usual");
        pod(USER, "second", "both", "newer");
        RequestException apart = assertThrows(RequestException.class, () -> jobs.find(new JobName(USER, "both")));
        assertTrue(apart.getMessage().contains("checkpointers criu and criu2"), apart.getMessage());
        pod(USER, "third", "both", "fixed");
        RequestException none = assertThrows(RequestException.class, () -> jobs.find(new JobName(USER, "both")));
        assertTrue(none.getMessage().contains("pod 4711/third is not moved"), none.getMessage());
    }
}
