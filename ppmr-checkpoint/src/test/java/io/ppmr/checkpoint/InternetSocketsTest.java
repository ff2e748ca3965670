package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.OptionalInt;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Tests tables of all users' sockets and System V objects, as a kernel wrote them, and larger ones. */
class InternetSocketsTest {
    private static final Path RECORDED = Path.of("../ppmr-linux/src/test/resources/linux-6.18");
    private static final long LISTENS = 3_468_599;
    private static final long CONNECTED = 3_468_600;
    private static final long DATAGRAMS = 3_468_601;
    private static final int MANY_ROWS = 1_000_000;

    private static BufferedReader recorded(String table) throws IOException {
        return Files.newBufferedReader(RECORDED.resolve(table), StandardCharsets.ISO_8859_1);
    }

    private static InternetSockets read(int uid, Long... inodes) throws IOException {
        InternetSockets sockets = new InternetSockets(Set.of(inodes), uid);
        for (String protocol : List.of("tcp", "tcp6", "udp", "udp6", "raw", "raw6")) {
            try (BufferedReader table = recorded("net-" + protocol)) {
                sockets.read(protocol, table, new ScanDeadline(Duration.ofMinutes(1)));
            }
        }
        return sockets;
    }

    @Test
    void shouldReadTheRanksSocketsOutOfRecordedTables() throws Exception {
        InternetSockets sockets = read(0, LISTENS, CONNECTED, DATAGRAMS, 7L);
        InternetSockets.Socket listens = sockets.of(LISTENS).orElseThrow();
        assertEquals(new InternetSockets.Socket("tcp", 0x0A, 5000, true), listens);
        assertTrue(listens.listens());
        assertTrue(sockets.of(CONNECTED).orElseThrow().isConnected());
        InternetSockets.Socket datagrams = sockets.of(DATAGRAMS).orElseThrow();
        assertEquals("UDP", datagrams.shown());
        assertFalse(datagrams.isConnected() || datagrams.listens());
        assertTrue(sockets.of(7).isEmpty());
        // The connection at its port is not accepted, so it has no inode yet.
        assertFalse(sockets.hasAccepted(listens));
    }

    @Test
    void shouldKeepNothingOfSocketsThatAreNotTheRanks() throws Exception {
        InternetSockets sockets = read(0, DATAGRAMS);
        assertTrue(sockets.of(LISTENS).isEmpty());
        assertTrue(sockets.of(DATAGRAMS).isPresent());
    }

    /** A table of 150 MB, of which at most one row is in memory at a time. */
    @Test
    void shouldReadATableThatIsLargerThanMemory() throws Exception {
        String row = "   3: 0200007F:1388 0100007F:C406 01 00000000:00000000 00:00000000 00000000 20002"
                + "        0 79 1 0000000000000000 20 4 30 10 -1                                        \n";
        String last = "   4: 0100007F:1389 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0 0 80 1 0\n";
        InternetSockets sockets = new InternetSockets(Set.of(80L), 0);
        try (BufferedReader table = new BufferedReader(new Repeated(row, MANY_ROWS, last))) {
            sockets.read("tcp", table, new ScanDeadline(Duration.ofMinutes(5)));
        }
        assertEquals(0x1389, sockets.of(80).orElseThrow().port());
    }

    @Test
    void shouldReadRecordedSystemVObjects() throws Exception {
        try (BufferedReader lines = recorded("sysvipc-shm")) {
            SystemVTable table = new SystemVTable(lines);
            SystemVTable.Row first = table.next();
            assertEquals(OptionalInt.of(-1_627_324_413), first.number("key"));
            assertEquals(OptionalInt.of(0), first.number("shmid"));
            assertTrue(first.has("uid", 1000));
            assertEquals(OptionalInt.empty(), first.number("nsems"));
        }
        try (BufferedReader lines = recorded("sysvipc-sem")) {
            assertEquals(OptionalInt.of(2), new SystemVTable(lines).next().number("nsems"));
        }
        try (BufferedReader lines = recorded("sysvipc-msg")) {
            assertTrue(new SystemVTable(lines).next().number("lspid").isPresent());
        }
    }

    /** Repeats a line, and appends another one. None of them is kept. */
    private static final class Repeated extends Reader {
        private final String line;
        private final String last;
        private int left;
        private int at;

        Repeated(String line, int times, String last) {
            this.line = line;
            this.last = last;
            this.left = times;
        }

        @Override
        public int read(char[] into, int offset, int length) {
            String now = left > 0 ? line : last;
            if (left < 0) {
                return -1;
            }
            int count = Math.min(length, now.length() - at);
            now.getChars(at, at + count, into, offset);
            at += count;
            if (at == now.length()) {
                at = 0;
                left--;
            }
            return count;
        }

        @Override
        public void close() {
            // There is no resource to release.
        }
    }
}
