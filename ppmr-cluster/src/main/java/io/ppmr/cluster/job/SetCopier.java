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
import java.io.UncheckedIOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.FileSystemException;
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
 * as long as a set of the job is being copied, by any node, and none else. Safe for any thread.
 */
final class SetCopier {
    private static final Logger LOG = LoggerFactory.getLogger(SetCopier.class);
    private static final Duration AGAIN = Duration.ofSeconds(10);
    /** A new controller may not know a job yet. One that is unknown for longer is forgotten. */
    private static final int MOST_UNKNOWN = 30;
    /** The longest wait within a copy: the rate is kept on average. */
    private static final long LONGEST_WAIT_NS = TimeUnit.MILLISECONDS.toNanos(200);

    private static final int MOST_FAILURE = 500;

    private final JobName job;
    private final String host;
    private final ActiveController controllers;
    private final RareLog log = new RareLog(LOG::warn);
    private Optional<Thread> thread = Optional.empty();
    /** The checkpoint whose copy was begun last. Guarded by this. */
    private String begun = "";
    /** The newest checkpoint. Guarded by this. */
    private String newest = "";

    private CopyPlaces places;
    private boolean isEnding;
    /** Bytes that were copied since the service began. Only the thread of the copy uses it. */
    private long copiedBytes;

    /** The two places of a job's images. */
    record CopyPlaces(Path from, Path to) {}

    SetCopier(JobName job, String host, ActiveController controllers) {
        this.job = job;
        this.host = host;
        this.controllers = controllers;
    }

    /** Receives the job's record: each new set begins a copy, or lets the present one continue with it. */
    synchronized void onRecord(JobRecord record, CopyPlaces named) {
        if (record.phase() == JobPhase.RUNNING && record.numbers().round() > 0) {
            newest = record.id() + " " + record.numbers().incarnation() + " "
                    + record.numbers().round();
            places = named;
            begin();
        }
    }

    private synchronized void begin() {
        if (!isEnding && thread.isEmpty() && !newest.equals(begun)) {
            begun = newest;
            CopyPlaces now = places;
            thread = Optional.of(LogContext.thread(() -> run(now), "ppmr-job-copy"));
            thread.get().start();
        }
    }

    /** Begins to end. What is not whole is removed, and copied by the next run of the service. */
    synchronized void beginEnd() {
        isEnding = true;
        thread.ifPresent(Thread::interrupt);
    }

    /** Waits for the end until a time of {@link System#nanoTime}. A directory that hangs keeps the thread longer. */
    void awaitEnd(long limitNs) throws InterruptedException {
        Optional<Thread> running;
        synchronized (this) {
            running = thread;
        }
        if (running.isPresent()) {
            running.get().join(Math.max(1, TimeUnit.NANOSECONDS.toMillis(limitNs - System.nanoTime())));
        }
    }

