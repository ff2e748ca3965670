package io.ppmr.system.guest;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.protocol.data.ChunkFrame;
import io.ppmr.protocol.data.DataMessage.Writable;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.RdmaMode;
import io.ppmr.testbed.Patience;
import io.ppmr.transport.Arrivals;
import io.ppmr.transport.ChunkReceiver;
import io.ppmr.transport.ChunkSender;
import io.ppmr.transport.Loopback;
import io.ppmr.transport.SendContract;
import io.ppmr.transport.rdma.RdmaTransport;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Tests the contract of every transport whose source sends, over RDMA Write. Tests that a source may write only the
 * pool of its own session, and only during the session.
 */
class RdmaWriteInGuest extends SendContract {
    private static final Duration LONG = Patience.of(Duration.ofSeconds(60));
    private static final long RING_ENTRY_BYTES = 64;
    private static final byte UNTOUCHED = 0x5A;
    /** DiSNI allocates at each check of the connection, by both ends a few times a second, for any rate of writes. */
    private static final long BYTES_A_LOOK = 400;

    private static final long LOOK_MS = 250;

    private static final long POLL_NS = 20_000;

    private final RdmaTransport transport = RdmaTransport.load(RdmaMode.WRITE);
    private RdmaPair pair;

    @Override
    protected Ends join(BufferPool source, BufferPool target, Arrivals arrivals, Consumer<String> onFailure)
            throws Exception {
        return join(transport, target, arrivals, 0);
    }

    /** Connects, and sends the source a wrong address of the pool, at this distance. */
    private Ends join(RdmaTransport by, BufferPool target, Arrivals arrivals, long poolShift) throws Exception {
        pair = RdmaPair.join(by, sourcePool, target, failures::add);
        ChunkReceiver taking = (ChunkReceiver) pair.peer().open(arrivals);
        Writable real = pair.peer().writable().orElseThrow();
        pair.path()
                .onWritable(new Writable(
                        real.address() + poolShift,
                        real.key(),
                        real.ringAddress(),
                        real.ringKey(),
                        real.ringEntries()));
        return new Ends((ChunkSender) pair.path(), taking);
    }

    private void open(RdmaTransport by, BufferPool target, long poolShift) throws Exception {
        Ends ends = join(by, target, taken, poolShift);
        sender = ends.sender();
        receiver = ends.receiver();
        begin();
    }

    @Override
    protected int rounds(int most) {
        return Math.max(3, most / 100);
    }

    @Override
    protected String closedByTarget() {
        return "RDMA connection to the target failed (rxe0, peer 10.77.0.2)";
    }

    private static void fill(BufferPool pool) {
        ByteBuffer all = pool.region();
        for (int i = 0; i < all.capacity(); i++) {
            all.put(i, UNTOUCHED);
        }
    }

    private static void requireUntouched(BufferPool pool) {
        ByteBuffer all = pool.region();
        for (int i = 0; i < all.capacity(); i++) {
            assertEquals(UNTOUCHED, all.get(i), "byte " + i);
        }
    }

    private void requireRefused() throws Exception {
        Loopback.until("the write is refused", LONG, () -> !failures.isEmpty());
        assertTrue(failures.get(0).contains("IBV_WC_REM_ACCESS_ERR"), failures.get(0));
        assertTrue(failures.get(0).contains("rxe0, peer 10.77.0.2"), failures.get(0));
        assertEquals(1, failures.size());
        assertEquals(0, taken.count());
    }

