package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.migration.node.NodeProbe;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.JobFacts;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.protocol.control.NodeFacts;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.Message;
import io.ppmr.testbed.Patience;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.SessionAgent;
import io.ppmr.transport.auth.PreSharedKey;
import io.ppmr.transport.tcp.Connector;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.agrona.DirectBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * A peer that has the key and sends more than any session reads. The target has a heap of 96 MiB, as every service. It
 * disconnects such a peer, and moves a job afterwards.
 */
@Timeout(value = 240, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class KeyHolderIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(20));
    /** These are larger than the heap and the buffers of sockets. */
    private static final int MESSAGES = 4_000;

    private static final String LONG_REASON = "x".repeat(50_000);

    @TempDir
    private Path directory;

    /** Notes the target's messages. */
    private static final class Ear implements SessionAgent.End {
        private final BlockingQueue<Message> heard = new LinkedBlockingQueue<>();

        @Override
        public void onFrame(FrameType type, DirectBuffer buffer, int offset, int lengthBytes) throws IOException {
            throw new IOException("frame " + type + " for one that moves nothing");
        }

        @Override
        public void onMessage(Message message, int lengthBytes) {
            heard.add(message);
        }

        @Override
        public int doWork(long nowNs) {
            return 0;
        }

        @Override
        public boolean hasWork() {
            return false;
        }

        @Override
        public long sleepMs() {
            return 10;
        }

        @Override
        public void onLost(String reason) {
            // The next sent message reports the failure.
        }
    }

    /** The beginning of one connection. */
    private interface Words {
        void say(ControlLink link, Ear ear) throws Exception;
    }

    /**
     * Sends this first, and then endless messages. Returns the number of bytes that were sent until the connection was
     * closed.
     */
    private long flood(RealServices services, Words first) throws Exception {
        Connector connector = new Connector(
                new InetSocketAddress(InetAddress.getLoopbackAddress(), services.port()),
                PreSharedKey.load(directory.resolve("key")),
                LIMIT);
        long bytes = 0;
        Ear ear = new Ear();
        Connector.Control control = connector.control();
        try (ControlLink link = new ControlLink(control.channel(), control.version(), 1, LIMIT.toNanos())) {
            SessionAgent agent = new SessionAgent("key-holder", link, ControlMessage::read, ear);
            agent.start();
            try {
                first.say(link, ear);
                for (int i = 0; i < MESSAGES; i++) {
                    link.send(new ControlMessage.RollBack("m-1", LONG_REASON));
                    bytes += LONG_REASON.length();
                }
            } catch (IOException cut) {
                assertTrue(ear.heard.stream().noneMatch(ControlMessage.Refuse.class::isInstance), ear.heard::toString);
                return bytes;
            } finally {
                agent.stop();
            }
        }
        throw new AssertionError("the target took all " + bytes + " bytes");
    }

    /** Introduces a job that the target accepts, and begins. The expected data connections are never made. */
    private static void begin(ControlLink link, Ear ear) throws Exception {
        NodeFacts here = new NodeProbe(Path.of("/"), 0, 0, List.of()).facts().at(System.currentTimeMillis());
        link.send(new ControlMessage.Introduce(here, new JobFacts("replay", 0, 0, List.of())));
        Message answer = ear.heard.poll(LIMIT.toSeconds(), TimeUnit.SECONDS);
        if (!(answer instanceof ControlMessage.Introduced introduced)) {
            throw new AssertionError("the target answers " + answer);
        }
        link.send(new ControlMessage.Begin(
                "m-1",
                MigrationSecret.random(),
                "job",
                "replay",
                ReplayJob.USER.uid(),
                ReplayJob.USER.gid(),
                List.of(0),
                new ControlMessage.Begin.TransferPlan(introduced.node().chunkBytes(), 1, 1, 0),
                List.of("127.0.0.1:7"),
                0,
                new ControlMessage.Begin.Placement(List.of(0), List.of("0 here")),
                ""));
    }

    @Test
    void shouldGoOnWhenAPeerWithTheKeySaysMuchBeforeItsDataConnections() throws Exception {
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(
                                List.of("open image wcxn", "write 8m 64k", "close"),
                                List.of("open image r", "read 8m 64k", "close"));
                RealServices services = new RealServices(directory)) {
            Process target = services.startTarget(job);
            services.startSource(job);
            for (Words first : List.<Words>of(KeyHolderIT::begin, (link, ear) -> {})) {
                long taken = flood(services, first);
                assertTrue(taken < MESSAGES * (long) LONG_REASON.length() / 4, taken + " bytes were taken");
            }
            assertTrue(target.isAlive(), "the target has ended");
            assertEquals(0, services.migrate(directory.resolve("report.json")));
            String log = services.log("target");
            assertTrue(log.contains("messages faster than this node handles them") || log.contains("sends more"), log);
        }
    }
}
