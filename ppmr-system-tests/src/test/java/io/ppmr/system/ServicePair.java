package io.ppmr.system;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.RightsBounds;
import io.ppmr.checkpoint.files.CarryPolicy;
import io.ppmr.linux.BootClock;
import io.ppmr.migration.RankSurroundings;
import io.ppmr.migration.node.JobFiles;
import io.ppmr.migration.node.NodeProbe;
import io.ppmr.migration.node.NodeSettings;
import io.ppmr.migration.source.JobHooks;
import io.ppmr.migration.source.JobHooks.JobNotes;
import io.ppmr.migration.source.MigrationLimits;
import io.ppmr.migration.source.SourceService;
import io.ppmr.migration.source.SourceSettings;
import io.ppmr.migration.source.SpareNodes;
import io.ppmr.migration.target.TargetRules;
import io.ppmr.migration.target.TargetService;
import io.ppmr.migration.target.TargetSettings;
import io.ppmr.migration.target.TargetSettings.RestoreTools;
import io.ppmr.protocol.control.NodeFacts;
import io.ppmr.target.session.TransferSettings;
import io.ppmr.transport.TransportChoice;
import io.ppmr.transport.auth.Encryption;
import io.ppmr.transport.auth.PreSharedKey;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;

/** A source and a target on this machine with real mounts, joined by TCP over loopback, for one test. */
public final class ServicePair implements AutoCloseable {
    private static final Duration SILENCE = Duration.ofSeconds(10);

    static final PreSharedKey KEY =
            new PreSharedKey("a key that only these tests know, 32+".getBytes(StandardCharsets.US_ASCII));

    private final SourceService source;
    private final TargetService target;

    /** The choices of a test. The rest is as at a site. Each method returns other options with one change. */
    public static final class Options {
        private final List<Checkpointer> restores;
        private PoolGeometry pool = PoolGeometry.choose(8 << 20);
        private PoolGeometry sourcePool = pool;
        private long minRate = 1 << 20;
        private Duration rateTime = SourceSettings.USUAL_RATE_TIME;
        private JobFiles files = JobFiles.USUAL;
        private PreSharedKey sourceKey = KEY;
        private PreSharedKey targetKey = KEY;
        private long stagingBytes = 64 << 20;
        private Duration stallLimit = Duration.ofSeconds(20);
        private Duration discardDeadline = Duration.ofMinutes(5);
        private Duration pauseGoal = Duration.ofSeconds(1);
        private boolean unknownUsers = true;
        private boolean rootJobs;
        private Map<String, Set<Integer>> trustedUsers = Map.of();

        private Options(List<Checkpointer> restores) {
            this.restores = List.copyOf(restores);
        }

        private Options(Options other, List<Checkpointer> restores) {
            this(restores);
            pool = other.pool;
            sourcePool = other.sourcePool;
            sourceKey = other.sourceKey;
            targetKey = other.targetKey;
            stagingBytes = other.stagingBytes;
            stallLimit = other.stallLimit;
            discardDeadline = other.discardDeadline;
            pauseGoal = other.pauseGoal;
            unknownUsers = other.unknownUsers;
            rootJobs = other.rootJobs;
            trustedUsers = other.trustedUsers;
            minRate = other.minRate;
            rateTime = other.rateTime;
            files = other.files;
        }

        /** Pool and limits of a small site. */
        public static Options with(Checkpointer checkpointer) {
            return new Options(List.of(checkpointer));
        }

        private Options changed(Consumer<Options> change) {
            Options next = new Options(this, restores);
            change.accept(next);
            return next;
        }

        Options pool(int chunks, int chunkBytes) {
            PoolGeometry both = new PoolGeometry(chunkBytes, chunks);
            return changed(next -> {
                next.pool = both;
                next.sourcePool = both;
            });
        }

        Options sourcePool(PoolGeometry other) {
            return changed(next -> next.sourcePool = other);
        }

        Options sourceKey(PreSharedKey key) {
            return changed(next -> next.sourceKey = key);
        }

        /** Both ends protect their connections so. */
        Options encryption(Encryption encryption) {
            return changed(next -> {
                next.sourceKey = next.sourceKey.with(encryption);
                next.targetKey = next.targetKey.with(encryption);
            });
        }

        /** Retained images may use this amount of memory. */
        public Options staging(long bytes) {
            return changed(next -> next.stagingBytes = bytes);
        }

        Options stall(Duration limit) {
            return changed(next -> next.stallLimit = limit);
        }

        /** @param over how much time the rate is counted */
        Options rate(long bytesASecond, Duration over) {
            return changed(next -> {
                next.minRate = bytesASecond;
                next.rateTime = over;
            });
        }

        Options discard(Duration deadline) {
            return changed(next -> next.discardDeadline = deadline);
        }

        /** A job with a longer streamed pause is copied before it, where CRIU may choose. */
        Options pauseGoal(Duration goal) {
            return changed(next -> next.pauseGoal = goal);
        }

        /** The options accept only users of this machine's database. */
        Options knownUsers() {
            return changed(next -> next.unknownUsers = false);
        }

        /** The target restores jobs of root, too. */
        Options alsoRootsJobs() {
            return changed(next -> next.rootJobs = true);
        }

