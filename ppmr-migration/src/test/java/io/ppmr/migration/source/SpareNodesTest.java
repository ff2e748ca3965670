package io.ppmr.migration.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

class SpareNodesTest {
    private static final Duration LIMIT = Duration.ofSeconds(20);

    private static SpareNodes printedBy(String script) {
        return new SpareNodes.Printed(List.of("sh", "-c", script), LIMIT);
    }

    private static List<String> candidates(SpareNodes spares) throws Exception {
        return spares.candidates(new SpareNodes.Needs("criu", 1 << 20, 0)).stream()
                .map(InetSocketAddress::toString)
                .toList();
    }

    private static String failure(SpareNodes spares) {
        return assertThrows(IOException.class, () -> candidates(spares)).getMessage();
    }

    @Test
    void shouldKeepOrderAndLeaveUnknownNamesOutWhenListed() throws Exception {
        SpareNodes spares = new SpareNodes.Listed(List.of(
                InetSocketAddress.createUnresolved("127.0.0.2", 1),
                InetSocketAddress.createUnresolved("no-such-host.invalid", 2),
                InetSocketAddress.createUnresolved("127.0.0.1", 3)));
        assertEquals(List.of("/127.0.0.2:1", "/127.0.0.1:3"), candidates(spares));
    }

    @Test
    void shouldTakeWhatTheCommandPrintsWhenAsked() throws Exception {
        SpareNodes spares = printedBy("echo 127.0.0.2:7; echo; echo what; echo ' [::1]:8 '; echo 127.0.0.1:99999");
        assertEquals(List.of("/127.0.0.2:7", "/[0:0:0:0:0:0:0:1]:8"), candidates(spares));
    }

    @Test
    void shouldNameTheCommandWhenItFails() {
        assertTrue(failure(printedBy("exit 3")).contains("ended with status 3"));
        assertTrue(failure(printedBy("echo nothing")).contains("printed no spare node"));
        assertTrue(failure(new SpareNodes.Printed(List.of("no-such-program"), LIMIT))
                .contains("no-such-program"));
        assertTrue(failure(new SpareNodes.Printed(List.of("sleep", "60"), Duration.ofMillis(200)))
                .contains("has not ended within"));
        assertTrue(failure(new SpareNodes.Listed(List.of(InetSocketAddress.createUnresolved("x.invalid", 2))))
                .contains("all spare nodes are unknown"));
    }
}
