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
     * A rail at one moment.
     *
     * @param state the rail for the source
     * @param onTheWay chunks that the network still carries to the target, the next one first
     * @param reads whether the target's reader of the rail is there
     * @param filling the chunk that the reader writes into the slot, or none
     * @param arrived the chunks that arrived by the rail, as bits
     * @param releases the releases that are on their way back, as bits
     * @param toEnd whether the message that ends the rail is on its way
     * @param answer the target's answer on its way; -1 for none
     */
    private record ModelRail(
            RailState state,
            List<Integer> onTheWay,
            boolean reads,
            int filling,
            int arrived,
            int releases,
            boolean toEnd,
            int answer) {
        static final ModelRail FIRST = new ModelRail(RailState.UP, List.of(), true, NO_CHUNK, 0, 0, false, -1);

        boolean isUp() {
            return state == RailState.UP;
        }

        ModelRail in(RailState next) {
            return new ModelRail(next, onTheWay, reads, filling, arrived, releases, toEnd, answer);
        }

        ModelRail carrying(List<Integer> chunks) {
            return new ModelRail(state, chunks, reads, filling, arrived, releases, toEnd, answer);
        }

        ModelRail reading(boolean goesOn, int chunk) {
            return new ModelRail(state, onTheWay, goesOn, chunk, arrived, releases, toEnd, answer);
        }

        ModelRail arrivedWith(int chunks, int released) {
            return new ModelRail(state, onTheWay, reads, filling, chunks, released, toEnd, answer);
        }

        ModelRail ending(boolean ends, int answered) {
            return new ModelRail(state, onTheWay, reads, filling, arrived, releases, ends, answered);
        }
    }

    /**
     * Everything at one moment.
     *
     * @param chunks where each chunk is for the source
     * @param rails the rails
     * @param grants how often the slot was granted
     * @param open whether its credit must be used
     * @param shown how often each chunk was shown
     * @param wrong the broken promise; null for none
     */
    private record World(
            List<Integer> chunks, List<ModelRail> rails, int grants, boolean open, List<Integer> shown, String wrong) {

        static World first() {
            return new World(all(CHUNKS, UNSENT), all(RAILS, ModelRail.FIRST), 1, true, all(CHUNKS, 0), null);
        }

        World next(List<Integer> nowChunks, int rail, ModelRail now) {
            return new World(nowChunks, with(rails, rail, now), grants, open, shown, null);
        }

        World granted(int times, boolean nowOpen, List<Integer> nowShown, String nowWrong) {
            return new World(chunks, rails, times, nowOpen, nowShown, nowWrong);
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

        private void sourceEvents(World w, int number, List<Named> events) {
            ModelRail rail = w.rails.get(number);
            for (int chunk = 0; chunk < w.grants; chunk++) {
                int where = w.chunks.get(chunk);
                if (rail.isUp() && (where == UNSENT || where == WAITING)) {
                    events.add(new Named(
                            "send " + chunk + " by " + number,
                            w.next(with(w.chunks, chunk, number), number, rail.carrying(with(rail.onTheWay, chunk)))));
                }
                if ((rail.releases & 1 << chunk) != 0 && rail.isUp()) {
                    events.add(new Named(
                            "release of " + chunk,
                            w.next(
                                    where == number ? with(w.chunks, chunk, DONE) : w.chunks,
                                    number,
                                    rail.arrivedWith(rail.arrived, rail.releases & ~(1 << chunk)))));
                }
            }
            // The last rail is never lost.
            if (rail.isUp() && number < RAILS - 1) {
                boolean asks = variant != Variant.SOURCE_SENDS_AGAIN_AT_ONCE;
                events.add(new Named(
                        "lose " + number,
                        w.next(
                                asks ? w.chunks : again(w, number, 0),
                                number,
                                rail.in(asks ? RailState.ENDING : RailState.DOWN)
                                        .ending(asks || rail.toEnd, rail.answer))));
            }
            if (rail.answer >= 0) {
                events.add(new Named(
                        "answer for " + number,
                        w.next(
                                again(w, number, rail.answer),
                                number,
                                rail.in(RailState.DOWN).ending(rail.toEnd, -1))));
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

        private void targetEvents(World w, int number, List<Named> events) {
            ModelRail rail = w.rails.get(number);
            if (rail.reads && rail.filling == NO_CHUNK && !rail.onTheWay.isEmpty()) {
                List<Integer> carried = rail.onTheWay;
                int chunk = carried.get(0);
                ModelRail now = rail.carrying(List.copyOf(carried.subList(1, carried.size())))
                        .reading(true, chunk);
                // File, window and slot are always equal, so only the state of the credit distinguishes the chunks.
                String wrong = w.open ? null : "the slot of chunk " + chunk + " is not granted";
                events.add(new Named(
                        "chunk " + chunk + " comes by " + number,
                        w.next(w.chunks, number, now).granted(w.grants, false, w.shown, wrong)));
            }
            int filled = rail.filling;
            if (filled != NO_CHUNK) {
                boolean isRight = filled == w.grants - 1;
                boolean isLast = w.grants == CHUNKS;
                ModelRail now = rail.reading(rail.reads, NO_CHUNK)
                        .arrivedWith(rail.arrived | 1 << filled, rail.releases | 1 << filled);
                events.add(new Named(
                        "chunk " + filled + " is shown",
                        w.next(w.chunks, number, now)
                                .granted(
                                        isLast ? w.grants : w.grants + 1,
                                        !isLast,
                                        with(w.shown, filled, w.shown.get(filled) + 1),
                                        isRight
                                                ? null
                                                : "chunk " + filled + " is shown where chunk " + (w.grants - 1)
                                                        + " was due")));
            }
            if (rail.toEnd) {
                boolean endsFirst = variant != Variant.TARGET_ANSWERS_BEFORE_ITS_READER_ENDS;
                boolean counts = variant != Variant.TARGET_DOES_NOT_COUNT_WHAT_HAS_ARRIVED;
                boolean givesBack = endsFirst && filled != NO_CHUNK;
                ModelRail ended = endsFirst ? rail.carrying(List.of()).reading(false, NO_CHUNK) : rail;
                ModelRail now = ended.arrivedWith(rail.arrived, 0).ending(false, counts ? rail.arrived : 0);
                events.add(new Named(
                        "end " + number,
                        w.next(w.chunks, number, now).granted(w.grants, w.open || givesBack, w.shown, null)));
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
