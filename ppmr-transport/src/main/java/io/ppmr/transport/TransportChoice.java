package io.ppmr.transport;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.DataMessage.Attached;
import io.ppmr.protocol.data.DataMessage.Offer;
import io.ppmr.protocol.data.DataMessage.OfferedRail;
import io.ppmr.protocol.data.DataMessage.Writable;
import io.ppmr.protocol.data.RdmaMode;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A service's choice between RDMA and TCP: what its configuration wishes, what this node has, what it agrees on with
 * the peer of a session, and what was chosen last and why. One a service, for any thread.
 *
 * <p>Where the source cannot use RDMA it connects by TCP before it asks the target for anything. Else the target
 * chooses: its {@link Offer} says what it listens for, the source connects so, or by TCP where that fails, and says in
 * {@link Attached} how it has. The target also chooses who copies over RDMA, among the modes that both sides allow;
 * where the source writes it is told where by {@link Writable}.
 */
public final class TransportChoice {
    private static final Logger LOG = LoggerFactory.getLogger(TransportChoice.class);
    /** In what a source says it may use: data connections. */
    private static final int OVER_TCP = 1;
    /** In what a source says it may use: rails. */
    private static final int OVER_RAILS = 8;

    private static final Duration DATA_DEADLINE = Duration.ofSeconds(10);
    /** The source may try RDMA until its own deadline before it says what it has. */
    private static final Duration ATTACH_DEADLINE = Duration.ofSeconds(30);

    /** The operator's wish for a node's transport: to take the best that both nodes have, or this one and no other. */
    public enum Preference {
        /** RDMA where a device, its library and a route to the peer are there, else TCP. */
        AUTO,
        RDMA,
        TCP
    }

    /** Says who may copy over RDMA, as a node is told. */
    public enum RdmaModePreference {
        /** The target reads where both nodes allow that (docs/internals/rdma.md says why). */
        AUTO,
        READ,
        WRITE;

        private List<RdmaMode> bestFirst() {
            return switch (this) {
                case AUTO -> List.of(RdmaMode.READ, RdmaMode.WRITE);
                case READ -> List.of(RdmaMode.READ);
                case WRITE -> List.of(RdmaMode.WRITE);
            };
        }
    }

    private final Preference wish;
    private final RdmaModePreference modeWish;
    /** The modes that are allowed, the best first. */
    private final List<RdmaMode> modes;

    /** The transports of the modes that are allowed; none where the wish is TCP. */
    private final Map<RdmaMode, Transport> rdma = new EnumMap<>(RdmaMode.class);

    private final List<RailSettings> rails;
    /** By which the rails over RDMA travel; null where there are none. */
    private final Transport direct;
    /** Of each rail, by its name. */
    private final Map<String, RailFigures> figures = new LinkedHashMap<>();

    /** For control connections that go by no rail. */
    private final RailFigures noRail = new RailFigures("no rail");

    private volatile String state;

    /** @param rdma makes the transport of reads, the one mode; asked only where the wish allows it */
    public TransportChoice(Preference wish, Supplier<? extends Transport> rdma) {
        this(wish, RdmaModePreference.READ, mode -> rdma.get());
    }

    /** @param rdma makes the transport of a mode, and is asked only where the wishes allow it */
    public TransportChoice(Preference wish, RdmaModePreference modeWish, Function<RdmaMode, ? extends Transport> rdma) {
        this(wish, modeWish, rdma, List.of());
    }

