package io.ppmr.daemon.service;

import io.ppmr.daemon.jobs.AnnouncedJobs;
import io.ppmr.daemon.jobs.ConfiguredJob;
import io.ppmr.daemon.jobs.MoveRecords;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.keep.Keeping;
import io.ppmr.migration.source.Cancellation;
import io.ppmr.migration.source.MigrationOrder;
import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.os.LogContext;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The migrations of a source's service, one at a time, each on a thread of its own; triggers come from the signal, from
 * the health command and from the control socket. Safe for any thread. Watchers are called on the migration's thread
 * and must not block.
 *
 * <p>Nothing that a user decides is read under the lock, such as announcements: whoever asks for the state, cancels or
 * triggers meanwhile is answered at once.
 */
public final class Migrations {
    private static final Logger LOG = LoggerFactory.getLogger(Migrations.class);
    private static final int LEAST_OF_ID = 4;

    /** Moves a job: the service's own method, or a test's. */
    @FunctionalInterface
    public interface Mover {
        MigrationReport migrate(
                String id, MigrationOrder order, Cancellation cancellation, Consumer<MigrationProgress> watcher)
                throws InterruptedException;

        /** A migration that is under way without having been started here: an earlier run of the service began it. */
        default Optional<String> takenUp() {
            return Optional.empty();
        }
    }

    /**
     * A migration that was started.
     *
     * @param id its name, by which it can be cancelled
     * @param job whose
     */
    public record Started(String id, String job) {}

    /**
     * A snapshot of the migrations.
     *
     * @param running the migration that is under way
     * @param progress how far it is, if it has said so yet
     * @param last how the last one ended that came to a report
     */
    public record State(
            Optional<Started> running, Optional<MigrationProgress> progress, Optional<MigrationReport> last) {}

    /** An event for those who watch a migration. The last event is an {@link Ended} or a {@link Failed}. */
    public sealed interface Event {

        /** It goes on. */
        record Going(MigrationProgress progress) implements Event {}

        /** It has ended, well or not. */
        record Ended(MigrationReport report) implements Event {}

        /** It could not even begin, or broke in a way that no report could be made of. */
        record Failed(String reason) implements Event {}
    }

    /** The one who wants a migration: whoever may control the service, a job's own user, or a trigger for many jobs. */
    private enum Asker {
        CONTROL,
        OWNER,
        ROUND
    }

    /** @param owner the job's user, who has asked for it; empty where another asker has */
    private record Running(
            Started started,
            Found job,
            Asker asker,
            Optional<String> owner,
            Cancellation cancellation,
            Thread thread) {}

    /** A job, and what it is called if a user has announced it. */
    private record Found(ConfiguredJob job, Optional<AnnouncedJobs.Name> announced) {
        String name() {
            return announced.map(AnnouncedJobs.Name::toString).orElse(job.name());
        }
    }

    /**
     * The jobs that a trigger still has to move, one after the other. One whose checkpoints were too slow goes to the
     * end of the queue, once, so that the others need not wait for it again. Guarded by the migrations' lock.
     */
    private static final class Round {
        private final Deque<AnnouncedJobs.Name> left;
        private final Set<AnnouncedJobs.Name> again = new HashSet<>();
        private final String by;
        private final Consumer<Event> watcher;
        private Event worst;
        /** True while a thread looks at the job that is next. */
        private boolean choosing;

        Round(List<AnnouncedJobs.Name> jobs, String by, Consumer<Event> watcher) {
            this.left = new ArrayDeque<>(jobs);
            this.by = by;
            this.watcher = watcher;
        }

        void ended(AnnouncedJobs.Name job, Event last) {
            if (last instanceof Event.Ended ended && ended.report().slow() && again.add(job)) {
                LOG.warn("{}: job {} is tried once more after all others", by, job);
                left.addLast(job);
                return;
            }
            boolean moved = hasMoved(last);
            worst = worst == null || !moved ? last : worst;
        }
    }

    private static boolean hasMoved(Event last) {
        return last instanceof Event.Ended ended && ended.report().moved();
    }

    private final Map<String, ConfiguredJob> jobs;
    private final Optional<String> triggerJob;
    private final Mover mover;
    private final AnnouncedJobs announced;
    private final MoveRecords records;
    private final OwnerPace pace = new OwnerPace();
    private final List<Consumer<Event>> watchers = new CopyOnWriteArrayList<>();
    private Running running;
    private Round round;
    private MigrationReport lastReport;
    private boolean closed;
    private volatile MigrationProgress latest;

