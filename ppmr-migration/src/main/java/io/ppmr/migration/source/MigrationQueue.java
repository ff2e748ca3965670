package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.linux.LogContext;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The migrations of a source: the current one, and the orders that wait for its end. Each migration has one thread, on
 * which it runs. Safe for any thread. Watchers are called on other threads, and must not block.
 *
 * <p>No scan happens under the lock, and no migration's thread waits for a process or a file. Therefore status queries,
 * cancellations and orders are answered at once.
 */
public final class MigrationQueue {
    private static final Logger LOG = LoggerFactory.getLogger(MigrationQueue.class);
    private static final int LEAST_OF_ID = 4;
    private static final long POLL_MS = 100;
    /**
     * Scans of a job have their own limits, and end within a second of a cancellation. A later end means that the scan
     * hangs.
     */
    private static final long HANGING_NS = TimeUnit.SECONDS.toNanos(10);

    /** A name for the jobs that a trigger has yet to move, instead of a migration's name. */
    public static final String WAITING = "waiting";

    /** Makes a migration of an order. The migration has not begun then. May block. */
    @FunctionalInterface
    interface Maker {
        OwnedMigration make(
                String id,
                MigrationOrder order,
                Cancellation cancellation,
                Consumer<MigrationProgress> watcher,
                ReportListener reported)
                throws InterruptedException;
    }

    /** Moves a job, for users without a source's service. */
    @FunctionalInterface
    public interface MigrationRunner {
        MigrationReport migrate(
                String id, MigrationOrder order, Cancellation cancellation, Consumer<MigrationProgress> watcher)
                throws InterruptedException;
    }

    /**
     * A migration that was started.
     *
     * @param id its name, for a cancellation
     * @param job the job's name
     */
    public record Started(String id, String job) {}

    /**
     * A snapshot of the migrations.
     *
     * @param running the current migration
     * @param progress its progress, if there is any yet
     * @param last the last report
     * @param waiting the jobs that a trigger has yet to move
     */
    public record State(
            Optional<Started> running,
            Optional<MigrationProgress> progress,
            Optional<MigrationReport> last,
            List<String> waiting) {}

    /**
     * The migration that occupies the node, running or waiting for a participant. The migration is empty until it is
     * prepared.
     */
    record Owner(String id, Optional<OwnedMigration> migration) {}

    /** An event for the watchers of a migration. The last event is an {@link Ended} or a {@link Failed}. */
    public sealed interface Event {

        /** The migration made progress. */
        record Going(MigrationProgress progress) implements Event {}

        /** The migration ended, with any outcome. */
        record Ended(MigrationReport report) implements Event {}

        /** The migration could not begin, or failed without a report. */
        record Failed(String reason) implements Event {}

        /** Returns true if the job was moved. */
        default boolean hasMoved() {
            return this instanceof Ended ended && ended.report().moved();
        }
    }

    /** The requester of a migration, as far as the queue needs it. It is the same for each order of a kind. */
    public interface Customer {
        /** Throws if the order comes too soon. Called under the lock, so it must not block. */
        default void admit() throws RequestException {
            // Most requesters may order at any rate.
        }

        /** Handles the migration's last event, before any watcher. */
        default void ended(Event last) {
            // Watchers receive the event, too.
        }
    }

    /**
     * A request to move a job.
     *
     * @param job its name
     * @param by requester, for the log
     * @param isGivenWayTo whether a trigger's jobs wait for its end instead of being refused
     * @param order finds out what to move when its turn comes, or empty if the job no longer exists. It may block
     * @param customer the requester
     */
    public record Request(
            String job, String by, boolean isGivenWayTo, Callable<Optional<MigrationOrder>> order, Customer customer) {}

    /** Receives the start and end of every migration. It must not block. */
    public interface Observer {
        /** A migration begins. */
        void begun(Started migration);

        /** A migration has its report. */
        void ended(Started migration, MigrationReport report);
    }

