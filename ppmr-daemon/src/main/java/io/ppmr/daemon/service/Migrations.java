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
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * The orders to a source's service: finds the requested job, and passes it to the {@link MigrationQueue}, which owns
 * the running migrations. Triggers come from the signal, from the health command and from the control socket. It is
 * safe for any thread. Watchers are called on the migration's thread and must not block.
 */
public final class Migrations {
    /** A job, and its name if a user announced it. */
    private record ResolvedJob(ConfiguredJob job, Optional<JobName> announced) {
        String name() {
            return announced.map(JobName::toString).orElse(job.name());
        }
    }

    /** The origin of a request: for an announced job, or from its owner. */
    private final class RequestOrigin implements MigrationQueue.Customer {
        private final Optional<JobName> announced;
        private final Optional<String> owner;
        /** The targets of the order. Empty before there is an order, because nothing is recorded before. */
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

        private void begins(MigrationOrder order, MoveOptions options) throws RequestException {
            targets = Optional.of(order.targets());
            if (announced.isPresent()) {
                Migrations.this.announced.begins(announced.get(), order.targets(), options.withoutCluster());
            }
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

    /** The migrations of a source without announced jobs. */
    public Migrations(Map<String, ConfiguredJob> jobs, Optional<String> triggerJob, MigrationQueue queue) {
        this(jobs, triggerJob, queue, JobSources.NONE);
    }

    /**
     * @param jobs the configured jobs, by name
     * @param triggerJob the job that the triggers move; without it they move all announced jobs
     * @param queue owns the migrations
     * @param announced the jobs that users announce
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
     * Returns true if a user other than root and the service's own may move this job. Returns false for the job of the
     * trigger.
     */
    public boolean isOwnedBy(String job, String user) {
        return announced.isOwnedBy(job, user);
    }

    /**
     * Starts a migration and returns.
     *
     * @param name the job, or null for the job of the trigger
     * @param by the origin of the request, for the log
     * @param watcher receives the events of this migration until its last
     */
    public MigrationQueue.Started start(String name, String by, Consumer<MigrationQueue.Event> watcher)
            throws RequestException {
        return start(name, Optional.empty(), MoveOptions.NONE, by, watcher);
    }

    /**
     * Starts a migration to these nodes.
     *
     * @param owner restricts the request to announced jobs of this user, or empty if the caller may control the service
     */
    public MigrationQueue.Started start(
            String name, Optional<String> owner, MoveOptions options, String by, Consumer<MigrationQueue.Event> watcher)
            throws RequestException {
        ResolvedJob job = job(name, owner);
        requireHere(job);
        if (options.keep().or(job.job()::keep).isPresent() && !job.job().pods().isEmpty()) {
            throw new RequestException("job " + job.name() + " is in pods, and no pod can be restarted from a copy yet,"
                    + " so none is kept. Remedy: migrate it without --keep");
        }
        return queue.start(request(job, owner, options, by), watcher);
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

    private MigrationQueue.Request request(ResolvedJob found, Optional<String> owner, MoveOptions options, String by) {
        RequestOrigin asker = new RequestOrigin(found.announced(), owner);
        return new MigrationQueue.Request(
                found.name(),
                by,
                owner.isPresent(),
                () -> {
                    MigrationOrder order = order(found.job(), options, by);
                    asker.begins(order, options);
                    return Optional.of(order);
                },
                asker);
    }

    /** A job of a trigger, which is looked up at its turn. */
    private MigrationQueue.Request request(JobName name, MoveOptions options, String by) {
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
                    MigrationOrder order = order(job.get(), options, by);
                    asker.begins(order, options);
                    return Optional.of(order);
                },
                asker);
    }

    /**
     * Handles a failing node: moves the configured job of the trigger or, without one, all announced jobs, one after
     * the other, users in turn. If a user's own migration runs, they wait for its end.
     *
     * @param by the trigger, for the log
     * @param within the time in which the jobs should be moved, if the trigger knows one
     * @param watcher receives, after all ended, the last event of a job that was not moved, if there is one
     * @return the moved jobs, for the log
     */
    public String trigger(String by, Optional<Duration> within, Consumer<MigrationQueue.Event> watcher)
            throws RequestException {
        MoveOptions options = MoveOptions.within(within);
        if (triggerJob.isPresent()) {
            return start(triggerJob.get(), Optional.empty(), options, by, watcher)
                    .job();
        }
        queue.requireRoom();
        List<JobName> names = announced.names();
        if (names.isEmpty()) {
            throw new RequestException(
                    "no job is announced, and the configuration names no trigger_job: known are " + known());
        }
        queue.startAll(names.stream().map(name -> request(name, options, by)).toList(), by, watcher);
        return names.stream().map(JobName::toString).collect(Collectors.joining(", "));
    }

    /**
     * Cancels a migration, as {@link MigrationQueue#cancel} does.
     *
     * @param id its name, or the first characters of its name
     * @param by the origin of the request
     * @return its whole name
     */
    public String cancel(String id, String by) throws RequestException {
        return queue.cancel(id, by);
    }

    /**
     * Cancels the waiting jobs of a trigger, as {@link MigrationQueue#cancelWaiting} does. They stay where they are.
     */
    public List<String> cancelWaiting(String by) throws RequestException {
        return queue.cancelWaiting(by);
    }

    /** Passes the events of the running migration, or of the next one, to a watcher until the last event. */
    public void watch(Consumer<MigrationQueue.Event> watcher) {
        queue.watch(watcher);
    }

    /** Removes a watcher. */
    public void unwatch(Consumer<MigrationQueue.Event> watcher) {
        queue.unwatch(watcher);
    }

    /** Returns the running migration, and the end of the last one. */
    public MigrationQueue.State state() {
        return queue.state();
    }

    /**
     * Accepts no further request, and waits for the running migration.
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

    /** A job with a spare node of its own moves there, unless the request names another. */
    private static MigrationOrder order(ConfiguredJob job, MoveOptions options, String by) throws IOException {
        List<InetSocketAddress> targets = new ArrayList<>(options.to());
        if (targets.isEmpty() && !job.spares().isEmpty()) {
            InetSocketAddress own = job.spares().get(0);
            InetSocketAddress found = new InetSocketAddress(own.getHostString(), own.getPort());
            if (found.isUnresolved()) {
                throw new IOException("job " + job.name() + ": the name of its spare node " + own
                        + " is not known on this node: look at the name service");
            }
            targets.add(found);
        }
        Keeping.KeepRequest kept = new Keeping.KeepRequest(options.keep().or(job::keep), Keeping.Bounds.USUAL);
        return new MigrationOrder(job.resolve(), targets, by, kept, options.untilNs());
    }
}
