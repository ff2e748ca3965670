package io.ppmr.daemon.service;

import io.ppmr.daemon.jobs.ConfiguredJob;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.daemon.jobs.JobSources;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.UnknownJobException;
import io.ppmr.migration.keep.Keeping;
import io.ppmr.migration.source.MigrationOrder;
import io.ppmr.migration.source.MigrationQueue;
import io.ppmr.migration.source.MigrationReport;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * The orders to a source's service: finds the job that is asked for, and hands it to the {@link MigrationQueue}, which
 * owns what is under way. Triggers come from the signal, from the health command and from the control socket. Safe for
 * any thread. Watchers are called on the migration's thread and must not block.
 */
public final class Migrations {
    /** A job, and what it is called if a user has announced it. */
    private record ResolvedJob(ConfiguredJob job, Optional<JobName> announced) {
        String name() {
            return announced.map(JobName::toString).orElse(job.name());
        }
    }

    /** The one who asks for a migration: of a job that is announced, or as its owner. */
    private final class RequestOrigin implements MigrationQueue.Customer {
        private final Optional<JobName> announced;
        private final Optional<String> owner;
        /** The targets of the order; empty until there is one, as nothing is recorded before. */
        private volatile Optional<List<InetSocketAddress>> targets = Optional.empty();

        private RequestOrigin(Optional<JobName> announced, Optional<String> owner) {
            this.announced = announced;
            this.owner = owner;
        }

        @Override
        public void admit() throws RequestException {
            if (owner.isPresent()) {
                pace.start(owner.get(), System.nanoTime());
            }
        }

        private void begins(MigrationOrder order) {
            targets = Optional.of(order.targets());
            announced.ifPresent(Migrations.this.announced::begins);
        }

        @Override
        public void ended(MigrationQueue.Event last) {
            if (announced.isPresent() && targets.isPresent()) {
                Optional<MigrationReport> report = last instanceof MigrationQueue.Event.Ended ended
                        ? Optional.of(ended.report())
                        : Optional.empty();
                Migrations.this.announced.ended(announced.get(), report, targets.get());
            }
            owner.ifPresent(name -> pace.ended(name, last.hasMoved(), System.nanoTime()));
        }
    }

    private final Map<String, ConfiguredJob> jobs;
    private final Optional<String> triggerJob;
    private final MigrationQueue queue;
    private final JobSources announced;
    private final Function<String, Optional<String>> lastMove;
    private final OwnerPace pace = new OwnerPace();

    /** Those of a source that takes no announced jobs. */
    public Migrations(Map<String, ConfiguredJob> jobs, Optional<String> triggerJob, MigrationQueue queue) {
        this(jobs, triggerJob, queue, JobSources.NONE);
    }

    /**
     * @param jobs those of the configuration, by name
     * @param triggerJob the one that the triggers move; without it they move all that are announced
     * @param queue owns the migrations
     * @param announced those that users bring
     */
    public Migrations(
            Map<String, ConfiguredJob> jobs, Optional<String> triggerJob, MigrationQueue queue, JobSources announced) {
        this(jobs, triggerJob, queue, announced, job -> Optional.empty());
    }

    /**
     * @param lastMove where a job was moved to, and when, as {@link MovedJobs} finds it
     */
    public Migrations(
            Map<String, ConfiguredJob> jobs,
            Optional<String> triggerJob,
            MigrationQueue queue,
            JobSources announced,
            Function<String, Optional<String>> lastMove) {
        this.lastMove = lastMove;
        this.jobs = jobs;
        this.triggerJob = triggerJob;
        this.queue = queue;
        this.announced = announced;
    }

    /**
     * Returns true if a user who is neither root nor the service's own may have this job moved; not the one of the
     * trigger.
     */
    public boolean isOwnedBy(String job, String user) {
        return announced.isOwnedBy(job, user);
    }

    /**
     * Starts one and returns.
     *
     * @param name the job; null for the one that the trigger moves
     * @param by who or what asks, for the log
     * @param watcher told of this migration's events until its last
     */
    public MigrationQueue.Started start(String name, String by, Consumer<MigrationQueue.Event> watcher)
            throws RequestException {
        return start(name, Optional.empty(), List.of(), Optional.empty(), by, watcher);
    }

    /**
     * The same to these nodes.
     *
     * @param owner the user whose announced jobs alone are meant; empty if the caller may control the service
     * @param to the ranks are spread over them; empty for the configured spare nodes
     * @param keep the directory in which a copy of the images is kept; empty for the job's own, if it has one
     */
    public MigrationQueue.Started start(
            String name,
            Optional<String> owner,
            List<InetSocketAddress> to,
            Optional<Path> keep,
            String by,
            Consumer<MigrationQueue.Event> watcher)
            throws RequestException {
        ResolvedJob job = job(name, owner);
        requireHere(job);
        if (keep.or(job.job()::keep).isPresent() && !job.job().pods().isEmpty()) {
            throw new RequestException("job " + job.name() + " is in pods, and no pod can be restarted from a copy yet,"
                    + " so none is kept. Remedy: migrate it without --keep");
        }
        return queue.start(request(job, owner, to, keep, by), watcher);
    }

