package io.ppmr.transport;

import java.io.IOException;
import java.net.InetAddress;
import java.time.Duration;
import java.util.function.BooleanSupplier;

/** Waits at the target for one source's direct connection. Owned by the thread of the control connection. */
public interface DirectListener extends AutoCloseable {

    /** The port that the source is told. */
    int port();

    /**
     * Waits for the connection and takes it.
     *
     * @param from the address that it must come from; others are sent away
     * @param givenUp asked a few times a second; true ends the wait
     * @return null if {@code givenUp} ended it
     * @throws IOException if it does not come within {@code deadline}, or cannot be taken; names the step
     */
    DirectPeer accept(InetAddress from, Duration deadline, BooleanSupplier givenUp) throws IOException;

    /** Listens no more; a connection that was accepted stays. May be called twice. */
    @Override
    void close();
}
