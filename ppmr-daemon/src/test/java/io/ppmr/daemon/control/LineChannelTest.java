package io.ppmr.daemon.control;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Lines of any length that a service may answer: a report names every process of a thousand ranks and more. */
@Timeout(120)
class LineChannelTest {
    private static final Duration LIMIT = Duration.ofSeconds(20);

    private interface Talk {
        void with(LineChannel service, LineChannel client) throws Exception;
    }

    private static void connected(Talk talk) throws Exception {
        try (ServerSocketChannel server =
                        ServerSocketChannel.open().bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
                LineChannel client = LineChannel.ofClient(SocketChannel.open(server.getLocalAddress()));
                LineChannel service = LineChannel.ofService(server.accept())) {
            talk.with(service, client);
        }
    }

    private static CompletableFuture<Void> writing(LineChannel from, String line) {
        return CompletableFuture.runAsync(() -> {
            try {
                from.writeLine(line, LIMIT);
            } catch (IOException e) {
                throw new IllegalStateException(e);
            }
        });
    }

    @Test
    void shouldCarryAnAnswerThatNamesTenThousandProcesses() throws Exception {
        String report = "{\"rank\":4711,\"pids\":[4194303]},".repeat(10_000);
        connected((service, client) -> {
            CompletableFuture<Void> written = writing(service, report);
            assertEquals(report, client.readLine(LIMIT));
            written.get(60, TimeUnit.SECONDS);
            service.writeLine("next", LIMIT);
            assertEquals("next", client.readLine(LIMIT));
        });
    }

    @Test
    void shouldRefuseToSendWhatTheOtherSideWouldRefuse() throws Exception {
        String request = "x".repeat(LineChannel.MAX_LINE_BYTES);
        connected((service, client) -> {
            IOException unsent = assertThrows(IOException.class, () -> client.writeLine(request, LIMIT));
            assertTrue(unsent.getMessage().contains("longer than 65536"), unsent.getMessage());
        });
        connected((service, client) -> {
            // A service may send as much, so it stands for a client that does not keep to the limit.
            CompletableFuture<Void> written = writing(service, "x".repeat(LineChannel.MAX_ANSWER_BYTES - 1));
            assertEquals(
                    LineChannel.MAX_ANSWER_BYTES - 1, client.readLine(LIMIT).length());
            written.get(60, TimeUnit.SECONDS);
            IOException tooLong = assertThrows(
                    IOException.class, () -> service.writeLine("x".repeat(LineChannel.MAX_ANSWER_BYTES), LIMIT));
            assertTrue(tooLong.getMessage().contains("longer than 4194304"), tooLong.getMessage());
        });
    }
}
