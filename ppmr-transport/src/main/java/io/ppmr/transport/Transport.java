package io.ppmr.transport;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.protocol.data.DataMessage.Writable;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Optional;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;

/**
 * A way by which chunks get from the source's pool into the target's: data connections of TCP, or RDMA. The target
 * listens and the source connects, both for one session; what they open has its own owner. Immutable, for any thread.
 *
 * <p>{@link TransportChoice} decides which transport a session uses.
 */
public interface Transport {

    /** Returns why this node cannot use it (no library, no device), with the remedy; null if it can. */
    default String unusable() {
        return null;
    }

    /** Returns why the peer cannot be reached by it, found out within {@code deadline}; null if there is a route. */
    default String unreachable(InetAddress peer, Duration deadline) {
        return null;
    }

    /** At the target: waits at {@code address}, the one that the control session came to, for one connection. */
    TransportListener listen(BufferPool pool, InetAddress address) throws IOException;

    /**
     * At the source: connects, and makes the pool readable where the peer is to read it.
     *
     * @param target where the target's listener is
     * @param deadline for all steps together
     * @param onFailure told once if the connection fails before it is closed
     * @throws IOException names the step that failed or took too long
     */
    SourcePath connect(BufferPool pool, InetSocketAddress target, Duration deadline, Consumer<String> onFailure)
            throws IOException, InterruptedException;

    /**
     * At the source: connects a rail, which the session outlives.
     *
     * @param from this node's address that the connection leaves from
     * @param target where the target's listener is
     * @param deadline for all steps together
     * @param onFailure told once if the connection fails before it is closed
     * @throws IOException names the step that failed or took too long, or says that no rail travels so
     */
    default RailSender.RailConnection connectRail(
            BufferPool pool, InetAddress from, InetSocketAddress target, Duration deadline, Consumer<String> onFailure)
            throws IOException {
        throw new IOException("no rail travels by this transport");
    }

    /** Waits at the target for one source's connection. Owned by the thread of the control connection. */
    interface TransportListener extends AutoCloseable {

        /** The port that the source is told. */
        int port();

        /**
         * Waits for the connection and takes it. A transport where an address proves nothing takes whatever says it
         * comes from there until the source has spoken, and finds the source's own by {@link TransportPeer#require}.
         *
         * @param from the address that it must come from; others are sent away
         * @param spoken asked a few times a second; true when the source has reported how it connected, or will not
         *     report it, which ends the wait
         * @return null if nothing has come by then
         * @throws IOException if it does not come within {@code deadline}, or cannot be taken; names the step
         */
        TransportPeer accept(InetAddress from, Duration deadline, BooleanSupplier spoken)
                throws IOException, InterruptedException;

        /**
         * Listens no more; a connection that was accepted, and that {@link TransportPeer#require} has held for, stays.
         */
        @Override
        void close();
    }

    /**
     * The target's end of a connection, before the first chunk. Owned by the thread that accepted it; closed
     * with what it has opened, or by {@link #close} if there is none.
     */
    interface TransportPeer extends AutoCloseable {

        /**
         * Makes sure that the source of the control session is at the other end.
         *
         * @throws IOException if it is not, or the bytes do not come within {@code deadline}
         */
        void require(MemoryProof proof, Duration deadline) throws IOException;

        /** After {@link #require}: where the source may write; empty where it writes nothing by itself. */
        default Optional<Writable> writable() {
            return Optional.empty();
        }

        /** Makes the target's half, which owns the connection from now on and reports to the arrivals. */
        TargetPath open(Arrivals arrivals);

        /** The device and the peer, for messages. */
        String path();

        /** Ends the connection. May be called twice, and after what it has opened was closed. */
        @Override
        void close();
    }
}