    /** The migration that occupies the node, from its order until it is over. Guarded by the queue's lock. */
    private static final class Underway {
        private final Started started;
        private final Optional<Request> request;
        private final Cancellation cancellation;
        private final AtomicBoolean announced = new AtomicBoolean();
        private final List<Consumer<Event>> watchers = new CopyOnWriteArrayList<>();
        private volatile Optional<OwnedMigration> migration = Optional.empty();
        private volatile Optional<MigrationProgress> progress = Optional.empty();
        private boolean inRound;
        /** Its report is made, or an earlier run of the service began it. No watcher waits for its report. */
        private boolean older;

        private boolean reported;

        private Underway(Started started, Optional<Request> request, Cancellation cancellation) {
            this.started = started;
            this.request = request;
            this.cancellation = cancellation;
        }
    }

    /**
     * The jobs that a trigger still has to move, one after the other. A job whose checkpoints were too slow goes to the
     * end of the queue once, so that the others need not wait for it again. Guarded by the queue's lock.
     */
    private static final class Waiting {
        private final Deque<Request> left;
        private final Set<String> again = new HashSet<>();
        private final String by;
        private final Consumer<Event> watcher;
        private Optional<Event> worst = Optional.empty();

        private Waiting(List<Request> requests, String by, Consumer<Event> watcher) {
            this.left = new ArrayDeque<>(requests);
            this.by = by;
            this.watcher = watcher;
        }

        private void notifyProgress() {
            watcher.accept(worst.orElse(new Event.Failed("no job could be moved")));
        }

        private void ended(Request request, Event last) {
            if (last instanceof Event.Ended ended && ended.report().slow() && again.add(request.job())) {
                LOG.warn("{}: job {} will be tried once more after all others", by, request.job());
                left.addLast(request);
                return;
            }
            if (worst.isEmpty() || !last.hasMoved()) {
                worst = Optional.of(last);
            }
        }
    }

    private final Maker maker;
    /** Watchers of the next migration that begins. */
    private final List<Consumer<Event>> early = new CopyOnWriteArrayList<>();

    private final List<Observer> observers = new CopyOnWriteArrayList<>();
    private Optional<Underway> underway = Optional.empty();
    private Optional<Waiting> waiting = Optional.empty();
    private Optional<MigrationReport> lastReport = Optional.empty();
    private boolean closed;

    MigrationQueue(Maker maker) {
        this.maker = maker;
    }

    /** Makes the queue for a runner that carries out whole migrations. */
    public MigrationQueue(MigrationRunner mover) {
        this((id, order, cancellation, watcher, reported) ->
                new BriefMigration(() -> mover.migrate(id, order, cancellation, watcher), reported));
    }

    /** Adds an observer of every migration from now on. */
    public void observe(Observer observer) {
        observers.add(observer);
    }

    /**
     * Starts a migration and returns.
     *
     * @param watcher receives this migration's events until its last
     */
    public Started start(Request request, Consumer<Event> watcher) throws RequestException {
        return start(UUID.randomUUID().toString(), request, new Cancellation(), watcher);
    }

    synchronized Started start(String id, Request request, Cancellation cancellation, Consumer<Event> watcher)
            throws RequestException {
        requireFree();
        request.customer().admit();
        return begin(id, request, cancellation, false, watcher);
    }

    /**
     * Moves several jobs, one after the other.
     *
     * @param by the trigger, for the log
     * @param watcher called when all ended, with the last event of a job that was not moved, if there is one
     */
    public void startAll(List<Request> requests, String by, Consumer<Event> watcher) throws RequestException {
        synchronized (this) {
            requireRoom();
            waiting = Optional.of(new Waiting(requests, by, watcher));
        }
        next();
    }

    /** Throws if several jobs can be moved neither now nor after the current migration. */
    public synchronized void requireRoom() throws RequestException {
        boolean givesWay = waiting.isEmpty()
                && !closed
                && underway.filter(one -> !one.older)
                        .flatMap(one -> one.request)
                        .filter(Request::isGivenWayTo)
                        .isPresent();
        if (!givesWay) {
            requireFree();
        }
    }

