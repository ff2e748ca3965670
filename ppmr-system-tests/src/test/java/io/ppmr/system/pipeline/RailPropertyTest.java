package io.ppmr.system.pipeline;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.protocol.data.DataMessage.EndRail;
import io.ppmr.protocol.data.DataMessage.OfferedRail;
import io.ppmr.protocol.data.DataMessage.RailEnded;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ValueFrame;
import io.ppmr.system.FaultyTransport;
import io.ppmr.system.transport.ChunkWay;
import io.ppmr.system.transport.FaultyPuller;
import io.ppmr.transport.Arrivals;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.RailFigures;
import io.ppmr.transport.RailSender;
import io.ppmr.transport.RailSettings;
import io.ppmr.transport.TargetPath;
import io.ppmr.transport.tcp.DirectRails;
import io.ppmr.transport.tcp.LoopbackPair;
import io.ppmr.transport.tcp.RailReceiver;
import io.ppmr.transport.tcp.TcpChunkSender;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.ShrinkingMode;
import net.jqwik.api.Tag;
import org.agrona.concurrent.UnsafeBuffer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Tests that all written bytes are read as they were written, or the migration fails with a message that names the
 * cause. During that all rails except one are cut repeatedly, at either end and in the middle of chunks. The real rails
 * use real sockets, and one of them uses the stand-in for RDMA Write. In other tests the source retransmits before the
 * target ended a rail, which must be detected.
 */
class RailPropertyTest {
    private static final Logger LOG = LoggerFactory.getLogger(RailPropertyTest.class);
    private static final int RAILS = 3;
    private static final int CONNECTIONS = 2;
    /** The rail whose chunks are written. It is not the first, which is connected before the target accepts any. */
    private static final int WRITTEN = 2;

    private static final int SEARCHED = 200;
    private static final RailSender.RailLimits LIMITS = new RailSender.RailLimits(
            TimeUnit.SECONDS.toNanos(2), TimeUnit.SECONDS.toNanos(10), TimeUnit.MILLISECONDS.toNanos(5));

    /** Cuts rails, all except the first, until it receives the end signal. */
    private static final class Saboteur implements AutoCloseable {
        private final Random random;
        private final ConcurrentMap<Integer, List<LoopbackPair>> generations = new ConcurrentHashMap<>();
        private final Thread thread = new Thread(this::run, "saboteur");
        private volatile boolean over;
        private final AtomicInteger cuts = new AtomicInteger();

        private Saboteur(long seed) {
            random = new Random(seed);
            thread.start();
        }

        private void connected(int rail, List<LoopbackPair> pairs) {
            generations.put(rail, pairs);
        }

        private void run() {
            while (!over) {
                LockSupport.parkNanos(TimeUnit.MICROSECONDS.toNanos(200 + random.nextInt(5_000)));
                List<LoopbackPair> pairs = generations.remove(1 + random.nextInt(RAILS - 1));
                if (pairs != null) {
                    LoopbackPair cut = pairs.get(random.nextInt(pairs.size()));
                    close(random.nextBoolean() ? cut.near() : cut.far());
                    cuts.incrementAndGet();
                }
            }
        }

        private static void close(SocketChannel channel) {
            try {
                channel.close();
            } catch (IOException e) {
                throw new AssertionError(e);
            }
        }

        @Override
        public void close() throws InterruptedException {
            over = true;
            thread.join(TimeUnit.SECONDS.toMillis(10));
        }
    }

    /** The order of the target's end of a rail and the source's retransmission. */
    private enum Order {
        TARGET_ENDS_FIRST,
        SOURCE_DOES_NOT_ASK
    }

    @Property(tries = 30, shrinking = ShrinkingMode.OFF)
    void shouldReadWhatWasWrittenWhenRailsAreCut(@ForAll long seed) throws Exception {
        run(seed, Order.TARGET_ENDS_FIRST);
    }

    @Tag("soak")
    @Property(tries = 600, shrinking = ShrinkingMode.OFF)
    void shouldReadWhatWasWrittenWhenRailsAreCutForLong(@ForAll long seed) throws Exception {
        run(seed, Order.TARGET_ENDS_FIRST);
    }

