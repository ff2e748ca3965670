package io.ppmr.target;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.Availability;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.fuse.FuseMount;
import io.ppmr.fuse.MountOptions;
import io.ppmr.protocol.ControlMessage;
import io.ppmr.protocol.ControlMessage.Begin;
import io.ppmr.target.TargetMigration.Outcome;
import io.ppmr.target.image.ArrivingImageView;
import io.ppmr.target.image.ArrivingImages;
import io.ppmr.target.image.HeadStore;
import io.ppmr.target.rehearsal.Rehearsal;
import io.ppmr.target.session.SessionAgent;
import io.ppmr.target.session.SessionEvent;
import io.ppmr.target.session.Transfer;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.auth.SessionId;
import io.ppmr.transport.tcp.TcpChunkPuller;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The service of a spare node: shows arriving images in a mount and restarts ranks out of it. Between migrations it
 * holds its pool, its mount and one thread that waits for a connection.
 */
public final class TargetService implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(TargetService.class);
    private static final long FIRST_MESSAGE_S = 10;
    private static final long CLOSE_NS = TimeUnit.SECONDS.toNanos(40);
    private static final long CLOSE_POLL_NS = TimeUnit.MILLISECONDS.toNanos(50);
    private static final int MAX_DATA_CONNECTIONS = 64;

    private final TargetSettings settings;
    private final PullerFactory pullers;
    private final BufferPool pool;
    private final int laneChunks;
    private final ArrivingImageView view = new ArrivingImageView();
    private final HeadStore heads;
    private final MeterRegistry meters;
    private final TargetMetrics metrics;
    private final AtomicReference<String> busyWith = new AtomicReference<>();
    private final Map<String, Integer> attempts = new ConcurrentHashMap<>();
    private final Map<String, Outcome> outcomes = new ConcurrentHashMap<>();
    private final Map<String, BlockingQueue<SessionEvent>> inDoubt = new ConcurrentHashMap<>();
    private volatile TargetMigration running;
    private FuseMount mount;
    private PeerListener listener;

    public TargetService(TargetSettings settings) {
        this(settings, TcpChunkPuller::new, new SimpleMeterRegistry());
    }

    /**
     * A service whose transport is made by somebody else: one that injects faults, say.
     *
     * @param meters where its meters are registered
     */
    public TargetService(TargetSettings settings, PullerFactory pullers, MeterRegistry meters) {
        this.settings = settings;
        this.pullers = pullers;
        this.laneChunks = laneChunks(settings.pool());
        this.pool = new BufferPool(settings.pool().plus(laneChunks));
        this.meters = meters;
        this.metrics = new TargetMetrics(meters, pool);
        this.heads = new HeadStore(settings.transfer().headsLimitBytes());
    }

    /** Mounts, warms up and listens; when it returns a migration may come. */
    public void start() throws IOException, InterruptedException {
        mount = FuseMount.mount(
                view, settings.mountPoint(), MountOptions.named("ppmr-target").forAllUsers());
        Rehearsal.run(settings.mountPoint(), view, pool, laneChunks, settings.pool(), heads, settings.transfer());
        listener = new PeerListener(settings.listen(), settings.authenticator(), this::serve);
        LOG.info("target is ready: images at {}, sources at {}", settings.mountPoint(), listener.address());
    }

    /** Where sources connect to. */
    public InetSocketAddress address() {
        return listener.address();
    }

    public ArrivingImageView view() {
        return view;
    }

    /** Everything that this service counts. */
    public MeterRegistry meters() {
        return meters;
    }

    public TargetMetrics metrics() {
        return metrics;
    }

    /** The migration that is under way here, if one is. */
    public Optional<String> migration() {
        return Optional.ofNullable(busyWith.get());
    }

    /** How many chunks beside the pool are the lane: an eighth of it, at most eight. */
    static int laneChunks(PoolGeometry geometry) {
        return Math.max(1, Math.min(8, geometry.chunkCount() / 8));
    }

    /** Ends the service; a migration that is not prepared is rolled back first. */
    @Override
    public void close() throws IOException {
        if (listener != null) {
            listener.close();
        }
        TargetMigration migration = running;
        if (migration != null) {
            migration.giveUp("the target's service ends");
        }
        long deadlineNs = System.nanoTime() + CLOSE_NS;
        while (running != null && !running.isPrepared() && System.nanoTime() - deadlineNs < 0) {
            LockSupport.parkNanos(CLOSE_POLL_NS);
        }
        if (running != null) {
            LOG.error("migration {} is not over: its restored ranks stay held on this node", busyWith.get());
        }
        if (mount != null) {
            mount.close();
        }
    }

    /** Serves one control connection to its end, on the connection's thread. */
    private void serve(SocketChannel channel, SessionId session) throws IOException, InterruptedException {
        BlockingQueue<SessionEvent> events = new LinkedBlockingQueue<>();
        ControlLink link = new ControlLink(
                channel, ControlLink.OF_FIRST_FRAME, settings.silenceLimit().toNanos());
        SessionAgent agent = new SessionAgent(link, events::add);
        agent.start();
        try {
            SessionEvent first = events.poll(FIRST_MESSAGE_S, TimeUnit.SECONDS);
            if (first instanceof SessionEvent.Said said && said.message() instanceof Begin begin) {
                begin(begin, session, link, agent, events);
            } else if (first instanceof SessionEvent.Said said) {
                passOn(said, link);
                LastWords.awaitHeard(events);
            } else {
                LOG.warn("a connection from {} said nothing: {}", link.peer(), first);
            }
        } finally {
            agent.stop();
        }
    }

    /** A source that came back says what it decided about a migration that is in doubt here. */
    private void passOn(SessionEvent.Said said, ControlLink link) throws IOException {
        String id = said.message() instanceof ControlMessage.Commit commit
                ? commit.migrationId()
                : said.message() instanceof ControlMessage.RollBack rollBack ? rollBack.migrationId() : "";
        BlockingQueue<SessionEvent> waiting = inDoubt.get(id);
        if (outcomes.get(id) == Outcome.COMMITTED && said.message() instanceof ControlMessage.Commit) {
            link.send(new ControlMessage.Committed(id));
        } else if (waiting == null) {
            link.send(new ControlMessage.Refuse("migration " + id + " is not in doubt on this node"));
        } else {
            waiting.add(said);
            link.send(awaitOutcome(id));
        }
    }

    /** What became of a migration that was in doubt until now. */
    private ControlMessage awaitOutcome(String id) {
        long deadlineNs = System.nanoTime() + settings.silenceLimit().toNanos();
        while (!outcomes.containsKey(id) && System.nanoTime() - deadlineNs < 0) {
            LockSupport.parkNanos(CLOSE_POLL_NS);
        }
        Outcome outcome = outcomes.get(id);
        if (outcome == null) {
            return new ControlMessage.Failed("migration " + id + " has not ended within " + settings.silenceLimit());
        }
        return outcome == Outcome.COMMITTED ? new ControlMessage.Committed(id) : new ControlMessage.RolledBack(id);
    }

    private void begin(
            Begin begin, SessionId session, ControlLink link, SessionAgent agent, BlockingQueue<SessionEvent> events)
            throws IOException, InterruptedException {
        String refusal = refusal(begin, link.attempt());
        if (refusal == null && !busyWith.compareAndSet(null, begin.migrationId())) {
            refusal = "migration " + busyWith.get() + " is under way on this node: try again later or elsewhere";
        }
        if (refusal != null) {
            LOG.warn("migration {} from {} is refused: {}", begin.migrationId(), link.peer(), refusal);
            metrics.refused();
            link.send(new ControlMessage.Refuse(refusal));
            LastWords.awaitHeard(events);
            return;
        }
        try {
            attempts.put(begin.migrationId(), link.attempt());
            run(begin, session, link, agent, events);
        } finally {
            busyWith.set(null);
        }
    }

    private void run(
            Begin begin, SessionId session, ControlLink link, SessionAgent agent, BlockingQueue<SessionEvent> events)
            throws IOException, InterruptedException {
        List<SocketChannel> data = listener.awaitData(session, begin.dataConnections(), Duration.ofSeconds(10));
        String directory = TargetMigration.directory(begin, link.attempt());
        Checkpointer checkpointer = checkpointer(begin).orElseThrow();
        heads.reset();
        Transfer transfer;
        try {
            transfer = new Transfer(
                    settings.transfer(),
                    pool,
                    laneChunks,
                    link,
                    new ArrivingImages.Setting(
                            directory,
                            checkpointer,
                            view.tree(),
                            settings.pool(),
                            heads,
                            begin.uid(),
                            begin.gid(),
                            begin.ranks()),
                    pullListener -> pullers.create(pool, data, pullListener),
                    reason -> events.add(new SessionEvent.TransferFailed(reason)),
                    metrics.hops());
        } catch (ErrnoException | RuntimeException e) {
            for (SocketChannel channel : data) {
                channel.close();
            }
            view.removeTree(directory);
            throw new IOException("the images of migration " + begin.migrationId() + " cannot be shown", e);
        }
        agent.begin(transfer);
        view.add(directory, transfer.images());
        inDoubt.put(begin.migrationId(), events);
        TargetMigration migration =
                new TargetMigration(begin, checkpointer, transfer, link, agent, events, settings, directory);
        long startNs = System.nanoTime();
        running = migration;
        try {
            Outcome outcome = migration.run();
            outcomes.put(begin.migrationId(), outcome);
            metrics.ended(outcome, transfer.refusedSeeks(), Duration.ofNanos(System.nanoTime() - startNs));
        } finally {
            inDoubt.remove(begin.migrationId());
            migration.close();
            view.remove(directory);
            running = null;
        }
    }

    private String refusal(Begin begin, int attempt) {
        if (begin.chunkBytes() != settings.pool().chunkBytes()) {
            return "its chunks have " + begin.chunkBytes() + " bytes, this node's "
                    + settings.pool().chunkBytes() + ": configure the same pool.chunk on both nodes";
        }
        if (begin.dataConnections() < 1 || begin.dataConnections() > MAX_DATA_CONNECTIONS) {
            return "it wants " + begin.dataConnections() + " data connections: 1 to " + MAX_DATA_CONNECTIONS
                    + " are served";
        }
        if (begin.ranks().isEmpty()
                || Set.copyOf(begin.ranks()).size() != begin.ranks().size()) {
            return "its plan names no rank, or one twice";
        }
        if (begin.uid() == 0 && !settings.allowRootJobs()) {
            return "its processes belong to root, and this node restores none of root's (allow_root_jobs)";
        }
        if (attempts.getOrDefault(begin.migrationId(), 0) >= attempt) {
            return "attempt " + attempt + " is not newer than the last one that came here";
        }
        if (!begin.migrationId().matches("[A-Za-z0-9_-]{1,64}")) {
            return "its name is not made of letters, digits, '-' and '_'";
        }
        Optional<Checkpointer> checkpointer = checkpointer(begin);
        if (checkpointer.isEmpty()) {
            return "this node is not configured to restore images of checkpointer " + begin.checkpointer();
        }
        Availability availability = checkpointer.get().probe();
        return availability.available() ? null : availability.detail() + " (" + availability.remedy() + ")";
    }

    private Optional<Checkpointer> checkpointer(Begin begin) {
        return settings.checkpointers().stream()
                .filter(candidate -> candidate.name().equals(begin.checkpointer()))
                .findFirst();
    }
}