    /**
     * A service that has rails, too. Where both nodes have some of the same names, chunks go by these and no other way.
     *
     * @param rails by different names
     */
    public TransportChoice(
            Preference wish,
            RdmaModePreference modeWish,
            Function<RdmaMode, ? extends Transport> rdma,
            List<RailSettings> rails) {
        this.rails = List.copyOf(rails);
        rails.forEach(rail -> figures.put(rail.name(), new RailFigures(rail.name())));
        this.wish = wish;
        this.modeWish = modeWish;
        modes = modeWish.bestFirst();
        if (wish != Preference.TCP) {
            modes.forEach(mode -> this.rdma.put(mode, rdma.apply(mode)));
        }
        boolean isAnyDirect = rails.stream().anyMatch(RailSettings::direct);
        direct = isAnyDirect ? rdma.apply(RdmaMode.WRITE) : null;
        String whyNotDirect = isAnyDirect ? direct.unusable() : null;
        if (whyNotDirect != null) {
            rails.stream()
                    .filter(RailSettings::direct)
                    .forEach(rail -> LOG.warn(
                            "rail {} cannot be used: its transport is \"rdma\", and {}", rail.name(), whyNotDirect));
        }
        String names = rails.stream().map(RailSettings::name).collect(Collectors.joining(", "));
        String without = withoutRails(whyNotRdma());
        state = rails.isEmpty() ? without : "rails " + names + " where the peer has them, else " + without;
        LOG.info("transport: {}", state);
    }

    private String withoutRails(String whyNotRdma) {
        if (wish == Preference.RDMA) {
            return whyNotRdma == null ? "rdma" : "none: transport is \"rdma\", and " + whyNotRdma;
        }
        return whyNotRdma == null ? "rdma where the peer has it, else tcp" : "tcp: " + whyNotRdma;
    }

    /** A service that knows TCP alone. */
    public static TransportChoice tcp() {
        return new TransportChoice(Preference.TCP, () -> null);
    }

    /** Returns what was chosen last, and why; before the first migration what may be chosen. For people. */
    public String state() {
        String now = state;
        return figures.values().stream().anyMatch(RailFigures::wasUsed)
                ? now + "; " + railFigures().stream().map(RailFigures::toString).collect(Collectors.joining("; "))
                        + (noRail.controlConnections() > 0 ? "; the control connection goes by no rail" : "")
                : now;
    }

    /** The rails of this node's configuration. */
    public List<RailSettings> rails() {
        return rails;
    }

    /** Gives by what rails over RDMA travel, whether that can be used or not; null where this node has no such rail. */
    public Transport direct() {
        return direct;
    }

    /** Gives what each rail has done since the service began. */
    public List<RailFigures> railFigures() {
        return List.copyOf(figures.values());
    }

    /** Gives the figures of one rail of this node's configuration. */
    public RailFigures figures(RailSettings rail) {
        return figures.get(rail.name());
    }

    /** Gives what counts the control connections that go by no rail. */
    public RailFigures noRail() {
        return noRail;
    }

    private String whyNotRdma() {
        return wish == Preference.TCP ? "the configuration says so" : anyRdma().unusable();
    }

    /** Returns the transport for checks of a node: the devices and the reachable peers are the same in each mode. */
    private Transport anyRdma() {
        return rdma.get(modes.get(0));
    }

    /** In what a source says it may use: RDMA in this mode. */
    private static int overRdma(RdmaMode mode) {
        return mode.code() << 1;
    }

    private static String over(RdmaMode mode, String path) {
        return path + ", by RDMA " + (mode == RdmaMode.READ ? "Read" : "Write");
    }

    /** Notes what is used for a session, in the log as well. */
    private void chosen(String transport, String reason) {
        state = transport + ": " + reason;
        LOG.info("transport of this migration: {}", state);
    }

    /** Fails where TCP is what is left and the configuration does not allow it. */
    private void requireTcpAllowed(String whyNotRdma) throws IOException {
        if (wish == Preference.RDMA) {
            throw new IOException("transport is \"rdma\" in this node's configuration, but RDMA cannot be used: "
                    + whyNotRdma + " (mend that, or configure transport = \"auto\")");
        }
    }

    // ---- at the source ----------------------------------------------------------------------------------------

    /**
     * Looks for a route to the target where this node has RDMA.
     *
     * @param tcp TCP for this session
     * @param deadline for that, and for each connection
     */
    public Proposal propose(InetSocketAddress target, Transport tcp, Duration deadline) throws IOException {
        String why = whyNotRdma();
        why = why == null ? anyRdma().unreachable(target.getAddress(), deadline) : why;
        if (why != null && rails.isEmpty()) {
            requireTcpAllowed(why);
        }
        return new Proposal(target, tcp, deadline, why);
    }

