package io.ppmr.cluster.job;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.job.JobQuestion.Answer;
import io.ppmr.cluster.job.JobQuestion.MemberStep;
import io.ppmr.cluster.job.JobRecord.JobSchedule;
import io.ppmr.cluster.job.JobRecord.RoundOutcome;
import io.ppmr.daemon.jobs.JobName;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/** Runs regular checkpoints of many jobs at a controller, in simulated time; members answer by their reports. */
class RegularCheckpointsTest {
    private static final long STEP_MS = 500;

    /** An ensemble of one process. It keeps the records and their versions. */
    private static final class MemoryRecords implements JobRecords {
        private final Map<String, StoredJob> jobs = new TreeMap<>();

        @Override
        public Map<String, StoredJob> read() {
            return new TreeMap<>(jobs);
        }

        @Override
        public Optional<StoredJob> read(String key) {
            return Optional.ofNullable(jobs.get(key));
        }

        @Override
        public Written create(String key, byte[] record) {
            return jobs.putIfAbsent(key, new StoredJob(0, text(record), Map.of(), Map.of())) == null
                    ? Written.DONE
                    : Written.CHANGED;
        }

        private static String text(byte[] record) {
            return new String(record, java.nio.charset.StandardCharsets.UTF_8);
        }

        @Override
        public Written plan(String key, long layout, Map<String, Set<String>> places) {
            return Written.DONE;
        }

        @Override
        public Written write(String key, int version, JobChange change) {
            StoredJob job = jobs.get(key);
            if (job == null || job.version() != version) {
                return Written.CHANGED;
            }
            Map<String, Set<String>> places = new TreeMap<>(job.places().getOrDefault(change.layout(), Map.of()));
            places.putAll(change.places());
            Map<String, byte[]> sets = new TreeMap<>(job.sets());
            sets.putAll(change.newSets());
            sets.keySet().removeAll(change.oldSets());
            jobs.put(
                    key,
                    new StoredJob(
                            change.record().isPresent() ? version + 1 : version,
                            change.record().map(MemoryRecords::text).orElse(job.record()),
                            Map.of(change.layout(), places),
                            sets));
            return Written.DONE;
        }

        @Override
        public void removeLayouts(String key, Consumer<Map<Long, Map<String, Set<String>>>> keep) {
            throw new AssertionError("nothing is restarted here");
        }

        @Override
        public Written remove(String key, int version) {
            jobs.remove(key);
            return Written.DONE;
        }

        @Override
        public Written order(String host, Set<String> keys) {
            return Written.DONE;
        }

        @Override
        public Map<String, Set<String>> orders() {
            return Map.of();
        }
    }

    private long nowMs = 1000;
    private boolean isUp = true;
    private final MemoryRecords ensemble = new MemoryRecords();
    private JobTable table;

    private final class World extends StillSurroundings {
        @Override
        public boolean isUp(String host) {
            return isUp;
        }

        @Override
        public long nowNs() {
            return Duration.ofMillis(nowMs).toNanos();
        }
    }

    private void begin(CheckpointBudget budget) {
        table = new JobTable(
                new JobTable.JobLimits(2, Duration.ofSeconds(60), Duration.ofMinutes(30), budget, 4, 1L << 20),
                new World(),
                new SplittableRandom(1));
        table.begin(ensemble, ensemble.read(), Map.of());
    }

    private static CheckpointBudget budget(double overhead, int atOnce) {
        return new CheckpointBudget(overhead, Optional.empty(), Duration.ofSeconds(1), atOnce);
    }

    private Answer ask(JobQuestion question) {
        List<Answer> answers = new ArrayList<>();
        table.ask(question, answers::add);
        assertEquals(1, answers.size(), "there is one answer");
        return answers.get(0);
    }

    private Answer register(String job, String host, int members, JobSchedule schedule) {
        return ask(new JobQuestion.Register(new JobName(1000, job), host, members, Set.of("pod-" + host), schedule));
    }

    private JobView view(String job) {
        return ask(new JobQuestion.Show(new JobName(1000, job), null, null))
                .jobs()
                .get(0);
    }

    private void report(String job, String host, MemberStep step, NodeImages images) {
        JobView now = view(job);
        ask(new JobQuestion.StepReport(
                new JobName(1000, job), host, step, now.incarnation(), now.round(), null, null, images));
    }

    /** Lets time pass; each checkpoint holds its job so long, and its images take as long again. */
    private Map<String, Integer> run(List<String> jobs, Duration time, long holdMs, int[] mostAtOnce) {
        Map<String, Long> begun = new HashMap<>();
        Map<String, Integer> taken = new TreeMap<>();
        long endMs = nowMs + time.toMillis();
        while (nowMs < endMs) {
            nowMs += STEP_MS;
            table.tick();
            for (String job : jobs) {
                if (!view(job).phase().equals("checkpoint")) {
                    continue;
                }
                long sinceMs = begun.computeIfAbsent(job, unused -> nowMs);
                if (nowMs - sinceMs >= 2 * holdMs) {
                    NodeImages images =
                            new NodeImages(Map.of("pod-" + hostOf(job), "0a"), 1 << 20, holdMs, holdMs, holdMs);
                    report(job, hostOf(job), MemberStep.OUT, null);
                    report(job, hostOf(job), MemberStep.IMAGE, images);
                    assertEquals("checkpointed", view(job).last().outcome());
                    taken.merge(job, 1, Integer::sum);
                    begun.remove(job);
                }
            }
            mostAtOnce[0] = Math.max(mostAtOnce[0], begun.size());
        }
        return taken;
    }

