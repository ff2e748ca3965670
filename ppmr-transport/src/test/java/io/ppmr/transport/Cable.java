package io.ppmr.transport;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** A network to a listener. While it is disconnected nothing passes and nothing is reset, and new connections wait. */
final class Cable implements AutoCloseable {
    private final InetSocketAddress to;
    private final ServerSocketChannel server;
    private final List<SocketChannel> channels = new CopyOnWriteArrayList<>();
    private volatile boolean isCut;

    Cable(InetSocketAddress to) throws IOException {
        this.to = to;
        server = ServerSocketChannel.open();
        server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
        start(this::accept);
    }

    InetSocketAddress address() throws IOException {
        return (InetSocketAddress) server.getLocalAddress();
    }

    void cut(boolean cut) {
        isCut = cut;
    }

    /** Returns the number of connections that were made through it. */
    int connections() {
        return channels.size() / 2;
    }

    /** Resets every connection through it, at both ends. */
    void reset() throws IOException {
        for (SocketChannel channel : channels) {
            try {
                channel.setOption(StandardSocketOptions.SO_LINGER, 0);
            } catch (ClosedChannelException e) {
                // The forwarding thread also closes the channel, so its state may change at any time.
                continue;
            }
            channel.close();
        }
    }

    private static void start(Runnable task) {
        Thread thread = new Thread(task, "cable");
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        try {
            while (true) {
                SocketChannel near = server.accept();
                SocketChannel far = SocketChannel.open(to);
                near.setOption(StandardSocketOptions.TCP_NODELAY, true);
                far.setOption(StandardSocketOptions.TCP_NODELAY, true);
                channels.add(near);
                channels.add(far);
                start(() -> carry(near, far));
                start(() -> carry(far, near));
            }
        } catch (IOException e) {
            // The cable or its listener is closed, so the connection is refused.
            closeQuietly();
        }
    }

    private void closeQuietly() {
        try {
            close();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private void carry(SocketChannel from, SocketChannel into) {
        ByteBuffer bytes = ByteBuffer.allocate(8192);
        try {
            while (from.read(bytes.clear()) >= 0) {
                bytes.flip();
                while (isCut) {
                    LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(2));
                }
                while (bytes.hasRemaining()) {
                    into.write(bytes);
                }
            }
            into.shutdownOutput();
        } catch (IOException e) {
            try {
                into.setOption(StandardSocketOptions.SO_LINGER, 0);
                into.close();
            } catch (IOException alsoClosed) {
                e.addSuppressed(alsoClosed);
            }
        }
    }

    @Override
    public void close() throws IOException {
        isCut = false;
        server.close();
        reset();
    }
}
