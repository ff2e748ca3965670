package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import org.junit.jupiter.api.Test;

/** Tests environments in the form of {@code /proc/PID/environ}. */
class MarkSearchTest {
    private static final String TOKEN = "0123456789abcdef0123456789abcdef";

    private static List<String> tokens(InputStream environment) throws IOException {
        List<String> found = new ArrayList<>();
        MarkSearch.tokens(environment, found::add);
        return found;
    }

    private static byte[] environment(String... variables) {
        return Arrays.stream(variables)
                .map(variable -> variable + "\0")
                .collect(Collectors.joining())
                .getBytes(StandardCharsets.ISO_8859_1);
    }

    @Test
    void shouldFindEveryTokenWhereverItStands() throws IOException {
        assertEquals(List.of(), tokens(InputStream.nullInputStream()));
        assertEquals(
                List.of(TOKEN, TOKEN),
                tokens(new ByteArrayInputStream(environment(
                        "PPMR_RESTART=" + TOKEN, "PATH=/bin", "XPPMR_RESTART=" + TOKEN, "", "PPMR_RESTART=" + TOKEN))));
        // A process that has changed its environment may have left no zero byte behind the last variable.
        assertEquals(
                List.of(TOKEN),
                tokens(new ByteArrayInputStream(("A=b\0PPMR_RESTART=" + TOKEN).getBytes(StandardCharsets.US_ASCII))));
    }

    @Test
    void shouldPassOverWhatHasAnotherLength() throws IOException {
        assertEquals(
                List.of(),
                tokens(new ByteArrayInputStream(environment(
                        "PPMR_RESTART=",
                        "PPMR_RESTART",
                        "PPMR_RESTAR=" + TOKEN,
                        "PPMR_RESTART=" + TOKEN.substring(1),
                        "PPMR_RESTART=" + TOKEN + "0",
                        "A=PPMR_RESTART=" + TOKEN))));
    }

    /** The stream returns any number of bytes at a time, as a pipe does. */
    @Property(tries = 200)
    void shouldFindATokenAcrossPieces(@ForAll @IntRange(min = 0, max = 40_000) int before) throws IOException {
        byte[] all = environment("A=" + "x".repeat(before), "PPMR_RESTART=" + TOKEN, "B=");
        InputStream pieces = new ByteArrayInputStream(all) {
            @Override
            public synchronized int read(byte[] into, int offset, int length) {
                return super.read(into, offset, Math.min(length, 1 + before % 37));
            }
        };
        assertEquals(List.of(TOKEN), tokens(pieces));
    }

    /** A process may declare a hole of terabytes to be its environment. */
    @Test
    void shouldComeToAnEndWhenTheEnvironmentDoesNot() throws IOException {
        AtomicLong readBytes = new AtomicLong();
        InputStream endless = new InputStream() {
            @Override
            public int read() {
                throw new AssertionError("it is read in pieces");
            }

            @Override
            public int read(byte[] into, int offset, int length) {
                Arrays.fill(into, offset, offset + length, (byte) 'P');
                readBytes.addAndGet(length);
                return length;
            }
        };
        assertEquals(List.of(), tokens(endless));
        assertTrue(readBytes.get() < 8 << 20, "it has read " + readBytes.get() + " bytes");
    }
}
