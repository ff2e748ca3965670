package io.ppmr.cluster.job;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.ppmr.cluster.job.JobQuestion.Answer;
import io.ppmr.cluster.job.JobQuestion.AskCopy;
import io.ppmr.cluster.job.JobSet.SetState;
import io.ppmr.daemon.jobs.JobName;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class SetCopiesTest {
    private static final JobName JOB = new JobName(1000, "ring");
    private static final String SET = "1-1-00000000";
    private static final Map<String, String> ALL = Map.of("p0", "a0", "p1", "a1");

    private final SetCopies copies = new SetCopies(new SetCopies.CopyLimits(1, 1000));
    private final List<JobSet> whole = new ArrayList<>();
    private long nowNs;

    private static JobState state(SetState state) {
        JobRecord record = JobRecord.of("0a0b0c0d", JOB, 2, JobRecord.JobSchedule.NONE);
        return JobState.of(record)
                .withSets(List.of(new JobSet(SET, 1, 1, JobRules.digestOf(ALL), 1, 1, 1, 1, 1, state)));
    }

    private Answer ask(String host, String set, Map<String, String> digests) {
        return copies.answer(
                "1000.ring", new AskCopy(JOB, host, set, digests, 0, null), state(SetState.COPYING), nowNs, whole::add);
    }

    private static void requireGranted(Answer answer) {
        assertEquals(Map.of(SET, "1000"), answer.pods());
    }

    private static void requireWaiting(Answer answer) {
        assertNull(answer.pods());
        assertEquals(2L, answer.number());
    }

    @Test
    void shouldLetNodesCopyOneAfterAnother() {
        requireGranted(ask("n1", null, null));
        requireWaiting(ask("n2", null, null));
        requireGranted(ask("n1", SET, null));
        requireWaiting(ask("n1", SET, Map.of("p0", "a0")));
        requireGranted(ask("n2", null, null));
    }

    @Test
    void shouldReportTheSetWhenAllOfItsImagesAreCopied() {
        requireWaiting(ask("n1", SET, Map.of("p0", "a0")));
        assertEquals(List.of(), whole);
        requireWaiting(ask("n2", SET, Map.of("p1", "a1")));
        nowNs += TimeUnit.HOURS.toNanos(1);
        requireWaiting(ask("n2", SET, Map.of("p1", "a1")));
        assertEquals(1, whole.size(), "one check at a time");
        copies.checked("1000.ring", SET, true, nowNs);
        nowNs += TimeUnit.SECONDS.toNanos(20);
        requireWaiting(ask("n1", SET, Map.of("p0", "a0")));
        assertEquals(2, whole.size(), "it is not recorded as safe yet");
    }

    @Test
    void shouldHaveEachNodeCopyOnceMoreWhenNoNodeSeesAllImages() {
        requireWaiting(ask("n1", SET, Map.of("p0", "a0")));
        requireWaiting(ask("n2", SET, Map.of("p1", "a1")));
        copies.checked("1000.ring", "1-2-00000000", false, nowNs);
        copies.checked("1000.ring", SET, false, nowNs);
        nowNs += TimeUnit.SECONDS.toNanos(20);
        requireGranted(ask("n1", SET, Map.of("p0", "a0")));
        requireWaiting(ask("n2", SET, Map.of("p1", "a1")));
        requireWaiting(ask("n1", SET, Map.of("p0", "a0")));
        requireGranted(ask("n2", SET, Map.of("p1", "a1")));
        requireWaiting(ask("n2", SET, Map.of("p1", "a1")));
        assertEquals(2, whole.size());
    }

    @Test
    void shouldLetOthersCopyWhenANodeCannot() {
        requireGranted(ask("n1", null, null));
        Answer failed = copies.answer(
                "1000.ring",
                new AskCopy(JOB, "n1", SET, null, 0, "no room"),
                state(SetState.COPYING),
                nowNs,
                whole::add);
        assertEquals(60L, failed.number());
        requireWaiting(ask("n1", null, null));
        requireGranted(ask("n2", null, null));
        requireWaiting(ask("n2", SET, Map.of("p1", "a1")));
        nowNs += TimeUnit.SECONDS.toNanos(60);
        requireGranted(ask("n1", null, null));
    }

    @Test
    void shouldLetANodeCopyForOneJobAtATime() {
        SetCopies many = new SetCopies(new SetCopies.CopyLimits(4, 1000));
        AskCopy query = new AskCopy(JOB, "n1", null, null, 0, null);
        requireGranted(many.answer("1000.ring", query, state(SetState.COPYING), nowNs, whole::add));
        requireWaiting(many.answer("1000.other", query, state(SetState.COPYING), nowNs, whole::add));
    }

    @Test
    void shouldNotReportASetWhoseCopyIsOfOtherImages() {
        ask("n1", SET, Map.of("p0", "a0"));
        ask("n2", SET, Map.of("p1", "bb"));
        assertEquals(List.of(), whole);
    }

    @Test
    void shouldAnswerThatNothingIsLeftWhenTheSetIsSafe() {
        Answer answer = copies.answer(
                "1000.ring", new AskCopy(JOB, "n1", null, null, 0, null), state(SetState.SAFE), nowNs, whole::add);
        assertEquals(Answer.OK, answer);
    }

    @Test
    void shouldPassTheTurnOfANodeThatIsSilent() {
        requireGranted(ask("n1", null, null));
        nowNs += TimeUnit.SECONDS.toNanos(31);
        requireGranted(ask("n2", null, null));
        requireWaiting(ask("n1", null, null));
    }

    private Map<String, String> stuck() {
        return copies.stuck(Map.of("1000.ring", state(SetState.COPYING)), nowNs);
    }

    @Test
    void shouldNameACopyThatDoesNotAdvance() {
        assertEquals(Map.of(), stuck());
        ask("n1", SET, Map.of("p0", "a0"));
        nowNs += TimeUnit.MINUTES.toNanos(9);
        copies.answer(
                "1000.ring", new AskCopy(JOB, "n2", SET, null, 5, null), state(SetState.COPYING), nowNs, whole::add);
        nowNs += TimeUnit.MINUTES.toNanos(9);
        assertEquals(Map.of(), stuck(), "bytes were copied");
        ask("n1", SET, Map.of("p0", "a0"));
        ask("n2", null, null);
        nowNs += TimeUnit.MINUTES.toNanos(2);
        assertEquals(Map.of("1000.ring", SET), stuck());
    }
}
