package io.ppmr.cluster.controller;

import io.ppmr.cluster.record.ServiceRecord;
import io.ppmr.cluster.record.SpareNeeds;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.random.RandomGenerator;

/**
 * Chooses spare nodes for jobs: those that fit, the least loaded first, nodes of equal load in random order. What it
 * hands out counts as used for a minute, since the records of targets follow later. That is kept in memory alone: the
 * target itself decides, and a wrong choice costs a refusal. The controller's thread owns it.
 */
final class SpareChoice {
    /** The maximum number of spare nodes in an answer. */
    static final int MOST = 8;
    /** The time for which a handed out place counts as used. */
    static final Duration RESERVED = Duration.ofSeconds(60);

    /** A place that was handed out, with the room that it takes from a target. */
    private record Reservation(String host, long memoryBytes, long stagingBytes, long endNs) {}

    /** All that is handed out at one target. */
    private static final class Reserved {
        private int places;
        private long memoryBytes;
        private long stagingBytes;

        private void add(Reservation one, int sign) {
            places += sign;
            memoryBytes += sign * one.memoryBytes();
            stagingBytes += sign * one.stagingBytes();
        }
    }

    private record Candidate(String address, String host, int load, long tie) {}

    private static final Comparator<Candidate> LEAST_LOAD =
            Comparator.comparingInt(Candidate::load).thenComparingLong(Candidate::tie);

    private final Deque<Reservation> reservations = new ArrayDeque<>();
    private final Map<String, Reserved> reserved = new HashMap<>();
    private final RandomGenerator random;

    SpareChoice(RandomGenerator random) {
        this.random = random;
    }

    /**
     * Returns the addresses of targets for a job, the first of which is handed out.
     *
     * @param targets the targets that are UP, by their hosts
     */
    List<String> choose(SpareNeeds needs, Map<String, ServiceRecord> targets, long nowNs) {
        while (!reservations.isEmpty() && nowNs - reservations.peek().endNs() >= 0) {
            release(reservations.poll());
        }
        PriorityQueue<Candidate> best = new PriorityQueue<>(MOST + 1, LEAST_LOAD.reversed());
        targets.forEach((host, record) -> {
            boolean isTooLoaded =
                    best.size() == MOST && record.load() > best.peek().load();
            if (!isTooLoaded && fits(needs, host, record, reserved.get(host))) {
                best.add(new Candidate(record.address(), host, record.load(), random.nextLong()));
                if (best.size() > MOST) {
                    best.poll();
                }
            }
        });
        List<Candidate> chosen = new ArrayList<>(best);
        chosen.sort(LEAST_LOAD);
        if (!chosen.isEmpty()) {
            Reservation one = new Reservation(
                    chosen.get(0).host(), needs.memoryBytes(), needs.stagingBytes(), nowNs + RESERVED.toNanos());
            reservations.add(one);
            reserved.computeIfAbsent(one.host(), host -> new Reserved()).add(one, 1);
        }
        return chosen.stream().map(Candidate::address).toList();
    }

    private void release(Reservation ended) {
        reserved.computeIfPresent(ended.host(), (host, all) -> {
            all.add(ended, -1);
            return all.places == 0 ? null : all;
        });
    }

    private static boolean fits(SpareNeeds needs, String host, ServiceRecord target, Reserved reserved) {
        boolean isRightZone =
                switch (needs.where()) {
                    case ANY -> true;
                    case SAME -> target.zone().equals(needs.zone());
                    case OTHER -> !target.zone().equals(needs.zone());
                };
        if (!isRightZone
                || host.equals(needs.host())
                || target.address().isEmpty()
                || !target.tools().contains(needs.tool())) {
            return false;
        }
        int places = target.places() - (reserved == null ? 0 : reserved.places);
        long memoryBytes = target.memoryBytes() - (reserved == null ? 0 : reserved.memoryBytes);
        long stagingBytes = target.stagingBytes() - (reserved == null ? 0 : reserved.stagingBytes);
        return places > 0 && memoryBytes >= needs.memoryBytes() && stagingBytes >= needs.stagingBytes();
    }
}
