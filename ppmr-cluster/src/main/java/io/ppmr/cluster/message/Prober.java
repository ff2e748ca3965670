package io.ppmr.cluster.message;

import io.ppmr.linux.HostPort;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Deque;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.Locale;
import java.util.Set;

/**
 * Finds out whether the kernels of other nodes answer a TCP connection, many at once. A refusal is an answer, and so is
 * a reset. No byte is sent. Safe for any thread: each call has a selector of its own.
 */
public final class Prober {
    /** The time of one probe. TCP repeats its first segment after a second. */
    public static final Duration LIMIT = Duration.ofMillis(1500);

    private final int most;

    /** @param most how many probes of one call run at once */
    public Prober(int most) {
        this.most = most;
    }

    /** Returns those of the addresses that answer. Each is HOST:PORT with a numeric host. Blocks. */
    public Set<String> answering(Collection<String> addresses) throws IOException {
        Set<String> answering = new HashSet<>();
        Deque<String> waiting = new ArrayDeque<>(new LinkedHashSet<>(addresses));
        try (Selector selector = Selector.open()) {
            while (!waiting.isEmpty()) {
                probe(selector, waiting, answering);
            }
        }
        return answering;
    }

    /** Probes as many of the waiting addresses as may run at once. */
    private void probe(Selector selector, Deque<String> waiting, Set<String> answering) throws IOException {
        Set<SocketChannel> open = new HashSet<>();
        try {
            while (!waiting.isEmpty() && open.size() < most) {
                String address = waiting.poll();
                InetSocketAddress peer =
                        HostPort.parse(address).map(HostPort::lookUp).orElse(null);
                if (peer != null && !peer.isUnresolved()) {
                    begin(selector, peer, address, open, answering);
                }
            }
            long endNs = System.nanoTime() + LIMIT.toNanos();
            for (long leftNs = LIMIT.toNanos(); leftNs > 0 && !open.isEmpty(); leftNs = endNs - System.nanoTime()) {
                selector.select(Math.max(1, leftNs / 1_000_000));
                finish(selector, open, answering);
            }
            // Answers that came while this process was paused count, too.
            selector.selectNow();
            finish(selector, open, answering);
        } finally {
            for (SocketChannel channel : open) {
                channel.close();
            }
            // A closed channel leaves its selector with the next selection.
            selector.selectNow();
        }
    }

    private static void begin(
            Selector selector, InetSocketAddress peer, String address, Set<SocketChannel> open, Set<String> answering)
            throws IOException {
        SocketChannel channel = SocketChannel.open();
        try {
            channel.configureBlocking(false);
            if (channel.connect(peer)) {
                answering.add(address);
                channel.close();
            } else {
                channel.register(selector, SelectionKey.OP_CONNECT, address);
                open.add(channel);
            }
        } catch (IOException e) {
            channel.close();
            noteFailure(e, address, answering);
        }
    }

    private static void finish(Selector selector, Set<SocketChannel> open, Set<String> answering) throws IOException {
        for (SelectionKey key : selector.selectedKeys()) {
            finish(key, open, answering);
        }
        selector.selectedKeys().clear();
    }

    private static void finish(SelectionKey key, Set<SocketChannel> open, Set<String> answering) throws IOException {
        SocketChannel channel = (SocketChannel) key.channel();
        String address = (String) key.attachment();
        try {
            if (channel.finishConnect()) {
                answering.add(address);
            }
        } catch (IOException e) {
            noteFailure(e, address, answering);
        } finally {
            open.remove(channel);
            channel.close();
        }
    }

    /** A refusal and a reset come from the node's kernel; other failures come from this one or from a router. */
    private static void noteFailure(IOException failure, String address, Set<String> answering) {
        String text = String.valueOf(failure.getMessage()).toLowerCase(Locale.ROOT);
        if (text.contains("refused") || text.contains("reset")) {
            answering.add(address);
        }
    }
}
