package io.ppmr.bench.node;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.ImageHabits;
import io.ppmr.checkpoint.ReadingMode;
import io.ppmr.fuse.FuseMount;
import io.ppmr.fuse.MountOptions;
import io.ppmr.target.image.ArrivingImageView;
import io.ppmr.target.image.ArrivingImages;
import io.ppmr.target.image.HeadStore;
import io.ppmr.target.metrics.TargetHops;
import io.ppmr.target.session.SessionAgent;
import io.ppmr.target.session.SessionEvent;
import io.ppmr.target.session.Transfer;
import io.ppmr.target.session.TransferSettings;
import io.ppmr.transport.ControlLink;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A target with its mount and session: {@code begin STREAMS DATA-CONNECTIONS} says where the source is to connect to,
 * {@code join PROOF}, once it has done so, gives the directory.
 */
final class TargetNode implements BenchNode {
    static final long SILENCE_NS = TimeUnit.SECONDS.toNanos(30);
    static final String DIRECTORY = "run.";

    private static final Logger LOG = LoggerFactory.getLogger(TargetNode.class);
    private static final int LANE_MAX = 8;
    private static final TransferSettings SETTINGS =
            new TransferSettings(Path.of("/dev/shm"), 0, 16 << 20, Duration.ofSeconds(20));

    private final PoolGeometry geometry;
    private final int laneChunks;
    private final BufferPool pool;
    private final HeadStore heads = new HeadStore(SETTINGS.headsLimitBytes());
    private final ArrivingImageView view = new ArrivingImageView();
    private final TargetEnd end;
    private final FuseMount mount;
    private Transfer transfer;
    private SessionAgent agent;
    private String directory;
    private int streams;
    private int runs;

    /** Streams of one file each, which the reader may open before it has come. */
    static final class Habits implements ImageHabits {
        @Override
        public ReadingMode readingMode() {
            return ReadingMode.STREAMED;
        }

        @Override
        public List<String> announcedNames(int rank) {
            return List.of("image");
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

    TargetNode(NodeSetting setting) throws Exception {
        setting.warmUp();
        geometry = setting.geometry();
        laneChunks = Math.max(1, Math.min(LANE_MAX, geometry.chunkCount() / LANE_MAX));
        pool = new BufferPool(geometry.plus(laneChunks));
        end = new TargetEnd(setting.listen(), pool);
        mount = FuseMount.mount(view, setting.mountPoint(), MountOptions.named("ppmr-bench"));
    }

    @Override
    public String begin(List<String> words) throws Exception {
        streams = Integer.parseInt(words.get(0));
        return end.begin(Integer.parseInt(words.get(1)));
    }

    @Override
    public String command(List<String> words) throws Exception {
        TargetEnd.Joined joined = end.join(words.subList(1, words.size()));
        ControlLink link = new ControlLink(joined.control(), 1, SILENCE_NS);
        directory = DIRECTORY + ++runs;
        transfer = new Transfer(
                SETTINGS,
                pool,
                laneChunks,
                link,
                new ArrivingImages.Setting(
                        directory,
                        new Habits(),
                        view.tree(),
                        geometry,
                        heads,
                        0,
                        0,
                        IntStream.range(0, streams).boxed().toList()),
                joined.puller(),
                reason -> LOG.error("the run fails: {}", reason),
                new TargetHops(new SimpleMeterRegistry()));
        agent = new SessionAgent(link, event -> {
            if (event instanceof SessionEvent.LinkLost lost) {
                LOG.debug("the link has ended: {}", lost.reason());
            }
        });
        agent.begin(transfer);
        view.add(directory, transfer.images());
        agent.start();
        return directory;
    }

    @Override
    public void end() throws Exception {
        agent.conversationOver();
        agent.stop();
        transfer.close();
        view.remove(directory);
        heads.reset();
    }

    @Override
    public void close() throws IOException {
        end.close();
        mount.close();
    }
}
