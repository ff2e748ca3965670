package io.ppmr.system.pipeline;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.data.ImageTraits;
import io.ppmr.protocol.data.ReadingMode;
import io.ppmr.source.image.OutgoingFiles;
import io.ppmr.source.image.OutgoingImageView;
import io.ppmr.source.metrics.SourceHops;
import io.ppmr.source.session.LinkOutlet;
import io.ppmr.source.session.SourceEnd;
import io.ppmr.target.image.ArrivingImageView;
import io.ppmr.target.image.ArrivingImages;
import io.ppmr.target.image.FilePrefixStore;
import io.ppmr.target.metrics.TargetHops;
import io.ppmr.target.session.TargetEnd;
import io.ppmr.target.session.Transfer;
import io.ppmr.target.session.TransferSettings;
import io.ppmr.testbed.FaultyArrivals;
import io.ppmr.testbed.FaultyPuller;
import io.ppmr.testbed.pull.SocketExporter;
import io.ppmr.testbed.pull.SocketPuller;
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
import java.util.function.Supplier;
import java.util.stream.IntStream;

/**
 * The whole data path in one JVM, from the source's view to the target's, over real sockets and without FUSE: what is
 * tested on it is the same code that a mount drives.
 */
final class Pipeline implements AutoCloseable {
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

    /** What a case of a test chooses. */
    record Shape(
            int chunkBytes,
            int sourceChunks,
            int targetChunks,
            int bounceBuffers,
            long stagingBytes,
            boolean streamed,
            int ranks,
            Duration stall,
            boolean sends,
            Supplier<FaultyPuller.Drawn> faults) {}

    private record Habits(ReadingMode readingMode) implements ImageTraits {
        @Override
        public List<String> announcedNames(int rank) {
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

    Pipeline(Shape shape) throws IOException, ErrnoException {
        PoolGeometry targetGeometry = new PoolGeometry(shape.chunkBytes, shape.targetChunks);
        sourcePool = new BufferPool(new PoolGeometry(shape.chunkBytes, shape.sourceChunks));
        targetPool = new BufferPool(targetGeometry.plus(shape.bounceBuffers));
        claims = new FairClaims(sourcePool);
        LoopbackPair control = LoopbackPair.open();
        List<LoopbackPair> data = List.of(LoopbackPair.open(), LoopbackPair.open());
        List<Integer> ranks = IntStream.range(0, shape.ranks).boxed().toList();

        ControlLink targetLink = new ControlLink(control.far(), 1, SILENCE_NS);
        List<SocketChannel> far = data.stream().map(LoopbackPair::far).toList();
        transfer = new Transfer(
                new TransferSettings(Path.of("/dev/shm"), shape.stagingBytes, 4 << 20, 1 << 20, shape.stall),
                targetPool,
                shape.bounceBuffers,
                targetLink,
                new ArrivingImages.Setting(
                        DIRECTORY,
                        new Habits(shape.streamed ? ReadingMode.STREAMED : ReadingMode.RETAINED),
                        targetView.tree(),
                        targetGeometry,
                        new FilePrefixStore(1 << 20),
                        0,
                        0,
                        ranks),
                arrivals -> open(shape, far, arrivals),
                this::fail,
                new TargetHops(new SimpleMeterRegistry()));
        TargetEnd targetEnd = new TargetEnd(targetLink, event -> {});
        targetAgent = new SessionAgent("target", targetLink, ControlMessage::read, targetEnd);
        targetEnd.begin(transfer);
        targetView.add(DIRECTORY, transfer.images());

        ControlLink sourceLink = new ControlLink(control.near(), 1, SILENCE_NS);
        List<SocketChannel> near = data.stream().map(LoopbackPair::near).toList();
        path = shape.sends
                ? new TcpChunkSender(sourcePool, near, this::fail)
                : new SocketExporter(sourcePool, near, this::fail);
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

    private TargetPath open(Shape shape, List<SocketChannel> far, Arrivals arrivals) {
        return shape.sends
                ? new TcpChunkReceiver(far, new FaultyArrivals(targetPool, arrivals, shape.faults))
                : new FaultyPuller(
                        targetPool,
                        arrivals,
                        pull -> shape.faults.get(),
                        inner -> new SocketPuller(targetPool, far, inner));
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

    /** As the migration does it on both sides: whoever waits is woken. */
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