    /** Connects a rail, at the source: one of its own, as the target has it. */
    @FunctionalInterface
    public interface RailOpener {
        /** As {@link RailSender.Opener#open}. */
        RailSender.RailConnection open(
                RailSettings here, OfferedRail there, int number, int generation, Consumer<String> onFailure)
                throws IOException;
    }

    /**
     * A rail that both nodes have.
     *
     * @param number its number at the target
     */
    public record CommonRail(int number, RailSettings here, OfferedRail there) {}

    /** Gives the rails of a target that this node has, too: those of the same names. */
    public List<CommonRail> common(DataMessage.OfferedRails offer) {
        List<OfferedRail> there = offer.rails();
        List<CommonRail> common = new ArrayList<>();
        for (RailSettings rail : rails) {
            IntStream.range(0, there.size())
                    .filter(number -> there.get(number).name().equals(rail.name()))
                    .findFirst()
                    .ifPresent(number -> common.add(new CommonRail(number, rail, there.get(number))));
        }
        return common;
    }

    /** The connected path, and the message that tells the target of it. */
    public record Attachment(SourcePath path, Attached message) {}

    /** The proposal of a source to one target. Used by the migration's thread. */
    public final class Proposal {
        private final InetSocketAddress target;
        private final Transport tcp;
        private final Duration deadline;
        private final String whyNotRdma;

        private Proposal(InetSocketAddress target, Transport tcp, Duration deadline, String whyNotRdma) {
            this.target = target;
            this.tcp = tcp;
            this.deadline = deadline;
            this.whyNotRdma = whyNotRdma;
        }

        /** Returns whether the target is to choose; if not, it is TCP, whose connections come before the question. */
        public boolean leavesTheChoice() {
            return offersRdma() || !rails.isEmpty();
        }

        private boolean offersRdma() {
            return whyNotRdma == null;
        }

        /** Lists the ways that the target may choose, as a sum: 1 TCP, 2 RDMA Read, 4 RDMA Write, 8 rails. */
        public int transports() {
            int sum = wish == Preference.RDMA ? 0 : OVER_TCP;
            for (RdmaMode mode : modes) {
                sum |= offersRdma() ? overRdma(mode) : 0;
            }
            return rails.isEmpty() ? sum : sum | OVER_RAILS;
        }

        /** Connects by TCP, which the target is not asked about. */
        public SourcePath connect(BufferPool pool, Consumer<String> onFailure)
                throws IOException, InterruptedException {
            chosen("tcp", whyNotRdma);
            return tcp.connect(pool, target, deadline, onFailure);
        }

        /**
         * Takes the rails that both nodes have, to be opened when the target has been told; connects by TCP where there
         * is none.
         *
         * @param opener connects a rail
         * @param link by which the target is told to end rails
         */
        public Attachment attach(
                DataMessage.OfferedRails offer,
                RailOpener opener,
                BufferPool pool,
                ControlLink link,
                Consumer<String> onFailure)
                throws IOException, InterruptedException {
            List<CommonRail> common = common(offer);
            if (common.isEmpty()) {
                String reason = "the target's rails have other names than this node's: "
                        + offer.rails().stream().map(OfferedRail::name).collect(Collectors.joining(", "));
                LOG.warn("{}", reason);
                return attachTcp(pool, reason, onFailure);
            }
            Map<Integer, CommonRail> byNumber =
                    common.stream().collect(Collectors.toMap(CommonRail::number, Function.identity()));
            RailSender path = new RailSender(
                    pool,
                    link.attempt(),
                    common.stream()
                            .map(rail -> new RailSender.Route(rail.number(), rail.here(), figures(rail.here())))
                            .toList(),
                    (number, generation, onLoss) -> opener.open(
                            byNumber.get(number).here(), byNumber.get(number).there(), number, generation, onLoss),
                    link::send,
                    onFailure,
                    RailSender.RailLimits.PRODUCTION);
            chosen("rails", path.path());
            return attachment(true, path, path.path());
        }

