package io.ppmr.cluster.job;

import io.ppmr.cluster.job.JobQuestion.Answer;
import io.ppmr.cluster.job.JobQuestion.MemberStep;
import io.ppmr.cluster.job.JobRecord.JobNumbers;
import io.ppmr.cluster.job.JobRecord.LastRound;
import io.ppmr.cluster.job.JobRecord.OpenMove;
import io.ppmr.cluster.job.JobRecord.RoundOutcome;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.fuzz.Fuzz;
import io.ppmr.fuzz.FuzzPlan;
import io.ppmr.fuzz.Mutator;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.random.RandomGenerator;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Changed records, sets, questions and answers of jobs over several nodes. What can be read is used as a controller
 * uses it: a question goes to a table with a job in the middle of a checkpoint.
 */
class JobFuzzTest {
    private static final JobName JOB = new JobName(1000, "ring");
    private static final JobRecord RUNNING = JobRecord.of("0a0b0c0d", JOB, 2, JobRecord.JobSchedule.NONE);
    private static final JobRecord GO = RUNNING.in(
                    JobPhase.CHECKPOINT, JobNumbers.FIRST.nextRound(), true, "1-1-00000000")
            .holding(60);
    private static final JobSet SET =
            new JobSet("1-1-00000000", 1, 1, "0".repeat(24), 1L << 40, 5, 4, 3, 1L << 40, JobSet.SetState.LOCAL);
    private static final JobView.ScheduleView SCHEDULE = new JobView.ScheduleView("600s", 600, true, true);
    private static final List<JobRecord> RECORDS = List.of(
            RUNNING,
            GO,
            RUNNING.ended(new LastRound(1, false, RoundOutcome.VOID, "n1: why \"not\""))
                    .moving(List.of(new OpenMove("move-1", "n1"), new OpenMove("move-2", "n2"))));
    private static final List<JobQuestion> QUESTIONS = List.of(
            new JobQuestion.Register(JOB, "n1", 2, Set.of("p1"), JobRecord.JobSchedule.NONE),
            report(MemberStep.OUT, null),
            report(MemberStep.IMAGE, new NodeImages(Map.of("p1", "0".repeat(24)), 5, 4, 3, 2)),
            report(MemberStep.VOID, null),
            new JobQuestion.OrderCheckpoint(JOB),
            new JobQuestion.OrderRestart(JOB, "1-1-00000000", List.of("n1", "n2"), "n1", List.of("n3"), true),
            new JobQuestion.FindFit(JOB, "1-1-00000000", Set.of("p0"), true),
            new JobQuestion.Forget(JOB),
            new JobQuestion.Show(JOB, 1000, "1000.ring/n1"),
            new JobQuestion.Move(JOB, "move-1", "n1", true, "n2", Set.of("p1")),
            new JobQuestion.FindPods(JOB),
            new JobQuestion.FindImages(JOB, "1-1-00000000", "p1", JobQuestion.ImagePlaces.ALL),
            new JobQuestion.AskCopy(JOB, "n1", "1-1-00000000", Map.of("p1", "0a"), 5, "why"));
    private static final String[] WORDS = {
        "null",
        "-1",
        "1e999",
        "99999999999999999999",
        "{}",
        "[]",
        "[null]",
        "{\"\":null}",
        "\"\"",
        "\"../x\"",
        "\"\\u0000\"",
        "\"1000.ring/\"",
        "\"name\":",
        "\"uid\":",
        "\"pods\":",
        "\"moves\":",
        "\"last\":",
        "\"CHECKPOINT\"",
        "\"RESTARTING\"",
        "\"IMAGE\"",
        "\"REFUSED\"",
        "[[[[",
        "\n"
    };

    /** The sum of all read values. It is not private, so that the compilers do not remove it. */
    long sum;

    private static JobQuestion report(MemberStep step, NodeImages images) {
        return new JobQuestion.StepReport(JOB, "n1", step, 1, 1, RoundOutcome.VOID, "why", images);
    }

    private static Fuzz fuzz(FuzzPlan plan, Stream<byte[]> valid) {
        return new Fuzz(plan, new Mutator(valid.toList(), 64 * 1024, WORDS), List.of(IOException.class))
                .allocatesAtMost(512 * 1024, 256);
    }

    private static Fuzz records() {
        return fuzz(FuzzPlan.JOB_RECORDS, RECORDS.stream().map(JobRecord::encode));
    }

    private static Fuzz sets() {
        return fuzz(FuzzPlan.JOB_SETS, Stream.of(SET.encode()));
    }

    private static Fuzz questions() {
        return fuzz(FuzzPlan.JOB_QUESTIONS, QUESTIONS.stream().map(question -> (question.kind() + " " + question.text())
                .getBytes(StandardCharsets.UTF_8)));
    }

    private static Fuzz answers() {
        JobView view = JobView.of(
                new JobState(
                        RECORDS.get(2), Map.of("n1", Set.of("p1")), Map.of(), List.of(SET), JobState.RoundReports.NONE),
                SCHEDULE,
                JobView.RestartView.NONE);
        return fuzz(
                FuzzPlan.JOB_ANSWERS,
                Stream.of(
                                Answer.OK,
                                Answer.refused("why"),
                                Answer.numbered(7),
                                Answer.ofImages(Map.of("p1", "0 n1"), Optional.of("p1")),
                                Answer.ofJobs(List.of(view), Optional.of("1000.ring/n1")))
                        .map(answer -> answer.text().getBytes(StandardCharsets.UTF_8)));
    }

