package io.ppmr.source.rehearsal;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.fuse.Warmup;
import io.ppmr.fuse.WarmupPlan;
import io.ppmr.fuse.WarmupReport;
import io.ppmr.source.image.OutgoingFiles;
import io.ppmr.source.image.OutgoingImageView;
import io.ppmr.source.metrics.SourceHops;
import io.ppmr.source.session.LinkOutlet;
import io.ppmr.source.session.SessionAgent;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.tcp.LoopbackPair;
import io.ppmr.transport.tcp.TcpRegionExporter;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Warms a source before it says that it is ready: child processes write through its own mount, and what they write goes
 * the whole way, over loopback, to a target in this process. A migration lasts seconds; a JVM that had to warm up in it
 * would run it at a quarter of its speed.
 */
public final class Rehearsal {
    private static final Logger LOG = LoggerFactory.getLogger(Rehearsal.class);
    private static final String DIRECTORY = ".rehearsal";
    private static final long SILENCE_NS = TimeUnit.SECONDS.toNanos(30);
    private static final WarmupPlan PLAN =
            new WarmupPlan(WarmupPlan.Direction.WRITE, 8, 20_000, 64L << 20, 6, TimeUnit.SECONDS.toNanos(10));

    private Rehearsal() {}

    /** Runs the warm-up; what it used of pool and view is free again afterwards. */
    public static void run(Path mountPoint, OutgoingImageView view, BufferPool pool, FairClaims claims)
            throws IOException, InterruptedException {
        LoopbackPair control = LoopbackPair.open();
        List<LoopbackPair> data = List.of(LoopbackPair.open(), LoopbackPair.open());
        ControlLink link = new ControlLink(control.near(), 1, SILENCE_NS);
        SessionAgent agent = new SessionAgent(link, claims, event -> LOG.debug("the warm-up's session says {}", event));
        OutgoingFiles files = null;
        try (RehearsalTarget target = new RehearsalTarget(
                        control.far(),
                        data.stream().map(LoopbackPair::far).toList(),
                        pool.geometry().chunkBytes());
                TcpRegionExporter exporter = new TcpRegionExporter(
                        pool,
                        data.stream().map(LoopbackPair::near).toList(),
                        reason -> LOG.debug("the warm-up's transport says {}", reason))) {
            LinkOutlet outlet = new LinkOutlet(
                    link,
                    exporter,
                    new SourceHops(new SimpleMeterRegistry(), pool.geometry().chunkCount()));
            files = new OutgoingFiles(DIRECTORY, view.tree(), pool, claims, outlet, List.of(0), 0, 0);
            agent.begin(outlet, files);
            agent.start();
            view.add(DIRECTORY, files);
            WarmupReport report = Warmup.run(mountPoint.resolve(DIRECTORY).resolve("rank-0"), PLAN);
            LOG.info("warm-up: {}, {} chunks thrown away", report, target.released());
            files.fail("the warm-up is over");
            target.finish();
            agent.stop();
        } catch (ErrnoException e) {
            throw new IOException("the warm-up's directory cannot be made: " + e.getMessage(), e);
        } finally {
            view.remove(DIRECTORY);
            discard(files);
        }
    }

    private static void discard(OutgoingFiles files) throws IOException {
        try {
            if (files != null) {
                files.discard();
            }
        } catch (ErrnoException e) {
            throw new IOException("the warm-up's directory cannot be taken away: " + e.getMessage(), e);
        }
    }
}
