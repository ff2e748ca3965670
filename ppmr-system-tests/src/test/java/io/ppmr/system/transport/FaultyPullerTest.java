package io.ppmr.system.transport;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.system.transport.FaultyPuller.Drawn;
import io.ppmr.system.transport.FaultyPuller.PullFault;
import io.ppmr.testbed.Conditions;
import io.ppmr.transport.ChunkPuller;
import io.ppmr.transport.PullListener;
import io.ppmr.transport.RemoteBlock;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;

class FaultyPullerTest {
    private static final int CHUNK_BYTES = 16 * 1024;
    private static final int OFFSET = 100;

    private final BufferPool pool = new BufferPool(new PoolGeometry(CHUNK_BYTES, 4));
    private final List<String> answers = new CopyOnWriteArrayList<>();

    /** Returns zeros at once. A pull of key 1 fails, and a pull of key 2 is answered when it is closed. */
    private static final class Immediate implements ChunkPuller {
        private final PullListener listener;
        private final List<Long> open = new ArrayList<>();

        private Immediate(PullListener listener) {
            this.listener = listener;
        }

        @Override
        public int depth() {
            return 17;
        }

        @Override
        public void pull(long pullId, RemoteBlock from, int localChunk, int localOffset, boolean more) {
            if (from.key() == 1) {
                listener.onPullFailed(pullId, "broken");
            } else if (from.key() == 2) {
                open.add(pullId);
            } else {
                listener.onPullCompleted(pullId);
            }
        }

        @Override
        public void close() {
            open.forEach(pullId -> listener.onPullFailed(pullId, "closed"));
            open.clear();
        }
    }

    private FaultyPuller puller(Map<Long, Drawn> faults) {
        PullListener listener = new PullListener() {
            @Override
            public void onPullCompleted(long pullId) {
                answers.add(pullId + " pulled");
            }

            @Override
            public void onPullFailed(long pullId, String reason) {
                answers.add(pullId + " " + reason);
            }
        };
        return new FaultyPuller(pool, listener, pullId -> faults.getOrDefault(pullId, Drawn.NOTHING), Immediate::new);
    }

    private static void pull(ChunkPuller puller, long pullId, long key) {
        puller.pull(pullId, new RemoteBlock().set(0, key, 1000), (int) pullId, OFFSET);
    }

    @Test
    void shouldFlipOneBitOfACorruptedPullAndNothingElse() {
        try (FaultyPuller puller = puller(Map.of(1L, new Drawn(PullFault.CORRUPT, 0)))) {
            pull(puller, 0, 0);
            pull(puller, 1, 0);
        }
        assertEquals(List.of("0 pulled", "1 pulled"), answers);
        assertEquals(0, flippedBits(0));
        assertEquals(1, flippedBits(1));
        assertEquals(1, pool.buffer(1).get(OFFSET));
    }

    private int flippedBits(int chunk) {
        int bits = 0;
        for (int i = 0; i < CHUNK_BYTES; i++) {
            bits += Integer.bitCount(pool.buffer(chunk).get(i) & 0xFF);
        }
        return bits;
    }

    @Test
    void shouldFailAPullThatIsToFailAndPassOnOneThatFailsItself() {
        try (FaultyPuller puller = puller(Map.of(1L, new Drawn(PullFault.FAIL, 0)))) {
            pull(puller, 0, 1);
            pull(puller, 1, 0);
            pull(puller, 2, 0);
        }
        assertEquals(List.of("0 broken", "1 a fault was injected into this pull", "2 pulled"), answers);
    }

    @Test
    void shouldLetADelayedPullArriveBehindLaterOnes() throws Exception {
        try (FaultyPuller puller = puller(Map.of(0L, new Drawn(PullFault.DELAY, 50)))) {
            pull(puller, 0, 0);
            pull(puller, 1, 0);
            pull(puller, 2, 0);
            assertEquals(List.of("1 pulled", "2 pulled"), answers);
            Conditions.until("the delayed one", () -> answers.size() == 3);
            assertEquals("0 pulled", answers.get(2));
        }
        assertEquals(3, answers.size());
    }

    @Test
    void shouldAnswerEveryPullOnceWhenItIsClosed() {
        FaultyPuller puller = puller(Map.of(0L, new Drawn(PullFault.DELAY, 60_000)));
        pull(puller, 0, 0);
        pull(puller, 1, 2);
        puller.close();
        puller.close();
        assertEquals(List.of("1 closed", "0 the transport was closed while the pull was delayed"), answers);
        pull(puller, 2, 0);
        assertEquals(3, answers.size());
    }

    @Test
    void shouldHoldWhatTheInnerOneHolds() {
        try (FaultyPuller puller = puller(Map.of())) {
            assertEquals(17, puller.depth());
        }
    }
}
