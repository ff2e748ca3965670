package io.ppmr.target.image;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.protocol.data.CreditRequestFrame;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.List;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.Tuple;
import org.agrona.BufferUtil;
import org.agrona.UnsafeApi;

/** A retained file, which is staged when it arrives, written, truncated and punched in any order. */
class RetainedOrderTest {
    private static final int CHUNK_BYTES = LedgerFixture.CHUNK_BYTES;
    private static final int HEAD_BYTES = 4096;
    private static final int WINDOWS = 70;
    private static final int SIZE = WINDOWS * CHUNK_BYTES;

    private enum Kind {
        WRITE,
        TRUNCATE,
        PUNCH,
        /** Ends the oldest running pull. */
        ARRIVE
    }

    record Step(Kind kind, int offset, int lengthBytes) {}

    /** The bytes of a write, from {@code from} on. */
    private record UnderWay(ReceiveSlot slot, int offset, int write, int from, int lengthBytes) {}

    @Provide
    Arbitrary<List<Step>> steps() {
        return Combinators.combine(
                        Arbitraries.frequency(
                                Tuple.of(20, Kind.WRITE),
                                Tuple.of(1, Kind.TRUNCATE),
                                Tuple.of(3, Kind.PUNCH),
                                Tuple.of(8, Kind.ARRIVE)),
                        Arbitraries.integers().between(HEAD_BYTES, SIZE - 1),
                        Arbitraries.oneOf(
                                Arbitraries.just(CHUNK_BYTES),
                                Arbitraries.integers().between(1, CHUNK_BYTES)))
                .as(Step::new)
                .list()
                .ofMinSize(1)
                .ofMaxSize(150);
    }

    @Property(tries = 300)
    void shouldReadTheLastWrite(@ForAll("steps") List<Step> steps) throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(4, (long) SIZE, 0)) {
            ArrivingFile file = fixture.file(new RankImage(0, name -> false));
            byte[] model = new byte[SIZE];
            int size = HEAD_BYTES;
            ArrayDeque<UnderWay> underWay = new ArrayDeque<>();
            int number = 0;
            for (Step step : steps) {
                int end = Math.min(SIZE, step.offset + step.lengthBytes);
                switch (step.kind) {
                    case WRITE -> {
                        byte[] bytes = ImageFixture.bytes(++number, end - step.offset);
                        System.arraycopy(bytes, 0, model, step.offset, bytes.length);
                        size = Math.max(size, end);
                        write(fixture, file, step.offset, bytes.length, number, underWay);
                    }
                    case TRUNCATE -> {
                        Arrays.fill(model, step.offset, SIZE, (byte) 0);
                        size = step.offset;
                        file.truncate(step.offset);
                    }
                    case PUNCH -> {
                        Arrays.fill(model, step.offset, end, (byte) 0);
                        file.punchHole(step.offset, end - step.offset);
                    }
                    case ARRIVE -> arrive(fixture, file, underWay);
                }
            }
            while (!underWay.isEmpty()) {
                arrive(fixture, file, underWay);
            }
            file.end(size);
            ByteBuffer into = ByteBuffer.allocateDirect(SIZE);
            assertEquals(size, file.read(BufferUtil.address(into), SIZE, 0));
            byte[] read = new byte[size];
            into.get(0, read);
            assertArrayEquals(Arrays.copyOf(model, size), read);
            file.discard();
            assertEquals(0, fixture.staging.usedBytes(), "pages that are not given back");
            assertEquals(0, fixture.staging.mapBytes(), "memory that is not given back");
        }
    }

    /** Writes like a writer: in pieces of one window, each for a granted receive slot. */
    private static void write(
            LedgerFixture fixture,
            ArrivingFile file,
            int offset,
            int lengthBytes,
            int number,
            ArrayDeque<UnderWay> underWay)
            throws Exception {
        for (int done = 0; done < lengthBytes; ) {
            int at = offset + done;
            int length = Math.min(lengthBytes - done, CHUNK_BYTES - at % CHUNK_BYTES);
            fixture.ledger.requestCredits(file, at / CHUNK_BYTES, 1, CreditRequestFrame.BLOCKED);
            while (fixture.granted.isEmpty()) {
                arrive(fixture, file, underWay);
                fixture.ledger.serve();
            }
            ReceiveSlot slot = fixture.takeSlots().get(0);
            fixture.advertise(file, slot, at, length);
            underWay.add(new UnderWay(slot, at, number, done, length));
            done += length;
        }
    }

    private static void arrive(LedgerFixture fixture, ArrivingFile file, ArrayDeque<UnderWay> underWay) {
        UnderWay pull = underWay.poll();
        if (pull != null) {
            long to = pull.slot.address() + pull.offset % CHUNK_BYTES;
            byte[] bytes = ImageFixture.bytes(pull.write, pull.from + pull.lengthBytes);
            for (int i = 0; i < pull.lengthBytes; i++) {
                UnsafeApi.putByte(to + i, bytes[pull.from + i]);
            }
            file.onArrived(pull.slot);
            fixture.passOnFreed();
        }
    }
}
