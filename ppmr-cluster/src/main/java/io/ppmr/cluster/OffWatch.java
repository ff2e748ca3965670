package io.ppmr.cluster;

import io.ppmr.cluster.message.ClusterMessage;
import io.ppmr.cluster.message.ControllerQuestions;
import io.ppmr.linux.LogContext;
import io.ppmr.linux.RareLog;
import io.ppmr.migration.LostPeers;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * While migrations of a service wait for lost nodes, queries the active controller which of these are off, and lets
 * the migrations end by that. It has one thread; closed by its owner.
 */
final class OffWatch implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(OffWatch.class);
    private static final Duration INTERVAL = Duration.ofSeconds(5);
    private static final Duration ANSWER_LIMIT = Duration.ofSeconds(4);
    private static final Duration END_LIMIT = Duration.ofSeconds(5);

    private final LostPeers peers;
    private final ControllerQuestions controllers;
    private final RareLog log = new RareLog(LOG::info);
    private final CountDownLatch end = new CountDownLatch(1);
    private final Thread thread;

    OffWatch(LostPeers peers, ControllerQuestions controllers) {
        this.peers = peers;
        this.controllers = controllers;
        this.thread = LogContext.thread(this::run, "ppmr-cluster-off");
        thread.start();
    }

    private void run() {
        try {
            while (!end.await(INTERVAL.toMillis(), TimeUnit.MILLISECONDS)) {
                try {
                    look();
                } catch (IOException | RequestException | RuntimeException e) {
                    log.write("off", "whether lost peers of migrations are off is unknown: " + e.getMessage());
                }
            }
        } catch (InterruptedException e) {
            // Only the end of the service interrupts this thread.
            LOG.trace("the service ends", e);
        }
    }

    private void look() throws IOException, RequestException, InterruptedException {
        Set<String> boots = peers.boots();
        if (boots.isEmpty()) {
            return;
        }
        List<String> ended = controllers
                .ask(new ClusterMessage.FindOff(List.copyOf(boots)), ClusterMessage.OffBoots.class, ANSWER_LIMIT)
                .boots();
        if (!ended.isEmpty()) {
            peers.ended(Set.copyOf(ended));
        }
    }

    @Override
    public void close() {
        end.countDown();
        thread.interrupt();
        try {
            thread.join(END_LIMIT.toMillis());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
