package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.RdmaCmId;
import com.ibm.disni.verbs.RdmaProvider;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.transport.RegionExporter;
import io.ppmr.transport.Transport;
import java.io.IOException;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.function.Consumer;

/** RDMA, where this node has it. Immutable, for any thread. */
public final class RdmaTransport implements Transport {
    /**
     * How often a device sends again before it gives the peer up: with the time-out that the connection manager gives
     * RoCE that is about 8 s, less than a node may be silent on its control connection.
     */
    static final int RETRIES = 3;
    /** A device gives up by itself long before. */
    private static final Duration READ_DEADLINE = Duration.ofSeconds(20);

    private static final Path DEVICES = Path.of("/sys/class/infiniband");
    private static final Path CONNECTION_MANAGER = Path.of("/dev/infiniband/rdma_cm");

    private final String libraryFailure;
    private final Duration readDeadline;

    RdmaTransport(String libraryFailure, Duration readDeadline) {
        this.libraryFailure = libraryFailure;
        this.readDeadline = readDeadline;
    }

    /** Loads the native library once a process; that it cannot be had is no error, and {@link #unusable} says why. */
    public static RdmaTransport load() {
        return new RdmaTransport(probe(RdmaProvider::provider), READ_DEADLINE);
    }

    /** As {@link #load}, with another deadline for each read: for tests. */
    public static RdmaTransport withReadDeadline(Duration readDeadline) {
        return new RdmaTransport(probe(RdmaProvider::provider), readDeadline);
    }

    /**
     * Why the library cannot be used; null if it can. DiSNI loads it in a static initialiser, so the first failure is
     * another than the later ones.
     */
    static String probe(Callable<?> open) {
        try {
            open.call();
            return null;
        } catch (UnsatisfiedLinkError | NoClassDefFoundError | ExceptionInInitializerError e) {
            return "its native library cannot be loaded (" + e.getMessage() + "): build ppmr with libibverbs-dev and "
                    + "librdmacm-dev installed, or put a libdisni.so on java.library.path";
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return "interrupted while its native library was loaded";
        } catch (Exception e) {
            return "its native library does not fit: " + e.getMessage();
        }
    }

    /** The devices of this node by name, as far as the kernel shows them. */
    public static List<String> devices() {
        List<String> names = new ArrayList<>();
        if (Files.isDirectory(DEVICES)) {
            try (DirectoryStream<Path> entries = Files.newDirectoryStream(DEVICES)) {
                entries.forEach(entry -> names.add(entry.getFileName().toString()));
            } catch (IOException e) {
                return List.of();
            }
        }
        names.sort(String::compareTo);
        return names;
    }

    @Override
    public String unusable() {
        if (libraryFailure != null) {
            return libraryFailure;
        }
        if (devices().isEmpty()) {
            return "this node has no RDMA device (" + DEVICES + " names none)";
        }
        if (!Files.isWritable(CONNECTION_MANAGER)) {
            return CONNECTION_MANAGER + " is missing or closed to this user (modprobe rdma_ucm)";
        }
        return null;
    }

    @Override
    public String unreachable(InetAddress peer, Duration deadline) {
        if (!(peer instanceof Inet4Address)) {
            return "DiSNI knows IPv4 alone, and the peer is " + peer.getHostAddress();
        }
        if (peer.isLoopbackAddress()) {
            return "the peer is this machine's loopback address, to which no RDMA device belongs";
        }
        try (CmChannel channel = new CmChannel()) {
            RdmaCmId id = channel.createId();
            try {
                RdmaRegionExporter.resolve(
                        channel, id, new InetSocketAddress(peer, 1), System.nanoTime() + deadline.toNanos());
            } finally {
                Closing.quietly("a connection's id", id::destroyId);
            }
            return null;
        } catch (IOException e) {
            return e.getMessage();
        }
    }

    @Override
    public Transport.Listener listen(BufferPool pool, InetAddress address) throws IOException {
        if (!(address instanceof Inet4Address)) {
            throw new IOException("DiSNI knows IPv4 alone, and this node was called at " + address.getHostAddress());
        }
        return new RdmaListener(pool, address, readDeadline);
    }

    @Override
    public RegionExporter connect(
            BufferPool pool, InetSocketAddress target, Duration deadline, Consumer<String> onFailure)
            throws IOException {
        return RdmaRegionExporter.connect(pool, target, System.nanoTime() + deadline.toNanos(), onFailure);
    }
}