        private Attachment attachTcp(BufferPool pool, String reason, Consumer<String> onFailure)
                throws IOException, InterruptedException {
            requireTcpAllowed(reason);
            SourcePath path = tcp.connect(pool, target, deadline, onFailure);
            chosen("tcp", reason);
            return attachment(false, path, reason);
        }

        /** Connects as the target offers; by TCP where that does not work and TCP is allowed. */
        public Attachment attach(Offer offer, BufferPool pool, Consumer<String> onFailure)
                throws IOException, InterruptedException {
            String reason = rails.isEmpty() ? offer.reason() : "the target has no rails, and " + offer.reason();
            if (offer.direct().isPresent()) {
                RdmaMode mode = offer.direct().get();
                try {
                    if (!rdma.containsKey(mode)) {
                        throw new IOException("the target offers RDMA in mode " + mode + ", and transport_mode is "
                                + modeWish + " here");
                    }
                    InetSocketAddress at = new InetSocketAddress(target.getAddress(), offer.port());
                    SourcePath path = rdma.get(mode).connect(pool, at, deadline, onFailure);
                    chosen("rdma", over(mode, path.path()));
                    return attachment(true, path, path.path());
                } catch (IOException e) {
                    reason = e.getMessage();
                    LOG.warn("{}", reason);
                }
            }
            return attachTcp(pool, reason, onFailure);
        }

        private static Attachment attachment(boolean direct, SourcePath path, String reason) {
            MemoryProof proof = path.proof();
            return new Attachment(path, new Attached(direct, proof.address(), proof.key(), proof.digest(), reason));
        }
    }

    // ---- at the target ----------------------------------------------------------------------------------------

    /** Gives the best mode of RDMA that both sides allow, by what the source has said. */
    private Optional<RdmaMode> mode(int sourceMay) {
        return modes.stream().filter(mode -> (sourceMay & overRdma(mode)) != 0).findFirst();
    }

    private boolean mayUseRdma(int sourceMay) {
        return (sourceMay & ~(OVER_TCP | OVER_RAILS)) != 0;
    }

    private boolean mayUseRails(int sourceMay) {
        return (sourceMay & OVER_RAILS) != 0 && !rails.isEmpty();
    }

    /** Returns why RDMA cannot be used with a source that could use it; null if it can. */
    private String whyNotRdmaWith(int sourceMay) {
        String whyNot = whyNotRdma();
        if (whyNot == null && !mayUseRdma(sourceMay)) {
            return "the source cannot use RDMA";
        }
        return whyNot == null && mode(sourceMay).isEmpty()
                ? "transport_mode is \"" + modeWish.name().toLowerCase(Locale.ROOT)
                        + "\" here, which the source does not allow (configure \"auto\" on one of both nodes)"
                : whyNot;
    }

    /**
     * Returns why there is no transport that both nodes may use; null if there is one.
     *
     * @param sourceMay how the bytes may travel for the source, as {@link Proposal#transports} says it
     */
    public String refusal(int sourceMay) {
        if (mayUseRails(sourceMay)) {
            return null;
        }
        boolean sourceRdma = mayUseRdma(sourceMay);
        String whyNot = whyNotRdmaWith(sourceMay);
        if ((sourceMay & OVER_TCP) == 0 && (!sourceRdma || whyNot != null)) {
            return "it must use RDMA, and this node cannot: " + whyNot;
        }
        if (wish == Preference.RDMA && !sourceRdma) {
            return "this node's configuration allows RDMA alone, which the source cannot use";
        }
        if (wish == Preference.RDMA && mode(sourceMay).isEmpty()) {
            return "this node's configuration allows RDMA alone, and " + whyNot;
        }
        return null;
    }

    /** The rails of a target, for one session. */
    public interface RailPorts {
        /** Those at which this node listens now. */
        List<OfferedRail> offered();