    @Test
    void shouldWriteMoreChunksThanTheRingHasEntriesInTheirOrder() throws Exception {
        BufferPool small = new BufferPool(new PoolGeometry(CHUNK_BYTES, PoolGeometry.MIN_CHUNKS));
        open(transport, small, 0);
        assertEquals(
                PoolGeometry.MIN_CHUNKS, pair.peer().writable().orElseThrow().ringEntries());
        taken.hold();
        StringBuilder expected = new StringBuilder();
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            int slot = chunk % PoolGeometry.MIN_CHUNKS;
            sender.send(chunk, 0, 1000, 1, 0, slot, 0, false);
            expected.append(chunk).append(' ');
        }
        taken.unblock();
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            awaitRelease(chunk);
        }
        assertEquals(expected.toString(), taken.order());
        assertEquals(List.of(), failures);
    }

    /** Another pool of the same process, and the memory before and behind the session's own. */
    @Test
    void shouldRefuseAWriteIntoMemoryThatIsNotTheSessions() throws Exception {
        BufferPool others = new BufferPool(new PoolGeometry(CHUNK_BYTES, CHUNKS));
        fill(others);
        fill(targetPool);
        open(transport, targetPool, others.baseAddress() - targetPool.baseAddress());
        send(0, CHUNK_BYTES);
        requireRefused();
        requireUntouched(others);
        requireUntouched(targetPool);
    }

    @ParameterizedTest
    @ValueSource(longs = {-1, (CHUNKS - 1) * CHUNK_BYTES + 1})
    void shouldRefuseAWriteThatIsOnlyPartlyInThePool(long shift) throws Exception {
        fill(targetPool);
        open(transport, targetPool, shift);
        send(0, CHUNK_BYTES);
        requireRefused();
        requireUntouched(targetPool);
    }

    @Test
    void shouldRefuseTheKeysOfASessionThatHasEnded() throws Exception {
        open();
        Writable ended = pair.peer().writable().orElseThrow();
        send(0, 100);
        awaitRelease(0);
        sender.close();
        receiver.close();
        failures.clear();
        fill(targetPool);

        RdmaPair next = RdmaPair.join(transport, sourcePool, targetPool, failures::add);
        receiver = (ChunkReceiver) next.peer().open(taken);
        sender = (ChunkSender) next.path();
        Writable own = next.peer().writable().orElseThrow();
        sender.onWritable(
                new Writable(ended.address(), ended.key(), own.ringAddress(), own.ringKey(), own.ringEntries()));
        begin();
        send(1, CHUNK_BYTES);
        Loopback.until("the write is refused", LONG, () -> !failures.isEmpty());
        assertTrue(failures.get(0).contains("IBV_WC_REM_ACCESS_ERR"), failures.get(0));
        requireUntouched(targetPool);
    }

    /** The slots are used again when close has returned, whatever the session's threads do. */
    @Test
    void shouldTakeTheMemoryFromTheSourceWhenTheReceiverIsClosedThoughItsAgentHangs() throws Exception {
        open();
        taken.hold();
        send(0, 100);
        Thread closing = new Thread(receiver::close);
        closing.start();
        Loopback.until("the source hears that it is over", LONG, () -> !failures.isEmpty() || !closing.isAlive());
        closing.join(LONG.toMillis());
        fill(targetPool);
        byte[] before = part(targetPool, 1, 0, CHUNK_BYTES);
        try {
            send(1, CHUNK_BYTES);
        } catch (IOException e) {
            assertTrue(e.getMessage().contains("RDMA"), e.getMessage());
        }
        Loopback.until("the write has failed", LONG, () -> !failures.isEmpty());
        assertArrayEquals(before, part(targetPool, 1, 0, CHUNK_BYTES));
        requireUntouched(targetPool);
        assertEquals(0, released[1].availablePermits());
    }

    @Test
    void shouldRefuseByNameWhenTheFrameIsNotWhereTheImmediateDataTells() throws Exception {
        join(1, 0);
        send(0, 100);
        Loopback.until(
                "the target reports the error",
                LONG,
                () -> taken.onProtocolError().size() == 1);
        assertTrue(
                taken.onProtocolError().get(0).contains("ProtocolException"),
                taken.onProtocolError().get(0));
        assertEquals(0, taken.count());
    }

    @Test
    void shouldRefuseByNameWhenTheSourceTellsOfAnotherEntryThanTheNext() throws Exception {
        int entries = join(0, 1);
        for (int chunk = 0; chunk < entries; chunk++) {
            send(chunk, 100);
            awaitRelease(chunk);
        }
        // The next chunk is announced in entry 0, where the last entry was due.
        send(entries, 100);
        Loopback.until(
                "the target reports the error",
                LONG,
                () -> taken.onProtocolError().size() == 1);
        String broken = taken.onProtocolError().get(0);
        assertTrue(broken.contains("entry 0 by opcode 129 instead of a write to entry " + entries), broken);
        assertEquals(entries, taken.count());
    }

    /**
     * Connects with a ring that starts a number of entries later and has fewer entries. Returns the number of the
     * source's entries.
     */
    private int join(int shift, int fewer) throws Exception {
        pair = RdmaPair.join(transport, sourcePool, targetPool, failures::add);
        receiver = (ChunkReceiver) pair.peer().open(taken);
        sender = (ChunkSender) pair.path();
        Writable real = pair.peer().writable().orElseThrow();
        int entries = real.ringEntries() - fewer;
        long ring = real.ringAddress() + shift * RING_ENTRY_BYTES;
        sender.onWritable(new Writable(real.address(), real.key(), ring, real.ringKey(), entries));
        begin();
        return entries;
    }

    @ParameterizedTest
    @ValueSource(ints = {0, -1, 129})
    void shouldRefuseByNameAtTheSourceWhatIsNoRing(int entries) throws Exception {
        pair = RdmaPair.join(transport, sourcePool, targetPool, failures::add);
        sender = (ChunkSender) pair.path();
        IOException unsaid = assertThrows(IOException.class, () -> send(0, 100));
        assertTrue(unsaid.getMessage().contains("sent no message Writable"), unsaid.getMessage());
        ProtocolException refused =
                assertThrows(ProtocolException.class, () -> sender.onWritable(new Writable(1, 2, 3, 4, entries)));
        assertTrue(refused.getMessage().contains("which is not a valid ring"), refused.getMessage());
        pair.peer().close();
    }

    @Test
    void shouldEndTheConnectionByNameWhenAWriteIsPastItsDeadline() throws Exception {
        open(RdmaTransport.load(RdmaMode.WRITE, Duration.ofMillis(500)), targetPool, 0);
        try {
            GuestLink.downFor(RdmaMode.WRITE);
            send(0, CHUNK_BYTES);
            Loopback.until("the source reports the error", LONG, () -> !failures.isEmpty());
            assertTrue(failures.get(0).contains("has not ended within 500 ms"), failures.get(0));
        } finally {
            GuestLink.up();
        }
    }

    @Test
    void shouldAllocateNothingForAChunkInSteadyState() throws Exception {
        Ends ends = join(transport, targetPool, new Silent(), 0);
        sender = ends.sender();
        receiver = ends.receiver();
        begin();
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        long[] measured = LongStream.concat(
                        LongStream.of(Thread.currentThread().getId()),
                        Thread.getAllStackTraces().keySet().stream()
                                .filter(thread -> thread.getName().equals("ppmr-rdma-write")
                                        || thread.getName().equals("ppmr-rdma-receive"))
                                .mapToLong(Thread::getId))
                .toArray();
        assertEquals(3, measured.length);
        int rounds = 20;
        write(rounds);
        long startNs = System.nanoTime();
        long before = allocated(threads, measured);
        write(rounds);
        long bytes = allocated(threads, measured) - before;
        long looks = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startNs) / LOOK_MS + 2;
        String said =
                bytes + " bytes for " + rounds * CHUNKS + " chunks and about " + looks + " looks at the connection";
        System.out.println("allocated by writes: " + said);
        assertEquals(List.of(), failures);
        // The smallest object has 16 bytes. A waiting thread may allocate some.
        assertTrue(bytes < looks * BYTES_A_LOOK + 8L * rounds * CHUNKS, said);
    }

    private void write(int rounds) throws Exception {
        for (int round = 0; round < rounds; round++) {
            for (int chunk = 0; chunk < CHUNKS; chunk++) {
                sender.send(chunk, 0, CHUNK_BYTES, 1, 0, chunk, 0, true);
            }
            for (int chunk = 0; chunk < CHUNKS; chunk++) {
                waitFor(released[chunk]);
            }
        }
    }

    /** Waits without an allocation: a semaphore's own wait makes an object, which would be counted as the product's. */
    private static void waitFor(Semaphore permit) {
        long deadlineNs = System.nanoTime() + LONG.toNanos();
        while (!permit.tryAcquire()) {
            assertTrue(System.nanoTime() - deadlineNs < 0, "a chunk was not released");
            LockSupport.parkNanos(POLL_NS);
        }
    }

    private static long allocated(ThreadMXBean threads, long[] ids) {
        long sum = 0;
        for (long id : ids) {
            sum += threads.getThreadAllocatedBytes(id);
        }
        return sum;
    }

    /** Receives everything, and allocates nothing. */
    private static final class Silent implements Arrivals {
        private final ByteBuffer place = ByteBuffer.allocate(0);

        @Override
        public ByteBuffer onChunkStart(ChunkFrame chunk) {
            return place;
        }

        @Override
        public boolean onChunkEnd(ChunkFrame chunk) {
            return true;
        }

        @Override
        public void onProtocolError(String reason) {
            throw new AssertionError(reason);
        }

        @Override
        public void onPullCompleted(long pullId) {
            throw new AssertionError("this transport does not pull");
        }

        @Override
        public void onPullFailed(long pullId, String reason) {
            throw new AssertionError(reason);
        }
    }
}