    private void requireFree() throws RequestException {
        if (closed) {
            throw new RequestException("the service is ending: start it again first");
        }
        Optional<Underway> shown = underway.filter(one -> !one.older);
        if (shown.isPresent() && !shown.get().inRound) {
            throw new RequestException("job " + shown.get().started.job() + " is being migrated (migration "
                    + shown.get().started.id() + "): wait for its end");
        }
        if (underway.filter(one -> one.older).isPresent()) {
            throw new RequestException("migration " + underway.get().started.id()
                    + ", which is older, has not ended yet: `ppmr status` names the peer that it waits for");
        }
        if (waiting.isPresent()) {
            throw new RequestException("the announced jobs are already being moved"
                    + shown.map(one -> ", job " + one.started.job() + " just now (migration " + one.started.id() + ")")
                            .orElse("")
                    + ": wait for the end");
        }
    }

    private Started begin(
            String id, Request request, Cancellation cancellation, boolean inRound, Consumer<Event> watcher) {
        Started started = new Started(id, request.job());
        Underway next = new Underway(started, Optional.of(request), cancellation);
        next.inRound = inRound;
        next.watchers.addAll(early);
        next.watchers.add(watcher);
        early.clear();
        underway = Optional.of(next);
        LOG.info("migration {} of job {} requested by {}", id, request.job(), request.by());
        startThread(next, () -> run(next, request));
        observers.forEach(observer -> observer.begun(started));
        return started;
    }

    private static void startThread(Underway one, Runnable run) {
        Thread thread = new Thread(
                () -> {
                    try (LogContext.Scope about = LogContext.migration(one.started.id())) {
                        run.run();
                    }
                },
                "ppmr-migration");
        thread.start();
    }

    /**
     * Continues a migration that an earlier run of the service began.
     *
     * @param made makes the migration
     */
    synchronized void continueRecorded(
            String id, Function<ReportListener, OwnedMigration> made, Cancellation cancellation) {
        Underway one = new Underway(new Started(id, ""), Optional.empty(), cancellation);
        OwnedMigration migration = made.apply((report, isOver) -> reported(one));
        one.migration = Optional.of(migration);
        one.older = true;
        underway = Optional.of(one);
        startThread(one, () -> {
            try {
                migration.run();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            } catch (RuntimeException e) {
                LOG.error("migration {} failed", id, e);
            } finally {
                over(one);
            }
        });
    }

    private synchronized void reported(Underway one) {
        one.reported = true;
        notifyAll();
    }

