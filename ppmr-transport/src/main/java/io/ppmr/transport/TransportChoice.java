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
 * A service's choice between RDMA and TCP. It depends on the configuration, this node's devices, and the agreement with
 * the peer of a session. It also stores the last choice and its reason. Each service has one, for any thread.
 *
 * <p>A source without RDMA connects by TCP before it sends a request to the target. Otherwise the target chooses and
 * sends an {@link Offer}. The source connects as offered, or by TCP if that fails, and reports the result in {@link
 * Attached}. The target also chooses between RDMA Read and Write among the modes that both sides allow. For RDMA Write
 * it sends its memory in {@link Writable}.
 */
public final class TransportChoice {
    private static final Logger LOG = LoggerFactory.getLogger(TransportChoice.class);
    /** Bit in the transports that a source allows: data connections. */
    private static final int TCP_BIT = 1;
    /** Bit in the transports that a source allows: rails. */
    private static final int RAILS_BIT = 8;

    private static final Duration DATA_DEADLINE = Duration.ofSeconds(10);
    /** The source may try RDMA until its own deadline before it reports its connection. */
    private static final Duration ATTACH_DEADLINE = Duration.ofSeconds(30);

    /** The configured transport of a node: the best one of both nodes, or only this one. */
    public enum Preference {
        /** RDMA if there is a device, its library and a route to the peer, otherwise TCP. */
        AUTO,
        RDMA,
        TCP
    }

    /** The configured direction of RDMA copies. */
    public enum RdmaModePreference {
        /** The target reads if both nodes allow that (docs/internals/rdma.md has the reason). */
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

    private final Preference preference;
    private final RdmaModePreference modePreference;
    /** The allowed modes, the best first. */
    private final List<RdmaMode> modes;

    /** The transports of the allowed modes; empty if TCP is configured. */
    private final Map<RdmaMode, Transport> rdma = new EnumMap<>(RdmaMode.class);

    private final List<RailSettings> rails;
    /** The transport of rails over RDMA; null if there are none. */
    private final Transport direct;
    /** By the rail's name. */
    private final Map<String, RailFigures> figures = new LinkedHashMap<>();

    /** For control connections that use no rail. */
    private final RailFigures noRail = new RailFigures("no rail");

    private volatile String state;

    /** @param rdma creates the transport of RDMA Read, the only mode; called only if the configuration allows it */
    public TransportChoice(Preference preference, Supplier<? extends Transport> rdma) {
        this(preference, RdmaModePreference.READ, mode -> rdma.get());
    }

    /** @param rdma creates the transport of a mode; called only for modes that the configuration allows */
    public TransportChoice(
            Preference preference, RdmaModePreference modePreference, Function<RdmaMode, ? extends Transport> rdma) {
        this(preference, modePreference, rdma, List.of());
    }

