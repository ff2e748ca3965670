package io.ppmr.system;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.WritableByteChannel;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A network that delays every byte of a connection to a target by a fixed time, each way. It can be slow, too. Then
 * each direction of a connection has a maximum rate. It delays nothing else, as long as no more than {@link #IN_FLIGHT}
 * blocks of a direction are on their way. It replaces a delay in the kernel (netem), which not every kernel has.
 *
 * <p>It is safe for any thread. Its owner closes it. Until then it has two threads for each direction of each
 * connection.
 */
final class DelayedLink implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(DelayedLink.class);
    private static final int BLOCK_BYTES = 256 << 10;
    private static final int IN_FLIGHT = 256;
    private static final long LIMIT_S = 60;

    /** Bytes on their way. No bytes mean that the sender ended. */
    private record Block(ByteBuffer bytes, long arrivesNs) {}

    private final long delayNs;
    private final long bytesPerSecond;
    private final ServerSocket server;
    private final List<Socket> sockets = new CopyOnWriteArrayList<>();
    private final LongAdder carriedBytes = new LongAdder();
    private volatile InetSocketAddress target;

    /** Begins to listen on a free port of this machine. */
    DelayedLink(Duration delay) throws IOException {
        this(delay, Long.MAX_VALUE);
    }

    /** Creates a link that has a maximum rate, too. */
    DelayedLink(Duration delay, long bytesPerSecond) throws IOException {
        this.bytesPerSecond = bytesPerSecond;
        delayNs = delay.toNanos();
        server = new ServerSocket(0, 64, InetAddress.getLoopbackAddress());
        daemon(this::accept);
    }

    InetSocketAddress address() {
        return new InetSocketAddress(server.getInetAddress(), server.getLocalPort());
    }

    /** Leads to this target from now on. */
    void leadTo(InetSocketAddress address) {
        target = address;
    }

    /** Returns true if at least this number of bytes left it. */
    boolean hasCarried(long bytes) {
        return carriedBytes.sum() >= bytes;
    }

    private static void daemon(Runnable task) {
        Thread thread = new Thread(task, "delayed-link");
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        while (!server.isClosed()) {
            try {
                Socket client = server.accept();
                sockets.add(client);
                Socket there = new Socket(target.getAddress(), target.getPort());
                sockets.add(there);
                client.setTcpNoDelay(true);
                there.setTcpNoDelay(true);
                delay(client, there);
                delay(there, client);
            } catch (IOException e) {
                LOG.debug("the delayed link accepts nothing: {}", e.toString());
            }
        }
    }

    private void delay(Socket from, Socket to) {
        BlockingQueue<Block> onTheWay = new LinkedBlockingQueue<>(IN_FLIGHT);
        daemon(() -> read(from, onTheWay));
        daemon(() -> write(onTheWay, from, to));
    }

    private void read(Socket from, BlockingQueue<Block> onTheWay) {
        try {
            byte[] bytes = new byte[BLOCK_BYTES];
            try {
                InputStream in = from.getInputStream();
                for (int n = in.read(bytes); n >= 0; n = in.read(bytes)) {
                    put(onTheWay, Arrays.copyOf(bytes, n));
                }
            } finally {
                put(onTheWay, new byte[0]);
            }
        } catch (IOException e) {
            LOG.debug("a connection of the delayed link ends: {}", e.toString());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void put(BlockingQueue<Block> onTheWay, byte[] bytes) throws IOException, InterruptedException {
        if (!onTheWay.offer(
                new Block(ByteBuffer.wrap(bytes), System.nanoTime() + delayNs), LIMIT_S, TimeUnit.SECONDS)) {
            throw new IOException("nothing has left the delayed link for " + LIMIT_S + " s");
        }
    }

    private void write(BlockingQueue<Block> onTheWay, Socket from, Socket to) {
        try {
            WritableByteChannel out = Channels.newChannel(to.getOutputStream());
            for (Block block = onTheWay.take(); block.bytes.hasRemaining(); block = onTheWay.take()) {
                long leftNs = block.arrivesNs - System.nanoTime();
                while (leftNs > 0) {
                    LockSupport.parkNanos(leftNs);
                    leftNs = block.arrivesNs - System.nanoTime();
                }
                int bytes = out.write(block.bytes);
                carriedBytes.add(bytes);
                LockSupport.parkNanos(TimeUnit.SECONDS.toNanos(bytes) / bytesPerSecond);
            }
            to.shutdownOutput();
        } catch (IOException e) {
            LOG.debug("a connection of the delayed link ends: {}", e.toString());
            closeQuietly(from);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static void closeQuietly(Socket socket) {
        try {
            socket.close();
        } catch (IOException e) {
            LOG.debug("closing a connection of the delayed link: {}", e.toString());
        }
    }

    @Override
    public void close() throws IOException {
        server.close();
        for (Socket socket : sockets) {
            socket.close();
        }
    }
}
