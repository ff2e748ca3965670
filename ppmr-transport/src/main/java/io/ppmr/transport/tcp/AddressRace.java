package io.ppmr.transport.tcp;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.SocketTimeoutException;
import java.net.StandardSocketOptions;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Connects to one of the addresses of a node, as in RFC 8305. The next address is tried when the previous one failed or
 * did not respond within 250 ms. The first connection is used. So an unreachable address costs that time and not the
 * whole deadline. For one thread, for one connection.
 */
final class AddressRace {
    private static final long NEXT_NS = TimeUnit.MILLISECONDS.toNanos(250);

    private final Deque<InetSocketAddress> waiting;
    private final SocketAddress from;
    private final long deadlineNs;
    private final List<String> failures = new ArrayList<>();
    private IOException last;
    private int open;

    private AddressRace(List<InetSocketAddress> addresses, SocketAddress from, Duration deadline) {
        this.waiting = new ArrayDeque<>(addresses);
        this.from = from;
        this.deadlineNs = System.nanoTime() + deadline.toNanos();
    }

    /**
     * Connects.
     *
     * @param addresses at least one, in the order of the attempts
     * @param from this node's address for the connections; null to let the kernel choose
     * @param deadline for all of them together
     * @return a channel in blocking mode
     * @throws IOException if no address responds; names the reason for each
     */
    static SocketChannel connect(List<InetSocketAddress> addresses, SocketAddress from, Duration deadline)
            throws IOException {
        return addresses.size() == 1
                ? connectTo(addresses.get(0), from, deadline)
                : new AddressRace(addresses, from, deadline).run();
    }

    private static SocketChannel connectTo(InetSocketAddress address, SocketAddress from, Duration deadline)
            throws IOException {
        SocketChannel channel = open(from);
        try {
            channel.socket().connect(address, (int) deadline.toMillis());
            return channel;
        } catch (IOException e) {
            channel.close();
            throw e;
        }
    }

    private static SocketChannel open(SocketAddress from) throws IOException {
        SocketChannel channel = SocketChannel.open();
        try {
            channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
            channel.setOption(StandardSocketOptions.SO_KEEPALIVE, true);
            channel.bind(from);
            return channel;
        } catch (IOException e) {
            channel.close();
            throw e;
        }
    }

    private SocketChannel run() throws IOException {
        try (Selector selector = Selector.open()) {
            SocketChannel first = null;
            try {
                first = first(selector);
            } finally {
                for (SelectionKey key : selector.keys()) {
                    if (key.channel() != first) {
                        key.channel().close();
                    }
                }
            }
            selector.keys().forEach(SelectionKey::cancel);
            selector.selectNow();
            first.configureBlocking(true);
            return first;
        }
    }

    private SocketChannel first(Selector selector) throws IOException {
        while (true) {
            SocketChannel connected = begin(selector);
            long nextNs = System.nanoTime() + NEXT_NS;
            long untilNs = waiting.isEmpty() || deadlineNs - nextNs < 0 ? deadlineNs : nextNs;
            while (connected == null && open > 0 && untilNs - System.nanoTime() > 0) {
                selector.select(Math.max(1, TimeUnit.NANOSECONDS.toMillis(untilNs - System.nanoTime())));
                if (Thread.currentThread().isInterrupted()) {
                    throw new ClosedByInterruptException();
                }
                connected = connected(selector);
            }
            if (connected != null) {
                return connected;
            }
            if (waiting.isEmpty() && open == 0) {
                throw new IOException(String.join("; ", failures), last);
            }
            if (deadlineNs - System.nanoTime() <= 0) {
                failures.add("the other addresses did not respond in time");
                throw new SocketTimeoutException(String.join("; ", failures));
            }
        }
    }

    /** Starts to connect to the next address; returns a channel that connected at once. */
    private SocketChannel begin(Selector selector) throws IOException {
        InetSocketAddress address = waiting.poll();
        if (address == null) {
            return null;
        }
        SocketChannel channel = null;
        try {
            channel = open(from);
            channel.configureBlocking(false);
            boolean isConnected = channel.connect(address);
            channel.register(selector, isConnected ? 0 : SelectionKey.OP_CONNECT, address);
            open++;
            return isConnected ? channel : null;
        } catch (IOException | IllegalArgumentException e) {
            if (channel != null) {
                channel.close();
            }
            fail(address, e instanceof IOException io ? io : new IOException(e));
            return null;
        }
    }

    private SocketChannel connected(Selector selector) throws IOException {
        for (SelectionKey key : selector.selectedKeys()) {
            SocketChannel channel = (SocketChannel) key.channel();
            try {
                if (channel.finishConnect()) {
                    return channel;
                }
            } catch (IOException e) {
                channel.close();
                open--;
                fail((InetSocketAddress) key.attachment(), e);
            }
        }
        selector.selectedKeys().clear();
        return null;
    }

    private void fail(InetSocketAddress address, IOException why) {
        failures.add(address.getAddress().getHostAddress() + ": " + why.getMessage());
        last = why;
    }
}
