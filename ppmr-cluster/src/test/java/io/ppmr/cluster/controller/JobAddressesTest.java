package io.ppmr.cluster.controller;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.job.JobQuestion;
import io.ppmr.cluster.job.JobQuestion.Answer;
import io.ppmr.daemon.jobs.JobName;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Tests the addresses of a job's pods, with services that answer at once. */
class JobAddressesTest {
    private static final JobName RING = new JobName(1, "ring");
    private static final JobName OTHER = new JobName(1, "other");
    private static final long ROUND = 3;

    private final List<String> asked = new ArrayList<>();
    private final Map<String, Map<String, String>> pods = new HashMap<>(Map.of(
            "n1", Map.of("p0", "10.20.0.11 fd00:20::a14:b", "p1", "10.20.0.12"), "n2", Map.of("p2", "10.20.0.13")));
    private long round = ROUND;

    private final JobAddresses addresses = new JobAddresses(
            (job, number) -> job.equals(RING) && number == round ? Optional.of(pods.keySet()) : Optional.empty(),
            new AskedServices() {
                @Override
                public boolean isOff(String host) {
                    return false;
                }

                @Override
                public Answer ask(String host, String role, JobQuestion question) throws IOException {
                    asked.add(host + " " + role + " " + question.kind());
                    if (pods.get(host).isEmpty()) {
                        throw new IOException("its source has no session in the cluster");
                    }
                    return Answer.ofPods(pods.get(host));
                }
            },
            Runnable::run);

    private Answer find(JobName job, long number, Set<String> peers) {
        List<Answer> answers = new ArrayList<>();
        addresses.find(new JobQuestion.FindForeign(job, number, peers), answers::add);
        assertEquals(1, answers.size());
        return answers.get(0);
    }

    @Test
    void shouldReturnTheAddressesOfNoPodWhenASourceAsks() {
        Answer answer = find(RING, ROUND, Set.of("10.20.0.12", "10.20.0.13", "fd00:20::a14:b", "10.20.0.209"));
        assertNull(answer.refusal());
        assertEquals(Set.of("10.20.0.209"), answer.pods().keySet());
        assertEquals(Set.of(), find(RING, ROUND, Set.of("10.20.0.11")).pods().keySet());
    }

    @Test
    void shouldAskEachNodeOnceInACheckpointWhenAllSourcesAsk() {
        for (int i = 0; i < 100; i++) {
            find(RING, ROUND, Set.of("10.20.0.11"));
        }
        assertEquals(Set.of("n1 source addresses", "n2 source addresses"), new TreeSet<>(asked));
        assertEquals(2, asked.size());
        round++;
        pods.put("n2", Map.of("p2", "10.20.0.14"));
        assertEquals(
                Set.of("10.20.0.13"),
                find(RING, round, Set.of("10.20.0.13", "10.20.0.14")).pods().keySet());
        assertEquals(4, asked.size());
    }

    @Test
    void shouldRefuseByNameAndAskAgainLaterWhenANodeDoesNotAnswer() {
        Map<String, String> answered = pods.put("n2", Map.of());
        String refusal = find(RING, ROUND, Set.of("10.20.0.11")).refusal();
        assertTrue(refusal.contains("node n2: its source has no session"), refusal);
        assertTrue(refusal.contains("Remedy: "), refusal);
        pods.put("n2", answered);
        assertNull(find(RING, ROUND, Set.of("10.20.0.11")).refusal());
    }

    @Test
    void shouldRefuseWhenTheQuestionIsOfAnotherCheckpointOrTooLong() {
        assertTrue(find(OTHER, ROUND, Set.of("10.20.0.11")).refusal().contains("is not in checkpoint 3"));
        assertTrue(find(RING, ROUND - 1, Set.of("10.20.0.11")).refusal().contains("is not in checkpoint 2"));
        Set<String> many = IntStream.rangeClosed(0, JobQuestion.FindForeign.MOST_ADDRESSES)
                .mapToObj(Integer::toString)
                .collect(Collectors.toSet());
        assertTrue(find(RING, ROUND, many).refusal().contains("invalid form"));
        assertTrue(find(RING, ROUND, Set.of("x".repeat(46))).refusal().contains("invalid form"));
        assertEquals(List.of(), asked, "no node is asked for any of these");
        many.remove("0");
        Answer answer = find(RING, ROUND, many);
        assertEquals(20, answer.pods().size(), "an answer is short");
    }
}
