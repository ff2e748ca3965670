package io.ppmr.daemon.part;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.daemon.control.ControlRequest;
import io.ppmr.daemon.jobs.ConfiguredJob;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.daemon.jobs.JobSource;
import io.ppmr.migration.RankSurroundings;
import io.ppmr.protocol.control.Finding;
import io.ppmr.transport.auth.PeerAuthenticator;
import io.ppmr.transport.auth.PreSharedKey;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class ServicePartTest {
    private static final PeerAuthenticator KEY = new PreSharedKey(new byte[32]);
    private static final ServicePart.Node NODE =
            new ServicePart.Node(new NativePrograms(Path.of("/nowhere")), Map.of(), KEY, new SimpleMeterRegistry());

    /** A part whose only job has its own name. */
    private record Sample(String name, boolean takesJobs) implements ServicePart.Configured {
        @Override
        public Map<String, List<String>> rootsCommands() {
            return Map.of(name + ".program", List.of(name));
        }

        @Override
        public List<Finding> findings(PeerAuthenticator key) {
            return takesJobs ? List.of(Finding.ok(name, "it is well")) : List.of();
        }

        @Override
        public ServicePart.Running open(ServicePart.Node node) {
            return new ServicePart.Running() {
                @Override
                public Map<String, ControlRequest<?>> requests() {
                    return Map.of(name + "_list", new ControlRequest<>(ControlRequest.Plain.class, true, (a, b) -> {}));
                }

                @Override
                public Optional<JobSource> jobs() {
                    return Optional.of(new OneJob(new JobName(1, name)));
                }
            };
        }
    }

    private record OneJob(JobName name) implements JobSource {
        @Override
        public List<JobName> names() {
            return List.of(name);
        }

        @Override
        public List<JobName> names(String user) {
            return names();
        }

        @Override
        public boolean isOwnedBy(String wanted, String user) {
            return wanted.equals(name.name());
        }

        @Override
        public List<JobName> named(String wanted, Optional<String> onlyOf) {
            return isOwnedBy(wanted, "") ? names() : List.of();
        }

        @Override
        public Optional<ConfiguredJob> find(JobName job) {
            return Optional.empty();
        }
    }

    private static ConfiguredParts parts(Sample... samples) {
        Map<String, ServicePart.Configured> all = new LinkedHashMap<>();
        for (Sample sample : samples) {
            all.put(sample.name(), sample);
        }
        return new ConfiguredParts(all);
    }

    @Test
    void shouldMoveNothingAndAnswerNothingWhenThereIsNoPart() {
        ConfiguredParts none = parts();
        RunningParts running = none.open(NODE);
        assertFalse(none.isForUsers());
        assertFalse(none.takesJobs());
        assertEquals(Map.of(), none.rootsCommands());
        assertEquals(Map.of(), none.findings(KEY));
        assertEquals(Map.of(), running.requests());
        assertEquals(List.of(), running.jobs().names());
        assertFalse(running.jobs().taken());
        assertSame(RankSurroundings.NONE, running.surroundings());
    }

    @Test
    void shouldGiveWhatAllPartsGiveWithTheJobsOfTriggersFirst() throws Exception {
        ConfiguredParts two = parts(new Sample("a", false), new Sample("b", true));
        RunningParts running = two.open(NODE);
        assertTrue(two.takesJobs());
        assertEquals(Map.of("a.program", List.of("a"), "b.program", List.of("b")), two.rootsCommands());
        assertEquals(List.of("b"), List.copyOf(two.findings(KEY).keySet()), "those that found something");
        assertEquals(
                List.of("a_list", "b_list"),
                running.requests().keySet().stream().sorted().toList());
        assertEquals(
                List.of(new JobName(1, "b"), new JobName(1, "a")),
                running.jobs().names());
        assertEquals(Optional.of(new JobName(1, "a")), running.jobs().named("a", Optional.empty()));
        assertTrue(running.jobs().isOwnedBy("b", "user"));
        assertFalse(running.jobs().isOwnedBy(null, "user"), "the trigger's");
    }
}