    private static String text(byte[] input) {
        return new String(input, StandardCharsets.UTF_8);
    }

    private static <T> T required(Optional<T> read) throws IOException {
        return read.orElseThrow(() -> new IOException("these bytes are not read"));
    }

    private void readRecord(byte[] input) throws IOException {
        JobRecord record = required(JobRecord.decode(input));
        for (OpenMove move : record.moves()) {
            sum += move.id().length() + move.from().length();
        }
        sum += JobView.of(JobState.of(record), SCHEDULE, JobView.RestartView.NONE)
                        .hashCode()
                + record.encode().length;
    }

    private void readSet(byte[] input) throws IOException {
        JobSet set = required(JobSet.decode(input));
        JobState state = JobState.of(RUNNING).withSets(List.of(set, SET));
        sum += JobView.of(state, SCHEDULE, JobView.RestartView.NONE).hashCode()
                + set.encode().length
                + (set.isOf(Map.of("p1", "d")) ? 1 : 0);
    }

    private void readAnswer(byte[] input) throws IOException {
        Answer answer = required(Answer.parse(text(input)));
        sum += answer.hashCode() + answer.text().length();
    }

    private void readQuestion(byte[] input) throws IOException {
        String message = text(input);
        int space = Math.max(0, message.indexOf(' '));
        JobQuestion question = required(JobQuestion.parse(
                message.substring(0, space), message.substring(space).strip()));
        Answer[] answer = new Answer[1];
        JobTable table = inACheckpoint();
        table.ask(question, given -> answer[0] = given);
        table.tick();
        if (answer[0] == null) {
            throw new AssertionError(question + " has no answer");
        }
        sum += answer[0].text().length();
    }

    private static JobTable inACheckpoint() {
        JobTable table = new JobTable(
                new JobTable.JobLimits(
                        2,
                        Duration.ofMinutes(1),
                        Duration.ofMinutes(10),
                        new CheckpointBudget(0.01, Optional.empty(), Duration.ofMinutes(1), 2),
                        4,
                        1L << 20),
                new Inline(),
                RandomGenerator.getDefault());
        table.begin(
                new Accepting(),
                Map.of(
                        JobKey.of(JOB),
                        new JobRecords.StoredJob(
                                1,
                                text(GO.encode()),
                                Map.of(0L, Map.of("n1", Set.of("p1"), "n2", Set.of("p2"))),
                                Map.of(SET.id(), SET.encode()))),
                Map.of());
        return table;
    }

    /** A controller whose workers are its own thread. */
    private static final class Inline implements JobTable.Surroundings {
        @Override
        public Executor workers() {
            return Runnable::run;
        }

        @Override
        public void onThread(Runnable result) {
            result.run();
        }

        @Override
        public boolean isUp(String host) {
            return true;
        }

        @Override
        public boolean hasTarget(String host) {
            return true;
        }

        @Override
        public void checkCopies(JobName job, JobSet set, Set<String> hosts, Consumer<Optional<String>> why) {
            why.accept(Optional.empty());
        }

        @Override
        public boolean isTurnedOff(String host) {
            return false;
        }

        @Override
        public Optional<String> hostAt(String address) {
            return Optional.empty();
        }

        @Override
        public long nowNs() {
            return 0;
        }
    }

    /** An ensemble that takes every change, whose size and names it checks. */
    private static final class Accepting implements JobRecords {
        @Override
        public Map<String, StoredJob> read() {
            return Map.of();
        }

        @Override
        public Optional<StoredJob> read(String key) {
            return Optional.empty();
        }

        private static Written checked(byte[] record) {
            if (record.length > JobRecord.MOST_BYTES || JobRecord.decode(record).isEmpty()) {
                throw new AssertionError("a record of " + record.length + " bytes is written: " + text(record));
            }
            return Written.DONE;
        }

        @Override
        public Written create(String key, byte[] record) {
            return JobKey.parse(key).isPresent() ? checked(record) : Written.UNKNOWN;
        }

        @Override
        public Written plan(String key, long layout, Map<String, Set<String>> places) {
            return Written.DONE;
        }

        @Override
        public Written write(String key, int version, JobChange change) {
            change.places().forEach((host, pods) -> {
                if (!JobKey.isHost(host) || !pods.stream().allMatch(JobKey::isName)) {
                    throw new AssertionError("a place is written: " + host + " " + pods);
                }
            });
            change.record().ifPresent(Accepting::checked);
            return Written.DONE;
        }

        @Override
        public void removeLayouts(String key, Consumer<Map<Long, Map<String, Set<String>>>> keep) {
            // There are none.
        }

        @Override
        public Written remove(String key, int version) {
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

    @Test
    void shouldTakeOrRefuseWhateverARecordHolds() throws Exception {
        records().inTheGate(this::readRecord);
    }

    @Test
    void shouldTakeOrRefuseWhateverASetHolds() throws Exception {
        sets().inTheGate(this::readSet);
    }

    @Test
    void shouldAnswerWhateverAQuestionHolds() throws Exception {
        questions().inTheGate(this::readQuestion);
    }

    @Test
    void shouldTakeOrRefuseWhateverAnAnswerHolds() throws Exception {
        answers().inTheGate(this::readAnswer);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 60, unit = TimeUnit.MINUTES)
    void shouldTakeOrRefuseForLongWhateverTheyHold() throws Exception {
        records().forLong(this::readRecord);
        sets().forLong(this::readSet);
        questions().forLong(this::readQuestion);
        answers().forLong(this::readAnswer);
    }
}