    /** Those of a source that takes no announced jobs. */
    public Migrations(Map<String, ConfiguredJob> jobs, Optional<String> triggerJob, Mover mover) {
        this(jobs, triggerJob, mover, AnnouncedJobs.none(), new MoveRecords(Optional.empty()));
    }

    /**
     * @param jobs those of the configuration, by name
     * @param triggerJob the one that the triggers move; without it they move all that are announced
     * @param announced those that users announce
     * @param records where is written what becomes of those
     */
    public Migrations(
            Map<String, ConfiguredJob> jobs,
            Optional<String> triggerJob,
            Mover mover,
            AnnouncedJobs announced,
            MoveRecords records) {
        this.jobs = jobs;
        this.triggerJob = triggerJob;
        this.mover = mover;
        this.announced = announced;
        this.records = records;
    }

    /**
     * Returns true if a user who is neither root nor the service's own may have this job moved; not the one of the
     * trigger.
     */
    public boolean isOwnedBy(String job, String user) {
        return announced.isOwnedBy(job, user);
    }

    /**
     * Makes the folder in which a user announces jobs, unless it is there.
     *
     * @param user as the kernel says, by name
     */
    public Path folderOf(String user) throws IOException {
        return announced.folderOf(user);
    }

    /**
     * Starts one and returns.
     *
     * @param name the job; null for the one that the trigger moves
     * @param by who or what asks, for the log
     * @param watcher told of this migration's events until its last
     */
    public Started start(String name, String by, Consumer<Event> watcher) throws RequestException {
        return start(name, Optional.empty(), List.of(), Optional.empty(), by, watcher);
    }

    /**
     * The same to these nodes.
     *
     * @param owner the user whose announced jobs alone are meant; empty where whoever asks may control the service
     * @param to the ranks are spread over them; empty for the configured spare nodes
     * @param keep the directory in which a copy of the images is kept; empty for the job's own, if it has one
     */
    public Started start(
            String name,
            Optional<String> owner,
            List<InetSocketAddress> to,
            Optional<Path> keep,
            String by,
            Consumer<Event> watcher)
            throws RequestException {
        Found job = job(name, owner);
        if (keep.or(job.job()::keep).isPresent() && !job.job().pods().isEmpty()) {
            throw new RequestException("job " + job.name() + " is in pods, and no pod can be restarted from a copy yet,"
                    + " so none is kept. Remedy: migrate it without --keep");
        }
        synchronized (this) {
            requireFree();
            if (owner.isPresent()) {
                pace.start(owner.get(), System.nanoTime());
            }
            return begin(job, owner.isPresent() ? Asker.OWNER : Asker.CONTROL, owner, to, keep, by, watcher);
        }
    }

    /**
     * This node is going: moves the configured job of the trigger or, without one, all jobs that are announced, one
     * after the other, users in turn. Where a user has just had a job of the user's own moved, they wait for its end.
     *
     * @param by what has triggered, for the log
     * @param watcher told when all have ended: the last event of one that was not moved, if there is one
     * @return what is moved, for the log
     */
    public String trigger(String by, Consumer<Event> watcher) throws RequestException {
        if (triggerJob.isPresent()) {
            return start(triggerJob.get(), by, watcher).job();
        }
        requireNoRound();
        List<AnnouncedJobs.Name> names = announced.names();
        if (names.isEmpty()) {
            throw new RequestException(
                    "no job is announced, and the configuration names no trigger_job: known are " + known());
        }
        synchronized (this) {
            requireNoRound();
            round = new Round(names, by, watcher);
        }
        next();
        return names.stream().map(AnnouncedJobs.Name::toString).collect(Collectors.joining(", "));
    }

    private synchronized void requireNoRound() throws RequestException {
        if (round == null && running != null && running.asker() == Asker.OWNER && !closed) {
            return;
        }
        requireFree();
    }

    private void requireFree() throws RequestException {
        if (closed) {
            throw new RequestException("the service is ending: start it again first");
        }
        if (running != null && running.asker() != Asker.ROUND) {
            throw new RequestException("job " + running.started().job() + " is being migrated (migration "
                    + running.started().id() + "): wait for its end");
        }
        if (round != null) {
            throw new RequestException("the announced jobs are being moved already"
                    + (running == null
                            ? ""
                            : ", job " + running.started().job() + " just now (migration "
                                    + running.started().id() + ")")
                    + ": wait for the end");
        }
        Optional<String> takenUp = mover.takenUp();
        if (takenUp.isPresent()) {
            throw new RequestException("migration " + takenUp.get()
                    + ", which is older, has not ended yet: `ppmr status` says whom it waits for");
        }
    }

