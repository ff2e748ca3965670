package io.ppmr.bench.node;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.bench.node.SourceNode.SourceConnections;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.fuse.FuseMount;
import io.ppmr.fuse.MountOptions;
import io.ppmr.linux.LogContext;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.ImageTraits;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.protocol.data.RdmaMode;
import io.ppmr.protocol.data.ReadingMode;
import io.ppmr.target.image.ArrivingImageView;
import io.ppmr.target.image.ArrivingImages;
import io.ppmr.target.image.FilePrefixStore;
import io.ppmr.target.metrics.TargetHops;
import io.ppmr.target.session.TargetEnd;
import io.ppmr.target.session.Transfer;
import io.ppmr.target.session.TransferSettings;
import io.ppmr.transport.Arrivals;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.SessionAgent;
import io.ppmr.transport.SessionEvent;
import io.ppmr.transport.TargetPath;
import io.ppmr.transport.Transport;
import io.ppmr.transport.rdma.RdmaTransport;
import io.ppmr.transport.tcp.TcpTransport;
import java.io.Closeable;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.IntStream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A target with its mount and session. {@code begin STREAMS DATA-CONNECTIONS} returns the address for the source's
 * connections. After the source connected, {@code join PROOF} returns the memory that the source may write, if there is
 * any.
 */
final class TargetNode implements NodeMain.BenchNode {
    static final long SILENCE_NS = TimeUnit.SECONDS.toNanos(30);
    static final String DIRECTORY = "run.";

    private static final Logger LOG = LoggerFactory.getLogger(TargetNode.class);
    private static final int BOUNCE_MAX = 8;
    static final TransferSettings SETTINGS =
            new TransferSettings(Path.of("/dev/shm"), 0, 16 << 20, Duration.ofSeconds(20));

    private final PoolGeometry geometry;
    private final int bounceBuffers;
    private final BufferPool pool;
    private final FilePrefixStore prefixes = new FilePrefixStore(SETTINGS.prefixesLimitBytes());
    private final ArrivingImageView view = new ArrivingImageView();
    private final TargetConnections connections;
    private final FuseMount mount;
    private Transfer transfer;
    private SessionAgent agent;
    private TargetEnd end;
    private String directory;
    private int streams;
    private int runs;

    /** Streams of one file each, which the reader may open before it arrives. */
    static final class Traits implements ImageTraits {
        @Override
        public ReadingMode readingMode() {
            return ReadingMode.STREAMED;
        }

        @Override
        public List<String> expectedNames(int rank) {
            return List.of("image");
        }
    }

    TargetNode(NodeMain.Setting setting) throws Exception {
        setting.warmUp();
        geometry = setting.geometry();
        bounceBuffers = Math.max(1, Math.min(BOUNCE_MAX, geometry.chunkCount() / BOUNCE_MAX));
        pool = new BufferPool(geometry.plus(bounceBuffers));
        connections = new TargetConnections(setting.listen(), pool);
        mount = FuseMount.mount(view, setting.mountPoint(), MountOptions.named("ppmr-bench"));
    }

    @Override
    public String begin(List<String> words) throws Exception {
        streams = Integer.parseInt(words.get(0));
        return connections.begin(Integer.parseInt(words.get(1)));
    }

    @Override
    public String command(List<String> words) throws Exception {
        TargetConnections.Joined joined = connections.join(words.subList(1, words.size()));
        ControlLink link = new ControlLink(joined.control(), ProtocolVersion.NEWEST, 1, SILENCE_NS);
        directory = DIRECTORY + ++runs;
        transfer = new Transfer(
                SETTINGS,
                pool,
                bounceBuffers,
                link,
                new ArrivingImages.ImagesContext(
                        directory,
                        new Traits(),
                        view.tree(),
                        geometry,
                        prefixes,
                        0,
                        0,
                        IntStream.range(0, streams).boxed().toList()),
                joined.opens(),
                reason -> LOG.error("the run fails: {}", reason),
                new TargetHops(new SimpleMeterRegistry()));
        end = new TargetEnd(link, event -> {
            if (event instanceof SessionEvent.LinkLost lost) {
                LOG.debug("the link ended: {}", lost.reason());
            }
        });
        agent = new SessionAgent("bench-target", link, ControlMessage::read, end);
        end.begin(transfer);
        view.add(directory, transfer.images());
        agent.start();
        return joined.writable()
                .map(where -> where.address() + " " + where.key() + " " + where.ringAddress() + " " + where.ringKey()
                        + " " + where.ringEntries())
                .orElse("");
    }