    @Property(tries = 1)
    void shouldBeFoundWhenTheSourceSendsAgainBeforeTheTargetHasEndedTheRail() {
        Throwable found = null;
        for (long seed = 0; seed < SEARCHED && found == null; seed++) {
            try {
                run(seed, Order.SOURCE_DOES_NOT_ASK);
            } catch (AssertionError e) {
                found = e;
            } catch (Exception e) {
                // The target itself detects it: a chunk arrived once more after its receive slot went to another file.
                if (!String.valueOf(e.getMessage()).contains("the source is broken")) {
                    throw new AssertionError(e);
                }
                found = e;
            }
        }
        assertTrue(found != null, "nothing was found in " + SEARCHED + " cases");
        LOG.info("found: {}", found.getMessage());
    }

    private static void run(long seed, Order order) throws Exception {
        try (Saboteur saboteur = new Saboteur(~seed)) {
            PipelinePropertyTest.run(seed, (source, target, near, far, onFailure) -> new Joint(
                            source, target, near, far, onFailure, saboteur, order)
                    .joined());
            LOG.info("seed {}: {} rails were cut", seed, saboteur.cuts);
        }
    }

    /** Both ends of the rails of a case. */
    private static final class Joint {
        private final BufferPool pool;
        private final BufferPool targetPool;
        /** Shows late what was written: it is there, and not counted, when the rail is cut. */
        private final FaultyTransport direct =
                new FaultyTransport(ChunkWay.WRITTEN, () -> new FaultyPuller.Drawn(FaultyPuller.PullFault.DELAY, 1));

        private final ControlLink targetLink;
        private final Saboteur saboteur;
        private final RailSender rails;
        private final List<SocketChannel> early = new ArrayList<>();
        private RailReceiver receiver;

        private Joint(
                BufferPool pool,
                BufferPool targetPool,
                ControlLink sourceLink,
                ControlLink targetLink,
                Consumer<String> onFailure,
                Saboteur saboteur,
                Order order)
                throws IOException {
            this.pool = pool;
            this.targetPool = targetPool;
            this.targetLink = targetLink;
            this.saboteur = saboteur;
            List<RailSender.Route> ways = IntStream.range(0, RAILS)
                    .mapToObj(rail -> new RailSender.Route(
                            rail,
                            new RailSettings("r" + rail, Optional.empty(), false, 0, 0),
                            new RailFigures("r" + rail)))
                    .toList();
            AtomicReference<RailSender> made = new AtomicReference<>();
            RailSender.RailControl word = order == Order.TARGET_ENDS_FIRST
                    ? sourceLink::send
                    : end -> made.get().onRailEnded(answer(end));
            rails = new RailSender(pool, 1, ways, this::open, word, onFailure, LIMITS);
            made.set(rails);
            rails.open();
        }

        private static RailEnded answer(EndRail end) {
            return new RailEnded(end.rail(), end.generation(), List.of());
        }

        private RailSender.RailConnection open(int rail, int generation, Consumer<String> onFailure)
                throws IOException {
            List<LoopbackPair> pairs = new ArrayList<>();
            int count = rail == WRITTEN ? 1 : CONNECTIONS;
            for (int i = 0; i < count; i++) {
                LoopbackPair pair = LoopbackPair.open();
                pairs.add(pair);
                UnsafeBuffer frame = new UnsafeBuffer(ByteBuffer.allocate(ValueFrame.LENGTH_BYTES));
                ValueFrame.encode(frame, 0, FrameType.RAIL, 1, rail, ((long) generation << Integer.SIZE) | i);
                pair.near().write(frame.byteBuffer());
                give(pair.far());
            }
            // The connection setup takes longer than most of the saboteur's pauses.
            RailSender.RailConnection line = rail == WRITTEN
                    ? DirectRails.join(pool, direct, pairs.get(0).near(), 1, onFailure)
                    : new TcpChunkSender(
                            pool, pairs.stream().map(LoopbackPair::near).toList(), onFailure);
            saboteur.connected(rail, pairs);
            return line;
        }

        private synchronized void give(SocketChannel far) {
            if (receiver == null) {
                early.add(far);
            } else {
                receiver.accept(far);
            }
        }

        private synchronized TargetPath receive(Arrivals arrivals) {
            List<OfferedRail> all = IntStream.range(0, RAILS)
                    .mapToObj(rail -> new OfferedRail("r" + rail, "127.0.0.1", 1, rail == WRITTEN))
                    .toList();
            receiver = new RailReceiver(all, direct, targetPool, arrivals, targetLink);
            early.forEach(receiver::accept);
            return receiver;
        }

        private Pipeline.Joined joined() {
            return new Pipeline.Joined(rails, this::receive);
        }
    }
}
