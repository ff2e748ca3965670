package io.ppmr.cluster.controller;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.cluster.controller.Recoveries.StandingJob;
import io.ppmr.cluster.job.JobQuestion;
import io.ppmr.cluster.job.JobQuestion.Answer;
import io.ppmr.daemon.jobs.JobName;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Recoveries that are ordered again after one that failed. */
class RecoveriesTest {
    private static final JobName JOB = new JobName(1000, "ring");
    private static final long AGAIN_NS = Recoveries.AGAIN.toNanos();

    private final List<String> sets = new ArrayList<>();
    private List<String> avoided = List.of();
    private Answer answer = Answer.OK;
    private long nowNs = 1;
    private final Recoveries recoveries = new Recoveries(
            (order, result) -> {
                sets.add(order.set());
                avoided = order.hosts();
                result.complete(answer);
            },
            this::receive);

    private void receive(JobName job, Answer received) {
        recoveries.answered(job, received, nowNs);
    }

    private Set<JobName> fail(long number) {
        StandingJob failed = new StandingJob(JOB, number, Optional.of("n" + number), Optional.of("older"));
        recoveries.tick(List.of(failed), Set.of(), nowNs);
        nowNs += AGAIN_NS;
        return recoveries.tick(List.of(failed), Set.of(), nowNs);
    }

    @Test
    void shouldTryTheNewestSetTwiceAndThenAnOlderOneWhenARecoveryFails() {
        assertEquals(Set.of(JOB), fail(1));
        assertEquals(Set.of(), recoveries.tick(List.of(), Set.of(JOB), nowNs));
        assertEquals(Set.of(JOB), fail(2));
        assertEquals(Set.of(JOB), fail(3));
        assertEquals(Set.of(), fail(4), "it stays stopped");
        assertEquals(List.of("", "", "older"), sets);
        assertEquals(List.of("n1", "n2", "n3"), avoided, "nodes that failed are taken last");
    }

    @Test
    void shouldWaitAndStopAfterTheLimitWhenThePlanIsRefused() {
        answer = JobQuestion.Answer.refused("copies are being ended");
        fail(1);
        int before = sets.size();
        fail(1);
        assertEquals(before + 1, sets.size(), "it is ordered again");
        nowNs += Recoveries.REFUSED_LIMIT.toNanos();
        fail(1);
        int last = sets.size();
        assertEquals(Set.of(), fail(1));
        assertEquals(last, sets.size());
    }

    @Test
    void shouldBeginAnewWhenAJobRunsAgain() {
        fail(1);
        fail(2);
        assertEquals(Set.of(), recoveries.tick(List.of(), Set.of(), nowNs));
        fail(5);
        fail(6);
        assertEquals(List.of("", "", "", ""), sets);
    }
}
