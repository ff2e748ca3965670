package io.ppmr.transport;

import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Searches every order of events of a control link over one connection after the other, as {@link ResumableConnection}
 * and {@link Outbox} implement it. Every frame of either side must arrive once and in order, despite lost and late
 * bytes. The link must continue as long as a connection is possible. With a defect in one end, the search finds the
 * violation.
 */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class LinkModelTest {
    private static final Logger LOG = LoggerFactory.getLogger(LinkModelTest.class);
    private static final int CONNECTIONS = 3;
    /** Each side sends this many frames, numbered from 0. */
    private static final int FRAMES = 2;

    private static final int SOURCE = 0;
    private static final int TARGET = 1;
    private static final int NO_CONNECTION = -1;
    /** RESUME frames are numbers below 0: {@code -1 - position}. */
    private static final int WORD = -1;

    /** The behaviour of the ends. */
    private enum Variant {
        AS_IT_IS,
        /** Sends all unacknowledged frames again, independent of the peer's count. */
        REPLAYS_WHAT_THE_PEER_HAS,
        /** Counts everything as arrived that was written to a connection. */
        KEEPS_NOTHING,
        /** The target accepts a connection that is not later than its current one. */
        TAKES_A_STALE_CONNECTION,
        /** The source sends its count, and continues to read from the previous connection. */
        READS_ON_AFTER_ITS_WORD
    }

    /**
     * One end.
     *
     * @param says the number of its written frames
     * @param has the number of its acknowledged frames
     * @param sends the next frame to send
     * @param heard the number of received frames
     * @param carrier the link's current connection
     */
    private record End(int says, int has, int sends, int heard, int carrier) {
        End sends(int next) {
            return new End(says, has, next, heard, carrier);
        }

        End heard(int frames) {
            return new End(says, has, sends, frames, carrier);
        }

        End carried(int by) {
            return new End(says, has, sends, heard, by);
        }

        End peerHas(int frames) {
            return new End(says, Math.max(has, frames), sends, heard, carrier);
        }
    }

    /**
     * The state of both ends and the network.
     *
     * @param ends source and target
     * @param ways for each connection the frames under way to the source, and to the target, the next one first
     * @param opened the number of connections of the source
     * @param awaits the connection on which the source waits for the target's RESUME frame, or none
     */
    private record World(List<End> ends, List<List<List<Integer>>> ways, int opened, int awaits, String wrong) {
        static World first() {
            List<List<Integer>> empty = List.of(List.of(), List.of());
            End end = new End(0, 0, 0, 0, 0);
            return new World(
                    List.of(end, end),
                    Stream.generate(() -> empty).limit(CONNECTIONS).toList(),
                    1,
                    NO_CONNECTION,
                    null);
        }

        World end(int side, End now) {
            return new World(with(ends, side, now), ways, opened, awaits, wrong);
        }

        World way(int connection, int to, List<Integer> carried) {
            return new World(
                    ends, with(ways, connection, with(ways.get(connection), to, carried)), opened, awaits, wrong);
        }

        World puts(int connection, int to, int what) {
            List<Integer> more = new ArrayList<>(ways.get(connection).get(to));
            more.add(what);
            return way(connection, to, List.copyOf(more));
        }

        World takes(int connection, int to) {
            List<Integer> carried = ways.get(connection).get(to);
            return way(connection, to, carried.subList(1, carried.size()));
        }

        World waits(int howMany, int on) {
            return new World(ends, ways, howMany, on, wrong);
        }

        World isWrong(String what) {
            return new World(ends, ways, opened, awaits, what);
        }

        private static <T> List<T> with(List<T> list, int at, T value) {
            List<T> copy = new ArrayList<>(list);
            copy.set(at, value);
            return List.copyOf(copy);
        }
    }

    private record Named(String event, World after) {}

    /** Searches all reachable states, and keeps the event that first led to each. */
    private static final class Search {
        private final Variant variant;
        private final Map<World, Named> reachedBy = new HashMap<>();
        private final ArrayDeque<World> next = new ArrayDeque<>();
        private World violation;
        private int finished;

        Search(Variant variant) {
            this.variant = variant;
        }

        Search run() {
            World first = World.first();
            reachedBy.put(first, new Named("start", null));
            next.add(first);
            while (!next.isEmpty() && violation == null) {
                World world = next.poll();
                List<Named> events = events(world);
                if (events.isEmpty()) {
                    finished++;
                    if (world.ends.stream().anyMatch(end -> end.heard < FRAMES)) {
                        violation = world.isWrong("a frame is lost");
                        reachedBy.put(violation, new Named("nothing more comes", world));
                    }
                }
                for (Named event : events) {
                    if (violation == null
                            && reachedBy.putIfAbsent(event.after, new Named(event.event, world)) == null) {
                        next.add(event.after);
                        violation = event.after.wrong == null ? null : event.after;
                    }
                }
            }
            return this;
        }

        String trace() {
            ArrayDeque<String> events = new ArrayDeque<>();
            for (World at = violation; at != null; at = reachedBy.get(at).after) {
                events.addFirst(reachedBy.get(at).event);
            }
            return String.join(", ", events) + ": " + violation.wrong;
        }

        private List<Named> events(World w) {
            List<Named> events = new ArrayList<>();
            for (int side : new int[] {SOURCE, TARGET}) {
                say(w, side, events);
                send(w, side, events);
                for (int connection = 0; connection < w.opened; connection++) {
                    if (!w.ways.get(connection).get(side).isEmpty()) {
                        hear(w, side, connection, events);
                    }
                }
            }
            lose(w, events);
            connect(w, events);
            return events;
        }

        private static String name(int side) {
            return side == SOURCE ? "source" : "target";
        }

        private static void say(World w, int side, List<Named> events) {
            End end = w.ends.get(side);
            if (end.says < FRAMES) {
                End now = new End(end.says + 1, end.has, end.sends, end.heard, end.carrier);
                events.add(new Named(name(side) + " says " + end.says, w.end(side, now)));
            }
        }

        private static void send(World w, int side, List<Named> events) {
            End end = w.ends.get(side);
            if (end.carrier != NO_CONNECTION && end.sends < end.says) {
                events.add(new Named(
                        name(side) + " sends " + end.sends + " by " + end.carrier,
                        w.end(side, end.sends(end.sends + 1)).puts(end.carrier, 1 - side, end.sends)));
            }
        }

        private void hear(World w, int side, int connection, List<Named> events) {
            int what = w.ways.get(connection).get(side).get(0);
            End end = w.ends.get(side);
            World taken = w.takes(connection, side);
            if (what <= WORD) {
                events.add(new Named(
                        name(side) + " hears on " + connection + " that " + (WORD - what) + " came",
                        hearWord(taken, side, connection, WORD - what)));
            } else if (end.carrier == connection) {
                World after = taken.end(side, end.heard(end.heard + 1));
                events.add(new Named(
                        name(side) + " hears " + what + " by " + connection,
                        what == end.heard
                                ? after
                                : after.isWrong("the " + name(side) + " hears frame " + what + " where " + end.heard
                                        + " was due")));
            } else if (variant == Variant.READS_ON_AFTER_ITS_WORD && side == SOURCE && what == end.heard) {
                events.add(new Named(
                        "source hears " + what + " by " + connection + " which it has given up",
                        taken.end(side, end.heard(end.heard + 1))));
            } else {
                events.add(new Named("a reset meets " + what + " on " + connection, taken));
            }
        }

        /** The RESUME frame of a connection: the target accepts it if it is later, the source if it waits for it. */
        private World hearWord(World w, int side, int connection, int position) {
            End end = w.ends.get(side);
            boolean isTaken = side == SOURCE
                    ? w.awaits == connection
                    : connection > end.carrier || variant == Variant.TAKES_A_STALE_CONNECTION;
            if (!isTaken || position < end.has || position > end.sends) {
                return w;
            }
            int from = variant == Variant.REPLAYS_WHAT_THE_PEER_HAS ? end.has : position;
            from = variant == Variant.KEEPS_NOTHING ? end.sends : from;
            World after = w.end(side, end.peerHas(from).sends(from).carried(connection));
            return side == SOURCE
                    ? after.waits(w.opened, NO_CONNECTION)
                    : after.puts(connection, SOURCE, WORD - end.heard);
        }

        /** The network loses the bytes of a connection in one direction, from some point on. */
        private static void lose(World w, List<Named> events) {
            for (int connection = 0; connection < CONNECTIONS - 1 && connection < w.opened; connection++) {
                for (int to : new int[] {SOURCE, TARGET}) {
                    List<Integer> carried = w.ways.get(connection).get(to);
                    // Bytes of a connection arrive in order or not at all, so the source must leave it.
                    if (!carried.isEmpty() && w.opened > connection + 1) {
                        events.add(new Named(
                                "what is on its way on " + connection + " to the " + name(to) + " is lost",
                                w.way(connection, to, List.of())));
                    }
                }
            }
        }

        /** The source closes its current or pending connection, and sends its count on another one. */
        private static void connect(World w, List<Named> events) {
            if (w.opened < CONNECTIONS) {
                int by = w.opened;
                World given = w.waits(w.opened + 1, by);
                events.add(new Named(
                        "source connects " + by,
                        given.end(SOURCE, w.ends.get(SOURCE).carried(NO_CONNECTION))
                                .puts(by, TARGET, WORD - w.ends.get(SOURCE).heard)));
            }
        }
    }

    private static void requireFound(Variant variant, String wrong) {
        Search search = new Search(variant).run();
        assertNotNull(search.violation, variant + " is not found");
        LOG.info("{} is found: {}", variant, search.trace());
        assertTrue(search.violation.wrong.contains(wrong), search.trace());
    }

    @Test
    void shouldReceiveEveryFrameOnceWhenConnectionsAreLostAtAnyMoment() {
        Search search = new Search(Variant.AS_IT_IS).run();
        LOG.info("{} worlds, {} ends", search.reachedBy.size(), search.finished);
        assertNull(search.violation, () -> search.trace());
        assertTrue(search.finished > 0);
        assertTrue(search.reachedBy.size() > 10_000, search.reachedBy.size() + " worlds");
    }

    @Test
    void shouldFindADuplicateFrameWhenTooManyAreRetransmitted() {
        requireFound(Variant.REPLAYS_WHAT_THE_PEER_HAS, "was due");
    }

    @Test
    void shouldFindALostFrameWhenNothingIsKept() {
        requireFound(Variant.KEEPS_NOTHING, "was due");
    }

    @Test
    void shouldFindALinkLostToAStaleConnection() {
        requireFound(Variant.TAKES_A_STALE_CONNECTION, "lost");
    }

    @Test
    void shouldFindADuplicateFrameWhenTheSourceReadsAfterItsCount() {
        requireFound(Variant.READS_ON_AFTER_ITS_WORD, "was due");
    }
}
