package io.ppmr.slurm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.InetSocketAddress;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RankFileTest {
    private static final String HEAD = "pid = 4711\nstart_ticks = 99\n";

    @Test
    void shouldReadWhatTheLauncherOrAUserWrites() throws IOException {
        assertEquals(new RankFile(4711, 99, "criu", List.of()), RankFile.parse(HEAD + "checkpointer = \"criu\"\n"));
        assertEquals(
                new RankFile(
                        4711,
                        99,
                        "own-1",
                        List.of(
                                InetSocketAddress.createUnresolved("node-7", 7411),
                                InetSocketAddress.createUnresolved("192.0.2.20", 1))),
                RankFile.parse("# a comment\n\n" + HEAD.replace("\n", "\t# and another\r\n")
                        + "checkpointer='own-1'\nspares = [ \"node-7:7411\" ,'192.0.2.20:1']\nmore = \"x\"\n"));
        assertEquals(
                List.of(),
                RankFile.parse(HEAD + "checkpointer = \"c\"\nspares = []").spares());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "pid = 4711\nstart_ticks = 99\n",
                "pid = 1\nstart_ticks = 99\ncheckpointer = \"c\"\n",
                "pid = -7\nstart_ticks = 99\ncheckpointer = \"c\"\n",
                "pid = 2147483648\nstart_ticks = 99\ncheckpointer = \"c\"\n",
                "pid = \"7\"\nstart_ticks = 99\ncheckpointer = \"c\"\n",
                "pid = 7\nstart_ticks = 9999999999999999999\ncheckpointer = \"c\"\n",
                "pid = 7\npid = 8\nstart_ticks = 99\ncheckpointer = \"c\"\n",
                "pid = 7\nstart_ticks = 99\ncheckpointer = 5\n",
                "pid = 7\nstart_ticks = 99\ncheckpointer = \"c\"\nspares = \"n:1\"\n",
                "pid = 7\nstart_ticks = 99\ncheckpointer = \"c\"\nspares = [\"n:65536\"]\n",
                "pid = 7\nstart_ticks = 99\ncheckpointer = \"c\"\nspares = [\"n:1\",]\n",
                "pid = 7\nstart_ticks = 99\ncheckpointer = \"c\"\nspares = [\"a b:1\"]\n",
                "pid = 7\nstart_ticks = 99\ncheckpointer = \"c\\u0000\"\n"
            })
    void shouldRefuseBySayingWhatItMustHold(String text) {
        String refusal =
                assertThrows(IOException.class, () -> RankFile.parse(text)).getMessage();
        assertTrue(refusal.contains("must "), refusal);
    }

    /** A TOML parser failed on each of these, or used ten megabytes of the service's memory at once. */
    @Test
    void shouldNeitherNestNorGrowWhenItIsFullOfBracketsOrMistakes() {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        for (String piece : List.of("a=[", "[", "{a=", ".", "l\n", "\"\n", "\\u", "[]", "'")) {
            String text = "a = [" + piece.repeat(4000 / piece.length());
            assertThrows(IOException.class, () -> RankFile.parse(text), piece);
            long startBytes = threads.getCurrentThreadAllocatedBytes();
            assertThrows(IOException.class, () -> RankFile.parse(text), piece);
            long bytes = threads.getCurrentThreadAllocatedBytes() - startBytes;
            assertTrue(bytes < 1 << 20, piece + " takes " + bytes + " bytes");
        }
    }
}
