package io.ppmr.transport;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Two connected channels on this machine, and waits for conditions. */
public record Loopback(SocketChannel near, SocketChannel far) implements AutoCloseable {
    private static final Duration DEADLINE = Duration.ofSeconds(60L * Integer.getInteger("ppmr.patience", 1));

    public static Loopback open() throws IOException {
        try (ServerSocketChannel server = ServerSocketChannel.open()) {
            server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
            SocketChannel near = SocketChannel.open(server.getLocalAddress());
            SocketChannel far = server.accept();
            near.setOption(StandardSocketOptions.TCP_NODELAY, true);
            far.setOption(StandardSocketOptions.TCP_NODELAY, true);
            return new Loopback(near, far);
        }
    }

    @Override
    public void close() throws IOException {
        near.close();
        far.close();
    }

    /** A condition that may throw. */
    public interface Condition {
        boolean holds() throws Exception;
    }

    public static void until(String what, Condition condition) throws Exception {
        until(what, DEADLINE, condition);
    }

    public static void until(String what, Duration limit, Condition condition) throws Exception {
        long deadlineNs = System.nanoTime() + limit.toNanos();
        while (!condition.holds()) {
            if (System.nanoTime() - deadlineNs >= 0) {
                throw new AssertionError("not within " + limit + ": " + what);
            }
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
        }
    }
}