    /**
     * Creates the choice of a service with rails. If both nodes have rails with equal names, chunks use only these.
     *
     * @param rails with different names
     */
    public TransportChoice(
            Preference preference,
            RdmaModePreference modePreference,
            Function<RdmaMode, ? extends Transport> rdma,
            List<RailSettings> rails) {
        this.rails = List.copyOf(rails);
        rails.forEach(rail -> figures.put(rail.name(), new RailFigures(rail.name())));
        this.preference = preference;
        this.modePreference = modePreference;
        modes = modePreference.bestFirst();
        if (preference != Preference.TCP) {
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
        if (preference == Preference.RDMA) {
            return whyNotRdma == null ? "rdma" : "none: transport is \"rdma\", and " + whyNotRdma;
        }
        return whyNotRdma == null ? "rdma where the peer has it, else tcp" : "tcp: " + whyNotRdma;
    }

    /** Creates the choice of a service without RDMA. */
    public static TransportChoice tcp() {
        return new TransportChoice(Preference.TCP, () -> null);
    }

    /**
     * Returns the last choice and its reason, or the possible choices before the first migration. As text for people.
     */
    public String state() {
        String now = state;
        return figures.values().stream().anyMatch(RailFigures::wasUsed)
                ? now + "; " + railFigures().stream().map(RailFigures::toString).collect(Collectors.joining("; "))
                        + (noRail.controlConnections() > 0 ? "; the control connection uses no rail" : "")
                : now;
    }

    /** The configured rails of this node. */
    public List<RailSettings> rails() {
        return rails;
    }

    /** Returns the transport of rails over RDMA, usable or not; null if this node has no such rail. */
    public Transport direct() {
        return direct;
    }

    /** Returns the figures of each rail since the service started. */
    public List<RailFigures> railFigures() {
        return List.copyOf(figures.values());
    }

    /** Returns the figures of one configured rail. */
    public RailFigures figures(RailSettings rail) {
        return figures.get(rail.name());
    }

    /** Returns the figures of control connections that use no rail. */
    public RailFigures noRail() {
        return noRail;
    }

    private String whyNotRdma() {
        return preference == Preference.TCP
                ? "this node's configuration allows only TCP"
                : anyRdma().unusable();
    }

    /** Returns the transport for checks of a node: devices and reachable peers are the same in each mode. */
    private Transport anyRdma() {
        return rdma.get(modes.get(0));
    }

    /** Returns the bit of RDMA in this mode in the transports that a source allows. */
    private static int rdmaBit(RdmaMode mode) {
        return mode.code() << 1;
    }

    private static String describe(RdmaMode mode, String path) {
        return path + ", by RDMA " + (mode == RdmaMode.READ ? "Read" : "Write");
    }

    /** Stores and logs the transport of a session. */
    private void recordChoice(String transport, String reason) {
        state = transport + ": " + reason;
        LOG.info("transport of this migration: {}", state);
    }

    /** Throws if only TCP remains and the configuration does not allow it. */
    private void requireTcpAllowed(String whyNotRdma) throws IOException {
        if (preference == Preference.RDMA) {
            throw new IOException("transport is \"rdma\" in this node's configuration, but RDMA cannot be used: "
                    + whyNotRdma + " (repair that, or configure transport = \"auto\")");
        }
    }

    // ---- at the source ----------------------------------------------------------------------------------------

    /**
     * Checks the route to the target if this node has RDMA.
     *
     * @param tcp TCP for this session
     * @param deadline for the check, and for each connection
     */
    public Proposal propose(InetSocketAddress target, Transport tcp, Duration deadline) throws IOException {
        String why = whyNotRdma();
        why = why == null ? anyRdma().unreachable(target.getAddress(), deadline) : why;
        if (why != null && rails.isEmpty()) {
            requireTcpAllowed(why);
        }
        return new Proposal(target, tcp, deadline, why);
    }

    /** Connects a rail that both nodes have, at the source. */
    @FunctionalInterface
    public interface RailOpener {
        /** Like {@link RailSender.Opener#open}. */
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

    /** Returns the target's rails that this node also has, by their names. */
    public List<CommonRail> commonRails(DataMessage.OfferedRails offer) {
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

    /** The connected path, and the message that reports it to the target. */
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

        /** Returns whether the target chooses. Otherwise the source uses TCP and connects before its first request. */
        public boolean targetChooses() {
            return offersRdma() || !rails.isEmpty();
        }

        private boolean offersRdma() {
            return whyNotRdma == null;
        }

        /** Returns the transports that the target may choose, as a sum: 1 TCP, 2 RDMA Read, 4 RDMA Write, 8 rails. */
        public int transports() {
            int sum = preference == Preference.RDMA ? 0 : TCP_BIT;
            for (RdmaMode mode : modes) {
                sum |= offersRdma() ? rdmaBit(mode) : 0;
            }
            return rails.isEmpty() ? sum : sum | RAILS_BIT;
        }

        /** Connects by TCP without a choice by the target. */
        public SourcePath connect(BufferPool pool, Consumer<String> onFailure)
                throws IOException, InterruptedException {
            recordChoice("tcp", whyNotRdma);
            return tcp.connect(pool, target, deadline, onFailure);
        }

        /**
         * Prepares the rails that both nodes have, which are opened after the report to the target. Connects by TCP if
         * there is none.
         *
         * @param opener connects a rail
         * @param link sends the requests to end rails to the target
         */
        public Attachment attach(
                DataMessage.OfferedRails offer,
                RailOpener opener,
                BufferPool pool,
                ControlLink link,
                Consumer<String> onFailure)
                throws IOException, InterruptedException {
            List<CommonRail> common = commonRails(offer);
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
            recordChoice("rails", path.path());
            return attachment(true, path, path.path());
        }

        private Attachment attachTcp(BufferPool pool, String reason, Consumer<String> onFailure)
                throws IOException, InterruptedException {
            requireTcpAllowed(reason);
            SourcePath path = tcp.connect(pool, target, deadline, onFailure);
            recordChoice("tcp", reason);
            return attachment(false, path, reason);
        }

        /** Connects as the target offers, or by TCP if that fails and TCP is allowed. */
        public Attachment attach(Offer offer, BufferPool pool, Consumer<String> onFailure)
                throws IOException, InterruptedException {
            String reason = rails.isEmpty() ? offer.reason() : "the target has no rails, and " + offer.reason();
            if (offer.direct().isPresent()) {
                RdmaMode mode = offer.direct().get();
                try {
                    if (!rdma.containsKey(mode)) {
                        throw new IOException("the target offers RDMA in mode " + mode + ", and transport_mode is "
                                + modePreference + " here");
                    }
                    InetSocketAddress at = new InetSocketAddress(target.getAddress(), offer.port());
                    SourcePath path = rdma.get(mode).connect(pool, at, deadline, onFailure);
                    recordChoice("rdma", describe(mode, path.path()));
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

    /** Returns the best RDMA mode that both sides allow. */
    private Optional<RdmaMode> bestMode(int sourceTransports) {
        return modes.stream()
                .filter(mode -> (sourceTransports & rdmaBit(mode)) != 0)
                .findFirst();
    }

    private boolean mayUseRdma(int sourceTransports) {
        return (sourceTransports & ~(TCP_BIT | RAILS_BIT)) != 0;
    }

    private boolean mayUseRails(int sourceTransports) {
        return (sourceTransports & RAILS_BIT) != 0 && !rails.isEmpty();
    }

    /** Returns the reason why RDMA cannot be used with a source that could use it; null if it can. */
    private String whyNotRdmaWith(int sourceTransports) {
        String whyNot = whyNotRdma();
        if (whyNot == null && !mayUseRdma(sourceTransports)) {
            return "the source cannot use RDMA";
        }
        return whyNot == null && bestMode(sourceTransports).isEmpty()
                ? "transport_mode is \"" + modePreference.name().toLowerCase(Locale.ROOT)
                        + "\" here, which the source does not allow (configure \"auto\" on one of both nodes)"
                : whyNot;
    }

    /**
     * Returns the reason why there is no transport that both nodes may use; null if there is one.
     *
     * @param sourceTransports the transports that the source allows, from {@link Proposal#transports}
     */
    public String refusal(int sourceTransports) {
        if (mayUseRails(sourceTransports)) {
            return null;
        }
        boolean sourceRdma = mayUseRdma(sourceTransports);
        String whyNot = whyNotRdmaWith(sourceTransports);
        if ((sourceTransports & TCP_BIT) == 0 && (!sourceRdma || whyNot != null)) {
            return "the source allows only RDMA, which this node cannot use: " + whyNot;
        }
        if (preference == Preference.RDMA && !sourceRdma) {
            return "this node's configuration allows RDMA alone, which the source cannot use";
        }
        if (preference == Preference.RDMA && bestMode(sourceTransports).isEmpty()) {
            return "this node's configuration allows RDMA alone, and " + whyNot;
        }
        return null;
    }

    /** The rails of a target, for one session. */
    public interface RailPorts {
        /** The rails on which this node listens now. */
        List<OfferedRail> offered();

        /** Returns the session's end of the offered rails, which receives their connections from now on. */
        Transport.TransportPeer accept(List<OfferedRail> offered);
    }

    /**
     * Chooses among the transports that the source allows and accepts the session's connections. Blocks the thread of
     * the control connection until they are open.
     *
     * @param tcp TCP for this session
     * @param ports the rails for this session
     * @param events the messages of the source
     */
    public Transport.TransportPeer accept(
            int sourceTransports,
            Transport tcp,
            RailPorts ports,
            BufferPool pool,
            SocketChannel control,
            ControlLink link,
            BlockingQueue<SessionEvent> events)
            throws IOException, InterruptedException {
        InetAddress here = ((InetSocketAddress) control.getLocalAddress()).getAddress();
        InetAddress source = ((InetSocketAddress) control.getRemoteAddress()).getAddress();
        if (sourceTransports == TCP_BIT) {
            return acceptTcp(tcp, pool, here, source, "the source cannot use RDMA");
        }
        List<OfferedRail> offered = mayUseRails(sourceTransports) ? ports.offered() : List.of();
        if (!offered.isEmpty()) {
            link.send(new DataMessage.OfferedRails(offered));
            Attached attached = requireAttached(events);
            if (attached.direct()) {
                recordChoice("rails", attached.reason());
                return ports.accept(offered);
            }
            return acceptTcp(tcp, pool, here, source, attached.reason());
        }
        String whyNot = whyNotRdmaWith(sourceTransports);
        Optional<RdmaMode> mode = bestMode(sourceTransports);
        Transport.TransportListener listener = null;
        if (whyNot == null && mode.isPresent()) {
            try {
                listener = rdma.get(mode.get()).listen(pool, here);
            } catch (IOException e) {
                whyNot = e.getMessage();
                LOG.warn("{}", whyNot);
            }
        }
        if (listener == null) {
            requireTcpAllowed(whyNot);
            link.send(new Offer(Optional.empty(), 0, whyNot));
            requireAttached(events);
            return acceptTcp(tcp, pool, here, source, whyNot);
        }
        try (Transport.TransportListener open = listener) {
            link.send(new Offer(mode, open.port(), ""));
            Transport.TransportPeer peer = open.accept(source, ATTACH_DEADLINE, () -> events.peek() != null);
            boolean isAccepted = false;
            try {
                Attached attached = requireAttached(events);
                if (!attached.direct()) {
                    return acceptTcp(tcp, pool, here, source, attached.reason());
                }
                if (peer == null) {
                    throw new IOException("the source reported an RDMA connection, but none arrived");
                }
                peer.require(new MemoryProof(attached.address(), attached.key(), attached.digest()), DATA_DEADLINE);
                Optional<Writable> writable = peer.writable();
                if (writable.isPresent()) {
                    link.send(writable.get());
                }
                recordChoice("rdma", describe(mode.orElseThrow(), peer.path()));
                isAccepted = true;
                return peer;
            } finally {
                if (peer != null && !isAccepted) {
                    peer.close();
                }
            }
        }
    }

    private Transport.TransportPeer acceptTcp(
            Transport tcp, BufferPool pool, InetAddress here, InetAddress source, String reason)
            throws IOException, InterruptedException {
        try (Transport.TransportListener listener = tcp.listen(pool, here)) {
            Transport.TransportPeer peer = listener.accept(source, DATA_DEADLINE, () -> false);
            recordChoice("tcp", reason);
            return peer;
        }
    }

    private static Attached requireAttached(BlockingQueue<SessionEvent> events)
            throws IOException, InterruptedException {
        SessionEvent event = events.poll(ATTACH_DEADLINE.toMillis(), TimeUnit.MILLISECONDS);
        if (messageOf(event) instanceof Attached attached) {
            return attached;
        }
        throw new IOException(
                "the source sent no message Attached: " + (event == null ? "nothing for " + ATTACH_DEADLINE : event));
    }

    private static Object messageOf(SessionEvent event) {
        return event instanceof SessionEvent.MessageReceived received ? received.message() : null;
    }
}