    @Override
    public void end() throws Exception {
        end.markEnded();
        agent.stop();
        transfer.close();
        view.remove(directory);
        prefixes.reset();
    }

    @Override
    public void close() throws IOException {
        connections.close();
        mount.close();
    }

    /** The target's side of the connections. It listens, and accepts those of one run after the other. */
    static final class TargetConnections implements Closeable {
        private static final String RDMA = "rdma";

        private final boolean direct;
        private final RdmaMode mode;
        private final BufferPool pool;
        private final ServerSocketChannel listener = ServerSocketChannel.open();
        private FutureTask<Joined> joining;
        /** Identifies the source of the run, as it names itself. */
        private CompletableFuture<MemoryProof> proof;

        /** A run's connections. */
        record Joined(
                SocketChannel control, Optional<DataMessage.Writable> writable, Function<Arrivals, TargetPath> opens) {}

        /** {@code words}: the transport's name, the address to listen at, and of RDMA the mode. */
        TargetConnections(List<String> words, BufferPool pool) throws IOException {
            this.direct = words.get(0).equals(RDMA);
            this.mode = direct ? RdmaMode.valueOf(words.get(2)) : null;
            this.pool = pool;
            listener.bind(new InetSocketAddress(InetAddress.getByName(words.get(1)), 0));
        }

        /** Waits for a source from now on. Returns the address for its connections. */
        String begin(int dataConnections) throws IOException {
            InetSocketAddress at = (InetSocketAddress) listener.getLocalAddress();
            String where = at.getAddress().getHostAddress() + " " + at.getPort();
            Transport transport =
                    direct ? RdmaTransport.load(mode) : new TcpTransport(deadline -> accept(dataConnections));
            Transport.TransportListener waiting = transport.listen(pool, at.getAddress());
            where += direct ? " " + waiting.port() + " " + mode : "";
            CompletableFuture<MemoryProof> expected = new CompletableFuture<>();
            proof = expected;
            joining = new FutureTask<>(() -> accept(waiting, expected));
            LogContext.thread(joining, "bench-accept").start();
            return where;
        }

        private Joined accept(Transport.TransportListener waiting, CompletableFuture<MemoryProof> expected)
                throws IOException, InterruptedException {
            try (Transport.TransportListener open = waiting) {
                SocketChannel control = SourceConnections.noDelay(listener.accept());
                InetAddress from = ((InetSocketAddress) control.getRemoteAddress()).getAddress();
                Transport.TransportPeer peer = open.accept(from, SourceConnections.DEADLINE, expected::isDone);
                if (direct) {
                    if (peer == null) {
                        throw new IOException("no connection by RDMA arrived");
                    }
                    peer.require(expected.getNow(MemoryProof.NONE), SourceConnections.DEADLINE);
                }
                return new Joined(control, peer.writable(), peer::open);
            }
        }

        private List<SocketChannel> accept(int dataConnections) throws IOException {
            List<SocketChannel> data = new ArrayList<>();
            for (int i = 0; i < dataConnections; i++) {
                data.add(SourceConnections.noDelay(listener.accept()));
            }
            return data;
        }

        /** Returns the connections after the source made its own. {@code words} are its proof with RDMA. */
        Joined join(List<String> words) throws Exception {
            if (direct) {
                proof.complete(
                        new MemoryProof(Long.parseLong(words.get(0)), Long.parseLong(words.get(1)), words.get(2)));
            }
            return joining.get(SourceConnections.DEADLINE.toSeconds(), TimeUnit.SECONDS);
        }

        @Override
        public void close() throws IOException {
            listener.close();
        }
    }
}
