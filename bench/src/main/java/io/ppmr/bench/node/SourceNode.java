package io.ppmr.bench.node;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.fuse.FuseMount;
import io.ppmr.fuse.MountOptions;
import io.ppmr.source.image.OutgoingFiles;
import io.ppmr.source.image.OutgoingImageView;
import io.ppmr.source.metrics.SourceHops;
import io.ppmr.source.session.LinkOutlet;
import io.ppmr.source.session.SessionAgent;
import io.ppmr.source.session.SessionEvent;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.RegionExporter;
import java.io.IOException;
import java.util.List;
import java.util.stream.IntStream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A source with its mount and session: {@code begin WRITERS DATA-CONNECTIONS WHERE} gives the directory and what the
 * target must be told to join; {@code endranks} says that every image is whole.
 */
final class SourceNode implements BenchNode {
    private static final Logger LOG = LoggerFactory.getLogger(SourceNode.class);
    private static final long END_NS = 10_000_000_000L;

    private final BufferPool pool;
    private final FairClaims claims;
    private final OutgoingImageView view = new OutgoingImageView();
    private final FuseMount mount;
    private OutgoingFiles files;
    private LinkOutlet outlet;
    private SessionAgent agent;
    private RegionExporter exporter;
    private String directory;
    private int writers;
    private int runs;

    SourceNode(NodeSetting setting) throws Exception {
        setting.warmUp();
        pool = new BufferPool(setting.geometry());
        claims = new FairClaims(pool);
        mount = FuseMount.mount(view, setting.mountPoint(), MountOptions.named("ppmr-bench"));
    }

    @Override
    public String begin(List<String> words) throws Exception {
        writers = Integer.parseInt(words.get(0));
        SourceEnd end =
                SourceEnd.join(words.subList(2, words.size()), Integer.parseInt(words.get(1)), pool, this::lost);
        ControlLink link = new ControlLink(end.control(), 1, TargetNode.SILENCE_NS);
        exporter = end.exporter();
        outlet = new LinkOutlet(
                link,
                exporter,
                new SourceHops(new SimpleMeterRegistry(), pool.geometry().chunkCount()));
        directory = TargetNode.DIRECTORY + ++runs;
        files = new OutgoingFiles(
                directory,
                view.tree(),
                pool,
                claims,
                outlet,
                IntStream.range(0, writers).boxed().toList(),
                0,
                0);
        agent = new SessionAgent(link, claims, event -> {
            if (event instanceof SessionEvent.Lost lost) {
                lost(lost.reason());
            }
        });
        agent.begin(outlet, files);
        agent.start();
        view.add(directory, files);
        return directory + " " + end.proof();
    }

    private void lost(String reason) {
        LOG.error("the run is lost: {}", reason);
        outlet.fail(reason);
        files.fail(reason);
    }

    @Override
    public String command(List<String> words) throws Exception {
        for (int rank = 0; rank < writers; rank++) {
            files.endRank(rank, System.nanoTime() + END_NS);
        }
        return "";
    }

    @Override
    public void end() throws Exception {
        outlet.fail("the run is over");
        files.fail("the run is over");
        agent.stop();
        exporter.close();
        view.remove(directory);
        files.discard();
    }

    @Override
    public void close() throws IOException {
        mount.close();
    }
}
