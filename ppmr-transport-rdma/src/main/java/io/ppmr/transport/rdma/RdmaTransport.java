package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.RdmaCmId;
import com.ibm.disni.verbs.RdmaProvider;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.protocol.data.RdmaMode;
import io.ppmr.transport.RailSender;
import io.ppmr.transport.SourcePath;
import io.ppmr.transport.Transport;
import java.io.IOException;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.function.Consumer;

/** RDMA in one of its modes, if this node has it. Immutable, for any thread. */
public final class RdmaTransport implements Transport {
    /**
     * Retransmissions of a device before it reports a failure. With the connection manager's time-out for RoCE this
     * takes about 8 s, which is less than the silence limit of a control connection.
     */
    static final int RETRIES = 3;
    /** Longer than the device's own time-out. */
    private static final Duration DEADLINE = Duration.ofSeconds(20);

    private static final Path ROOT = Path.of("/");
    private static final String DEVICES = "sys/class/infiniband";
    private static final String VERBS = "sys/class/infiniband_verbs";
    private static final String NODES = "dev/infiniband";

    private final String libraryFailure;
    private final RdmaMode mode;
    private final Duration deadline;
    private final Path root;

    /** @param root the parent of {@code sys} and {@code dev}; {@code /} except in tests */
    RdmaTransport(String libraryFailure, RdmaMode mode, Duration deadline, Path root) {
        this.libraryFailure = libraryFailure;
        this.mode = mode;
        this.deadline = deadline;
        this.root = root;
    }

    /** Loads the native library once per process. A failure is not an error. {@link #unusable} returns it. */
    public static RdmaTransport load(RdmaMode mode) {
        return load(mode, DEADLINE);
    }

    /** Like {@link #load(RdmaMode)}, with another deadline for each read or write: for tests. */
    public static RdmaTransport load(RdmaMode mode, Duration deadline) {
        return new RdmaTransport(probe(RdmaProvider::provider), mode, deadline, ROOT);
    }

    /**
     * Returns the reason why the library cannot be used; null if it can. DiSNI loads it in a static initialiser, so the
     * first failure differs from later ones.
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
            return "its native library is not compatible: " + e.getMessage();
        }
    }

    /** Returns the names of this node's devices, as the kernel shows them. */
    public static List<String> devices() {
        return names(ROOT.resolve(DEVICES));
    }

    private static List<String> names(Path folder) {
        List<String> names = new ArrayList<>();
        if (Files.isDirectory(folder)) {
            try (DirectoryStream<Path> entries = Files.newDirectoryStream(folder)) {
                entries.forEach(entry -> names.add(entry.getFileName().toString()));
            } catch (IOException | DirectoryIteratorException e) {
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
        if (names(root.resolve(DEVICES)).isEmpty()) {
            return "this node has no RDMA device (/" + DEVICES + " names none)";
        }
        Path manager = root.resolve(NODES).resolve("rdma_cm");
        String closed = whyClosed(manager);
        if (closed != null) {
            return manager + " cannot be opened: " + closed + " (modprobe rdma_ucm; in a container or a unit with"
                    + " DeviceAllow, let the service have it)";
        }
        List<String> reasons = new ArrayList<>();
        for (String verbs : names(root.resolve(VERBS))) {
            String why = whyNot(verbs);
            if (verbs.startsWith("uverbs") && why == null) {
                return null;
            }
            if (verbs.startsWith("uverbs")) {
                reasons.add(why);
            }
        }
        return reasons.isEmpty()
                ? "no device is open to programs (/" + VERBS + " names none: modprobe ib_uverbs)"
                : "no device of this node can be used: " + String.join("; ", reasons);
    }

    /** Returns the reason why the device with this character device cannot be used; null if it can. */
    private String whyNot(String verbs) {
        String name;
        try {
            name = Files.readString(root.resolve(VERBS).resolve(verbs).resolve("ibdev"), StandardCharsets.US_ASCII)
                    .strip();
        } catch (IOException e) {
            return verbs + " has no readable name (" + e + ")";
        }
        String refusal = Device.refusal(root, name);
        if (refusal != null) {
            return refusal;
        }
        Path node = root.resolve(NODES).resolve(verbs);
        String closed = whyClosed(node);
        return closed == null ? null : name + " cannot be opened (" + node + ": " + closed + ")";
    }

    /**
     * Opens the node, because its mode does not show whether it can be opened: cgroups and a missing driver also
     * prevent that.
     */
    private static String whyClosed(Path node) {
        try {
            FileChannel.open(node, StandardOpenOption.READ, StandardOpenOption.WRITE)
                    .close();
            return null;
        } catch (NoSuchFileException e) {
            return "it does not exist";
        } catch (AccessDeniedException e) {
            return "permission denied";
        } catch (FileSystemException e) {
            return String.valueOf(e.getReason());
        } catch (IOException e) {
            return e.toString();
        }
    }

    @Override
    public String unreachable(InetAddress peer, Duration within) {
        if (!(peer instanceof Inet4Address)) {
            return "DiSNI supports only IPv4, and the peer is " + peer.getHostAddress();
        }
        if (peer.isLoopbackAddress()) {
            return "the peer is this machine's loopback address, to which no RDMA device belongs";
        }
        try (CmChannel channel = new CmChannel()) {
            RdmaCmId id = channel.createId();
            try {
                SourceConnection.resolve(
                        channel, id, null, new InetSocketAddress(peer, 1), System.nanoTime() + within.toNanos());
                Device.of(id.getVerbs()).requireUsable();
            } finally {
                CloseSequence.quietly("a connection's id", id::destroyId);
            }
            return null;
        } catch (IOException e) {
            return e.getMessage();
        }
    }

    @Override
    public Transport.TransportListener listen(BufferPool pool, InetAddress address) throws IOException {
        if (!(address instanceof Inet4Address)) {
            throw new IOException("DiSNI supports only IPv4, and the source connected to " + address.getHostAddress());
        }
        return new RdmaListener(pool, address, mode, deadline);
    }

    @Override
    public SourcePath connect(
            BufferPool pool, InetSocketAddress target, Duration connectDeadline, Consumer<String> onFailure)
            throws IOException {
        long deadlineNs = System.nanoTime() + connectDeadline.toNanos();
        return mode == RdmaMode.READ
                ? RdmaRegionExporter.connect(pool, target, deadlineNs, onFailure)
                : RdmaChunkSender.connect(
                        pool, null, target, deadlineNs, deadline, SourceConnection.REASON_NS, onFailure);
    }

    @Override
    public RailSender.RailConnection connectRail(
            BufferPool pool,
            InetAddress from,
            InetSocketAddress target,
            Duration connectDeadline,
            Consumer<String> onFailure)
            throws IOException {
        if (mode != RdmaMode.WRITE || !(from instanceof Inet4Address)) {
            throw new IOException("a rail over RDMA needs RDMA Write and an IPv4 address; this one has the address "
                    + from.getHostAddress() + " in mode " + mode);
        }
        long deadlineNs = System.nanoTime() + connectDeadline.toNanos();
        // A rail that ended has no further reason.
        return RdmaChunkSender.connect(pool, from, target, deadlineNs, deadline, 0, onFailure);
    }
}
