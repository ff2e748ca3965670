package io.ppmr.system;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.RightsBounds;
import io.ppmr.checkpoint.files.CarryPolicy;
import io.ppmr.linux.BootClock;
import io.ppmr.migration.RankSurroundings;
import io.ppmr.migration.node.JobFiles;
import io.ppmr.migration.node.NodeProbe;
import io.ppmr.migration.node.NodeSettings;
import io.ppmr.migration.source.MigrationLimits;
import io.ppmr.migration.source.SourceService;
import io.ppmr.migration.source.SourceSettings;
import io.ppmr.migration.source.SpareNodes;
import io.ppmr.migration.target.TargetRules;
import io.ppmr.migration.target.TargetService;
import io.ppmr.migration.target.TargetSettings;
import io.ppmr.migration.target.TargetSettings.RestoreTools;
import io.ppmr.protocol.data.VersionRange;
import io.ppmr.target.session.TransferSettings;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.TransactionJournal;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transport.TransportChoice;
import io.ppmr.transport.auth.Encryption;
import io.ppmr.transport.auth.PeerAuthenticator;
import io.ppmr.transport.auth.PreSharedKey;
import java.io.Closeable;
import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;

/** The sources and targets of a test on this machine, with real mounts, connected by TCP over loopback. */
final class Nodes implements AutoCloseable {
    private static final int FIRST_PORT = 12_000;
    private static final int FIRST_EPHEMERAL_PORT = 32_768;
    private static final int PORT_TRIES = 100;

    private static final PreSharedKey KEY =
            new PreSharedKey("a key that only these tests know, 32+".getBytes(StandardCharsets.US_ASCII));
    private static final PoolGeometry POOL = PoolGeometry.of(4 << 20, 64 << 10);
    private static final int MIGRATIONS = 2;

    private final Path directory;
    private final Deque<Closeable> services = new ArrayDeque<>();
    private Encryption encryption = Encryption.CONTROL;
    private VersionRange versions = VersionRange.OF_THIS_RELEASE;

    Nodes(Path directory) throws IOException {
        this.directory = directory;
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    /** Sets the versions of the protocol that services know which are made from now on. */
    void versions(int newest, int oldest) {
        versions = new VersionRange(newest, oldest);
    }

    /** Has services made from now on send control frames in the clear, so that a {@link Relay} can read them. */
    void plain() {
        encryption = Encryption.OFF;
    }

    private PeerAuthenticator key() {
        return new ReleaseKey(KEY.with(encryption), versions);
    }

    TargetService target(String name, Checkpointer... restores) throws IOException, InterruptedException {
        return target(name, Map.of(), restores);
    }

    /**
     * @param trustedUsers by the checkpointer's name, the users whose jobs a checkpointer that restarts as root
     *     restores there
     */
    TargetService target(String name, Map<String, Set<Integer>> trustedUsers, Checkpointer... restores)
            throws IOException, InterruptedException {
        NodeProbe probe = new NodeProbe(Path.of("/"), POOL.poolBytes(), POOL.chunkBytes(), List.of(restores));
        TargetService target = new TargetService(
                new TargetSettings(
                        new InetSocketAddress(InetAddress.getLoopbackAddress(), 0),
                        settings(name),
                        directory.resolve(name + "-journal"),
                        POOL,
                        new TransferSettings(Path.of("/dev/shm"), 64 << 20, 16 << 20, Duration.ofSeconds(60)),
                        key(),
                        new RestoreTools(List.of(restores), trustedUsers),
                        new TargetRules(Duration.ofMinutes(5), false, true, MIGRATIONS, List.of()),
                        Optional.empty(),
                        TargetSettings.Commands.NONE,
                        CarryPolicy.NONE,
                        RightsBounds.DEFAULT_FILES),
                TransportChoice.tcp(),
                probe::facts,
                new SimpleMeterRegistry(),
                BootClock::nowNs,
                RankSurroundings.NONE);
        services.push(target::close);
        target.start();
        return target;
    }

    private NodeSettings settings(String name) throws IOException {
        return new NodeSettings(
                Files.createDirectory(directory.resolve(name)),
                Files.createDirectory(directory.resolve(name + "-work")),
                Duration.ofSeconds(20));
    }

    /**
     * @param spares the spare nodes, queried in this order
     */
    SourceService source(String name, Duration pauseBudget, InetSocketAddress... spares)
            throws IOException, InterruptedException {
        SourceService source = new SourceService(new SourceSettings(
                settings(name),
                directory.resolve(name + "-journal"),
                POOL,
                key(),
                new SpareNodes.Listed(Arrays.asList(spares)),
                new SourceSettings.Connecting(2, Duration.ofSeconds(5)),
                new MigrationLimits(
                        Duration.ofMinutes(5), Duration.ofMinutes(5), Duration.ofSeconds(60), pauseBudget, 3, 1 << 20),
                SourceSettings.USUAL_RATE_TIME,
                RightsBounds.DEFAULT_FILES,
                Optional.empty(),
                JobFiles.USUAL));
        services.push(source::close);
        source.start();
        return source;
    }

    /**
     * Returns an address at which no service listens. The port is outside of the kernel's range for connections
     * (/proc/sys/net/ipv4/ip_local_port_range). So it is still free when a service listens there.
     */
    static InetSocketAddress unusedAddress() throws IOException {
        for (int tries = 0; tries < PORT_TRIES; tries++) {
            InetSocketAddress at = new InetSocketAddress(
                    InetAddress.getLoopbackAddress(),
                    ThreadLocalRandom.current().nextInt(FIRST_PORT, FIRST_EPHEMERAL_PORT));
            if (isFree(at)) {
                return at;
            }
        }
        throw new IOException("no port from " + FIRST_PORT + " on is free on this machine");
    }

    private static boolean isFree(InetSocketAddress at) throws IOException {
        try (ServerSocket socket = new ServerSocket(at.getPort(), 1, at.getAddress())) {
            return socket.isBound();
        } catch (BindException taken) {
            return false;
        }
    }

    /** Returns a service's journal, oldest record first. It may be called while the service runs. */
    List<TransactionRecord> journal(String name) throws IOException {
        return journal(directory, name);
    }

    static List<TransactionRecord> journal(Path directory, String name) throws IOException {
        Path file = directory.resolve(name + "-journal").resolve(MappedJournal.FILE_NAME);
        return Files.exists(file)
                ? MappedJournal.read(file).stream()
                        .map(TransactionJournal.JournalEntry::record)
                        .toList()
                : List.of();
    }

    @Override
    public void close() throws IOException {
        IOException failure = null;
        while (!services.isEmpty()) {
            try {
                services.pop().close();
            } catch (IOException e) {
                failure = e;
            }
        }
        if (failure != null) {
            throw failure;
        }
    }
}