    private Started begin(
            Found job,
            Asker asker,
            Optional<String> owner,
            List<InetSocketAddress> to,
            Optional<Path> keep,
            String by,
            Consumer<Event> watcher) {
        Started started = new Started(UUID.randomUUID().toString(), job.name());
        Cancellation cancellation = new Cancellation();
        watchers.add(watcher);
        latest = null;
        Thread thread = new Thread(
                () -> {
                    try (LogContext.Scope about = LogContext.migration(started.id())) {
                        run(started, job, to, keep, by, cancellation);
                    }
                },
                "migration");
        running = new Running(started, job, asker, owner, cancellation, thread);
        LOG.info("migration {} of job {} is asked for by {}", started.id(), started.job(), by);
        thread.start();
        return started;
    }

    /**
     * Begins the next migration of a trigger's round, unless one runs; one that cannot begin stops none of the others.
     */
    private void next() {
        for (Optional<AnnouncedJobs.Name> name = choose(); name.isPresent(); name = choose()) {
            Optional<ConfiguredJob> job = Optional.empty();
            try {
                job = announced.find(name.get());
            } catch (RequestException e) {
                fails(name.get(), e.getMessage());
            } finally {
                chosen(name.get(), job);
            }
        }
    }

    /** Takes the next job of the round, if there is one to be begun and no other thread has taken one; or ends it. */
    private synchronized Optional<AnnouncedJobs.Name> choose() {
        if (round == null || round.choosing || running != null) {
            return Optional.empty();
        }
        AnnouncedJobs.Name name = closed ? null : round.left.poll();
        if (name == null) {
            Round over = round;
            round = null;
            over.watcher.accept(over.worst != null ? over.worst : new Event.Failed("no job could be moved"));
            return Optional.empty();
        }
        round.choosing = true;
        return Optional.of(name);
    }

    private synchronized void fails(AnnouncedJobs.Name name, String reason) {
        LOG.warn("{}: {}", round.by, reason);
        round.ended(name, new Event.Failed(reason));
    }

    private synchronized void chosen(AnnouncedJobs.Name name, Optional<ConfiguredJob> job) {
        round.choosing = false;
        if (job.isPresent() && !closed) {
            Found found = new Found(job.get(), Optional.of(name));
            begin(
                    found,
                    Asker.ROUND,
                    Optional.empty(),
                    List.of(),
                    Optional.empty(),
                    round.by,
                    event -> LOG.trace("{}: {}", found.name(), event));
        }
    }

    /**
     * Calls a migration off: it rolls back and the originals go on.
     *
     * @param id its name, or the first characters of it
     * @param by who asks
     * @return its whole name
     * @throws RequestException if it is not under way, or decided already
     */
    public synchronized String cancel(String id, String by) throws RequestException {
        if (running == null) {
            throw new RequestException("no migration is under way, so there is nothing to cancel");
        }
        Started started = running.started();
        if (id.length() < LEAST_OF_ID || !started.id().startsWith(id)) {
            throw new RequestException("migration '" + id + "' is not under way; the one that is: " + started.id()
                    + ", of job " + started.job());
        }
        if (!running.cancellation().cancel("cancelled by " + by)) {
            throw new RequestException("migration " + started.id() + " is decided: its originals are being ended, and"
                    + " the restored ranks go on in their place. Wait for its end");
        }
        LOG.info("migration {} is cancelled by {}", started.id(), by);
        return started.id();
    }

    /** Tells of the migration that runs, or of the next one, until its last event. */
    public void watch(Consumer<Event> watcher) {
        watchers.add(watcher);
    }

    /** Tells no more. */
    public void unwatch(Consumer<Event> watcher) {
        watchers.remove(watcher);
    }

    /** Returns the migration that is under way, and the end of the last one. */
    public synchronized State state() {
        Optional<Started> started = Optional.ofNullable(running).map(Running::started);
        return new State(
                started, started.flatMap(unused -> Optional.ofNullable(latest)), Optional.ofNullable(lastReport));
    }

    /**
     * Takes no more, and waits for the one that runs.
     *
     * @return whether none runs any more
     */
    public boolean close(Duration limit) throws InterruptedException {
        Thread last;
        synchronized (this) {
            closed = true;
            last = running == null ? null : running.thread();
        }
        if (last != null) {
            last.join(Math.max(1, limit.toMillis()));
        }
        return last == null || !last.isAlive();
    }

