package io.ppmr.cluster.controller;

import io.ppmr.cluster.job.JobQuestion.ImagePlaces;
import io.ppmr.cluster.job.JobSet;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.migration.RequestException;
import java.io.IOException;
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
    private final QueriedCluster services;

    CopyCheck(QueriedCluster services) {
        this.services = services;
    }

    /**
     * Returns why the set is not safe; empty if it is.
     *
     * @param hosts the nodes of the job. Spares are asked first, since they would restore lost pods
     */
    Optional<String> whyNotSafe(JobName job, JobSet set, Set<String> hosts) throws InterruptedException {
        List<String> reasons = new ArrayList<>();
        try {
            Set<String> asked = new TreeSet<>(hosts);
            List<String> all = new ArrayList<>(services.spares(asked));
            all.addAll(asked);
            for (String host : all) {
                Optional<String> why = whyNotSafe(job, set, host);
                if (why.isEmpty()) {
                    return why;
                }
                reasons.add(why.get());
            }
        } catch (IOException e) {
            reasons.add(String.valueOf(e.getMessage()));
        }
        return Optional.of("no node sees all images of set " + set.id() + " in its directory of copies: "
                + String.join("; ", reasons)
                + ". Remedy: mount the same filesystem there on all nodes (copies in the pods' template)");
    }

    private Optional<String> whyNotSafe(JobName job, JobSet set, String host) throws InterruptedException {
        try {
            Map<String, String> digests = new TreeMap<>();
            new ImageLists(job, services)
                    .of(host, set.id(), ImagePlaces.COPIES)
                    .forEach((pod, image) -> digests.put(pod, ImageLists.digestOf(image)));
            return set.isOf(digests) ? Optional.empty() : Optional.of(host + " sees " + digests.size());
        } catch (IOException | RequestException e) {
            return Optional.of(host + ": " + e.getMessage());
        }
    }
}
