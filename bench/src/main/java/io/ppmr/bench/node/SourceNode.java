package io.ppmr.bench.node;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.fuse.FuseMount;
import io.ppmr.fuse.MountOptions;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.DataMessage.NameChange;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.protocol.data.RdmaMode;
import io.ppmr.source.image.OutgoingFile;
import io.ppmr.source.image.OutgoingFiles;
import io.ppmr.source.image.OutgoingImageView;
import io.ppmr.source.image.Outlet;
import io.ppmr.source.metrics.SourceHops;
import io.ppmr.source.session.LinkOutlet;
import io.ppmr.source.session.SourceEnd;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.SessionAgent;
import io.ppmr.transport.SessionEvent;
import io.ppmr.transport.SourcePath;
import io.ppmr.transport.rdma.RdmaTransport;
import io.ppmr.transport.tcp.TcpChunkSender;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A source with its mount. In the role "aggregation" its chunks are discarded at once. {@code begin WRITERS crc|plain}
 * returns the directory. In the role "source" it has a session. {@code begin WRITERS DATA-CONNECTIONS WHERE} returns
 * the directory and the arguments of the target's join. {@code endranks} reports that every image is whole. Before any
 * write by RDMA, {@code mayWrite WHERE} sets the memory that it may write.
 */
final class SourceNode implements NodeMain.BenchNode {
    private static final Logger LOG = LoggerFactory.getLogger(SourceNode.class);
    private static final long END_NS = 10_000_000_000L;

    private final boolean discards;
    private final BufferPool pool;
    private final FairClaims claims;
    private final OutgoingImageView view = new OutgoingImageView();
    private final FuseMount mount;
    private OutgoingFiles files;
    private LinkOutlet outlet;
    private SessionAgent agent;
    private SourcePath path;
    private String directory;
    private int writers;
    private int runs;

    SourceNode(NodeMain.Setting setting) throws Exception {
        setting.warmUp();
        discards = setting.role().equals("aggregation");
        pool = new BufferPool(setting.geometry());
        claims = new FairClaims(pool);
        mount = FuseMount.mount(view, setting.mountPoint(), MountOptions.named("ppmr-bench"));
    }

    @Override
    public String begin(List<String> words) throws Exception {
        writers = Integer.parseInt(words.get(0));
        directory = TargetNode.DIRECTORY + ++runs;
        if (discards) {
            files = files(new Discard(claims, words.get(1).equals("crc")));
            view.add(directory, files);
            return directory;
        }
        SourceConnections end = SourceConnections.join(
                words.subList(2, words.size()), Integer.parseInt(words.get(1)), pool, this::lost);
        ControlLink link = new ControlLink(end.control(), ProtocolVersion.NEWEST, 1, TargetNode.SILENCE_NS);
        path = end.path();
        outlet = new LinkOutlet(
                link,
                path,
                pool,
                claims,
                new SourceHops(new SimpleMeterRegistry(), pool.geometry().chunkCount()));
        files = files(outlet);
        SourceEnd session = new SourceEnd(claims, event -> {
            if (event instanceof SessionEvent.LinkLost lost) {
                lost(lost.reason());
            }
        });
        agent = new SessionAgent("bench-source", link, ControlMessage::read, session);
        session.begin(outlet, files);
        agent.start();
        view.add(directory, files);
        return directory + " " + end.proof();
    }

    private OutgoingFiles files(Outlet to) throws Exception {
        List<Integer> ranks = IntStream.range(0, writers).boxed().toList();
        return new OutgoingFiles(directory, view.tree(), pool, claims, to, ranks, 0, 0);
    }

    private void lost(String reason) {
        LOG.error("the run is lost: {}", reason);
        outlet.fail(reason);
        files.fail(reason);
    }

    @Override
    public String command(List<String> words) throws Exception {
        if (SourceConnections.mayWrite(words, path)) {
            return "";
        }
        for (int rank = 0; rank < writers; rank++) {
            files.endRank(rank, System.nanoTime() + END_NS, () -> false);
        }
        return "";
    }

