package io.ppmr.cluster.controller;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.cluster.job.JobMembers;
import io.ppmr.cluster.job.JobQuestion;
import io.ppmr.cluster.job.JobSet;
import io.ppmr.cluster.job.JobTable.RestartFacts;
import io.ppmr.cluster.message.ClusterMessage;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.daemon.part.MemberJobs;
import io.ppmr.daemon.part.NodeJobs;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.keep.ImageManifest;
import io.ppmr.migration.keep.SetDirectory;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The plan of a restart of six hundred pods, whose images are in one directory. */
class RestartImagesTest {
    private static final int PODS = 600;
    private static final String SET = "1-1-00000000";
    private static final JobName JOB = new JobName(1000, "ring");
    private static final List<String> NODES =
            IntStream.range(0, 30).mapToObj(RestartImagesTest::node).toList();

    @TempDir
    private Path folder;

    private final AtomicInteger questions = new AtomicInteger();
    private final Map<String, String> digests = new TreeMap<>();
    private JobMembers members;

    /** Names of nodes have 64 characters at most. */
    private static String node(int number) {
        return "node-%02d.".formatted(number) + "x".repeat(56);
    }

    /** Names of pods have 32 characters at most. */
    private static String pod(int number) {
        return "p-%03d-".formatted(number) + "x".repeat(26);
    }

    @BeforeEach
    void writeImages() throws Exception {
        SetDirectory images = new SetDirectory(folder, JOB.uid(), JOB.name());
        for (int i = 0; i < PODS; i++) {
            Path image = Files.createDirectories(images.image(SET, pod(i)));
            ImageManifest manifest = new ImageManifest(
                    "2",
                    JOB.name(),
                    "criu",
                    new JobUser(JOB.uid(), 100),
                    "checkpoint-" + i,
                    1,
                    5,
                    NODES.get(i % NODES.size()),
                    Map.of(0, List.of(new ProcessIdentity("boot", 1, 2, 3))),
                    List.of(),
                    Optional.empty());
            Files.writeString(image.resolve(ImageManifest.FILE_NAME), manifest.text());
            digests.put(pod(i), images.digest(SET, pod(i)));
        }
        members = new JobMembers(
                "n0",
                new NodeJobs(new Directory(folder), Optional.empty(), Optional.empty()),
                folder,
                question -> JobQuestion.Answer.OK);
    }

    /** A node without pods of the job, with a directory of checkpoints. */
    private record Directory(Path checkpoints) implements MemberJobs {
        @Override
        public boolean end(JobName job) {
            return true;
        }

        @Override
        public List<MemberJob> here() {
            return List.of();
        }

        @Override
        public List<Path> directories() {
            return List.of(checkpoints);
        }

        @Override
        public List<Path> copyDirectories() {
            return List.of();
        }

        @Override
        public Map<String, Set<String>> addresses(JobName job) {
            return Map.of();
        }

        @Override
        public Set<String> arriving(JobName job) {
            return Set.of();
        }

        @Override
        public void onChange(Runnable changed) {
            // Nothing changes here.
        }
    }

    /** A cluster in which no node is off, and no pod runs. */
    private abstract static class IdleCluster implements QueriedCluster {
        @Override
        public Map<String, Set<String>> present() {
            return Map.of();
        }

        @Override
        public Optional<String> findHostAt(String address) {
            return Optional.empty();
        }

        @Override
        public List<String> spares(Set<String> without) {
            return List.of();
        }

        @Override
        public Executor workers() {
            return Runnable::run;
        }

        @Override
        public boolean isOff(String host) {
            return false;
        }
    }

    /** The services of all nodes, which share the directory. Each question and each answer has one frame. */
    private final class SharedDirectory extends IdleCluster {
        private final Map<ClusterMessage.AskJobs, String> answers = new HashMap<>();

        @Override
        public JobQuestion.Answer ask(String host, String role, JobQuestion question) throws IOException {
            questions.incrementAndGet();
            ClusterMessage.AskJobs asked = (ClusterMessage.AskJobs)
                    ClusterMessage.read(new ClusterMessage.AskJobs(question.kind(), question.text()).frame(1), 0);
            // All nodes see the same directory, so their answers are the same.
            String answer = answers.computeIfAbsent(asked, same -> members.answer(
                            JobQuestion.parse(same.kind(), same.text()).orElseThrow())
                    .text());
            ClusterMessage.JobsAnswer sent =
                    (ClusterMessage.JobsAnswer) ClusterMessage.read(new ClusterMessage.JobsAnswer(answer).frame(1), 0);
            return JobQuestion.Answer.parse(sent.text()).orElseThrow();
        }
    }

    private static String digestOf(Map<String, String> images) throws Exception {
        String lines = images.entrySet().stream()
                .map(image -> image.getKey() + " " + image.getValue() + "\n")
                .collect(Collectors.joining());
        byte[] digest = MessageDigest.getInstance("SHA-256").digest(lines.getBytes(StandardCharsets.UTF_8));
        return HexFormat.of().formatHex(digest, 0, 12);
    }

    private RestartPlan plan(QueriedCluster services) throws Exception {
        JobSet set = new JobSet(SET, 1, 1, digestOf(digests), PODS, 1, 1, 1, 1, JobSet.SetState.LOCAL);
        return new RestartPlan(
                JOB,
                new RestartFacts(PODS, 0, Optional.of(set), Map.of(), Map.of(), false, List.of(), 1),
                services,
                Set.of(),
                false);
    }

    @Test
    void shouldFindEachImageWhenTheyFillSeveralPages() throws Exception {
        Map<String, Set<String>> wanted = new TreeMap<>();
        for (int i = 0; i < PODS; i++) {
            wanted.computeIfAbsent(NODES.get(i % NODES.size()), node -> new TreeSet<>())
                    .add(pod(i));
        }
        assertEquals(wanted, plan(new SharedDirectory()).make(List.of(), "n0"));
        Map<String, Set<String>> elsewhere = plan(new SharedDirectory()).make(NODES.subList(0, 2), "n0");
        assertEquals(Set.copyOf(NODES.subList(0, 2)), elsewhere.keySet());
        assertEquals(PODS, elsewhere.values().stream().mapToInt(Set::size).sum());
        // The node on which it was ordered, thirty nodes, and two.
        assertTrue(questions.get() > 33, () -> "a node's images have more than one page: " + questions);
    }

    @Test
    void shouldBeRefusedWhenANodeNeverSendsItsLastPage() throws Exception {
        QueriedCluster endless = new IdleCluster() {
            @Override
            public JobQuestion.Answer ask(String host, String role, JobQuestion question) {
                return JobQuestion.Answer.parse("{\"pods\":{\"p1\":\"d n1\"},\"next\":\"p1\"}")
                        .orElseThrow();
            }
        };
        RequestException refused =
                assertThrows(RequestException.class, () -> plan(endless).make(List.of("n1"), "n1"));
        assertTrue(refused.getMessage().contains("does not end"), refused.getMessage());
    }
}
