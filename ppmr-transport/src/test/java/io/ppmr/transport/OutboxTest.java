package io.ppmr.transport;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.data.ProtocolException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.WritableByteChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;

class OutboxTest {
    private static final int CAPACITY = 16 * 1024;
    private static final int RESERVE = 4096;

    private final Outbox outbox = new Outbox(CAPACITY);

    private void put(int... bytes) {
        for (int value : bytes) {
            outbox.put(new UnsafeBuffer(new byte[] {(byte) value}), 0, 1);
        }
    }

    /** Accepts a limited number of bytes. */
    private record Taker(List<Byte> into, int most) implements WritableByteChannel {
        @Override
        public int write(ByteBuffer from) {
            int count = Math.min(most, from.remaining());
            for (int i = 0; i < count; i++) {
                into.add(from.get());
            }
            return count;
        }

        @Override
        public boolean isOpen() {
            return true;
        }

        @Override
        public void close() {
            // There is nothing to close.
        }
    }

    private List<Byte> send(int most) throws IOException {
        List<Byte> sent = new ArrayList<>();
        assertEquals(Math.min(most, CAPACITY), Math.max(outbox.sendTo(new Taker(sent, most)), 0), "sent");
        return sent;
    }

    @Test
    void shouldRetransmitOnlyUnacknowledgedBytes() throws Exception {
        put(1, 2, 3, 4, 5);
        assertEquals(List.of((byte) 1, (byte) 2, (byte) 3), send(3));
        assertTrue(outbox.canResumeFrom(2));
        assertEquals(1, outbox.resumeFrom(2), "bytes that were sent and are missing");
        assertEquals(List.of((byte) 3, (byte) 4, (byte) 5), send(3));
        assertFalse(outbox.hasUnsent());
        outbox.acknowledge(5);
        assertEquals(0, outbox.resumeFrom(5));
        assertFalse(outbox.hasUnsent());
    }

    @Test
    void shouldRefuseAnAcknowledgementBeyondTheSentOrBelowTheAcknowledgedBytes() throws Exception {
        put(1, 2, 3, 4, 5);
        send(3);
        assertThrows(ProtocolException.class, () -> outbox.acknowledge(4));
        assertThrows(ProtocolException.class, () -> outbox.acknowledge(Long.MAX_VALUE));
        outbox.acknowledge(2);
        outbox.acknowledge(1);
        for (long position : new long[] {Long.MIN_VALUE, -1, 0, 1, 4, 1L << 32, Long.MAX_VALUE}) {
            assertFalse(outbox.canResumeFrom(position), () -> "byte " + position);
        }
        assertTrue(outbox.canResumeFrom(2) && outbox.canResumeFrom(3));
    }

    @Test
    void shouldAcceptNoMoreThanFitsAndReserveSpaceForAcknowledgements() throws Exception {
        while (outbox.hasSpace(64)) {
            outbox.put(new UnsafeBuffer(new byte[64]), 0, 64);
        }
        assertEquals(CAPACITY - RESERVE, outbox.offset());
        send(CAPACITY - RESERVE);
        assertFalse(outbox.hasSpace(64), "sent is not arrived");
        assertTrue(outbox.hasSpaceForAcknowledgement(24));
        outbox.acknowledge(64);
        assertTrue(outbox.hasSpace(64));
        assertFalse(outbox.hasSpace(65));
    }

    /** For any order of writes, sends, acknowledgements and losses the peer receives the written stream. */
    @Test
    void shouldDeliverOneStreamDespiteLosses() throws Exception {
        for (int seed = 0; seed < 20; seed++) {
            Random random = new Random(seed);
            Outbox any = new Outbox(CAPACITY);
            List<Byte> came = new ArrayList<>();
            int written = 0;
            for (int step = 0; step < 3_000; step++) {
                int length = 1 + random.nextInt(300);
                if (any.hasSpace(length)) {
                    byte[] bytes = new byte[length];
                    for (int i = 0; i < length; i++) {
                        bytes[i] = (byte) (31 * written++ / 7);
                    }
                    any.put(new UnsafeBuffer(bytes), 0, length);
                }
                List<Byte> onTheWay = new ArrayList<>();
                any.sendTo(new Taker(onTheWay, random.nextInt(500)));
                boolean isLost = random.nextInt(4) == 0;
                came.addAll(isLost ? onTheWay.subList(0, random.nextInt(onTheWay.size() + 1)) : onTheWay);
                if (isLost) {
                    assertTrue(any.canResumeFrom(came.size()));
                    any.resumeFrom(came.size());
                } else if (random.nextInt(8) == 0) {
                    any.acknowledge(came.size());
                }
            }
            List<Byte> expected = new ArrayList<>();
            for (int i = 0; i < came.size(); i++) {
                expected.add((byte) (31 * i / 7));
            }
            assertEquals(expected, came, "seed " + seed);
            assertTrue(came.size() > CAPACITY, came.size() + " bytes came");
        }
    }
}
