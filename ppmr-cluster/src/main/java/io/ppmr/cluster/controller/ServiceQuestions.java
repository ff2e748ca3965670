package io.ppmr.cluster.controller;

import io.ppmr.cluster.job.JobQuestion;
import java.io.IOException;
import java.time.Duration;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Sends one question to many services, to some of them at a time. One worker of the controller uses it. */
final class ServiceQuestions {
    private static final Logger LOG = LoggerFactory.getLogger(ServiceQuestions.class);
    /** The most services that are asked at a time. */
    private static final int AT_A_TIME = 32;
    /** The time for all answers. */
    private static final Duration LIMIT = Duration.ofSeconds(12);

    /**
     * A service.
     *
     * @param host its node
     * @param role source or target
     */
    record QueriedService(String host, String role) implements Comparable<QueriedService> {
        private static final Comparator<QueriedService> ORDER =
                Comparator.comparing(QueriedService::host).thenComparing(QueriedService::role);

        @Override
        public int compareTo(QueriedService other) {
            return ORDER.compare(this, other);
        }
    }

    /**
     * The answer of a service.
     *
     * @param pods the pods of the answer
     * @param failure why there is none, or why it is a refusal
     */
    record Answered(Map<String, String> pods, Optional<String> failure) {
        private static Answered of(JobQuestion.Answer answer) {
            return answer.refusal() != null
                    ? failed(answer.refusal())
                    : new Answered(answer.pods() == null ? Map.of() : Map.copyOf(answer.pods()), Optional.empty());
        }

        private static Answered failed(String reason) {
            return new Answered(Map.of(), Optional.of(reason));
        }
    }

    private final QueriedCluster services;

    ServiceQuestions(QueriedCluster services) {
        this.services = services;
    }

    /** Returns an answer for each service. One that gives none within the time limit has a failure. */
    Map<QueriedService, Answered> ask(Collection<QueriedService> all, JobQuestion question)
            throws IOException, InterruptedException {
        Queue<QueriedService> left = new ConcurrentLinkedQueue<>(all);
        Map<QueriedService, Answered> answers = new ConcurrentHashMap<>();
        long endNs = System.nanoTime() + LIMIT.toNanos();
        CompletableFuture<?> asking = CompletableFuture.allOf(Stream.generate(
                        () -> CompletableFuture.runAsync(() -> ask(left, question, answers, endNs), services.workers()))
                .limit(Math.min(AT_A_TIME, all.size()))
                .toArray(CompletableFuture<?>[]::new));
        try {
            asking.get(LIMIT.toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            LOG.debug("some services did not answer in time", e);
        } catch (ExecutionException e) {
            throw new IOException("services cannot be asked: " + e.getCause(), e);
        }
        Map<QueriedService, Answered> result = new HashMap<>(answers);
        all.forEach(service ->
                result.putIfAbsent(service, Answered.failed("it gave no answer within " + LIMIT.toSeconds() + " s")));
        return result;
    }

    private void ask(
            Queue<QueriedService> left, JobQuestion question, Map<QueriedService, Answered> answers, long endNs) {
        for (QueriedService next = left.poll(); next != null && System.nanoTime() - endNs < 0; next = left.poll()) {
            try {
                answers.put(next, Answered.of(services.ask(next.host(), next.role(), question)));
            } catch (IOException e) {
                answers.put(next, Answered.failed(String.valueOf(e.getMessage())));
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return;
            }
        }
    }
}
