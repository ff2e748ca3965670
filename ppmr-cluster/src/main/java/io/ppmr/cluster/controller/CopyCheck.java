package io.ppmr.cluster.controller;

import io.ppmr.cluster.job.JobQuestion.ImagePlaces;
import io.ppmr.cluster.job.JobSet;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * Checks that a set is at its second place as one node sees it. Each node may have another directory there, which is
 * shared by mistake with none: then all copies are made, and no node can read them all. One worker of the controller
 * uses it.
 */
final class CopyCheck {
    private static final Duration LIMIT = Duration.ofSeconds(60);
    private final QueriedCluster services;

    CopyCheck(QueriedCluster services) {
        this.services = services;
    }

    /**
     * Returns why the set is not safe; empty if it is. Each image must be seen by another node than the one that has
     * written it: by one spare, since spares would restore lost pods, or by nodes of the job if there is no spare.
     *
     * @param hosts the nodes of the job
     */
    Optional<String> whyNotSafe(JobName job, JobSet set, Set<String> hosts) throws InterruptedException {
        List<String> reasons = new ArrayList<>();
        long limitNs = System.nanoTime() + LIMIT.toNanos();
        try {
            List<String> spares = services.spares(new TreeSet<>(hosts));
            List<String> queried = spares.isEmpty() ? List.copyOf(new TreeSet<>(hosts)) : spares;
            Map<String, String> seen = new TreeMap<>();
            for (String host : queried) {
                if (System.nanoTime() - limitNs > 0) {
                    reasons.add("the time is over");
                    break;
                }
                Map<String, String> images = imagesOfOthers(job, set, host, reasons);
                if (spares.isEmpty()) {
                    seen.putAll(images);
                } else {
                    seen = images;
                }
                if (set.isOf(seen)) {
                    return Optional.empty();
                }
            }
        } catch (IOException e) {
            reasons.add(String.valueOf(e.getMessage()));
        }
        return Optional.of("no other node sees all images of set " + set.id() + " in its directory of copies: "
                + (reasons.isEmpty() ? "there is no other node" : String.join("; ", reasons))
                + ". Remedy: mount the same filesystem there on all nodes (copies in the pods' template)");
    }

    /** Returns the digests of the images that other nodes than this one have written. */
    private Map<String, String> imagesOfOthers(JobName job, JobSet set, String host, List<String> reasons)
            throws InterruptedException {
        Map<String, String> digests = new TreeMap<>();
        try {
            new ImageLists(job, services).of(host, set.id(), ImagePlaces.COPIES).forEach((pod, image) -> {
                if (!ImageLists.writerOf(image).equals(host)) {
                    digests.put(pod, ImageLists.digestOf(image));
                }
            });
            reasons.add(host + " sees " + digests.size() + " of others");
        } catch (IOException | RequestException e) {
            reasons.add(host + ": " + e.getMessage());
        }
        return digests;
    }
}
