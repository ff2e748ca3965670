package io.ppmr.cluster.controller;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.job.JobQuestion;
import io.ppmr.cluster.job.JobQuestion.Answer;
import io.ppmr.cluster.job.JobTable.RestartFacts;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Executor;
import org.junit.jupiter.api.Test;

/** The questions before a restart, in a cluster of four nodes. */
class RestartPlanTest {
    private static final JobName JOB = new JobName(1000, "ring");
    private static final String ADDRESS = "10.0.0.3:7411";

    /** The nodes that are not off, with the roles of those that have a session. */
    private final Map<String, Set<String>> present = new TreeMap<>(Map.of(
            "n1", Set.of("source", "target"),
            "n2", Set.of("source", "target"),
            "n3", Set.of("source", "target"),
            "n4", Set.of("target")));
    /** The answers of the nodes. */
    private final Map<String, Map<String, String>> answers = new HashMap<>();

    private boolean isUncertain;
    private List<String> moves = List.of();

    private final QueriedCluster services = new QueriedCluster() {
        @Override
        public boolean isOff(String host) {
            return host.startsWith("n") && !present.containsKey(host);
        }

        @Override
        public Answer ask(String host, String role, JobQuestion question) throws IOException {
            if (!present.getOrDefault(host, Set.of()).contains(role)) {
                throw new IOException("its " + role + " has no session in the cluster");
            }
            return Answer.ofPods(answers.getOrDefault(host, Map.of()));
        }

        @Override
        public Map<String, Set<String>> present() {
            return present;
        }

        @Override
        public Optional<String> findHostAt(String address) {
            return Optional.of("n3").filter(host -> address.equals(ADDRESS));
        }

        @Override
        public List<String> spares(Set<String> without) {
            return List.of();
        }

        @Override
        public Executor workers() {
            return task -> new Thread(task).start();
        }
    };

    /** Returns why the restart is refused. A plan that passes all questions finds no set. */
    private String refusal(String... awayOff) {
        Map<String, Set<String>> places = Map.of("n1", Set.of("p1"), "n2", Set.of("p2"));
        RestartFacts facts = new RestartFacts(2, 0, Optional.empty(), places, Map.of(), isUncertain, moves, 1);
        RestartPlan plan = new RestartPlan(JOB, facts, services, Set.of(awayOff), false);
        return assertThrows(RequestException.class, plan::requireNothingRuns).getMessage();
    }

    private void requireAccepted(String... awayOff) throws Exception {
        Map<String, Set<String>> places = Map.of("n1", Set.of("p1"), "n2", Set.of("p2"));
        RestartFacts facts = new RestartFacts(2, 0, Optional.empty(), places, Map.of(), isUncertain, moves, 1);
        new RestartPlan(JOB, facts, services, Set.of(awayOff), false).requireNothingRuns();
    }

    private static void requireWords(String words, String text) {
        assertTrue(text.contains(words), text);
    }

    @Test
    void shouldBeRefusedWhenAPodRunsOnANodeThatTheRecordDoesNotName() throws Exception {
        requireAccepted();
        answers.put("n4", Map.of("p1", ""));
        requireWords("pod p1 of job 1000/ring runs on node n4", refusal());
        answers.clear();
        moves = List.of("n2");
        requireWords("being moved from node n2", refusal());
    }

    @Test
    void shouldBeRefusedWhenPodsWereMovedWithoutARecordUnlessTheirNodeHasNone() throws Exception {
        answers.put("n1", Map.of("p1", ADDRESS));
        requireWords("was moved to n3, not recorded", refusal());
        requireWords("was moved to n3, not recorded", refusal("n1", "n4"));
        requireAccepted("n3");
        requireAccepted(ADDRESS);
        answers.put("n3", Map.of("p1", ""));
        requireWords("runs on node n3", refusal("n3"));
        present.remove("n3");
        requireAccepted();
    }

    @Test
    void shouldNeedAnAnswerOfEachNodeWhenOneThatIsOffHadPods() throws Exception {
        present.put("n3", Set.of());
        present.put("n4", Set.of());
        requireAccepted();
        present.remove("n1");
        String refusal = refusal();
        requireWords("moved to n3, n4 without a record", refusal);
        requireWords("--moved-away-is-off n3,n4", refusal);
        requireWords("moved to n4 without", refusal("n3"));
        requireAccepted("n3", "n4");
    }

    @Test
    void shouldNeedAnAnswerOfEachNodeWhenTheRecordIsUncertain() throws Exception {
        present.put("n4", Set.of());
        isUncertain = true;
        requireWords("moved to n4 without a record", refusal());
        // A node of the record must answer, or be off.
        present.put("n2", Set.of());
        requireWords("still run on node n2", refusal("n2", "n4"));
        assertEquals(4, present.size());
    }
}
