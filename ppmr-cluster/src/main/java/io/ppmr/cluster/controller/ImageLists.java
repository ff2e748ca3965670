package io.ppmr.cluster.controller;

import io.ppmr.cluster.job.JobQuestion;
import io.ppmr.cluster.job.JobQuestion.ImagePlaces;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.util.Map;
import java.util.TreeMap;

/** Queries nodes which images of a job's sets they can read. One worker of the controller uses it. */
final class ImageLists {
    /** The most pages of a node's images: those of the largest job have fewer. */
    private static final int MOST_PAGES = 100;

    private static final String TARGET = "target";

    private final JobName job;
    private final QueriedCluster services;

    ImageLists(JobName job, QueriedCluster services) {
        this.job = job;
        this.services = services;
    }

    /** Requests all pages of a node's images: by pod the digest, and the node that has written it. */
    Map<String, String> of(String host, String set, ImagePlaces places)
            throws RequestException, IOException, InterruptedException {
        Map<String, String> images = new TreeMap<>();
        String after = null;
        for (int page = 0; page < MOST_PAGES; page++) {
            JobQuestion.Answer answer = services.ask(host, TARGET, new JobQuestion.FindImages(job, set, after, places));
            if (answer.refusal() != null) {
                throw new RequestException("node " + host + ": " + answer.refusal());
            }
            images.putAll(answer.pods() == null ? Map.of() : answer.pods());
            if (answer.next() == null) {
                return images;
            }
            after = answer.next();
        }
        throw new IOException("its list of images does not end within " + MOST_PAGES + " pages");
    }

    /** Returns the node that has written an image in such a list. */
    static String writerOf(String image) {
        return image.substring(image.indexOf(' ') + 1);
    }

    /** Returns the digest of an image in such a list. */
    static String digestOf(String image) {
        return image.substring(0, Math.max(0, image.indexOf(' ')));
    }
}
