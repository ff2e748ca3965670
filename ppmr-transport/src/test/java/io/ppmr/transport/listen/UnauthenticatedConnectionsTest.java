package io.ppmr.transport.listen;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnixDomainSocketAddress;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;
import org.junit.jupiter.api.Test;

class UnauthenticatedConnectionsTest {
    private static final long LIMIT_NS = 5_000;

    private long nowNs = Long.MAX_VALUE - LIMIT_NS / 2;
    private final UnauthenticatedConnections<Integer> connections =
            new UnauthenticatedConnections<>(6, 4, LIMIT_NS, () -> nowNs);

    @Test
    void shouldEvictTheOldestWhenAllPlacesAreInUse() {
        for (int i = 0; i < 6; i++) {
            assertEquals(Optional.empty(), connections.add(i, "address " + i / 2));
        }
        assertEquals(Optional.of(0), connections.add(6, "another"));
        assertEquals(Optional.of(1), connections.add(7, "another"));
        assertEquals(6, connections.size());
    }

    @Test
    void shouldEvictTheOldestOfTheSameAddressWhenItHasItsShare() {
        connections.add(1, "quiet");
        for (int i = 10; i < 14; i++) {
            assertEquals(Optional.empty(), connections.add(i, "loud"));
        }
        for (int i = 14; i < 100; i++) {
            assertEquals(Optional.of(i - 4), connections.add(i, "loud"));
        }
        assertEquals(Optional.of(1), connections.oldest());
    }

    @Test
    void shouldEvictAConnectionWithoutTheKeyWhenFewHaveShownIt() {
        for (int i = 0; i < 6; i++) {
            connections.add(i, "address " + i);
        }
        connections.prove(0);
        connections.prove(1);
        assertEquals(Optional.of(2), connections.add(6, "another"));
        assertEquals(Optional.of(3), connections.add(7, "another"));
    }

    @Test
    void shouldEvictAConnectionWithoutTheKeyOfTheSameAddress() {
        for (int i = 0; i < 4; i++) {
            connections.add(i, "loud");
        }
        connections.prove(0);
        assertEquals(Optional.of(1), connections.add(4, "loud"));
        connections.remove(2);
        connections.remove(3);
        connections.prove(4);
        connections.add(5, "loud");
        connections.add(6, "loud");
        assertEquals(Optional.of(5), connections.add(7, "loud"));
    }

    /** A host that repeats recorded bytes cannot keep others from a place for longer than before. */
    @Test
    void shouldEvictTheOldestWhenHalfOfAllHaveShownTheKey() {
        for (int i = 0; i < 6; i++) {
            connections.add(i, "address " + i);
        }
        for (int i = 0; i < 3; i++) {
            connections.prove(i);
        }
        assertTrue(connections.hasManyProved());
        assertEquals(Optional.of(0), connections.add(6, "another"));
        assertEquals(Optional.of(3), connections.add(7, "another"), "two are left with the key");
        connections.prove(0);
        connections.remove(1);
        connections.remove(2);
        assertTrue(!connections.hasManyProved(), "those that are gone do not count");
    }

    @Test
    void shouldCountOnlyRemainingConnectionsForTheShareOfAnAddress() {
        for (int i = 0; i < 1000; i++) {
            // Each authenticates before the next one arrives, and stays connected.
            assertEquals(Optional.empty(), connections.add(i, "loud"));
            connections.remove(i);
        }
        for (int i = 0; i < 4; i++) {
            assertEquals(Optional.empty(), connections.add(2000 + i, "loud"));
        }
        assertEquals(Optional.of(2000), connections.add(3000, "loud"));
        connections.remove(-1);
        assertEquals(4, connections.size());
    }

    @Test
    void shouldGiveEachItsWholeTimeWhilePlacesAreFree() {
        assertEquals(Long.MAX_VALUE, connections.untilOverdueNs());
        connections.add(1, "a");
        nowNs += 1_000;
        connections.add(2, "b");
        assertEquals(4_000, connections.untilOverdueNs());
        nowNs += 3_999;
        assertEquals(Optional.empty(), connections.overdue());
        nowNs += 1;
        assertEquals(Optional.of(1), connections.overdue());
        connections.remove(1);
        assertEquals(Optional.empty(), connections.overdue());
        assertEquals(1_000, connections.untilOverdueNs());
    }

    @Test
    void shouldCountAnIpv6NetworkAsOneAddress() throws Exception {
        assertEquals(address("2001:db8::1"), address("2001:db8::ffff:1"));
        assertNotEquals(address("2001:db8::1"), address("2001:db8:0:1::1"));
        assertEquals(address("10.0.0.1"), address("10.0.0.1"));
        assertNotEquals(address("10.0.0.1"), address("10.0.0.2"));
        assertEquals("local", UnauthenticatedConnections.addressOf(UnixDomainSocketAddress.of("")));
    }

    private static Object address(String literal) throws Exception {
        return UnauthenticatedConnections.addressOf(new InetSocketAddress(InetAddress.getByName(literal), 7));
    }

    /** Compared with a simple model: a queue. */
    @Property(tries = 300)
    void shouldAlwaysAddANewConnectionAndEvictAtMostTheOldestByTheRule(
            @ForAll @Size(max = 200) java.util.List<@IntRange(min = 0, max = 9) Integer> steps) {
        UnauthenticatedConnections<Integer> all = new UnauthenticatedConnections<>(6, 4, LIMIT_NS, () -> nowNs);
        Deque<Integer> queue = new ArrayDeque<>();
        Map<Integer, Integer> addresses = new HashMap<>();
        int next = 0;
        for (int step : steps) {
            if (step > 6) {
                Integer leaving = step == 7 ? queue.peekFirst() : queue.peekLast();
                if (leaving != null) {
                    all.remove(leaving);
                    queue.remove(leaving);
                }
            } else {
                int address = step / 3;
                long same = queue.stream()
                        .filter(one -> addresses.get(one) == address)
                        .count();
                Optional<Integer> expected = same >= 4
                        ? queue.stream()
                                .filter(one -> addresses.get(one) == address)
                                .findFirst()
                        : queue.size() >= 6 ? Optional.of(queue.peekFirst()) : Optional.empty();
                assertEquals(expected, all.add(next, address));
                expected.ifPresent(queue::remove);
                addresses.put(next, address);
                queue.add(next++);
            }
            assertEquals(queue.size(), all.size());
            assertTrue(all.size() <= 6);
            assertEquals(Optional.ofNullable(queue.peekFirst()), all.oldest());
        }
    }
}
