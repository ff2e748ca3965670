package io.ppmr.daemon.control;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
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
    void shouldSendALineInPiecesUpToTheLongest() throws Exception {
        byte[] piece = "x".repeat(LineChannel.MAX_ANSWER_BYTES / 8).getBytes(StandardCharsets.US_ASCII);
        connected((service, client) -> {
            CompletableFuture<IOException> written = CompletableFuture.supplyAsync(() -> {
                try {
                    service.write(to -> to.write("short".getBytes(StandardCharsets.US_ASCII)), LIMIT);
                    service.write(
                            to -> {
                                for (int i = 0; i < 9; i++) {
                                    to.write(piece);
                                }
                            },
                            LIMIT);
                    return null;
                } catch (IOException e) {
                    return e;
                }
            });
            assertEquals("short", client.readLine(LIMIT));
            assertThrows(IOException.class, () -> client.readLine(LIMIT));
            IOException tooLong = written.get(20, TimeUnit.SECONDS);
            assertTrue(tooLong.getMessage().contains("longer than 4194304"), tooLong.getMessage());
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
            // A service may send as much, so it represents a client that exceeds the limit.
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