        /** The target restores this user's jobs by CRIU as root. */
        public Options trusts(JobUser user) {
            return changed(next -> next.trustedUsers = Map.of("criu", Set.of(user.uid())));
        }

        Options restores(List<Checkpointer> checkpointers) {
            return new Options(this, checkpointers);
        }
    }

    /** A pair that is up, with mounts, work directories and journals in that directory. */
    public ServicePair(Path directory, Options options) throws IOException, InterruptedException {
        this(directory, options, UnaryOperator.identity(), List.of(), TransportChoice.tcp(), TransportChoice.tcp());
    }

    /** Creates a pair whose transports are limited by these options. */
    public ServicePair(Path directory, Options options, TransportChoice sourceChoice, TransportChoice targetChoice)
            throws IOException, InterruptedException {
        this(directory, options, UnaryOperator.identity(), List.of(), sourceChoice, targetChoice);
    }

    /** Creates a pair whose source queries these spare nodes before its own target. */
    ServicePair(Path directory, Options options, List<InetSocketAddress> before)
            throws IOException, InterruptedException {
        this(directory, options, UnaryOperator.identity(), before, TransportChoice.tcp(), TransportChoice.tcp());
    }

    /** Creates a pair whose target reports the facts of another node. */
    ServicePair(Path directory, Options options, UnaryOperator<NodeFacts> targetIs)
            throws IOException, InterruptedException {
        this(directory, options, targetIs, List.of(), TransportChoice.tcp(), TransportChoice.tcp());
    }

    private ServicePair(
            Path directory,
            Options options,
            UnaryOperator<NodeFacts> targetIs,
            List<InetSocketAddress> before,
            TransportChoice sourceChoice,
            TransportChoice targetChoice)
            throws IOException, InterruptedException {
        NodeProbe probe =
                new NodeProbe(Path.of("/"), options.stagingBytes, options.pool.chunkBytes(), options.restores);
        target = new TargetService(
                new TargetSettings(
                        new InetSocketAddress(InetAddress.getLoopbackAddress(), 0),
                        new NodeSettings(
                                Files.createDirectory(directory.resolve("target")),
                                Files.createDirectory(directory.resolve("target-work")),
                                SILENCE),
                        directory.resolve("target-journal"),
                        options.pool,
                        new TransferSettings(Path.of("/dev/shm"), options.stagingBytes, 16 << 20, options.stallLimit),
                        options.targetKey,
                        new RestoreTools(options.restores, options.trustedUsers),
                        new TargetRules(Duration.ofMinutes(5), options.rootJobs, options.unknownUsers, 2, List.of()),
                        Optional.empty(),
                        TargetSettings.Commands.NONE,
                        CarryPolicy.NONE,
                        RightsBounds.DEFAULT_FILES),
                targetChoice,
                () -> targetIs.apply(probe.facts()),
                new SimpleMeterRegistry(),
                BootClock::nowNs,
                RankSurroundings.NONE);
        target.start();
        source = new SourceService(
                new SourceSettings(
                        new NodeSettings(
                                Files.createDirectory(directory.resolve("source")),
                                Files.createDirectory(directory.resolve("source-work")),
                                SILENCE),
                        directory.resolve("source-journal"),
                        options.sourcePool,
                        options.sourceKey,
                        new SpareNodes.Listed(Stream.concat(before.stream(), Stream.of(target.address()))
                                .toList()),
                        new SourceSettings.Connecting(2, Duration.ofSeconds(5)),
                        new MigrationLimits(
                                Duration.ofMinutes(5),
                                options.discardDeadline,
                                Duration.ofSeconds(20),
                                Duration.ofMinutes(5),
                                3,
                                options.minRate,
                                options.pauseGoal,
                                Duration.ofMinutes(10),
                                30),
                        options.rateTime,
                        RightsBounds.DEFAULT_FILES,
                        Optional.empty(),
                        options.files),
                sourceChoice,
                (job, ranks) -> new JobNotes(job, ranks, Map.of(), JobHooks.NONE),
                new SimpleMeterRegistry(),
                RankSurroundings.NONE);
        try {
            source.start();
        } catch (IOException e) {
            target.close();
            throw e;
        }
    }

    /** Returns true if the source or the target reports that it cannot work. */
    boolean complains(String service) throws InterruptedException {
        Duration limit = Duration.ofSeconds(5);
        return (service.equals("source") ? source.complaint(limit) : target.complaint(limit)).isPresent();
    }

    /**
     * Returns the directory of a rank of the migration under way in one of the mounts, whose only directory is that
     * one.
     */
    static Path rankDirectory(Path mountPoint, int rank) throws IOException {
        try (Stream<Path> directories = Files.list(mountPoint)) {
            Path directory = directories.findFirst().orElseThrow().resolve("rank-" + rank);
            if (!Files.isDirectory(directory)) {
                throw new NoSuchFileException(directory.toString());
            }
            return directory;
        }
    }

    public SourceService source() {
        return source;
    }

    TargetService target() {
        return target;
    }

    @Override
    public void close() throws IOException {
        try {
            source.close();
        } finally {
            target.close();
        }
    }
}