    /** Refuses a configured job that was moved, and of which no process runs here. */
    private void requireHere(ResolvedJob found) throws RequestException {
        if (found.announced().isPresent() || found.job().runsHere()) {
            return;
        }
        Optional<String> move = lastMove.apply(found.name());
        if (move.isPresent()) {
            throw new RequestException("job " + found.name() + " was moved " + move.get()
                    + ", and none of its processes runs here. Remedy: if it runs here again, correct [jobs."
                    + found.name() + "] and restart the service");
        }
    }

    private MigrationQueue.Request request(
            ResolvedJob found, Optional<String> owner, List<InetSocketAddress> to, Optional<Path> keep, String by) {
        RequestOrigin asker = new RequestOrigin(found.announced(), owner);
        return new MigrationQueue.Request(
                found.name(),
                by,
                owner.isPresent(),
                () -> {
                    MigrationOrder order = order(found.job(), to, keep, by);
                    asker.begins(order);
                    return Optional.of(order);
                },
                asker);
    }

    /** A job of a trigger's, which is looked for when its turn has come. */
    private MigrationQueue.Request request(JobName name, String by) {
        RequestOrigin asker = new RequestOrigin(Optional.of(name), Optional.empty());
        return new MigrationQueue.Request(
                name.toString(),
                by,
                false,
                () -> {
                    Optional<ConfiguredJob> job = announced.find(name);
                    if (job.isEmpty()) {
                        return Optional.empty();
                    }
                    MigrationOrder order = order(job.get(), List.of(), Optional.empty(), by);
                    asker.begins(order);
                    return Optional.of(order);
                },
                asker);
    }

    /**
     * This node is going: moves the configured job of the trigger or, without one, all jobs that are announced, one
     * after the other, users in turn. Where a user has just had a job of the user's own moved, they wait for its end.
     *
     * @param by what has triggered, for the log
     * @param watcher told when all have ended: the last event of one that was not moved, if there is one
     * @return what is moved, for the log
     */
    public String trigger(String by, Consumer<MigrationQueue.Event> watcher) throws RequestException {
        if (triggerJob.isPresent()) {
            return start(triggerJob.get(), by, watcher).job();
        }
        queue.requireRoom();
        List<JobName> names = announced.names();
        if (names.isEmpty()) {
            throw new RequestException(
                    "no job is announced, and the configuration names no trigger_job: known are " + known());
        }
        queue.startAll(names.stream().map(name -> request(name, by)).toList(), by, watcher);
        return names.stream().map(JobName::toString).collect(Collectors.joining(", "));
    }

    /**
     * Calls a migration off, as {@link MigrationQueue#cancel} does.
     *
     * @param id its name, or the first characters of it
     * @param by who asks
     * @return its whole name
     */
    public String cancel(String id, String by) throws RequestException {
        return queue.cancel(id, by);
    }

    /** Leaves the jobs that a trigger has yet to move where they are, as {@link MigrationQueue#cancelWaiting} does. */
    public List<String> cancelWaiting(String by) throws RequestException {
        return queue.cancelWaiting(by);
    }

    /** Tells of the migration that runs, or of the next one, until its last event. */
    public void watch(Consumer<MigrationQueue.Event> watcher) {
        queue.watch(watcher);
    }

    /** Tells no more. */
    public void unwatch(Consumer<MigrationQueue.Event> watcher) {
        queue.unwatch(watcher);
    }

    /** Returns the migration that is under way, and the end of the last one. */
    public MigrationQueue.State state() {
        return queue.state();
    }

    /**
     * Takes no more, and waits for the one that runs.
     *
     * @return whether no migration runs
     */
    public boolean close(Duration limit) throws InterruptedException {
        return queue.close(limit);
    }

    private ResolvedJob job(String name, Optional<String> owner) throws RequestException {
        String wanted = name == null ? triggered() : name;
        if (owner.isEmpty() && jobs.containsKey(wanted)) {
            return new ResolvedJob(jobs.get(wanted), Optional.empty());
        }
        Optional<JobName> named = announced.named(wanted, owner);
        Optional<ConfiguredJob> job = named.isPresent() ? announced.find(named.get()) : Optional.empty();
        if (job.isEmpty()) {
            throw new UnknownJobException("there is no job '" + wanted + "'"
                    + (announced.taken() ? ", neither announced nor" : "") + " in the configuration: known are "
                    + (owner.isPresent() ? text(announced.names(owner.get())) : known()));
        }
        return new ResolvedJob(job.get(), named);
    }

    private String triggered() throws RequestException {
        List<String> names = triggerJob.isPresent()
                ? List.of(triggerJob.get())
                : announced.names().stream().map(JobName::toString).toList();
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

    /** A job with a spare node of its own goes there, unless the request names another. */
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
        Keeping.KeepRequest wish = new Keeping.KeepRequest(keep.or(job::keep), Keeping.Bounds.USUAL);
        return new MigrationOrder(job.resolve(), targets, by, wish);
    }
}
