package io.ppmr.transport;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Searches every order of events of one slot that is reused for the same window, and of rails that are lost at any
 * time. No chunk may be lost, published twice, or published in place of a later one. The search finds the violation if
 * the source retransmits before the target ended the rail, or the target answers before its reader ended.
 */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class RailModelTest {
    private static final Logger LOG = LoggerFactory.getLogger(RailModelTest.class);
    private static final int RAILS = 3;
    /** The number of grants of the slot, each for the same window. */
    private static final int CHUNKS = 3;

    private static final int NO_CHUNK = -1;

    /** The behaviour of the ends. */
    private enum Variant {
        AS_IT_IS,
        SOURCE_SENDS_AGAIN_AT_ONCE,
        TARGET_ANSWERS_BEFORE_ITS_READER_ENDS,
        TARGET_DOES_NOT_COUNT_WHAT_HAS_ARRIVED
    }

    /** The position of a chunk for the source; on a rail it is that rail's number. */
    private static final int UNSENT = -1;

    private static final int WAITING = -2;
    private static final int DONE = -3;

    private enum RailState {
        UP,
        ENDING,
        DOWN
    }

    /**
     * The state of both ends and the network. Lists of rails have an entry for each.
     *
     * @param chunks the position of each chunk for the source
     * @param rails the rails for the source
     * @param onTheWay chunks under way to the target, the next one first
     * @param reads whether the target has a reader of the rail
     * @param filling the chunk that the reader writes to the slot, or none
     * @param arrived the chunks that arrived on the rail, as bits
     * @param releases the releases under way to the source
     * @param toEnd whether the request to end the rail is under way
     * @param answers the target's answer under way; -1 for none
     * @param grants the number of grants of the slot
     * @param open whether its credit is unused
     * @param shown the number of publications of each chunk
     */
    private record World(
            List<Integer> chunks,
            List<RailState> rails,
            List<List<Integer>> onTheWay,
            List<Boolean> reads,
            List<Integer> filling,
            List<Integer> arrived,
            List<Integer> releases,
            List<Boolean> toEnd,
            List<Integer> answers,
            int grants,
            boolean open,
            List<Integer> shown,
            String wrong) {

        static World first() {
            return new World(
                    all(CHUNKS, UNSENT),
                    all(RAILS, RailState.UP),
                    all(RAILS, List.of()),
                    all(RAILS, true),
                    all(RAILS, NO_CHUNK),
                    all(RAILS, 0),
                    all(RAILS, 0),
                    all(RAILS, false),
                    all(RAILS, -1),
                    1,
                    true,
                    all(CHUNKS, 0),
                    null);
        }
    }

    private static <T> List<T> all(int count, T value) {
        List<T> list = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            list.add(value);
        }
        return List.copyOf(list);
    }

    private static <T> List<T> with(List<T> list, int at, T value) {
        List<T> copy = new ArrayList<>(list);
        copy.set(at, value);
        return List.copyOf(copy);
    }

    private static List<Integer> with(List<Integer> list, int more) {
        List<Integer> copy = new ArrayList<>(list);
        copy.add(more);
        return List.copyOf(copy);
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
                    if (!world.shown.equals(all(CHUNKS, 1))) {
                        violation = world;
                    }
                }
                for (Named event : events) {
                    if (reachedBy.putIfAbsent(event.after, new Named(event.event, world)) == null) {
                        next.add(event.after);
                        if (event.after.wrong != null && violation == null) {
                            violation = event.after;
                        }
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
            return String.join(", ", events) + ": " + (violation.wrong == null ? "a chunk is lost" : violation.wrong);
        }

        private List<Named> events(World w) {
            List<Named> events = new ArrayList<>();
            for (int rail = 0; rail < RAILS; rail++) {
                sourceEvents(w, rail, events);
                targetEvents(w, rail, events);
            }
            return events;
        }

        private void sourceEvents(World w, int rail, List<Named> events) {
            for (int chunk = 0; chunk < w.grants; chunk++) {
                int where = w.chunks.get(chunk);
                if (w.rails.get(rail) == RailState.UP && (where == UNSENT || where == WAITING)) {
                    List<List<Integer>> onTheWay = with(w.onTheWay, rail, with(w.onTheWay.get(rail), chunk));
                    events.add(new Named(
                            "send " + chunk + " by " + rail,
                            new World(
                                    with(w.chunks, chunk, rail),
                                    w.rails,
                                    onTheWay,
                                    w.reads,
                                    w.filling,
                                    w.arrived,
                                    w.releases,
                                    w.toEnd,
                                    w.answers,
                                    w.grants,
                                    w.open,
                                    w.shown,
                                    null)));
                }
                if ((w.releases.get(rail) & 1 << chunk) != 0 && w.rails.get(rail) == RailState.UP) {
                    events.add(new Named(
                            "release of " + chunk,
                            new World(
                                    where == rail ? with(w.chunks, chunk, DONE) : w.chunks,
                                    w.rails,
                                    w.onTheWay,
                                    w.reads,
                                    w.filling,
                                    w.arrived,
                                    with(w.releases, rail, w.releases.get(rail) & ~(1 << chunk)),
                                    w.toEnd,
                                    w.answers,
                                    w.grants,
                                    w.open,
                                    w.shown,
                                    null)));
                }
            }
            // The last rail is never lost.
            if (w.rails.get(rail) == RailState.UP && rail < RAILS - 1) {
                boolean asks = variant != Variant.SOURCE_SENDS_AGAIN_AT_ONCE;
                events.add(new Named(
                        "lose " + rail,
                        new World(
                                asks ? w.chunks : again(w, rail, 0),
                                with(w.rails, rail, asks ? RailState.ENDING : RailState.DOWN),
                                w.onTheWay,
                                w.reads,
                                w.filling,
                                w.arrived,
                                w.releases,
                                asks ? with(w.toEnd, rail, true) : w.toEnd,
                                w.answers,
                                w.grants,
                                w.open,
                                w.shown,
                                null)));
            }
            if (w.answers.get(rail) >= 0) {
                events.add(new Named(
                        "answer for " + rail,
                        new World(
                                again(w, rail, w.answers.get(rail)),
                                with(w.rails, rail, RailState.DOWN),
                                w.onTheWay,
                                w.reads,
                                w.filling,
                                w.arrived,
                                w.releases,
                                w.toEnd,
                                with(w.answers, rail, -1),
                                w.grants,
                                w.open,
                                w.shown,
                                null)));
            }
        }

        /** The chunks after the loss of a rail: arrived ones are done, the others wait. */
        private static List<Integer> again(World w, int rail, int arrived) {
            List<Integer> chunks = new ArrayList<>(w.chunks);
            for (int chunk = 0; chunk < CHUNKS; chunk++) {
                if (chunks.get(chunk) == rail) {
                    chunks.set(chunk, (arrived & 1 << chunk) != 0 ? DONE : WAITING);
                }
            }
            return List.copyOf(chunks);
        }

        private void targetEvents(World w, int rail, List<Named> events) {
            if (w.reads.get(rail)
                    && w.filling.get(rail) == NO_CHUNK
                    && !w.onTheWay.get(rail).isEmpty()) {
                List<Integer> carried = w.onTheWay.get(rail);
                int chunk = carried.get(0);
                // File, window and slot are always equal, so only the state of the credit distinguishes the chunks.
                events.add(new Named(
                        "chunk " + chunk + " comes by " + rail,
                        new World(
                                w.chunks,
                                w.rails,
                                with(w.onTheWay, rail, carried.subList(1, carried.size())),
                                w.reads,
                                with(w.filling, rail, chunk),
                                w.arrived,
                                w.releases,
                                w.toEnd,
                                w.answers,
                                w.grants,
                                false,
                                w.shown,
                                w.open ? null : "the slot of chunk " + chunk + " is not granted")));
            }
            int filled = w.filling.get(rail);
            if (filled != NO_CHUNK) {
                boolean isRight = filled == w.grants - 1;
                boolean isLast = w.grants == CHUNKS;
                events.add(new Named(
                        "chunk " + filled + " is shown",
                        new World(
                                w.chunks,
                                w.rails,
                                w.onTheWay,
                                w.reads,
                                with(w.filling, rail, NO_CHUNK),
                                with(w.arrived, rail, w.arrived.get(rail) | 1 << filled),
                                with(w.releases, rail, w.releases.get(rail) | 1 << filled),
                                w.toEnd,
                                w.answers,
                                isLast ? w.grants : w.grants + 1,
                                !isLast,
                                with(w.shown, filled, w.shown.get(filled) + 1),
                                isRight
                                        ? null
                                        : "chunk " + filled + " is shown where chunk " + (w.grants - 1) + " was due")));
            }
            if (w.toEnd.get(rail)) {
                boolean endsFirst = variant != Variant.TARGET_ANSWERS_BEFORE_ITS_READER_ENDS;
                boolean counts = variant != Variant.TARGET_DOES_NOT_COUNT_WHAT_HAS_ARRIVED;
                boolean givesBack = endsFirst && filled != NO_CHUNK;
                events.add(new Named(
                        "end " + rail,
                        new World(
                                w.chunks,
                                w.rails,
                                endsFirst ? with(w.onTheWay, rail, List.of()) : w.onTheWay,
                                endsFirst ? with(w.reads, rail, false) : w.reads,
                                endsFirst ? with(w.filling, rail, NO_CHUNK) : w.filling,
                                w.arrived,
                                with(w.releases, rail, 0),
                                with(w.toEnd, rail, false),
                                with(w.answers, rail, counts ? w.arrived.get(rail) : 0),
                                w.grants,
                                w.open || givesBack,
                                w.shown,
                                null)));
            }
        }
    }

    @Test
    void shouldLoseAndDuplicateNothingWhenRailsAreLostAtAnyMoment() {
        Search search = new Search(Variant.AS_IT_IS).run();
        LOG.info("{} worlds, {} ends", search.reachedBy.size(), search.finished);
        assertNull(search.violation, () -> search.trace());
        assertTrue(search.finished > 0);
        assertTrue(search.reachedBy.size() > 1_000, search.reachedBy.size() + " worlds");
    }

    @Test
    void shouldFindALateChunkWhenTheSourceSendsAgainAtOnce() {
        Search search = new Search(Variant.SOURCE_SENDS_AGAIN_AT_ONCE).run();
        assertNotNull(search.violation);
        LOG.info("found: {}", search.trace());
        assertEquals(Variant.SOURCE_SENDS_AGAIN_AT_ONCE, search.variant);
    }

    @Test
    void shouldFindALateChunkWhenTheTargetAnswersBeforeItsReaderEnds() {
        Search search = new Search(Variant.TARGET_ANSWERS_BEFORE_ITS_READER_ENDS).run();
        assertNotNull(search.violation);
        LOG.info("found: {}", search.trace());
    }

    @Test
    void shouldFindADuplicateChunkWhenTheTargetDoesNotCountArrivals() {
        Search search = new Search(Variant.TARGET_DOES_NOT_COUNT_WHAT_HAS_ARRIVED).run();
        assertNotNull(search.violation);
        LOG.info("found: {}", search.trace());
    }
}
