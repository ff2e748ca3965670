package io.ppmr.transport;

import io.ppmr.bufferpool.BufferPool;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.function.Consumer;

/**
 * A transport in which the target reads the source's memory by itself, over a connection of its own beside the control
 * session: RDMA. Immutable, for any thread; what it opens has its own owner.
 */
public interface DirectTransport {

    /** Why this node cannot use it (no library, no device), with the remedy; null if it can. */
    String unusable();

    /** Why the peer cannot be reached by it, found out within {@code deadline}; null if there is a route. */
    String unreachable(InetAddress peer, Duration deadline);

    /** At the target: waits at {@code address}, the one that the control session came to, for one connection. */
    DirectListener listen(BufferPool pool, InetAddress address) throws IOException;

    /**
     * At the source: makes the pool readable and connects.
     *
     * @param deadline for all steps together
     * @param onFailure told once if the connection fails before it is closed
     * @throws IOException names the step that failed or took too long
     */
    DirectExporter connect(BufferPool pool, InetSocketAddress target, Duration deadline, Consumer<String> onFailure)
            throws IOException;

    /** Of a node that was built or configured without one. */
    static DirectTransport none(String why) {
        return new DirectTransport() {
            @Override
            public String unusable() {
                return why;
            }

            @Override
            public String unreachable(InetAddress peer, Duration deadline) {
                return why;
            }

            @Override
            public DirectListener listen(BufferPool pool, InetAddress address) throws IOException {
                throw new IOException(why);
            }

            @Override
            public DirectExporter connect(
                    BufferPool pool, InetSocketAddress target, Duration deadline, Consumer<String> onFailure)
                    throws IOException {
                throw new IOException(why);
            }
        };
    }
}
