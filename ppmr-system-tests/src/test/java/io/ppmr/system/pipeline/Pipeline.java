package io.ppmr.system.pipeline;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.data.ImageTraits;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.protocol.data.ReadingMode;
import io.ppmr.source.image.OutgoingFiles;
import io.ppmr.source.image.OutgoingImageView;
import io.ppmr.source.metrics.SourceHops;
import io.ppmr.source.session.LinkOutlet;
import io.ppmr.source.session.SourceEnd;
import io.ppmr.system.transport.ChunkWay;
import io.ppmr.system.transport.FaultyArrivals;
import io.ppmr.system.transport.FaultyPuller;
import io.ppmr.system.transport.MemoryChunkReceiver;
import io.ppmr.system.transport.MemoryChunkSender;
import io.ppmr.system.transport.SocketExporter;
import io.ppmr.system.transport.SocketPuller;
import io.ppmr.target.image.ArrivingImageView;
import io.ppmr.target.image.ArrivingImages;
import io.ppmr.target.image.FilePrefixStore;
import io.ppmr.target.metrics.TargetHops;
import io.ppmr.target.session.TargetEnd;
import io.ppmr.target.session.Transfer;
import io.ppmr.target.session.TransferSettings;
import io.ppmr.transport.Arrivals;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.SessionAgent;
import io.ppmr.transport.SourcePath;
import io.ppmr.transport.TargetPath;
import io.ppmr.transport.tcp.LoopbackPair;
import io.ppmr.transport.tcp.TcpChunkReceiver;
import io.ppmr.transport.tcp.TcpChunkSender;
import java.io.IOException;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.IntStream;

/**
 * The whole data path in one JVM, from the source's view to the target's, over real sockets and without FUSE. The
 * tested code is the code that a mount drives.
 */
public final class Pipeline implements AutoCloseable {
    private static final long SILENCE_NS = TimeUnit.SECONDS.toNanos(30);
    private static final String DIRECTORY = "test.1";

    private final FairClaims claims;
    private final BufferPool sourcePool;
    private final BufferPool targetPool;
    private final OutgoingImageView sourceView = new OutgoingImageView();
    private final ArrivingImageView targetView = new ArrivingImageView();
    private final OutgoingFiles files;
    private final LinkOutlet outlet;
    private final SourcePath path;
    private final SessionAgent sourceAgent;
    private final SessionAgent targetAgent;
    private final Transfer transfer;
    private final AtomicReference<String> failure = new AtomicReference<>();

    /** The choices of one case of a test. */
    record Shape(
            int chunkBytes,
            int sourceChunks,
            int targetChunks,
            int bounceBuffers,
            long stagingBytes,
            boolean streamed,
            int ranks,
            Duration stall,
            ChunkWay way,
            Supplier<FaultyPuller.Drawn> faults) {}

    private record Habits(ReadingMode readingMode) implements ImageTraits {
        @Override
        public List<String> expectedNames(int rank) {
            return IntStream.range(0, 64).mapToObj(file -> "f" + file).toList();
        }

        @Override
        public List<String> completionNames(int rank) {
            return List.of();
        }

        @Override
        public Optional<String> finalNameOf(String temporaryName) {
            return Optional.empty();
        }
    }

    /** The transport of a case, between two pools of this JVM. */
    public record Joined(SourcePath path, Function<Arrivals, TargetPath> opens) {}

    /** Joins them. */
    @FunctionalInterface
    public interface Joining {
        Joined join(BufferPool source, BufferPool target, Consumer<String> onFailure) throws Exception;
    }

    /** Connects them where the transport also sends messages over the control connection. */
    @FunctionalInterface
    interface LinkedJoining {
        Joined join(
                BufferPool source,
                BufferPool target,
                ControlLink sourceLink,
                ControlLink targetLink,
                Consumer<String> onFailure)
                throws Exception;
    }

    /** Over sockets of this machine, or memory of this JVM, as the case has it. */
    static Pipeline of(Shape shape) throws Exception {
        return new Pipeline(shape, (source, target, onFailure) -> join(shape, source, target, onFailure));
    }

    Pipeline(Shape shape, Joining joining) throws Exception {
        this(shape, (source, target, near, far, onFailure) -> joining.join(source, target, onFailure));
    }

