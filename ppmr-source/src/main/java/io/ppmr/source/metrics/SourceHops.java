package io.ppmr.source.metrics;

import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.MeterRegistry;
import io.ppmr.source.metrics.HopEvents.ChunkFlight;
import io.ppmr.source.metrics.HopEvents.PoolWait;
import io.ppmr.source.metrics.HopEvents.SlotWait;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.LongAdder;

/**
 * Measures the hops of the bytes at the source, for the life of its service. Any thread; recording allocates nothing,
 * unless the flight recorder takes the event.
 */
public final class SourceHops {
    private final LongAdder writtenBytes = new LongAdder();
    private final LongAdder advertisedBytes = new LongAdder();
    private final LongAdder advertisedChunks = new LongAdder();
    private final LongAdder releasedChunks = new LongAdder();
    private final AtomicLongArray advertisedNs;
    private final HopTimer fill;
    private final HopTimer poolWait;
    private final HopTimer slotWait;
    private final HopTimer flight;

    /**
     * Registers the meters.
     *
     * @param chunkCount how many chunks the pool has
     */
    public SourceHops(MeterRegistry registry, int chunkCount) {
        advertisedNs = new AtomicLongArray(chunkCount);
        bytes(registry, "written", "bytes of images by stage", writtenBytes);
        bytes(registry, "advertised", "bytes of images by stage", advertisedBytes);
        chunks(registry, "advertised", advertisedChunks);
        chunks(registry, "released", releasedChunks);
        fill = new HopTimer(registry, "ppmr.source.chunk.fill", "from the claim of a chunk to its advertisement");
        poolWait = new HopTimer(registry, "ppmr.source.pool.wait", "waits of writers for a chunk of the pool");
        slotWait = new HopTimer(registry, "ppmr.source.slot.wait", "waits of writers for a slot at the target");
        flight = new HopTimer(
                registry, "ppmr.source.chunk.flight", "from the advertisement of a chunk to its release by the target");
    }

    private static void bytes(MeterRegistry registry, String stage, String meaning, LongAdder sum) {
        FunctionCounter.builder("ppmr.source.data", sum, LongAdder::sum)
                .baseUnit("bytes")
                .tag("stage", stage)
                .description(meaning)
                .register(registry);
    }

    private static void chunks(MeterRegistry registry, String stage, LongAdder sum) {
        FunctionCounter.builder("ppmr.source.chunks", sum, LongAdder::sum)
                .tag("stage", stage)
                .description("chunks by stage")
                .register(registry);
    }

    /** Bytes that checkpointers wrote were handed over: in the head of a file, or in a chunk. */
    public void written(int lengthBytes) {
        writtenBytes.add(lengthBytes);
    }

    /** A chunk is full, or is sent as it is. */
    public void filled(long tookNs) {
        fill.record(tookNs);
    }

    /** A chunk is about to be advertised. */
    public void advertised(int chunk, int lengthBytes) {
        advertisedNs.lazySet(chunk, System.nanoTime());
        advertisedBytes.add(lengthBytes);
        advertisedChunks.increment();
    }

    /** The target has fetched a chunk. */
    public void released(int chunk) {
        long tookNs = System.nanoTime() - advertisedNs.get(chunk);
        releasedChunks.increment();
        flight.record(tookNs);
        if (ChunkFlight.PROBE.isEnabled()) {
            ChunkFlight event = new ChunkFlight();
            event.chunk = chunk;
            event.took = tookNs;
            event.commit();
        }
    }

    /** A writer has waited for a chunk. */
    public void waitedForChunk(long tookNs) {
        poolWait.record(tookNs);
        if (PoolWait.PROBE.isEnabled()) {
            PoolWait event = new PoolWait();
            event.took = tookNs;
            event.commit();
        }
    }

    /** A writer has waited for a slot. */
    public void waitedForSlot(int file, long tookNs) {
        slotWait.record(tookNs);
        if (SlotWait.PROBE.isEnabled()) {
            SlotWait event = new SlotWait();
            event.file = file;
            event.took = tookNs;
            event.commit();
        }
    }
}