    @Override
    public void end() throws Exception {
        if (!discards) {
            outlet.fail("the run is over");
            files.fail("the run is over");
            agent.stop();
            path.close();
        }
        view.remove(directory);
        files.discard();
    }

    @Override
    public void close() throws IOException {
        mount.close();
    }

    /** Grants every slot at once, and releases every full chunk. */
    record Discard(FairClaims claims, boolean takesCrc) implements Outlet {
        private static final int ANY_SLOT = 0;

        @Override
        public void requestCredits(OutgoingFile file, long window, int count, int flags) {
            for (int i = 0; i < count; i++) {
                file.granted(window + i, ANY_SLOT);
            }
        }

        @Override
        public void sendChunk(
                OutgoingFile file,
                int chunk,
                int offsetInChunk,
                long offset,
                int lengthBytes,
                int slot,
                long claimedNs) {
            if (takesCrc) {
                file.crc32c(chunk, offsetInChunk, lengthBytes);
            }
            claims.release(chunk);
        }

        @Override
        public void returnCredit(OutgoingFile file, long window, int slot) {
            // Slots are for the asking here.
        }

        @Override
        public void sendPrefix(OutgoingFile file, int position, long address, int lengthBytes) {
            // Values are discarded, as all frames are.
        }

        @Override
        public void sendValue(FrameType type, int file, long value) {
            // No listener.
        }

        @Override
        public void sendNameChange(NameChange change) {
            // No listener.
        }

        @Override
        public void sync(OutgoingFile file) {
            // All chunks are at their destination.
        }
    }

    /**
     * The source's side of a run's connections, without the handshake of a migration: both sides are this benchmark's
     * children.
     *
     * @param control the control connection, which is made first
     * @param path by which chunks get to the target
     * @param proof the arguments of the target's join: with RDMA the words of the {@link MemoryProof}
     */
    record SourceConnections(SocketChannel control, SourcePath path, String proof) {
        static final Duration DEADLINE = Duration.ofSeconds(30);

        /**
         * Connects to the address of {@link TargetConnections#begin}: {@code ADDRESS PORT}, and with RDMA its port and
         * mode.
         */
        static SourceConnections join(
                List<String> where, int dataConnections, BufferPool pool, Consumer<String> onFailure)
                throws IOException {
            InetSocketAddress target = new InetSocketAddress(where.get(0), Integer.parseInt(where.get(1)));
            SocketChannel control = noDelay(SocketChannel.open(target));
            if (where.size() > 2) {
                InetSocketAddress direct = new InetSocketAddress(target.getAddress(), Integer.parseInt(where.get(2)));
                SourcePath path =
                        RdmaTransport.load(RdmaMode.valueOf(where.get(3))).connect(pool, direct, DEADLINE, onFailure);
                MemoryProof proof = path.proof();
                return new SourceConnections(control, path, proof.address() + " " + proof.key() + " " + proof.digest());
            }
            List<SocketChannel> data = new ArrayList<>();
            for (int i = 0; i < dataConnections; i++) {
                data.add(noDelay(SocketChannel.open(target)));
            }
            return new SourceConnections(control, new TcpChunkSender(pool, data, onFailure), "");
        }

        /** Handles the command with the memory that the source may write. Returns true if it is that command. */
        static boolean mayWrite(List<String> words, SourcePath path) throws IOException {
            if (!words.get(0).equals("mayWrite")) {
                return false;
            }
            path.onWritable(new DataMessage.Writable(
                    Long.parseLong(words.get(1)),
                    Long.parseLong(words.get(2)),
                    Long.parseLong(words.get(3)),
                    Long.parseLong(words.get(4)),
                    Integer.parseInt(words.get(5))));
            return true;
        }

        static SocketChannel noDelay(SocketChannel channel) throws IOException {
            channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
            return channel;
        }
    }
}
