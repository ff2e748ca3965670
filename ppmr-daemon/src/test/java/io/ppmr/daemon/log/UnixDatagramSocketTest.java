package io.ppmr.daemon.log;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.log.UnixDatagramSocket.Sent;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class UnixDatagramSocketTest {
    @TempDir
    private Path directory;

    private static byte[] text(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static int sendUntilNotTaken(UnixDatagramSocket socket) {
        int taken = 0;
        while (socket.send(text("number " + taken)) == Sent.TAKEN) {
            taken++;
        }
        return taken;
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "@"})
    void shouldBringAMessageWhenSomebodyListensAtAPathOrAnAbstractAddress(String kind) throws Exception {
        String address = kind + directory.resolve("socket");
        try (DatagramListener listener = new DatagramListener(address);
                UnixDatagramSocket socket = UnixDatagramSocket.to(address, Duration.ZERO)) {
            assertEquals(Sent.TAKEN, socket.send(text("one")));
            assertEquals(Sent.TAKEN, socket.send(text("two")));
            assertEquals("one", listener.nextText());
            assertEquals("two", listener.nextText());
        }
    }

    @Test
    void shouldNotWaitWhenItHasNoPatience() throws Exception {
        String address = directory.resolve("socket").toString();
        try (DatagramListener listener = new DatagramListener(address);
                UnixDatagramSocket socket = UnixDatagramSocket.to(address, Duration.ZERO)) {
            int taken = sendUntilNotTaken(socket);
            assertTrue(taken > 0);
            assertEquals("number 0", listener.nextText());
            assertEquals(Sent.TAKEN, socket.send(text("there is room again")));
        }
    }

    @Test
    void shouldWaitUntilThereIsRoomWhenItHasPatience() throws Exception {
        String address = directory.resolve("socket").toString();
        try (DatagramListener listener = new DatagramListener(address);
                UnixDatagramSocket hasty = UnixDatagramSocket.to(address, Duration.ZERO);
                UnixDatagramSocket patient = UnixDatagramSocket.to(address, Duration.ofSeconds(60));
                UnixDatagramSocket less = UnixDatagramSocket.to(address, Duration.ofMillis(1500))) {
            int taken = sendUntilNotTaken(hasty);
            long startNs = System.nanoTime();
            assertEquals(Sent.LATER, less.send(text("too late")));
            assertTrue(System.nanoTime() - startNs >= TimeUnit.MILLISECONDS.toNanos(1400), "it has not waited");
            Thread reader = new Thread(
                    () -> {
                        for (int i = 0; i < taken; i++) {
                            assertTrue(listener.poll().isPresent());
                        }
                    },
                    "reader");
            reader.start();
            assertEquals(Sent.TAKEN, patient.send(text("in time")));
            reader.join();
            assertEquals("in time", listener.nextText());
        }
    }

    @Test
    void shouldSayThatAMessageIsTooLong() throws Exception {
        String address = directory.resolve("socket").toString();
        try (DatagramListener listener = new DatagramListener(address);
                UnixDatagramSocket socket = UnixDatagramSocket.to(address, Duration.ZERO)) {
            assertEquals(Sent.NEVER, socket.send(new byte[64 << 20]));
            assertEquals(Sent.TAKEN, socket.send(text("short")));
            assertEquals("short", listener.nextText());
        }
    }

    @Test
    void shouldNameTheAddressWhenItCannotBeReached() {
        String none = directory.resolve("none").toString();
        assertEquals(
                "cannot reach " + none + ": No such file or directory (errno 2)",
                assertThrows(IOException.class, () -> UnixDatagramSocket.to(none, Duration.ZERO))
                        .getMessage());
        String tooLong = "@" + "x".repeat(200);
        assertEquals(
                tooLong + " is too long for a Unix socket",
                assertThrows(IOException.class, () -> UnixDatagramSocket.to(tooLong, Duration.ZERO))
                        .getMessage());
    }
}
