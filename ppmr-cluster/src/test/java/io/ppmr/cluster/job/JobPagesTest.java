package io.ppmr.cluster.job;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.job.JobQuestion.Answer;
import io.ppmr.cluster.message.ClusterMessage;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.Test;

/** Lists of jobs that do not fit a message, of the table that controllers use. */
class JobPagesTest {
    private static final int JOBS = 300;

    private final JobTable table = new JobTable(
            new JobTable.JobLimits(
                    2,
                    Duration.ofMinutes(1),
                    Duration.ofMinutes(10),
                    new CheckpointBudget(0.01, Optional.empty(), Duration.ofMinutes(1), 2),
                    4,
                    1L << 20),
            new StillSurroundings(),
            RandomGenerator.getDefault());
    private final AtomicInteger pages = new AtomicInteger();

    private static JobRecords.StoredJob stored(JobName name, Map<String, Set<String>> places) {
        JobSet set =
                new JobSet("1-1-00000000", 1, 1, "0".repeat(24), 1L << 40, 5, 4, 3, 1L << 40, JobSet.SetState.LOCAL);
        return new JobRecords.StoredJob(
                1,
                new String(
                        JobRecord.of("0a", name, 4096, JobRecord.JobSchedule.NONE)
                                .encode(),
                        StandardCharsets.UTF_8),
                Map.of(0L, places),
                Map.of(set.id(), set.encode()));
    }

    private static Map<String, Set<String>> places(int nodes) {
        Map<String, Set<String>> places = new TreeMap<>();
        for (int node = 0; node < nodes; node++) {
            Set<String> pods = new TreeSet<>();
            for (int pod = 0; pod < 4; pod++) {
                pods.add("rank-" + node + "-" + pod);
            }
            places.put("n%04d.cluster.example.org".formatted(node), pods);
        }
        return places;
    }

    private void begin(Map<String, JobRecords.StoredJob> jobs) {
        table.begin(null, jobs, Map.of());
    }

    private void beginMany() {
        Map<String, JobRecords.StoredJob> jobs = new TreeMap<>();
        for (int i = 0; i < JOBS; i++) {
            JobName name = new JobName(1000 + i % 2, "job-" + i);
            jobs.put(JobKey.of(name), stored(name, places(4)));
        }
        begin(jobs);
    }

    /** Asks the table as services do: each question and each answer has one frame. */
    private Answer ask(JobQuestion question) {
        AtomicReference<Answer> answer = new AtomicReference<>();
        try {
            ClusterMessage.AskJobs asked = (ClusterMessage.AskJobs)
                    ClusterMessage.read(new ClusterMessage.AskJobs(question.kind(), question.text()).frame(1), 0);
            table.ask(JobQuestion.parse(asked.kind(), asked.text()).orElseThrow(), answer::set);
            ClusterMessage.JobsAnswer sent = (ClusterMessage.JobsAnswer) ClusterMessage.read(
                    new ClusterMessage.JobsAnswer(answer.get().text()).frame(1), 0);
            pages.incrementAndGet();
            return Answer.parse(sent.text()).orElseThrow();
        } catch (IOException e) {
            throw new IllegalStateException("it does not fit a frame", e);
        }
    }

    private List<JobView> all(JobName job, Integer uid) throws Exception {
        return JobPages.request(this::ask, job, uid);
    }

    @Test
    void shouldShowEachOfManyJobsOnceAndWhole() throws Exception {
        beginMany();
        List<JobView> jobs = all(null, null);
        assertEquals(JOBS, jobs.size());
        assertEquals(JOBS, jobs.stream().map(JobView::job).distinct().count());
        assertTrue(jobs.stream().allMatch(job -> job.places().equals(places(4))), "all places are there");
        assertTrue(pages.get() > 1, "they have more than one page");
        assertEquals(JOBS / 2, all(null, 1001).size());
        assertTrue(all(null, 1001).stream().allMatch(job -> job.job().startsWith("1001/")));
        assertEquals(1, all(new JobName(1000, "job-2"), 1000).size());
        assertEquals(List.of(), all(new JobName(1000, "job-2"), 1001));
    }

    @Test
    void shouldShowAJobWholeWhenItsPlacesFillSeveralPages() throws Exception {
        JobName large = new JobName(1000, "large");
        JobName next = new JobName(1000, "next");
        begin(Map.of(JobKey.of(large), stored(large, places(1024)), JobKey.of(next), stored(next, places(2))));
        List<JobView> jobs = all(null, null);
        assertEquals(
                List.of("1000/large", "1000/next"),
                jobs.stream().map(JobView::job).toList());
        assertEquals(places(1024), jobs.get(0).places());
        assertEquals(places(2), jobs.get(1).places());
        assertEquals(4096, jobs.get(0).registered());
        assertTrue(pages.get() > 1, "they have more than one page");
        assertEquals(places(1024), all(large, null).get(0).places());
    }

    @Test
    void shouldEndWhenTheJobOfAPageIsRemovedMeanwhile() throws Exception {
        JobName large = new JobName(1000, "large");
        JobName next = new JobName(1000, "next");
        begin(Map.of(JobKey.of(large), stored(large, places(1024)), JobKey.of(next), stored(next, places(2))));
        Answer first = ask(new JobQuestion.Show(null, null, null));
        begin(Map.of(JobKey.of(next), stored(next, places(2))));
        Answer second = ask(new JobQuestion.Show(null, null, first.next()));
        assertEquals(Optional.empty(), Optional.ofNullable(second.next()));
        assertEquals(places(2), second.jobs().get(0).places());
    }

    @Test
    void shouldEndWhenAControllerNeverSendsTheLastPage() {
        IOException endless = assertThrows(
                IOException.class,
                () -> JobPages.request(question -> Answer.ofJobs(List.of(), Optional.of("again")), null, null));
        assertTrue(endless.getMessage().contains("Remedy"), endless.getMessage());
        RequestException refused = assertThrows(
                RequestException.class, () -> JobPages.request(question -> Answer.refused("no"), null, null));
        assertEquals("no", refused.getMessage());
    }
}
