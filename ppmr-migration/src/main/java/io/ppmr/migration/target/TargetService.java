package io.ppmr.migration.target;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.Polling;
import io.ppmr.fuse.FuseMount;
import io.ppmr.fuse.MountOptions;
import io.ppmr.linux.BootClock;
import io.ppmr.migration.LostPeers;
import io.ppmr.migration.RankSurroundings;
import io.ppmr.migration.node.NodeProbe;
import io.ppmr.migration.samples.SampleStore;
import io.ppmr.protocol.control.NodeFacts;
import io.ppmr.target.image.ArrivingImageView;
import io.ppmr.target.session.ReceiveBuffers;
import io.ppmr.target.session.TransferSettings;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.TransactionJournal;
import io.ppmr.transaction.operator.OpenMigration;
import io.ppmr.transaction.operator.OperatorDecision;
import io.ppmr.transaction.operator.OperatorInbox;
import io.ppmr.transaction.operator.Resolution;
import io.ppmr.transport.TransportChoice;
import io.ppmr.transport.listen.PeerListener;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The service of a spare node. It shows arriving images in a mount, and restarts ranks from them. Between migrations it
 * keeps its pool, its mount and one thread that waits for a connection.
 */
public final class TargetService implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(TargetService.class);
    private static final Duration OPERATOR_PATIENCE = Duration.ofSeconds(30);
    private static final Duration ANSWER_LIMIT = Duration.ofSeconds(60);
    private static final Duration CLOSE_LIMIT = Duration.ofSeconds(40);

    private final TargetSettings settings;
    private final LongSupplier clock;
    private final Supplier<NodeFacts> node;
    private final TransportChoice transports;
    private final List<ReceiveBuffers> receiveBuffers = new ArrayList<>();
    private final ArrivingImageView view = new ArrivingImageView(this::room);
    private final TargetMetrics metrics;
    private final RankSurroundings surroundings;
    private Optional<SampleStore> samples = Optional.empty();
    private FuseMount mount;
    private TransactionJournal journal;
    private TargetSessions sessions;
    private PeerListener listener;
    private JobRestarts restarts;

    /** Makes a service whose bytes arrive over TCP. */
    public TargetService(TargetSettings settings) {
        this(settings, TransportChoice.tcp(), new SimpleMeterRegistry(), RankSurroundings.NONE);
    }

    /**
     * Makes a service with meters in the given registry.
     *
     * @param meters registry of its meters
     * @param surroundings manages the surroundings of ranks
     */
    public TargetService(
            TargetSettings settings, TransportChoice transports, MeterRegistry meters, RankSurroundings surroundings) {
        this(settings, transports, probe(settings), meters, BootClock::nowNs, surroundings);
    }

    /**
     * Makes a service with given facts of the node.
     *
     * @param node returns the facts
     * @param clock time since the boot, in nanoseconds
     */
    public TargetService(
            TargetSettings settings,
            TransportChoice transports,
            Supplier<NodeFacts> node,
            MeterRegistry meters,
            LongSupplier clock,
            RankSurroundings surroundings) {
        this.surroundings = surroundings;
        this.settings = settings;
        this.clock = clock;
        this.node = node;
        this.transports = transports;
        for (int i = 0; i < settings.rules().migrations(); i++) {
            receiveBuffers.add(
                    ReceiveBuffers.of(settings.pool(), settings.transfer().prefixesLimitBytes()));
        }
        this.metrics = new TargetMetrics(
                meters, receiveBuffers.stream().map(ReceiveBuffers::pool).toList());
        metrics.held(this::open);
    }

    /** Keeps samples of each migration beside the journal. Call it before the service is started. */
    public void keepSamples() {
        samples = Optional.of(new SampleStore(settings.journal()));
    }

    /** Returns a supplier of this node's present facts. */
    private static Supplier<NodeFacts> probe(TargetSettings settings) {
        return probeOf(settings)::facts;
    }

    private static NodeProbe probeOf(TargetSettings settings) {
        return new NodeProbe(
                Path.of("/"),
                settings.transfer().stagingLimitBytes(),
                settings.pool().chunkBytes(),
                settings.tools().checkpointers());
    }

    /** Returns what reads the facts of this node. */
    public NodeProbe probe() {
        return probeOf(settings);
    }

    /** Returns the number of migrations that this target can take now. */
    public int freePlaces() {
        return sessions.freePlaces();
    }

    /** Returns the sizes for {@code df}: pools and staging, with no more staging than its disk has left. */
    private ArrivingImageView.StorageUse room() {
        TransferSettings transfer = settings.transfer();
        long poolBytes = settings.pool().poolBytes() * settings.rules().migrations();
        long stagingBytes = transfer.stagingLimitBytes() * settings.rules().migrations();
        long stagedBytes = metrics.hops().stagingUsedBytes();
        try {
            long diskBytes = Files.getFileStore(transfer.stagingDirectory()).getUsableSpace();
            stagingBytes = Math.min(stagingBytes, stagedBytes + diskBytes);
        } catch (IOException e) {
            LOG.debug("the room at {} could not be determined", transfer.stagingDirectory(), e);
        }
        return new ArrivingImageView.StorageUse(poolBytes + stagingBytes, metrics.usedBytes());
    }

    /** Mounts, recovers the state of an earlier run, and listens. When it returns, migrations may arrive. */
    public void start() throws IOException, InterruptedException {
        mount = FuseMount.mount(
                view, settings.node().mount(), MountOptions.named("ppmr-target").forAllUsers());
        journal = MappedJournal.in(settings.journal());
        NativePrograms programs = NativePrograms.fromSystemProperty();
        TargetContext context = new TargetContext(
                settings,
                transports,
                new Admission(settings, transports, node, surroundings, mount::failure),
                programs,
                new PlacementNotes(settings.journal(), programs),
                surroundings,
                journal,
                view,
                metrics,
                clock,
                samples);
        sessions = new TargetSessions(context, receiveBuffers);
        sessions.recover();
        restarts = new JobRestarts(context);
        restarts.recover();
        listener = new PeerListener(settings.listen(), settings.authenticator(), sessions::serve);
        sessions.listener(listener);
        LOG.info("target is ready: images at {}, sources at {}", settings.node().mount(), listener.address());
    }

    /** Returns the address that sources connect to. */
    public InetSocketAddress address() {
        return listener.address();
    }

    public TargetMetrics metrics() {
        return metrics;
    }

    /**
     * Describes the transport of the last migration and the reason for it; before the first, the possible ones. For
     * people.
     */
    public String transport() {
        return transports.state();
    }

    /** Lists the migrations that are under way here. */
    public Set<String> migrations() {
        return sessions.running().stream().map(TargetMigration::id).collect(Collectors.toSet());
    }

    /** Returns the progress of each arriving migration. */
    public List<Arrival> arrivals() {
        return sessions.arrivals();
    }

    /** Returns the migrations that need an operator: blocked on an unreachable peer, or recovered after a restart. */
    public List<OpenMigration> open() {
        return sessions == null
                ? List.of()
                : sessions.running().stream()
                        .flatMap(migration -> migration.open().stream())
                        .toList();
    }

    /**
     * Previews or follows an operator's decision for a migration, and waits for the answer, also for the fence
     * command's.
     *
     * @param id its name, or at least its first four characters
     * @param carryOut false if only a preview is requested
     * @param by requester, for the log
     */
    public Resolution resolve(String id, OperatorDecision decision, boolean carryOut, String by)
            throws IOException, InterruptedException {
        Duration window = settings.fence()
                .map(fence -> fence.delay().plus(fence.deadline()))
                .orElse(Duration.ZERO);
        OperatorInbox.PendingDecision call = new OperatorInbox.PendingDecision(
                decision, carryOut, by, OPERATOR_PATIENCE.plus(window).toNanos());
        List<TargetMigration> named = sessions.running().stream()
                .filter(migration -> OpenMigration.isNamed(migration.id(), id))
                .toList();
        if (named.size() > 1) {
            return new Resolution(
                    id,
                    Resolution.ResolutionResult.REFUSED,
                    "'" + id + "' is the beginning of several migrations' names; enter more characters. They are: "
                            + String.join(", ", migrations()));
        }
        if (!named.isEmpty() && named.get(0).offer(call)) {
            Resolution answer = call.await(ANSWER_LIMIT.toNanos());
            return answer == null ? Resolution.silent(named.get(0).id(), ANSWER_LIMIT) : answer;
        }
        return Resolution.notOpen(id, journal, migrations());
    }

    /**
     * Returns why the service cannot work, if so, after a check of its mount, its listener and its agents. Any thread;
     * blocks it.
     */
    public Optional<String> complaint(Duration limit) throws InterruptedException {
        if (!mount.isMounted() || !mount.responds(limit.toNanos())) {
            return Optional.of(mount.mountPoint() + " does not answer");
        }
        if (!listener.responds(limit.toNanos())) {
            return Optional.of("the accept thread is stuck at " + listener.address() + " for " + limit);
        }
        return sessions.respond(limit.toNanos())
                ? Optional.empty()
                : Optional.of("a session's agent has not run for " + limit);
    }

    /** Returns the nodes that open migrations wait for. The service has started. */
    public LostPeers lostPeers() {
        return new LostPeers(LostPeers.MigrationEnd.TARGET, this::open, journal::records, this::resolve);
    }

    /** Returns the restarts of jobs over several nodes. The service has started. */
    public JobRestarts restarts() {
        return restarts;
    }

    /** Sets the callback for each beginning and end of a migration. The migration's thread calls it. */
    public void onChange(Runnable listener) {
        sessions.onChange(listener);
    }

    /** Sets the callback for the end of each session, with the migration's name. The migration's thread calls it. */
    public void onEnd(Consumer<String> listener) {
        sessions.onEnd(listener);
    }

    /** Ends the service. A migration that is not prepared is rolled back first. */
    @Override
    public void close() throws IOException {
        if (listener != null) {
            listener.close();
        }
        Set<TargetMigration> running = new HashSet<>();
        // Migrations that are over are closed down to their last file. No part of them works once this has returned.
        Polling.until(CLOSE_LIMIT, () -> {
            if (sessions == null) {
                return true;
            }
            sessions.giveUp(running);
            return sessions.isAtRest();
        });
        List<String> held = running.stream()
                .filter(migration -> migration.outcome().isEmpty())
                .map(TargetMigration::id)
                .toList();
        if (!held.isEmpty()) {
            LOG.error("migrations {} are not over: their ranks stay held, and their records are in the journal", held);
        }
        if (sessions != null) {
            sessions.end();
        }
        if (mount != null) {
            mount.close();
        }
        if (journal != null) {
            journal.close();
            journal = null;
        }
    }
}