    Pipeline(Shape shape, LinkedJoining joining) throws Exception {
        PoolGeometry targetGeometry = new PoolGeometry(shape.chunkBytes, shape.targetChunks);
        sourcePool = new BufferPool(new PoolGeometry(shape.chunkBytes, shape.sourceChunks));
        targetPool = new BufferPool(targetGeometry.plus(shape.bounceBuffers));
        claims = new FairClaims(sourcePool);
        LoopbackPair control = LoopbackPair.open();
        List<Integer> ranks = IntStream.range(0, shape.ranks).boxed().toList();

        ControlLink targetLink = new ControlLink(control.far(), ProtocolVersion.NEWEST, 1, SILENCE_NS);
        ControlLink sourceLink = new ControlLink(control.near(), ProtocolVersion.NEWEST, 1, SILENCE_NS);
        Joined joined = joining.join(sourcePool, targetPool, sourceLink, targetLink, this::fail);
        transfer = new Transfer(
                new TransferSettings(Path.of("/dev/shm"), shape.stagingBytes, 1 << 20, shape.stall),
                targetPool,
                shape.bounceBuffers,
                targetLink,
                new ArrivingImages.ImagesContext(
                        DIRECTORY,
                        new Habits(shape.streamed ? ReadingMode.STREAMED : ReadingMode.RETAINED),
                        targetView.tree(),
                        targetGeometry,
                        new FilePrefixStore(1 << 20),
                        0,
                        0,
                        ranks),
                joined.opens(),
                this::fail,
                new TargetHops(new SimpleMeterRegistry()));
        TargetEnd targetEnd = new TargetEnd(targetLink, event -> {});
        targetAgent = new SessionAgent("target", targetLink, ControlMessage::read, targetEnd);
        targetEnd.begin(transfer);
        targetView.add(DIRECTORY, transfer.images());

        path = joined.path();
        outlet = new LinkOutlet(
                sourceLink,
                path,
                sourcePool,
                claims,
                new SourceHops(new SimpleMeterRegistry(), sourcePool.geometry().chunkCount()));
        files = new OutgoingFiles(DIRECTORY, sourceView.tree(), sourcePool, claims, outlet, ranks, 0, 0);
        SourceEnd sourceEnd = new SourceEnd(claims, event -> {});
        sourceAgent = new SessionAgent("source", sourceLink, ControlMessage::read, sourceEnd);
        sourceEnd.begin(outlet, files);
        sourceView.add(DIRECTORY, files);
        targetAgent.start();
        sourceAgent.start();
    }

    private static Joined join(Shape shape, BufferPool source, BufferPool target, Consumer<String> onFailure)
            throws IOException {
        List<LoopbackPair> data = List.of(LoopbackPair.open(), LoopbackPair.open());
        List<SocketChannel> near = data.stream().map(LoopbackPair::near).toList();
        List<SocketChannel> far = data.stream().map(LoopbackPair::far).toList();
        switch (shape.way) {
            case SENT -> {
                return new Joined(
                        new TcpChunkSender(source, near, onFailure),
                        arrivals -> new TcpChunkReceiver(far, new FaultyArrivals(target, arrivals, shape.faults)));
            }
            case PULLED -> {
                return new Joined(
                        new SocketExporter(source, near, onFailure),
                        arrivals -> new FaultyPuller(
                                target,
                                arrivals,
                                pull -> shape.faults.get(),
                                inner -> new SocketPuller(target, far, inner)));
            }
            case WRITTEN -> {
                MemoryChunkReceiver receiver = new MemoryChunkReceiver(target, far.get(0));
                MemoryChunkSender sender = new MemoryChunkSender(source, near.get(0), onFailure);
                sender.onWritable(receiver.writable());
                return new Joined(
                        sender, arrivals -> receiver.open(new FaultyArrivals(target, arrivals, shape.faults)));
            }
        }
        throw new IllegalArgumentException(shape.way.name());
    }

    OutgoingImageView source() {
        return sourceView;
    }

    ArrivingImageView target() {
        return targetView;
    }

    OutgoingFiles files() {
        return files;
    }

    Transfer transfer() {
        return transfer;
    }

    static String path(int rank, int file) {
        return "/" + DIRECTORY + ArrivingImages.rankPath(rank) + "/f" + file;
    }

    /** The first reason for which the migration failed, or null. */
    String failure() {
        return failure.get();
    }

    /** Each waiting thread is woken, as in a migration on both sides. */
    private void fail(String reason) {
        if (failure.compareAndSet(null, reason)) {
            Thread thread = new Thread(
                    () -> {
                        outlet.fail(reason);
                        files.fail(reason);
                        transfer.fail(reason);
                    },
                    "test-fail");
            thread.setDaemon(true);
            thread.start();
        }
    }

    @Override
    public void close() throws ErrnoException {
        outlet.fail("the test is over");
        files.fail("the test is over");
        sourceAgent.stop();
        targetAgent.stop();
        path.close();
        transfer.close();
        files.discard();
    }

    /** Chunks that are not free though everything is closed. */
    int leakedChunks() {
        return sourcePool.geometry().chunkCount()
                - sourcePool.freeChunks()
                + targetPool.geometry().chunkCount()
                - targetPool.freeChunks();
    }
}