    private void run(CopyPlaces from) {
        boolean isDone = false;
        try {
            isDone = copyAll(from);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (RuntimeException e) {
            LOG.error("job {}: a defect of this service; please report it: copies of images", job, e);
        } finally {
            ended(isDone);
        }
    }

    private synchronized void ended(boolean isDone) {
        thread = Optional.empty();
        if (isDone) {
            // A newer set may be there since the last answer.
            begin();
        } else {
            begun = "";
        }
    }

    /** Copies until no set is left to copy. Returns false if controllers do not know the job. */
    private boolean copyAll(CopyPlaces from) throws InterruptedException {
        AskCopy next = query(null, null, null);
        int unknown = 0;
        while (next != null && unknown < MOST_UNKNOWN) {
            Optional<Answer> answer = ask(next);
            if (answer.isPresent() && !answer.get().isUnknownJob()) {
                unknown = 0;
                next = follow(answer.get(), next, from);
            } else {
                // However long no controller answers, the copy continues with the next one.
                unknown += answer.isPresent() ? 1 : 0;
                park(AGAIN.toNanos());
            }
        }
        return next == null;
    }

    private AskCopy query(String set, Map<String, String> digests, String failure) {
        return new AskCopy(job, host, set, digests, copiedBytes, failure);
    }

    /** Returns empty if no controller answers. */
    private Optional<Answer> ask(AskCopy query) {
        try {
            return Optional.of(controllers.ask(query));
        } catch (IOException | RequestException e) {
            log.write("controller", "job " + job + ": its images are copied later: " + e.getMessage());
            return Optional.empty();
        }
    }

    /** Does what a controller answers. Returns the next query, or null if nothing is left to copy. */
    private AskCopy follow(Answer answer, AskCopy query, CopyPlaces from) throws InterruptedException {
        if (answer.refusal() != null) {
            log.write("refused", "job " + job + ": its images are copied later: " + answer.refusal());
            park(AGAIN.toNanos());
            return query(null, null, null);
        }
        if (answer.number() == null) {
            return null;
        }
        if (answer.pods() == null || answer.pods().isEmpty()) {
            park(TimeUnit.SECONDS.toNanos(answer.number()));
            return query.failure() == null ? query : query(null, null, null);
        }
        String set = answer.pods().keySet().iterator().next();
        try {
            return query(set, copy(set, Long.parseLong(answer.pods().get(set)), answer.number(), from), null);
        } catch (InterruptedIOException e) {
            throw (InterruptedException) new InterruptedException(e.getMessage()).initCause(e);
        } catch (IOException
                | RequestException
                | UncheckedIOException
                | DirectoryIteratorException
                | NumberFormatException e) {
            String reason = reasonOf(e);
            log.write("copy", "job " + job + ": the images of set " + set + " are copied later: " + reason);
            return query(set, null, reason.substring(0, Math.min(MOST_FAILURE, reason.length())));
        }
    }

    /** Java's errors of files have the path alone. */
    private static String reasonOf(Exception failure) {
        Throwable cause = failure instanceof UncheckedIOException || failure instanceof DirectoryIteratorException
                ? failure.getCause()
                : failure;
        boolean isOfFile = cause instanceof FileSystemException;
        return isOfFile
                ? cause + ". Remedy: check the filesystem of that path, and that root can read and write there"
                : String.valueOf(cause.getMessage());
    }

    private Map<String, String> copy(String set, long rateBytes, long turnSeconds, CopyPlaces from)
            throws IOException, RequestException {
        if (!JobKey.isSet(set) || rateBytes < 0) {
            throw new IOException("a controller named an invalid set");
        }
        SetDirectory near = new SetDirectory(from.from(), job.uid(), job.name());
        SetDirectory far = new SetDirectory(from.to(), job.uid(), job.name());
        long before = copiedBytes;
        ImageCopy copy = new ImageCopy(new CopyPace(set, rateBytes, TimeUnit.SECONDS.toNanos(turnSeconds)));
        Map<String, String> digests = new TreeMap<>();
        for (String pod : near.pods(set)) {
            // Other nodes that share the directory copy theirs.
            if (near.nodeOf(set, pod).equals(host)) {
                digests.put(pod, copy.copy(near, far, set, pod));
            }
        }
        LOG.info(
                "job {}: {} images of set {} are in {}, {} bytes were copied",
                job,
                digests.size(),
                set,
                from.to(),
                copiedBytes - before);
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
        private long beginNs = System.nanoTime();
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
            addCopied(bytes);
            long nowNs = System.nanoTime();
            long dueNs = rateBytes == 0 ? nowNs : beginNs + (long) (totalBytes * 1e9 / rateBytes);
            try {
                if (dueNs - nowNs > LONGEST_WAIT_NS / 2) {
                    park(Math.min(dueNs - nowNs, LONGEST_WAIT_NS));
                }
                if (Thread.interrupted()) {
                    throw new InterruptedException("the service ends");
                }
                if (nowNs - askedNs > turnNs) {
                    awaitTurn();
                    askedNs = System.nanoTime();
                }
            } catch (InterruptedException e) {
                throw (IOException) new InterruptedIOException(e.getMessage()).initCause(e);
            }
        }

        /** A set that the job no longer has is not copied on. Without a controller it is. */
        private void awaitTurn() throws IOException, InterruptedException {
            while (true) {
                Optional<Answer> answer = ask(query(set, null, null));
                if (answer.isEmpty() || answer.get().refusal() != null) {
                    return;
                }
                boolean isTurn =
                        answer.get().pods() != null && !answer.get().pods().isEmpty();
                if (answer.get().number() == null
                        || (isTurn && !answer.get().pods().containsKey(set))) {
                    throw new IOException("set " + set + " is no longer copied");
                }
                if (isTurn) {
                    return;
                }
                long pausedNs = System.nanoTime();
                park(TimeUnit.SECONDS.toNanos(answer.get().number()));
                beginNs += System.nanoTime() - pausedNs;
            }
        }
    }

    private void addCopied(int bytes) {
        copiedBytes += bytes;
    }
}
