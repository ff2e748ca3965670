package io.ppmr.cluster.controller;

import io.ppmr.cluster.job.JobQuestion;
import io.ppmr.daemon.jobs.JobName;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.function.BiConsumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Orders recoveries without an operator: of jobs that have lost a node, if their template wants that, and again of
 * those that failed after pods were ended. It tries the newest set twice, and then an older one. A new active
 * controller begins again with the count. The controller's thread owns it.
 */
final class Recoveries {
    private static final Logger LOG = LoggerFactory.getLogger(Recoveries.class);
    /** The recoveries that are ordered again after one that failed. */
    static final int TRIES = 3;
    /** The time for which a plan may be refused, such as while copies of the failed one are being ended. */
    static final Duration REFUSED_LIMIT = Duration.ofMinutes(2);

    static final Duration AGAIN = Duration.ofSeconds(2);

    /**
     * A job that is stopped.
     *
     * @param job the job
     * @param number the number of its recovery that failed, or a negative one if none did
     * @param failed the node at which it failed; empty if none is known
     * @param olderSet the set before the newest one; empty if there is none
     */
    record StandingJob(JobName job, long number, Optional<String> failed, Optional<String> olderSet) {}

    private static final class Retry {
        private final Set<String> avoided = new TreeSet<>();
        private long number;
        private int tries;
        private long nextNs;
        private long limitNs;
        private boolean isPlanning;
        private CompletableFuture<Void> passing = CompletableFuture.completedFuture(null);
        private boolean isOver;
    }

    private final BiConsumer<JobQuestion.OrderRestart, CompletableFuture<JobQuestion.Answer>> orders;
    private final BiConsumer<JobName, JobQuestion.Answer> answered;
    private final Map<JobName, Retry> retries = new HashMap<>();

    /**
     * @param orders plans a recovery, and answers on any thread
     * @param answered passes an answer to {@link #answered} on the controller's thread
     */
    Recoveries(
            BiConsumer<JobQuestion.OrderRestart, CompletableFuture<JobQuestion.Answer>> orders,
            BiConsumer<JobName, JobQuestion.Answer> answered) {
        this.orders = orders;
        this.answered = answered;
    }

    /** Forgets all, since this controller is no longer the active one. */
    void end() {
        retries.clear();
    }

    /**
     * Orders what is due.
     *
     * @param failed all jobs whose last recovery failed
     * @param underWay all jobs of which a recovery is under way
     * @return the jobs that are tried again, now or later
     */
    Set<JobName> tick(List<StandingJob> failed, Set<JobName> underWay, long nowNs) {
        // Tries are counted until the job runs again.
        Set<JobName> names = new HashSet<>(underWay);
        failed.forEach(one -> names.add(one.job()));
        retries.keySet().retainAll(names);
        Set<JobName> pending = new HashSet<>();
        for (StandingJob one : failed) {
            Retry retry = retries.computeIfAbsent(one.job(), unused -> new Retry());
            if (retry.number != one.number()) {
                retry.number = one.number();
                one.failed().ifPresent(retry.avoided::add);
                retry.nextNs = nowNs + AGAIN.toNanos();
                retry.limitNs = nowNs + REFUSED_LIMIT.toNanos();
                retry.isPlanning = false;
                retry.isOver = retry.tries >= TRIES;
                if (retry.isOver) {
                    stays(one.job(), "it was ordered " + TRIES + " times, and failed");
                }
            }
            if (!retry.isOver) {
                pending.add(one.job());
                // Without an answer it is ordered again.
                retry.isPlanning &= !retry.passing.isCompletedExceptionally();
                if (!retry.isPlanning && nowNs - retry.nextNs >= 0) {
                    order(one, retry);
                }
            }
        }
        return pending;
    }

    private void order(StandingJob failed, Retry retry) {
        retry.isPlanning = true;
        boolean isLast = retry.tries == TRIES - 1;
        String set = isLast ? failed.olderSet().orElse("") : "";
        LOG.warn("job {}: its recovery is ordered{}", failed.job(), set.isEmpty() ? "" : ", from set " + set);
        CompletableFuture<JobQuestion.Answer> result = new CompletableFuture<>();
        retry.passing = result.thenAccept(answer -> answered.accept(failed.job(), answer));
        orders.accept(
                new JobQuestion.OrderRestart(failed.job(), set, List.copyOf(retry.avoided), "", List.of(), true),
                result);
    }

    /** Receives the answer to an order. */
    void answered(JobName job, JobQuestion.Answer answer, long nowNs) {
        Retry retry = retries.get(job);
        if (retry == null || !retry.isPlanning) {
            return;
        }
        retry.isPlanning = false;
        if (answer.refusal() == null) {
            retry.tries++;
        } else if (nowNs - retry.limitNs > 0) {
            retry.isOver = true;
            stays(job, answer.refusal());
        } else {
            retry.nextNs = nowNs + AGAIN.toNanos();
        }
    }

    private static void stays(JobName job, String reason) {
        LOG.error(
                "job {} is not recovered by the controllers: {}. Remedy: ppmr job show; then ppmr job recover, or"
                        + " an older set (--set)",
                job,
                reason);
    }
}