    private Found job(String name, Optional<String> owner) throws RequestException {
        String wanted = name == null ? triggered() : name;
        if (owner.isEmpty() && jobs.containsKey(wanted)) {
            return new Found(jobs.get(wanted), Optional.empty());
        }
        Optional<AnnouncedJobs.Name> named = announced.named(wanted, owner);
        Optional<ConfiguredJob> job = named.isPresent() ? announced.find(named.get()) : Optional.empty();
        if (job.isEmpty()) {
            throw new RequestException("there is no job '" + wanted + "'"
                    + (announced.taken() ? ", neither announced nor" : "") + " in the configuration: known are "
                    + (owner.isPresent() ? text(announced.names(owner.get())) : known()));
        }
        return new Found(job.get(), named);
    }

    private String triggered() throws RequestException {
        List<String> names = triggerJob.isPresent()
                ? List.of(triggerJob.get())
                : announced.names().stream().map(AnnouncedJobs.Name::toString).toList();
        if (names.size() != 1) {
            throw new RequestException("no job is named, and "
                    + (names.isEmpty()
                            ? "the configuration names no trigger_job: known are " + known()
                            : "several are announced: " + String.join(", ", names)));
        }
        return names.get(0);
    }

    private String known() {
        List<Object> names = new ArrayList<>(jobs.keySet().stream().sorted().toList());
        names.addAll(announced.names());
        return text(names);
    }

    private static String text(List<?> names) {
        return names.isEmpty() ? "none" : names.stream().map(String::valueOf).collect(Collectors.joining(", "));
    }

    private void run(
            Started started,
            Found found,
            List<InetSocketAddress> to,
            Optional<Path> keep,
            String by,
            Cancellation cancellation) {
        ConfiguredJob job = found.job();
        Event last = new Event.Failed("broke off; the service's log says why");
        try {
            last = new Event.Ended(move(found, started, order(job, to, keep, by), cancellation));
        } catch (IOException e) {
            LOG.error("{}", e.getMessage());
            last = new Event.Failed(e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            last = new Event.Failed("the service was told to end meanwhile");
        } catch (RuntimeException e) {
            LOG.error("the migration of job {} broke off", job.name(), e);
            last = new Event.Failed("broke off: " + e);
        } finally {
            Event event = last;
            try {
                takeWatchers(event).forEach(watcher -> watcher.accept(event));
            } finally {
                next();
            }
        }
    }

    /** A job with a spare node of its own goes there, unless whoever asks names another. */
    private static MigrationOrder order(ConfiguredJob job, List<InetSocketAddress> to, Optional<Path> keep, String by)
            throws IOException {
        List<InetSocketAddress> targets = new ArrayList<>(to);
        if (to.isEmpty() && !job.spares().isEmpty()) {
            InetSocketAddress own = job.spares().get(0);
            InetSocketAddress found = new InetSocketAddress(own.getHostString(), own.getPort());
            if (found.isUnresolved()) {
                throw new IOException("job " + job.name() + ": the name of its spare node " + own
                        + " is not known on this node: look at the name service");
            }
            targets.add(found);
        }
        Keeping.Wish wish = new Keeping.Wish(keep.or(job::keep), Keeping.Bounds.USUAL);
        return new MigrationOrder(job.resolve(), targets, by, wish);
    }

    private MigrationReport move(Found found, Started started, MigrationOrder order, Cancellation cancellation)
            throws InterruptedException {
        MigrationReport report = null;
        try {
            found.announced().ifPresent(records::begin);
            report = mover.migrate(started.id(), order, cancellation, progress -> {
                latest = progress;
                tell(new Event.Going(progress));
            });
            return report;
        } finally {
            if (found.announced().isPresent() && report != null) {
                records.end(found.announced().get(), report, order.targets());
            } else {
                found.announced().ifPresent(records::fail);
            }
        }
    }

    /**
     * Ends the migration for those who ask. Those that watch from now on mean the next one, which is that of a
     * trigger's round where there is one.
     */
    private synchronized List<Consumer<Event>> takeWatchers(Event last) {
        if (running.asker() == Asker.ROUND) {
            round.ended(running.job().announced().orElseThrow(), last);
        }
        running.owner().ifPresent(owner -> pace.ended(owner, hasMoved(last), System.nanoTime()));
        running = null;
        lastReport = last instanceof Event.Ended ended ? ended.report() : lastReport;
        List<Consumer<Event>> all = List.copyOf(watchers);
        watchers.clear();
        return all;
    }

    private void tell(Event event) {
        watchers.forEach(watcher -> watcher.accept(event));
    }
}
