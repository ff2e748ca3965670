package io.ppmr.cluster.controller;

import io.ppmr.cluster.job.JobKey;
import io.ppmr.cluster.job.JobQuestion;
import io.ppmr.cluster.job.JobQuestion.Answer;
import io.ppmr.daemon.jobs.JobName;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import java.util.stream.IntStream;

/**
 * The addresses of all pods of a job, for the sources that look at their connections before a checkpoint. The first
 * question in a checkpoint has the source of each node queried; later ones get the same addresses. Nothing of it is
 * stored. The controller's thread owns it; queries run on workers.
 */
final class JobAddresses {
    private static final String SOURCE = "source";
    /** The most nodes that are queried at once for one job. */
    private static final int AT_ONCE = 16;
    /** The most addresses of an answer. The source names one of them. */
    private static final int MOST_ANSWERED = 20;

    private static final int MOST_CHARACTERS = 45;

    /** The checkpoints that are under way. The controller's thread uses it. */
    @FunctionalInterface
    interface OpenCheckpoints {
        /** Returns the nodes with pods of a job that is in this checkpoint; empty if it is in none, or in another. */
        Optional<Set<String>> nodes(JobName job, long round);
    }

    /** The queries of a checkpoint, and their result. */
    private record Queried(long round, CompletableFuture<Set<String>> addresses) {}

    private final OpenCheckpoints checkpoints;
    private final AskedServices services;
    private final Executor workers;
    private final Map<JobName, Queried> queried = new HashMap<>();

    /** Returns the host of an address HOST:PORT, also in the form of an address that was never looked up. */
    static String hostOf(String address) {
        int begin = address.indexOf('/') + 1;
        return address.substring(begin, Math.max(begin, address.lastIndexOf(':')));
    }

    JobAddresses(OpenCheckpoints checkpoints, AskedServices services, Executor workers) {
        this.checkpoints = checkpoints;
        this.services = services;
        this.workers = workers;
    }

    /** Answers which addresses belong to no pod of the job. The answer is passed on any thread, perhaps later. */
    void find(JobQuestion.FindForeign question, Consumer<Answer> answer) {
        JobName job = question.job();
        boolean isSound = job != null
                && JobKey.isName(job.name())
                && question.addresses() != null
                && question.addresses().size() <= JobQuestion.FindForeign.MOST_ADDRESSES
                && question.addresses().stream().allMatch(one -> one != null && one.length() <= MOST_CHARACTERS);
        if (!isSound) {
            answer.accept(Answer.refused("a question about addresses has an invalid form"));
            return;
        }
        queried.entrySet()
                .removeIf(known -> known.getValue().addresses().isCompletedExceptionally()
                        || checkpoints
                                .nodes(known.getKey(), known.getValue().round())
                                .isEmpty());
        Optional<Set<String>> nodes = checkpoints.nodes(job, question.round());
        if (nodes.isEmpty()) {
            answer.accept(Answer.refused("job " + job + " is not in checkpoint " + question.round()));
            return;
        }
        CompletableFuture<Set<String>> addresses = queried.computeIfAbsent(
                        job, first -> new Queried(question.round(), query(job, nodes.get())))
                .addresses();
        CompletableFuture<Void> unused = addresses
                .handle((known, failure) -> failure == null
                        ? Answer.ofPods(foreign(question.addresses(), known))
                        : Answer.refused("it is unknown which addresses the job's pods have: "
                                + (failure.getCause() == null ? failure : failure.getCause()).getMessage()))
                .thenAccept(answer);
    }

    private static Map<String, String> foreign(Set<String> addresses, Set<String> known) {
        Map<String, String> foreign = new TreeMap<>();
        new TreeSet<>(addresses)
                .stream()
                        .filter(address -> !known.contains(address))
                        .limit(MOST_ANSWERED)
                        .forEach(address -> foreign.put(address, ""));
        return foreign;
    }

    private CompletableFuture<Set<String>> query(JobName job, Set<String> nodes) {
        Queue<String> left = new ConcurrentLinkedQueue<>(nodes);
        Set<String> addresses = ConcurrentHashMap.newKeySet();
        CompletableFuture<?>[] parts = IntStream.range(0, Math.min(AT_ONCE, nodes.size()))
                .mapToObj(unused -> CompletableFuture.runAsync(() -> query(job, left, addresses), workers))
                .toArray(CompletableFuture<?>[]::new);
        return CompletableFuture.allOf(parts).thenApply(unused -> Set.copyOf(addresses));
    }

    private void query(JobName job, Queue<String> left, Set<String> addresses) {
        for (String node = left.poll(); node != null; node = left.poll()) {
            try {
                Answer answer = services.ask(node, SOURCE, new JobQuestion.FindAddresses(job));
                if (answer.refusal() != null || answer.pods() == null) {
                    throw new IOException(answer.refusal());
                }
                answer.pods().values().forEach(text -> addresses.addAll(List.of(text.split(" ", -1))));
            } catch (IOException e) {
                // The others need not be queried for an answer that is not given.
                left.clear();
                throw new UncheckedIOException(
                        "node " + node + ": " + e.getMessage() + ". Remedy: ppmr nodes shows why", e);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new UncheckedIOException("this controller ends", new IOException("interrupted", e));
            }
        }
    }

    /** Forgets all addresses. The term of this controller ended. */
    void clear() {
        queried.clear();
    }
}
