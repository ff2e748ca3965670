package io.ppmr.source.metrics;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import io.ppmr.transport.metrics.HopEvent;
import io.ppmr.transport.metrics.HopMeters;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.LongAdder;
import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.Name;

/**
 * Measures the stages of the bytes at the source while its service runs. Any thread. Recording allocates nothing,
 * unless the flight recorder records the event.
 */
public final class SourceHops {
    private final LongAdder writtenBytes;
    private final LongAdder sentBytes;
    private final LongAdder sentChunks;
    private final LongAdder releasedChunks;
    private final AtomicLongArray sentNs;
    private final Timer fill;
    private final Timer poolWait;
    private final Timer slotWait;
    private final Timer flight;

    @Name("ppmr.source.ChunkFlight")
    @Label("Chunk flight")
    @Description("From the sending of a chunk to its release by the target")
    static final class ChunkFlight extends HopEvent {
        private static final ChunkFlight PROBE = new ChunkFlight();

        @Label("Chunk")
        int chunk;
    }

    @Name("ppmr.source.PoolWait")
    @Label("Pool wait")
    @Description("A writer waited for a chunk of the pool")
    static final class PoolWait extends HopEvent {
        private static final PoolWait PROBE = new PoolWait();
    }

    @Name("ppmr.source.SlotWait")
    @Label("Slot wait")
    @Description("A writer waited for a slot at the target")
    static final class SlotWait extends HopEvent {
        private static final SlotWait PROBE = new SlotWait();

        @Label("File")
        int file;
    }

    /**
     * Registers the meters.
     *
     * @param chunkCount the number of chunks of the pool
     */
    public SourceHops(MeterRegistry registry, int chunkCount) {
        sentNs = new AtomicLongArray(chunkCount);
        HopMeters meters = new HopMeters(registry, "ppmr.source");
        writtenBytes = meters.bytes("written");
        sentBytes = meters.bytes("sent");
        sentChunks = meters.chunks("sent");
        releasedChunks = meters.chunks("released");
        fill = meters.timer(".chunk.fill", "from the claim of a chunk until it is sent");
        poolWait = meters.timer(".pool.wait", "waits of writers for a chunk of the pool");
        slotWait = meters.timer(".slot.wait", "waits of writers for a slot at the target");
        flight = meters.timer(".chunk.flight", "from the sending of a chunk to its release by the target");
    }

    /** Counts bytes of checkpointers that were sent, in the prefix of a file or in a chunk. */
    public void written(int lengthBytes) {
        writtenBytes.add(lengthBytes);
    }

    /** Records the time for filling a chunk that is about to be sent. */
    public void filled(long tookNs) {
        fill.record(tookNs, TimeUnit.NANOSECONDS);
    }

    /** Counts a chunk that is about to be sent. */
    public void sent(int chunk, int lengthBytes) {
        sentNs.lazySet(chunk, System.nanoTime());
        sentBytes.add(lengthBytes);
        sentChunks.increment();
    }

    /** Records the release of a chunk that arrived at the target. */
    public void released(int chunk) {
        long tookNs = System.nanoTime() - sentNs.get(chunk);
        releasedChunks.increment();
        flight.record(tookNs, TimeUnit.NANOSECONDS);
        if (ChunkFlight.PROBE.isEnabled()) {
            ChunkFlight event = new ChunkFlight();
            event.chunk = chunk;
            event.commit(tookNs);
        }
    }

    /** Records a writer's wait for a chunk. */
    public void waitedForChunk(long tookNs) {
        poolWait.record(tookNs, TimeUnit.NANOSECONDS);
        if (PoolWait.PROBE.isEnabled()) {
            new PoolWait().commit(tookNs);
        }
    }

    /** Records a writer's wait for a slot. */
    public void waitedForSlot(int file, long tookNs) {
        slotWait.record(tookNs, TimeUnit.NANOSECONDS);
        if (SlotWait.PROBE.isEnabled()) {
            SlotWait event = new SlotWait();
            event.file = file;
            event.commit(tookNs);
        }
    }
}
