package io.ppmr.target.rehearsal;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.ImageHabits;
import io.ppmr.checkpoint.ReadingMode;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.fuse.Warmup;
import io.ppmr.fuse.WarmupPlan;
import io.ppmr.fuse.WarmupReport;
import io.ppmr.target.image.ArrivingImageView;
import io.ppmr.target.image.ArrivingImages;
import io.ppmr.target.image.HeadStore;
import io.ppmr.target.metrics.TargetHops;
import io.ppmr.target.session.SessionAgent;
import io.ppmr.target.session.Transfer;
import io.ppmr.target.session.TransferSettings;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.tcp.LoopbackPair;
import io.ppmr.transport.tcp.TcpChunkPuller;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Warms a target before it says that it is ready: a source in this process sends images over loopback, and child
 * processes read them through the target's own mount. A migration lasts seconds; a JVM that had to warm up in it would
 * run it at a quarter of its speed.
 */
public final class Rehearsal {
    private static final Logger LOG = LoggerFactory.getLogger(Rehearsal.class);
    private static final String DIRECTORY = ".rehearsal";
    private static final int CLIENTS = 8;
    private static final int ROUNDS = 6;
    private static final int SMALL_REQUESTS = 20_000;
    private static final long ROUND_BYTES = 64L << 20;
    private static final long SILENCE_NS = TimeUnit.SECONDS.toNanos(30);
    private static final WarmupPlan PLAN = new WarmupPlan(
            WarmupPlan.Direction.READ, CLIENTS, SMALL_REQUESTS, ROUND_BYTES, ROUNDS, TimeUnit.SECONDS.toNanos(10));

    private Rehearsal() {}

    /** A checkpointer whose images are streams with the names that the warm-up reads. */
    private static final class Habits implements ImageHabits {
        private final List<String> names = new ArrayList<>();

        private Habits() {
            for (int round = 0; round <= ROUNDS; round++) {
                for (int client = 0; client < CLIENTS; client++) {
                    names.add(Warmup.readName(round, client));
                }
            }
        }

        @Override
        public ReadingMode readingMode() {
            return ReadingMode.STREAMED;
        }

        @Override
        public List<String> announcedNames(int rank) {
            return names;
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

    /** Runs the warm-up; what it used of pool and view is free again afterwards. */
    public static void run(
            Path mountPoint,
            ArrivingImageView view,
            BufferPool pool,
            int laneChunks,
            PoolGeometry geometry,
            HeadStore heads,
            TransferSettings settings)
            throws IOException, InterruptedException {
        LoopbackPair control = LoopbackPair.open();
        List<LoopbackPair> data = List.of(LoopbackPair.open(), LoopbackPair.open());
        ControlLink link = new ControlLink(control.near(), RehearsalSource.ATTEMPT, SILENCE_NS);
        SessionAgent agent = new SessionAgent(link, event -> LOG.debug("the warm-up's session says {}", event));
        Transfer transfer = transfer(view, pool, laneChunks, geometry, heads, settings, link, data);
        agent.begin(transfer);
        view.add(DIRECTORY, transfer.images());
        agent.start();
        try (RehearsalSource source = new RehearsalSource(
                control.far(),
                data.stream().map(LoopbackPair::far).toList(),
                geometry.chunkBytes(),
                CLIENTS,
                (long) SMALL_REQUESTS / CLIENTS * WarmupPlan.SMALL_BYTES,
                Math.max(ROUND_BYTES / CLIENTS, geometry.chunkBytes()),
                ROUNDS + 1)) {
            WarmupReport report = Warmup.run(mountPoint.resolve(DIRECTORY).resolve("rank-0"), PLAN);
            LOG.info("warm-up: {}, {} rounds sent", report, source.rounds());
            source.finish();
            agent.stop();
            // Before the source goes: a transfer that lost it would report a failure.
            transfer.close();
        } finally {
            transfer.close();
            view.remove(DIRECTORY);
            heads.reset();
        }
    }

    private static Transfer transfer(
            ArrivingImageView view,
            BufferPool pool,
            int laneChunks,
            PoolGeometry geometry,
            HeadStore heads,
            TransferSettings settings,
            ControlLink link,
            List<LoopbackPair> data)
            throws IOException {
        try {
            return new Transfer(
                    settings,
                    pool,
                    laneChunks,
                    link,
                    new ArrivingImages.Setting(DIRECTORY, new Habits(), view.tree(), geometry, heads, 0, 0, List.of(0)),
                    listener -> new TcpChunkPuller(
                            pool, data.stream().map(LoopbackPair::near).toList(), listener),
                    reason -> LOG.debug("the warm-up's transfer says {}", reason),
                    new TargetHops(new SimpleMeterRegistry()));
        } catch (ErrnoException e) {
            throw new IOException("the warm-up's directory cannot be made: " + e.getMessage(), e);
        }
    }
}
