package io.ppmr.target.image;

import static io.ppmr.target.image.ImageFixture.CHUNK_BYTES;
import static io.ppmr.target.image.ImageFixture.HEAD_BYTES;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.target.image.ImageFixture.Got;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.ShrinkingMode;

/** Pieces of a file that are pulled in any order, several of one window at a time, result in the written file. */
class ArrivingOrderTest {
    private static final int FILE_BYTES = 4 * CHUNK_BYTES;
    private static final int MAX_UNDER_WAY = 12;

    /** A case: writes in one order, and pulls that end in another. The seed determines everything. */
    private static final class Arrival {
        private final Random random;
        private final ImageFixture image;
        private final byte[] model = new byte[FILE_BYTES];
        private final List<ReceiveSlot> underWay = new ArrayList<>();
        private int size;

        private Arrival(long seed, boolean streamed) {
            random = new Random(seed);
            image = new ImageFixture(streamed);
        }

        void write(int offset, int lengthBytes) throws ImageException {
            int end = offset + lengthBytes;
            for (int at = offset; at < end; ) {
                int limit = at < HEAD_BYTES ? HEAD_BYTES : (at / CHUNK_BYTES + 1) * CHUNK_BYTES;
                int next = Math.min(end, limit);
                byte[] bytes = new byte[next - at];
                random.nextBytes(bytes);
                System.arraycopy(bytes, 0, model, at, bytes.length);
                size = Math.max(size, next);
                if (at < HEAD_BYTES) {
                    image.head(at, bytes);
                } else {
                    underWay.add(image.advertise(at, bytes));
                }
                at = next;
            }
        }

        void someArrive() {
            while (!underWay.isEmpty() && (underWay.size() > MAX_UNDER_WAY || random.nextInt(3) > 0)) {
                image.arrive(underWay.remove(random.nextInt(underWay.size())));
            }
        }

        void finish() throws ImageException {
            while (!underWay.isEmpty()) {
                image.arrive(underWay.remove(random.nextInt(underWay.size())));
            }
            image.file.end(size);
        }

        byte[] written() {
            return Arrays.copyOf(model, size);
        }
    }

    @Property(tries = 300, shrinking = ShrinkingMode.OFF)
    void shouldReturnTheWrittenFileForAnyWrites(@ForAll long seed, @ForAll boolean streamed) throws Exception {
        Arrival arrival = new Arrival(seed, streamed);
        Random random = arrival.random;
        for (int writes = 1 + random.nextInt(40); writes > 0; writes--) {
            int offset = random.nextInt(FILE_BYTES - 1);
            int longest = Math.min(FILE_BYTES - offset, random.nextBoolean() ? 200 : 2 * CHUNK_BYTES);
            arrival.write(offset, 1 + random.nextInt(longest));
            if (random.nextInt(12) == 0) {
                int newSize = random.nextInt(FILE_BYTES);
                arrival.image.file.truncate(newSize);
                Arrays.fill(arrival.model, newSize, FILE_BYTES, (byte) 0);
                arrival.size = newSize;
            }
            arrival.someArrive();
        }
        arrival.finish();
        assertArrayEquals(arrival.written(), arrival.image.read(0, FILE_BYTES).bytes());
        arrival.image.file.discard();
        assertEquals(arrival.image.granted.get(), arrival.image.free.size(), "slots that were freed");
    }

    @Property(tries = 100, shrinking = ShrinkingMode.OFF)
    void shouldServeAStreamToAReaderThatFollowsItsWriter(@ForAll long seed) throws Exception {
        Arrival arrival = new Arrival(seed, true);
        CompletableFuture<Got> reader = arrival.image.readLater(0, FILE_BYTES);
        int at = 0;
        while (at < FILE_BYTES - 3 * CHUNK_BYTES / 2) {
            int bytes = 1 + arrival.random.nextInt(CHUNK_BYTES);
            arrival.write(at, bytes);
            at += bytes;
            arrival.someArrive();
        }
        arrival.finish();
        assertArrayEquals(arrival.written(), ImageFixture.get(reader).bytes());
        assertEquals(arrival.image.granted.get(), arrival.image.free.size(), "slots that were freed");
    }
}
