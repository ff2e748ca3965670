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
 * Moves chunks from the source's pool into the target's, by data connections over TCP or by RDMA. The target listens
 * and the source connects, both for one session. The opened objects have their own owners. Immutable, for any thread.
 *
 * <p>{@link TransportChoice} decides which transport a session uses.
 */
public interface Transport {

    /** Returns the reason why this node cannot use it (no library, no device), with the remedy; null if it can. */
    default String unusable() {
        return null;
    }

    /**
     * Returns the reason why the peer is not reachable by it, determined within {@code deadline}; null if there is a
     * route.
     */
    default String unreachable(InetAddress peer, Duration deadline) {
        return null;
    }

    /** At the target: listens at {@code address}, the address of the control session, for one connection. */
    TransportListener listen(BufferPool pool, InetAddress address) throws IOException;

    /**
     * At the source: connects, and exports the pool if the peer reads from it.
     *
     * @param target the address of the target's listener
     * @param deadline for all steps together
     * @param onFailure called once if the connection fails before it is closed
     * @throws IOException names the step that failed or took too long
     */
    SourcePath connect(BufferPool pool, InetSocketAddress target, Duration deadline, Consumer<String> onFailure)
            throws IOException, InterruptedException;

    /**
     * At the source: connects a rail, which may end before the session.
     *
     * @param from this node's address that the connection leaves from
     * @param target the address of the target's listener
     * @param deadline for all steps together
     * @param onFailure called once if the connection fails before it is closed
     * @throws IOException names the step that failed or took too long, or states that this transport has no rails
     */
    default RailSender.RailConnection connectRail(
            BufferPool pool, InetAddress from, InetSocketAddress target, Duration deadline, Consumer<String> onFailure)
            throws IOException {
        throw new IOException("this transport has no rails");
    }

    /** Waits at the target for one source's connection. Owned by the thread of the control connection. */
    interface TransportListener extends AutoCloseable {

        /** The port that is sent to the source. */
        int port();

        /**
         * Waits for the connection and accepts it. A transport without trustworthy addresses accepts all connections
         * that claim the address until the source reported, and identifies the source's own by {@link
         * TransportPeer#require}.
         *
         * @param from the expected address; connections from others are refused
         * @param reported queried a few times a second; true when the source sent its report, or will not send one,
         *     which ends the wait
         * @return null if there was no connection by then
         * @throws IOException if there is no connection within {@code deadline}, or it cannot be accepted; names the
         *     step
         */
        TransportPeer accept(InetAddress from, Duration deadline, BooleanSupplier reported)
                throws IOException, InterruptedException;

        /** Stops listening. An accepted connection stays open if {@link TransportPeer#require} identified it. */
        @Override
        void close();
    }

    /**
     * The target's end of a connection, before the first chunk. Owned by the thread that accepted it. The path that it
     * opened closes it, or {@link #close} if there is none.
     */
    interface TransportPeer extends AutoCloseable {

        /**
         * Verifies that the source of the control session is at the other end.
         *
         * @throws IOException if it is not, or the bytes do not arrive within {@code deadline}
         */
        void require(MemoryProof proof, Duration deadline) throws IOException;

        /** After {@link #require}: the memory to which the source may write; empty if it does not write. */
        default Optional<Writable> writable() {
            return Optional.empty();
        }

        /** Creates the target's half, which then owns the connection and reports to the arrivals. */
        TargetPath open(Arrivals arrivals);

        /** The device and the peer, for messages. */
        String path();

        /** Closes the connection. May be called twice, and after the path that it opened was closed. */
        @Override
        void close();
    }
}
