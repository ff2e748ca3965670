package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.protocol.data.RdmaMode;
import io.ppmr.system.transport.ChunkWay;
import io.ppmr.system.transport.FaultyPuller;
import io.ppmr.transport.RailSettings;
import io.ppmr.transport.RegionExporter;
import io.ppmr.transport.Transport;
import io.ppmr.transport.TransportChoice;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Tests how two nodes agree on a transport where RDMA does not work. The tests in the guest cover the case where it
 * works.
 */
@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class TransportChoiceIT {
    private static final String OTHER_MODE = "transport_mode is \"write\" here, which the source does not allow"
            + " (configure \"auto\" on one of both nodes)";
    private static final Unlucky WITHOUT_DEVICE = new Unlucky("this node has no RDMA device");

    @TempDir
    private Path directory;

    /** Has no device, or everything but a network that lets it through. */
    private record Unlucky(String unusable, AtomicReference<BufferPool> offered) implements Transport {
        Unlucky() {
            this(null);
        }

        Unlucky(String unusable) {
            this(unusable, new AtomicReference<>());
        }

        @Override
        public TransportListener listen(BufferPool pool, InetAddress address) {
            return new TransportListener() {
                @Override
                public int port() {
                    return 1;
                }

                @Override
                public TransportPeer accept(InetAddress from, Duration deadline, BooleanSupplier spoken)
                        throws IOException {
                    long deadlineNs = System.nanoTime() + deadline.toNanos();
                    while (!spoken.getAsBoolean()) {
                        if (System.nanoTime() - deadlineNs > 0) {
                            throw new IOException("no connection within " + deadline);
                        }
                        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(5));
                    }
                    return null;
                }

                @Override
                public void close() {
                    // No connection is open.
                }
            };
        }

        @Override
        public RegionExporter connect(
                BufferPool pool, InetSocketAddress target, Duration deadline, Consumer<String> onFailure)
                throws IOException {
            offered.set(pool);
            throw new IOException("the network swallows it");
        }
    }

    private static TransportChoice of(TransportChoice.Preference wish, Transport rdma) {
        return new TransportChoice(wish, () -> rdma);
    }

    private static TransportChoice of(TransportChoice.Preference wish, TransportChoice.RdmaModePreference mode) {
        return new TransportChoice(wish, mode, one -> new Unlucky());
    }

    @ParameterizedTest
    @CsvSource({
        "AUTO, AUTO, READ",
        "AUTO, READ, READ",
        "READ, AUTO, READ",
        "WRITE, AUTO, WRITE",
        "WRITE, WRITE, WRITE",
    })
    void shouldConnectInTheBestModeThatBothNodesAllow(
            TransportChoice.RdmaModePreference source, TransportChoice.RdmaModePreference target, RdmaMode chosen)
            throws Exception {
        Map<RdmaMode, Unlucky> made = new EnumMap<>(RdmaMode.class);
        String state = commits(
                new TransportChoice(
                        TransportChoice.Preference.AUTO,
                        source,
                        mode -> made.computeIfAbsent(mode, any -> new Unlucky())),
                of(TransportChoice.Preference.AUTO, target));
        assertEquals("tcp: the network swallows it", state);
        for (Map.Entry<RdmaMode, Unlucky> each : made.entrySet()) {
            assertEquals(
                    each.getKey() == chosen, each.getValue().offered().get() != null, each.getKey() + " was tried");
        }
    }

    @Tag("soak")
    @Test
    void shouldUseTcpWhenTheNodesAllowDifferentModes() throws Exception {
        String state = commits(
                of(TransportChoice.Preference.AUTO, TransportChoice.RdmaModePreference.READ),
                of(TransportChoice.Preference.AUTO, TransportChoice.RdmaModePreference.WRITE));
        assertEquals("tcp: " + OTHER_MODE, state);
    }

    @Tag("soak")
    @ParameterizedTest
    @CsvSource({"RDMA, AUTO", "AUTO, RDMA"})
    void shouldBeRefusedWhenRdmaAloneIsAllowedAndTheNodesAllowDifferentModes(
            TransportChoice.Preference source, TransportChoice.Preference target) throws Exception {
        fails(
                MigrationReport.Outcome.REFUSED,
                of(source, TransportChoice.RdmaModePreference.READ),
                of(target, TransportChoice.RdmaModePreference.WRITE),
                OTHER_MODE);
    }

    @Test
    void shouldFallBackToTcpWhenTheConnectionFails() throws Exception {
        assertEquals(
                "tcp: the network swallows it",
                commits(
                        of(TransportChoice.Preference.AUTO, new Unlucky()),
                        of(TransportChoice.Preference.AUTO, new Unlucky())));
    }

    @Tag("soak")
    @Test
    void shouldLeaveNothingOfAJobInThePoolThatTheNextSessionOffers() throws Exception {
        Unlucky rdma = new Unlucky();
        try (ReplayJob job = job();
                ServicePair pair = new ServicePair(
                        directory,
                        ServicePair.Options.with(job.checkpointer()),
                        of(TransportChoice.Preference.AUTO, rdma),
                        of(TransportChoice.Preference.AUTO, new Unlucky()))) {
            job.commits(pair);
            ByteBuffer pool = rdma.offered().get().region();
            int left = 0;
            for (int i = 0; i < pool.capacity(); i++) {
                left += pool.get(i) == 0 ? 0 : 1;
            }
            assertEquals(0, left, "bytes that a target could read by RDMA when the next job's session has begun");
        }
    }

    @Tag("soak")
    @Test
    void shouldUseTcpWhenTheTargetMayNotUseRdma() throws Exception {
        String state = commits(
                of(TransportChoice.Preference.AUTO, new Unlucky()),
                of(TransportChoice.Preference.AUTO, WITHOUT_DEVICE));
        assertEquals("tcp: this node has no RDMA device", state);
    }

    @Tag("soak")
    @Test
    void shouldUseTcpWhenTheSourceHasNoDevice() throws Exception {
        String state = commits(
                of(TransportChoice.Preference.AUTO, WITHOUT_DEVICE),
                of(TransportChoice.Preference.AUTO, new Unlucky()));
        assertEquals("tcp: this node has no RDMA device", state);
    }

    @Tag("soak")
    @Test
    void shouldFailByNameWhenRdmaAloneIsAllowedAndItDoesNotComeAbout() throws Exception {
        fails(
                MigrationReport.Outcome.REFUSED,
                of(TransportChoice.Preference.RDMA, new Unlucky()),
                of(TransportChoice.Preference.AUTO, new Unlucky()),
                "the network swallows it");
    }

    @Tag("soak")
    @Test
    void shouldFailByNameWhenRdmaAloneIsAllowedAndTheSourceHasNoDevice() throws Exception {
        fails(
                MigrationReport.Outcome.REFUSED,
                of(TransportChoice.Preference.RDMA, WITHOUT_DEVICE),
                of(TransportChoice.Preference.AUTO, new Unlucky()),
                "this node has no RDMA device");
    }

    @Test
    void shouldBeRefusedWhenRdmaAloneIsAllowedAndTheTargetHasNoDevice() throws Exception {
        fails(
                MigrationReport.Outcome.REFUSED,
                of(TransportChoice.Preference.RDMA, new Unlucky()),
                of(TransportChoice.Preference.AUTO, WITHOUT_DEVICE),
                "the source allows only RDMA, which this node cannot use: this node has no RDMA device");
    }

    @Tag("soak")
    @Test
    void shouldBeRefusedWhenTheTargetAllowsRdmaAloneAndTheSourceHasNone() throws Exception {
        fails(
                MigrationReport.Outcome.REFUSED,
                of(TransportChoice.Preference.TCP, WITHOUT_DEVICE),
                of(TransportChoice.Preference.RDMA, new Unlucky()),
                "allows RDMA alone");
    }

    private static TransportChoice rails(String... names) {
        return rails(WITHOUT_DEVICE, names);
    }

    /**
     * @param names names of the rails; those over RDMA begin with "ib"
     */
    private static TransportChoice rails(Transport rdma, String... names) {
        InetSocketAddress any = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
        return new TransportChoice(
                TransportChoice.Preference.TCP,
                TransportChoice.RdmaModePreference.AUTO,
                mode -> rdma,
                Arrays.stream(names)
                        .map(name -> new RailSettings(name, Optional.of(any), name.startsWith("ib"), 0, 0))
                        .toList());
    }

    /** Returns a stand-in for RDMA Write between two services of one process. */
    private static Transport written() {
        return new FaultyTransport(ChunkWay.WRITTEN, () -> FaultyPuller.Drawn.NOTHING);
    }

    @Tag("soak")
    @Test
    void shouldUseARailOverRdmaBesideOneOverTcp() throws Exception {
        String state = commits(rails(written(), "ib0", "eth0"), rails(written(), "eth0", "ib0"));
        assertTrue(state.startsWith("rails: rails ib0, eth0; "), state);
        for (String rail : List.of("ib0", "eth0")) {
            assertTrue(state.contains(rail + " up when the last migration ended, "), state);
        }
        assertTrue(!state.contains("ib0 up when the last migration ended, 0 bytes"), state);
    }

    @Tag("soak")
    @Test
    void shouldUseARailOverRdmaAlone() throws Exception {
        String state = commits(rails(written(), "ib0"), rails(written(), "ib0"));
        assertTrue(state.startsWith("rails: rails ib0; ib0 up when the last migration ended, "), state);
    }

    @Tag("soak")
    @Test
    void shouldSayByNameThatARailIsNotUsableWhenTheSourceHasNoRdma() throws Exception {
        String state = commits(rails("ib0", "eth0"), rails(written(), "ib0", "eth0"));
        assertTrue(
                state.contains("ib0 down: its transport is \"rdma\", which this node cannot use: this node has no RDMA"
                        + " device, 0 bytes"),
                state);
        assertTrue(state.contains("eth0 up when the last migration ended, "), state);
    }

    @Tag("soak")
    @Test
    void shouldSayByNameThatARailIsNotUsableWhenTheTargetHasNoRdma() throws Exception {
        String state = commits(rails(written(), "ib0", "eth0"), rails("ib0", "eth0"));
        assertTrue(
                state.contains(
                        "ib0 down: the other end of the rail reports: the rail cannot be connected by RDMA: this node"
                                + " cannot use RDMA: this node has no RDMA device, 0 bytes"),
                state);
        assertTrue(state.contains("eth0 up when the last migration ended, "), state);
    }

    @Tag("soak")
    @Test
    void shouldSayByNameThatARailIsNotUsableWhenTheNodesDisagreeAboutIt() throws Exception {
        TransportChoice target = new TransportChoice(
                TransportChoice.Preference.TCP,
                TransportChoice.RdmaModePreference.AUTO,
                mode -> WITHOUT_DEVICE,
                Stream.of("ib0", "eth0")
                        .map(name -> new RailSettings(
                                name,
                                Optional.of(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0)),
                                false,
                                0,
                                0))
                        .toList());
        String state = commits(rails(written(), "ib0", "eth0"), target);
        assertTrue(
                state.contains("ib0 down: its transport is \"rdma\" here and \"tcp\" at the target: configure the same"
                        + " transport on both nodes"),
                state);
    }

    @Test
    void shouldUseTheRailsThatBothNodesHave() throws Exception {
        String state = commits(rails("a", "b", "c"), rails("d", "c", "b"));
        assertTrue(state.startsWith("rails: rails b, c; "), state);
        assertTrue(state.contains("a not connected, 0 bytes"), state);
        assertTrue(state.contains("b up when the last migration ended, "), state);
        assertTrue(!state.contains("b up when the last migration ended, 0 bytes"), state);
    }

    @Tag("soak")
    @Test
    void shouldUseTcpWhenTheNodesHaveNoRailInCommon() throws Exception {
        assertEquals(
                "tcp: the target's rails have other names than this node's: d, e",
                commits(rails("a"), rails("d", "e")));
    }

    @Tag("soak")
    @Test
    void shouldUseTcpWhenOneNodeHasRailsAlone() throws Exception {
        assertTrue(commits(rails("a"), TransportChoice.tcp()).startsWith("tcp: the target has no rails, and "));
    }

    @Tag("soak")
    @Test
    void shouldUseTcpWhenTheTargetHasRailsAlone() throws Exception {
        assertEquals("tcp: this node's configuration allows only TCP", commits(TransportChoice.tcp(), rails("a")));
    }

    private String commits(TransportChoice source, TransportChoice target) throws Exception {
        try (ReplayJob job = job();
                ServicePair pair =
                        new ServicePair(directory, ServicePair.Options.with(job.checkpointer()), source, target)) {
            job.commits(pair);
            return pair.source().transport();
        }
    }

    private void fails(MigrationReport.Outcome outcome, TransportChoice source, TransportChoice target, String... words)
            throws Exception {
        try (ReplayJob job = job();
                ServicePair pair =
                        new ServicePair(directory, ServicePair.Options.with(job.checkpointer()), source, target)) {
            MigrationReport report = job.fails(pair, outcome, words);
            assertTrue(report.reason().contains("RDMA") || report.reason().contains("rdma"), report.reason());
        }
    }

    private ReplayJob job() throws IOException {
        return new ReplayJob(directory)
                .rank(
                        List.of("open image wcx", "write 300000", "close"),
                        List.of("open image r", "read 300000", "eof"));
    }
}
