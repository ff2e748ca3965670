package io.ppmr.cluster.job;

import io.ppmr.cluster.job.JobQuestion.Answer;
import io.ppmr.cluster.job.JobQuestion.AskCopy;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.linux.LogContext;
import io.ppmr.linux.RareLog;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.keep.ImageCopy;
import io.ppmr.migration.keep.SetDirectory;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Copies the images of a job that this node has written to the job's second place, while the job runs. It has a thread
 * as long as a set of the job is not safe, and none else. Safe for any thread.
 */
final class SetCopier {
    private static final Logger LOG = LoggerFactory.getLogger(SetCopier.class);
    private static final Duration AGAIN = Duration.ofSeconds(10);
    private static final Duration END_LIMIT = Duration.ofSeconds(5);
    /** The longest wait within a copy: the rate is kept on average. */
    private static final long LONGEST_WAIT_NS = TimeUnit.MILLISECONDS.toNanos(200);

    private final JobName job;
    private final String host;
    private final ActiveController controllers;
    private final RareLog log = new RareLog(LOG::warn);
    private Optional<Thread> thread = Optional.empty();
    /** The checkpoint of which nothing is left to copy, or the last one that was begun. Guarded by this. */
    private String seen = "";

    private boolean isEnding;

    /** The two places of a job's images. */
    record CopyPlaces(Path from, Path to) {}

    SetCopier(JobName job, String host, ActiveController controllers) {
        this.job = job;
        this.host = host;
        this.controllers = controllers;
    }

    /** Receives the job's record: each new set begins a copy, or lets the present one continue with it. */
    synchronized void onRecord(JobRecord record, CopyPlaces places) {
        String now = record.id() + " " + record.numbers().incarnation() + " "
                + record.numbers().round();
        boolean hasSet = record.phase() == JobPhase.RUNNING && record.numbers().round() > 0;
        if (isEnding || !hasSet || now.equals(seen) || thread.isPresent()) {
            return;
        }
        seen = now;
        thread = Optional.of(LogContext.thread(() -> run(places), "ppmr-job-copy"));
        thread.get().start();
    }

    /** Ends the present copy. What is not whole is removed, and copied by the next run of the service. */
    void end() throws InterruptedException {
        Optional<Thread> running;
        synchronized (this) {
            isEnding = true;
            running = thread;
        }
        if (running.isPresent()) {
            running.get().interrupt();
            running.get().join(END_LIMIT.toMillis());
        }
    }

    private void run(CopyPlaces places) {
        try {
            AskCopy next = new AskCopy(job, host, null, null);
            while (next != null) {
                next = step(next, places);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (RuntimeException e) {
            LOG.error("job {}: a defect of this service; please report it: copies of images", job, e);
        } finally {
            synchronized (this) {
                thread = Optional.empty();
            }
        }
    }

    /** Queries the controller, and does what it answers. Returns the next question, or null if all is safe. */
    private AskCopy step(AskCopy question, CopyPlaces places) throws InterruptedException {
        try {
            Answer answer = controllers.ask(question);
            if (answer.isUnknownJob() || (answer.refusal() == null && answer.number() == null)) {
                return null;
            }
            if (answer.refusal() != null) {
                throw new IOException(answer.refusal());
            }
            if (answer.pods() == null || answer.pods().isEmpty()) {
                park(TimeUnit.SECONDS.toNanos(answer.number()));
                return question;
            }
            String set = answer.pods().keySet().iterator().next();
            long rateBytes = Long.parseLong(answer.pods().get(set));
            if (!JobKey.isSet(set) || rateBytes < 0) {
                throw new IOException("a controller named an invalid set");
            }
            return new AskCopy(job, host, set, copy(set, rateBytes, answer.number(), places));
        } catch (InterruptedIOException e) {
            throw (InterruptedException) new InterruptedException(e.getMessage()).initCause(e);
        } catch (IOException | RequestException | NumberFormatException e) {
            log.write("copy", "job " + job + ": its images are copied to the second place later: " + e.getMessage());
            park(AGAIN.toNanos());
            // The set may be another one by then.
            return new AskCopy(job, host, null, null);
        }
    }

    private Map<String, String> copy(String set, long rateBytes, long turnSeconds, CopyPlaces places)
            throws IOException, RequestException {
        SetDirectory from = new SetDirectory(places.from(), job.uid(), job.name());
        SetDirectory to = new SetDirectory(places.to(), job.uid(), job.name());
        CopyPace pace = new CopyPace(set, rateBytes, TimeUnit.SECONDS.toNanos(turnSeconds));
        ImageCopy copy = new ImageCopy(pace);
        Map<String, String> digests = new TreeMap<>();
        for (String pod : from.pods(set)) {
            // Other nodes that share the directory copy theirs.
            if (from.nodeOf(set, pod).equals(host)) {
                digests.put(pod, copy.copy(from, to, set, pod));
            }
        }
        LOG.info(
                "job {}: {} images of set {}, {} bytes, are copied to {}",
                job,
                digests.size(),
                set,
                pace.totalBytes,
                places.to());
        return digests;
    }

    private static void park(long ns) throws InterruptedException {
        long endNs = System.nanoTime() + ns;
        for (long leftNs = ns; leftNs > 0; leftNs = endNs - System.nanoTime()) {
            LockSupport.parkNanos(leftNs);
            if (Thread.interrupted()) {
                throw new InterruptedException("the service ends");
            }
        }
    }

    /** Keeps the rate, and the node's turn. One thread owns it. */
    private final class CopyPace implements ImageCopy.Pace {
        private final String set;
        private final long rateBytes;
        private final long turnNs;
        private final long beginNs = System.nanoTime();
        private long totalBytes;
        private long askedNs = beginNs;

        private CopyPace(String set, long rateBytes, long turnNs) {
            this.set = set;
            this.rateBytes = rateBytes;
            this.turnNs = turnNs;
        }

        @Override
        public void copied(int bytes) throws IOException {
            totalBytes += bytes;
            long nowNs = System.nanoTime();
            long dueNs = rateBytes == 0 ? nowNs : beginNs + (long) (totalBytes * 1e9 / rateBytes);
            try {
                if (dueNs - nowNs > LONGEST_WAIT_NS / 2) {
                    park(Math.min(dueNs - nowNs, LONGEST_WAIT_NS));
                }
                if (Thread.interrupted()) {
                    throw new InterruptedException("the service ends");
                }
            } catch (InterruptedException e) {
                throw (IOException) new InterruptedIOException(e.getMessage()).initCause(e);
            }
            if (nowNs - askedNs > turnNs) {
                askedNs = nowNs;
                requireWanted();
            }
        }

        /** A set that the job no longer has is not copied on. Without a controller it is. */
        private void requireWanted() throws IOException {
            Answer answer;
            try {
                answer = controllers.ask(new AskCopy(job, host, set, null));
            } catch (IOException | RequestException e) {
                log.write("copy", "job " + job + ": no controller knows of the copy: " + e.getMessage());
                return;
            }
            boolean isOther = answer.refusal() == null
                    && (answer.number() == null
                            || (answer.pods() != null && !answer.pods().containsKey(set)));
            if (isOther) {
                throw new IOException("set " + set + " is no longer copied");
            }
        }
    }
}