    /** Runs a migration, on its thread. */
    private void run(Underway current, Request request) {
        Event last = new Event.Failed("failed; see the service's log");
        try {
            current.migration = made(current, request);
            if (current.migration.isPresent()) {
                current.migration.get().run();
            } else {
                LOG.info("job {} no longer exists", request.job());
                current.announced.set(true);
            }
        } catch (IOException | RequestException e) {
            LOG.error("{}: {}", request.by(), e.getMessage());
            last = new Event.Failed(e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            last = new Event.Failed("the service was stopped in the meantime");
        } catch (RuntimeException e) {
            LOG.error("the migration of job {} failed", request.job(), e);
            last = new Event.Failed("failed: " + e);
        } finally {
            try {
                // This has no effect if the migration has its report.
                ended(current, request, last, true);
            } finally {
                over(current);
                next();
            }
        }
    }

    /**
     * Lets another thread find out what to move, and whether it can be moved. This may block, and has its own limits.
     */
    private Optional<OwnedMigration> made(Underway current, Request request)
            throws IOException, RequestException, InterruptedException {
        Future<Optional<OwnedMigration>> made = SideTask.start(
                "ppmr-migration-order",
                () -> {
                    Optional<MigrationOrder> order = request.order().call();
                    return order.isEmpty() ? Optional.empty() : Optional.of(make(current, request, order.get()));
                },
                () -> LOG.trace("migration {} is prepared", current.started.id()));
        try {
            awaitUnlessCancelled(current, request, made);
            return made.get();
        } catch (ExecutionException e) {
            Throwable cause = e.getCause();
            if (cause instanceof IOException failure) {
                throw failure;
            }
            if (cause instanceof RequestException failure) {
                throw failure;
            }
            if (cause instanceof CheckpointException failure) {
                throw new IOException(failure.getMessage(), failure);
            }
            if (cause instanceof InterruptedException) {
                throw new InterruptedException(cause.getMessage());
            }
            throw new IllegalStateException(cause);
        }
    }

    /**
     * Waits for the preparation. It ends soon after a cancellation. If it hangs, for example on a lost disk, the
     * migration keeps the node, but its report is sent. The job remains unchanged.
     */
    private void awaitUnlessCancelled(Underway current, Request request, Future<?> made) throws InterruptedException {
        long sinceNs = 0;
        while (!made.isDone() && (sinceNs == 0 || System.nanoTime() - sinceNs < HANGING_NS)) {
            try {
                made.get(POLL_MS, TimeUnit.MILLISECONDS);
            } catch (TimeoutException e) {
                LOG.trace("migration {} is being prepared", current.started.id(), e);
            } catch (ExecutionException e) {
                LOG.trace("migration {} cannot begin", current.started.id(), e);
            }
            if (sinceNs == 0 && current.cancellation.reason().isPresent()) {
                sinceNs = System.nanoTime();
            }
        }
        if (!made.isDone()) {
            String reason = current.cancellation.reason().orElseThrow();
            LOG.error(
                    "migration {} is called off ({}), but a scan of job {} hangs: the node stays occupied until it"
                            + " ends."
                            + " Remedy: find the disk, mount or command that does not answer",
                    current.started.id(),
                    reason,
                    request.job());
            ended(current, request, new Event.Failed(reason + "; the job is unchanged"), false);
        }
    }

    private OwnedMigration make(Underway current, Request request, MigrationOrder order) throws InterruptedException {
        return maker.make(
                current.started.id(),
                order,
                current.cancellation,
                progress -> notifyProgress(current, progress),
                (report, isOver) -> ended(current, request, new Event.Ended(report), isOver));
    }

    private void notifyProgress(Underway current, MigrationProgress progress) {
        if (!current.announced.get()) {
            current.progress = Optional.of(progress);
            current.watchers.forEach(watcher -> watcher.accept(new Event.Going(progress)));
        }
    }

    /**
     * Sends a migration's last event to its watchers, once. Later watchers are for the next migration, which belongs to
     * the trigger if there is one.
     *
     * @param isOver whether the migration is over; otherwise it keeps the node until then
     */
    private void ended(Underway current, Request request, Event last, boolean isOver) {
        if (!current.announced.compareAndSet(false, true)) {
            return;
        }
        request.customer().ended(last);
        List<Consumer<Event>> all;
        synchronized (this) {
            if (current.inRound) {
                waiting.ifPresent(jobs -> jobs.ended(request, last));
            }
            current.older = true;
            current.reported = true;
            boolean hasNode = underway.filter(one -> one == current).isPresent();
            if (isOver && hasNode) {
                underway = Optional.empty();
            }
            if (last instanceof Event.Ended ended && hasNode) {
                lastReport = Optional.of(ended.report());
            }
            all = List.copyOf(current.watchers);
            current.watchers.clear();
            notifyAll();
        }
        if (last instanceof Event.Ended ended) {
            observers.forEach(observer -> observer.ended(current.started, ended.report()));
        }
        all.forEach(watcher -> watcher.accept(last));
    }

    /** Frees the node, because the migration is over. */
    private synchronized void over(Underway one) {
        if (underway.filter(current -> current == one).isPresent()) {
            underway = Optional.empty();
        }
        notifyAll();
    }

    /** Begins the next waiting migration, unless one is under way. */
    private void next() {
        Optional<Waiting> over = Optional.empty();
        synchronized (this) {
            if (waiting.isEmpty() || underway.isPresent()) {
                return;
            }
            Request request = closed ? null : waiting.get().left.poll();
            if (request == null) {
                over = waiting;
                waiting = Optional.empty();
            } else {
                begin(
                        UUID.randomUUID().toString(),
                        request,
                        new Cancellation(),
                        true,
                        event -> LOG.trace("{}: {}", request.job(), event));
            }
        }
        over.ifPresent(Waiting::notifyProgress);
    }

    /**
     * Calls a migration off. It rolls back, and the originals continue.
     *
     * @param id its name, or the first characters of it
     * @param by requester
     * @return its whole name
     * @throws RequestException if it is not under way, or decided already
     */
    public synchronized String cancel(String id, String by) throws RequestException {
        Underway one = underway.filter(current -> !current.older)
                .orElseThrow(() -> new RequestException("no migration is under way, so there is nothing to cancel"
                        + (waiting.isEmpty()
                                ? ""
                                : "; " + WAITING + " names the jobs that a trigger has yet to move")));
        if (id.length() < LEAST_OF_ID || !one.started.id().startsWith(id)) {
            throw new RequestException("migration '" + id + "' is not under way; the current migration: "
                    + one.started.id() + ", of job " + one.started.job());
        }
        if (!one.cancellation.cancel("cancelled by " + by)) {
            throw new RequestException("migration " + one.started.id() + " is decided: its originals are being killed,"
                    + " and the restored ranks continue instead. Wait for its end");
        }
        LOG.info("migration {} cancelled by {}", one.started.id(), by);
        return one.started.id();
    }

    /**
     * Cancels the jobs that a trigger has yet to move. The current migration continues.
     *
     * @param by requester
     * @return the jobs
     * @throws RequestException if none wait
     */
    public List<String> cancelWaiting(String by) throws RequestException {
        List<String> jobs;
        Optional<Waiting> over = Optional.empty();
        synchronized (this) {
            jobs = waitingJobs();
            if (jobs.isEmpty()) {
                throw new RequestException("no job is waiting for another migration");
            }
            waiting.get().left.clear();
            // Otherwise the trigger's jobs end with the current migration.
            if (underway.filter(one -> one.inRound && !one.reported).isEmpty()) {
                over = waiting;
                waiting = Optional.empty();
            }
        }
        LOG.warn(
                "jobs {} stay here: {} cancelled the jobs that a trigger had yet to move", String.join(", ", jobs), by);
        over.ifPresent(Waiting::notifyProgress);
        return jobs;
    }

    private List<String> waitingJobs() {
        return waiting.stream()
                .flatMap(round -> round.left.stream())
                .map(Request::job)
                .toList();
    }

    /** Adds a watcher of the current migration, or of the next one, until its last event. */
    public synchronized void watch(Consumer<Event> watcher) {
        underway.filter(one -> !one.older)
                .map(one -> one.watchers)
                .orElse(early)
                .add(watcher);
    }

    /** Removes a watcher. */
    public synchronized void unwatch(Consumer<Event> watcher) {
        early.remove(watcher);
        underway.ifPresent(one -> one.watchers.remove(watcher));
    }

    /** Returns the current migration, and the end of the last one. */
    public synchronized State state() {
        Optional<Underway> running = underway.filter(one -> !one.older);
        return new State(
                running.map(one -> one.started), running.flatMap(one -> one.progress), lastReport, waitingJobs());
    }

    /** Returns the migration that occupies the node. */
    synchronized Optional<Owner> owner() {
        return underway.map(one -> new Owner(one.started.id(), one.migration));
    }

    /** Returns that migration without its name, once it is prepared. */
    Optional<OwnedMigration> migration() {
        return owner().flatMap(Owner::migration);
    }

    /** Calls off the migration that occupies the node. Returns whether there is one, and it was not too late. */
    synchronized boolean callOff(String reason) {
        return underway.filter(one -> one.cancellation.cancel(reason)).isPresent();
    }

    /** Waits until the migration that occupies the node has its report. Returns whether none is without one. */
    synchronized boolean awaitReport(Duration limit) throws InterruptedException {
        long deadlineNs = System.nanoTime() + limit.toNanos();
        long leftNs = limit.toNanos();
        while (underway.filter(one -> !one.reported).isPresent() && leftNs > 0) {
            TimeUnit.NANOSECONDS.timedWait(this, leftNs);
            leftNs = deadlineNs - System.nanoTime();
        }
        return underway.filter(one -> !one.reported).isEmpty();
    }

    /**
     * Accepts no more requests, and waits for the current migration.
     *
     * @return whether none is running now
     */
    public boolean close(Duration limit) throws InterruptedException {
        synchronized (this) {
            closed = true;
            if (underway.filter(one -> one.older).isPresent()) {
                return true;
            }
        }
        return awaitReport(limit);
    }
}