        /** Gives the session's end of those that were offered, to which their connections come from now on. */
        Transport.TransportPeer join(List<OfferedRail> offered);
    }

    /**
     * Chooses among what the source may use and takes the session's connections. Blocks the thread of the control
     * connection until they are there.
     *
     * @param tcp TCP for this session
     * @param ports the rails for this session
     * @param events what the source says
     */
    public Transport.TransportPeer join(
            int sourceMay,
            Transport tcp,
            RailPorts ports,
            BufferPool pool,
            SocketChannel control,
            ControlLink link,
            BlockingQueue<SessionEvent> events)
            throws IOException, InterruptedException {
        InetAddress here = ((InetSocketAddress) control.getLocalAddress()).getAddress();
        InetAddress source = ((InetSocketAddress) control.getRemoteAddress()).getAddress();
        if (sourceMay == OVER_TCP) {
            return takeTcp(tcp, pool, here, source, "the source cannot use RDMA");
        }
        List<OfferedRail> offered = mayUseRails(sourceMay) ? ports.offered() : List.of();
        if (!offered.isEmpty()) {
            link.send(new DataMessage.OfferedRails(offered));
            Attached said = requireAttached(events);
            if (said.direct()) {
                chosen("rails", said.reason());
                return ports.join(offered);
            }
            return takeTcp(tcp, pool, here, source, said.reason());
        }
        String whyNot = whyNotRdmaWith(sourceMay);
        Optional<RdmaMode> mode = mode(sourceMay);
        Transport.TransportListener waiting = null;
        if (whyNot == null && mode.isPresent()) {
            try {
                waiting = rdma.get(mode.get()).listen(pool, here);
            } catch (IOException e) {
                whyNot = e.getMessage();
                LOG.warn("{}", whyNot);
            }
        }
        if (waiting == null) {
            requireTcpAllowed(whyNot);
            link.send(new Offer(Optional.empty(), 0, whyNot));
            requireAttached(events);
            return takeTcp(tcp, pool, here, source, whyNot);
        }
        try (Transport.TransportListener open = waiting) {
            link.send(new Offer(mode, open.port(), ""));
            Transport.TransportPeer peer = open.accept(source, ATTACH_DEADLINE, () -> events.peek() != null);
            boolean kept = false;
            try {
                Attached said = requireAttached(events);
                if (!said.direct()) {
                    return takeTcp(tcp, pool, here, source, said.reason());
                }
                if (peer == null) {
                    throw new IOException("the source says that it has connected by RDMA, and no connection has come");
                }
                peer.require(new MemoryProof(said.address(), said.key(), said.digest()), DATA_DEADLINE);
                Optional<Writable> writable = peer.writable();
                if (writable.isPresent()) {
                    link.send(writable.get());
                }
                chosen("rdma", over(mode.orElseThrow(), peer.path()));
                kept = true;
                return peer;
            } finally {
                if (peer != null && !kept) {
                    peer.close();
                }
            }
        }
    }

    private Transport.TransportPeer takeTcp(
            Transport tcp, BufferPool pool, InetAddress here, InetAddress source, String reason)
            throws IOException, InterruptedException {
        try (Transport.TransportListener waiting = tcp.listen(pool, here)) {
            Transport.TransportPeer peer = waiting.accept(source, DATA_DEADLINE, () -> false);
            chosen("tcp", reason);
            return peer;
        }
    }

    private static Attached requireAttached(BlockingQueue<SessionEvent> events)
            throws IOException, InterruptedException {
        SessionEvent event = events.poll(ATTACH_DEADLINE.toMillis(), TimeUnit.MILLISECONDS);
        if (attached(event) instanceof Attached said) {
            return said;
        }
        throw new IOException("the source does not say how it has connected: "
                + (event == null ? "nothing for " + ATTACH_DEADLINE : event));
    }

    private static Object attached(SessionEvent event) {
        return event instanceof SessionEvent.MessageReceived said ? said.message() : null;
    }
}