    private static String hostOf(String job) {
        return "n-" + job;
    }

    @Test
    void shouldHoldFourToSixPercentWhenFiveAreAllowed() {
        begin(budget(0.05, 2));
        register("a", hostOf("a"), 1, new JobSchedule("1s", "", false, false));
        int[] most = {0};
        long holdMs = 3000;
        Duration time = Duration.ofMinutes(10);
        int taken = run(List.of("a"), time, holdMs, most).get("a");
        double part = taken * holdMs / (double) time.toMillis();
        assertTrue(part > 0.04 && part < 0.06, taken + " checkpoints have held " + part + " of the time");
        assertEquals(60, view("a").schedule().intervalS());
    }

    @Test
    void shouldNeverHaveThreeRoundsAtOnceWhenThreeJobsShareADirectory() {
        begin(budget(0.5, 2));
        List<String> jobs = List.of("a", "b", "c", "d", "e");
        jobs.forEach(job -> register(job, hostOf(job), 1, new JobSchedule("10s", "0a1b", false, false)));
        int[] most = {0};
        Map<String, Integer> taken = run(jobs, Duration.ofMinutes(10), 5000, most);
        assertEquals(2, most[0], "two write at once");
        // Two at a time, each for ten seconds, leave 120 turns to five jobs.
        taken.forEach((job, count) -> assertTrue(count >= 20, () -> "each has its turn: " + taken));
        assertEquals(5, taken.size());
    }

    @Test
    void shouldWaitForNoOtherJobWhenDirectoriesAreOnLocalDisksOfOtherNodes() {
        begin(budget(0.5, 1));
        List<String> jobs = List.of("a", "b", "c");
        jobs.forEach(job -> register(job, hostOf(job), 1, new JobSchedule("10s", "", false, false)));
        int[] most = {0};
        run(jobs, Duration.ofMinutes(1), 5000, most);
        assertEquals(3, most[0]);
    }

    @Test
    void shouldRefuseAnOrderWhenOthersWriteToTheDirectory() {
        begin(budget(0.5, 1));
        register("a", "n1", 1, new JobSchedule("", "", false, false));
        register("b", "n1", 1, new JobSchedule("", "", false, false));
        assertEquals(
                null,
                ask(new JobQuestion.OrderCheckpoint(new JobName(1000, "a"))).refusal());
        String refusal =
                ask(new JobQuestion.OrderCheckpoint(new JobName(1000, "b"))).refusal();
        assertTrue(refusal.contains("checkpoints_at_once"), refusal);
    }

    @Test
    void shouldBeginNoneWhenAMemberIsMissingOrANodeIsNotUp() {
        begin(budget(0.5, 2));
        JobSchedule schedule = new JobSchedule("10s", "", false, false);
        register("a", "n-a", 2, schedule);
        run(List.of("a"), Duration.ofMinutes(2), 1000, new int[1]);
        assertEquals(0, view("a").round());
        assertTrue(view("a").schedule().isOverdue(), "two intervals were missed");
        assertEquals(1, table.overdue());
        isUp = false;
        register("a", "n2", 2, schedule);
        run(List.of("a"), Duration.ofMinutes(2), 1000, new int[1]);
        assertEquals(0, view("a").round());
        isUp = true;
        nowMs += Duration.ofMinutes(2).toMillis();
        table.tick();
        assertEquals("checkpoint", view("a").phase());
    }

    @Test
    void shouldNotBeginAtOnceWhenAnotherControllerBecomesActive() {
        begin(budget(0.5, 2));
        register("a", hostOf("a"), 1, new JobSchedule("60s", "", false, false));
        int taken = run(List.of("a"), Duration.ofSeconds(150), 1000, new int[1]).get("a");
        begin(budget(0.5, 2));
        nowMs += 5000;
        table.tick();
        assertEquals("running", view("a").phase(), "its newest set is dated by the clock");
        assertEquals(taken, view("a").round());
        assertEquals("60s", view("a").schedule().every());
    }

    @Test
    void shouldRefuseAPodWhenItsIntervalCannotBeKept() {
        begin(budget(0.5, 2));
        String refusal = register("a", "n1", 1, new JobSchedule("auto", "", false, false))
                .refusal();
        assertTrue(refusal.contains("node_mtbf"), refusal);
        register("b", "n1", 2, new JobSchedule("60s", "", false, false));
        refusal = register("b", "n2", 2, new JobSchedule("", "", false, false)).refusal();
        assertTrue(refusal.contains("--checkpoint-every"), refusal);
        refusal = register("c", "n1", 1, new JobSchedule("1 year", "", false, false))
                .refusal();
        assertTrue(refusal.contains("invalid"), refusal);
    }

    @Test
    void shouldWaitForAnIntervalWhenACheckpointIsVoid() {
        begin(budget(0.5, 2));
        register("a", "n-a", 1, new JobSchedule("60s", "", false, false));
        nowMs += 61_000;
        table.tick();
        assertEquals("checkpoint", view("a").phase());
        ask(new JobQuestion.StepReport(
                new JobName(1000, "a"), "n-a", MemberStep.VOID, 1, 1, RoundOutcome.VOID, "no room", null));
        nowMs += 30_000;
        table.tick();
        assertEquals("running", view("a").phase());
        nowMs += 31_000;
        table.tick();
        assertEquals(2, view("a").round());
    }
}
