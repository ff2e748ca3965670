package io.ppmr.transport.tcp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.transport.auth.PeerConnection;
import io.ppmr.transport.auth.PreSharedKey;
import io.ppmr.transport.auth.SessionId;
import io.ppmr.transport.listen.PeerListener;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tests a target name with several addresses of this machine's loopback network. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ConnectorTest {
    private static final PreSharedKey KEY =
            new PreSharedKey("0123456789abcdef0123456789abcdef".getBytes(StandardCharsets.US_ASCII));
    private static final int PATIENCE = Integer.getInteger("ppmr.patience", 1);
    private static final Duration DEADLINE = Duration.ofSeconds(30L * PATIENCE);
    private static final String HERE = "127.0.3.1";
    private static final String CLOSED = "127.0.3.2";
    private static final String SILENT = "127.0.3.3";

    private final Deque<AutoCloseable> open = new ArrayDeque<>();
    private PeerListener listener;
    private int port;

    @BeforeEach
    void listen() throws IOException {
        listener = new PeerListener(new InetSocketAddress(HERE, 0), KEY, ConnectorTest::serve);
        open.push(listener);
        port = listener.address().getPort();
    }

    @AfterEach
    void close() throws Exception {
        while (!open.isEmpty()) {
            open.pop().close();
        }
    }

    private static void serve(PeerConnection control, SessionId session, ProtocolVersion version) throws IOException {
        control.write(ByteBuffer.wrap(new byte[] {'s'}));
        while (control.read(ByteBuffer.allocate(64)) >= 0) {
            assertTrue(control.channel().isBlocking());
        }
    }

    /** Has the kernel drop connection requests there, as for a node that is switched off. */
    private void fallSilent() throws IOException {
        ServerSocket full = new ServerSocket(port, 1, InetAddress.getByName(SILENT));
        open.push(full);
        for (int i = 0; i < 2; i++) {
            SocketChannel waiting = SocketChannel.open();
            open.push(waiting);
            waiting.configureBlocking(false);
            waiting.connect(full.getLocalSocketAddress());
        }
    }

    private Connector connector(InetSocketAddress target, Duration deadline, String... addresses) {
        return new Connector(target, KEY, deadline, null, host -> {
            List<InetAddress> all = new ArrayList<>();
            for (String address : addresses) {
                all.add(InetAddress.getByName(address));
            }
            if (all.isEmpty()) {
                throw new UnknownHostException(host);
            }
            return all.toArray(InetAddress[]::new);
        });
    }

    private InetSocketAddress unresolved() {
        return InetSocketAddress.createUnresolved("spare", port);
    }

    private void requireReached(Connector connector) throws IOException {
        Connector.Control control = connector.control();
        open.push(control.channel());
        assertTrue(control.channel().channel().isBlocking());
        assertEquals("spare", connector.target().getHostString());
        assertEquals(HERE, connector.target().getAddress().getHostAddress());
        for (SocketChannel channel : connector.data(control.keys(), 2)) {
            open.push(channel);
            assertEquals(
                    HERE,
                    ((InetSocketAddress) channel.getRemoteAddress())
                            .getAddress()
                            .getHostAddress());
        }
    }

    @Test
    void shouldReachTheNextAddressWhenTheFirstRefuses() throws IOException {
        requireReached(connector(unresolved(), DEADLINE, CLOSED, HERE));
    }

    @Test
    void shouldReachTheNextAddressWhenTheFirstDoesNotAnswer() throws IOException {
        fallSilent();
        long beganNs = System.nanoTime();
        requireReached(connector(unresolved(), DEADLINE, SILENT, CLOSED, HERE));
        assertTrue(System.nanoTime() - beganNs < DEADLINE.toNanos() / 2, "it waited for the address that is silent");
    }

    @Test
    void shouldReachTheLastAddressOfOnesThatRefuseWhenItIsOfTheOtherProtocol() throws IOException {
        requireReached(connector(unresolved(), DEADLINE, "::1", CLOSED, HERE));
    }

    @Test
    void shouldTryTheOtherAddressesOfTheNameWhenTheTargetWasLookedUpBefore() throws IOException {
        InetSocketAddress lookedUp = new InetSocketAddress(
                InetAddress.getByAddress("spare", InetAddress.getByName(CLOSED).getAddress()), port);
        requireReached(connector(lookedUp, DEADLINE, CLOSED, HERE));
    }

    @Test
    void shouldReachTheKnownAddressWhenTheNameServiceIsDown() throws IOException {
        InetSocketAddress lookedUp = new InetSocketAddress(
                InetAddress.getByAddress("spare", InetAddress.getByName(HERE).getAddress()), port);
        requireReached(connector(lookedUp, DEADLINE));
    }

    @Test
    void shouldNameEachAddressWithItsReasonWhenNoneAnswers() throws IOException {
        fallSilent();
        Connector connector = connector(unresolved(), Duration.ofSeconds(2), CLOSED, SILENT);
        IOException refused = assertThrows(IOException.class, connector::control);
        assertTrue(
                refused.getMessage()
                        .contains("cannot be reached: " + CLOSED
                                + ": Connection refused; the other addresses did not respond in time"
                                + " (is its ppmr service"),
                refused.getMessage());
    }

    @Test
    void shouldNameTheHostWhenTheNameServiceDoesNotKnowIt() {
        IOException refused = assertThrows(
                IOException.class, () -> connector(unresolved(), DEADLINE).control());
        assertTrue(refused.getMessage().startsWith("target host spare is unknown"), refused.getMessage());
    }

    @Test
    void shouldEndTheWaitWhenItsThreadIsInterrupted() throws Exception {
        fallSilent();
        CompletableFuture<Void> ended = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                connector(unresolved(), DEADLINE, SILENT, SILENT.replace("3.3", "3.4"))
                        .control();
                ended.complete(null);
            } catch (IOException e) {
                ended.completeExceptionally(e);
            }
        });
        ServerSocket alsoFull = new ServerSocket(port, 1, InetAddress.getByName("127.0.3.4"));
        open.push(alsoFull);
        for (int i = 0; i < 2; i++) {
            SocketChannel waiting = SocketChannel.open();
            open.push(waiting);
            waiting.configureBlocking(false);
            waiting.connect(alsoFull.getLocalSocketAddress());
        }
        thread.start();
        thread.interrupt();
        ExecutionException failure = assertThrows(ExecutionException.class, () -> ended.get(20, TimeUnit.SECONDS));
        assertTrue(
                failure.getCause().getCause() instanceof ClosedByInterruptException,
                () -> String.valueOf(failure.getCause()));
        thread.join();
    }
}
