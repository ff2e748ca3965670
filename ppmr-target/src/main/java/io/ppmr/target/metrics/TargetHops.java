package io.ppmr.target.metrics;

import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.ppmr.target.metrics.HopEvents.Pull;
import io.ppmr.target.metrics.HopEvents.PullWait;
import io.ppmr.target.metrics.HopEvents.ReaderWait;
import java.util.concurrent.atomic.LongAdder;

/**
 * Measures the hops of the bytes at the target, for the life of its service. Any thread; recording allocates nothing,
 * unless the flight recorder takes the event.
 */
public final class TargetHops {
    private final LongAdder headBytes = new LongAdder();
    private final LongAdder pulledBytes = new LongAdder();
    private final LongAdder readBytes = new LongAdder();
    private final LongAdder stagedBytes = new LongAdder();
    private final LongAdder advertisedChunks = new LongAdder();
    private final LongAdder pulledChunks = new LongAdder();
    private final LongAdder pullsQueued = new LongAdder();
    private final LongAdder pullsInFlight = new LongAdder();
    private final LongAdder stagingBytes = new LongAdder();
    private final HopTimer pullWait;
    private final HopTimer pull;
    private final HopTimer check;
    private final HopTimer readerWait;

    public TargetHops(MeterRegistry registry) {
        bytes(registry, "head", headBytes);
        bytes(registry, "pulled", pulledBytes);
        bytes(registry, "staged", stagedBytes);
        bytes(registry, "read", readBytes);
        chunks(registry, "advertised", advertisedChunks);
        chunks(registry, "pulled", pulledChunks);
        Gauge.builder("ppmr.target.pulls.queued", this, hops -> hops.pullsQueued.sum())
                .description("chunks that were advertised and whose pull has not started")
                .register(registry);
        Gauge.builder("ppmr.target.pulls.in.flight", this, hops -> hops.pullsInFlight.sum())
                .description("pulls that are under way")
                .register(registry);
        Gauge.builder("ppmr.target.staging.used", this, hops -> hops.stagingBytes.sum())
                .baseUnit("bytes")
                .description("room that the staging file has taken")
                .register(registry);
        pullWait = new HopTimer(
                registry, "ppmr.target.pull.wait", "from the advertisement of a chunk to the start of its pull");
        pull = new HopTimer(registry, "ppmr.target.pull", "from the start of a pull until the bytes are here");
        check = new HopTimer(
                registry, "ppmr.target.chunk.check", "from the arrival of a chunk until it can be read: its CRC32C");
        readerWait =
                new HopTimer(registry, "ppmr.target.reader.wait", "waits of restarts for bytes that have not come");
    }

    private static void bytes(MeterRegistry registry, String stage, LongAdder sum) {
        FunctionCounter.builder("ppmr.target.data", sum, LongAdder::sum)
                .baseUnit("bytes")
                .tag("stage", stage)
                .description("bytes of images by stage")
                .register(registry);
    }

    private static void chunks(MeterRegistry registry, String stage, LongAdder sum) {
        FunctionCounter.builder("ppmr.target.chunks", sum, LongAdder::sum)
                .tag("stage", stage)
                .description("chunks by stage")
                .register(registry);
    }

    /** Bytes of a file's head have come. */
    public void head(int lengthBytes) {
        headBytes.add(lengthBytes);
    }

    /** A chunk was advertised. */
    public void advertised() {
        advertisedChunks.increment();
    }

    /** A pull starts, so long after its advertisement. */
    public void started(int slot, long waitedNs) {
        pullWait.record(waitedNs);
        if (PullWait.PROBE.isEnabled()) {
            PullWait event = new PullWait();
            event.slot = slot;
            event.took = waitedNs;
            event.commit();
        }
    }

    /** A pull has brought its bytes. */
    public void pulled(int slot, int lengthBytes, long tookNs) {
        pulledBytes.add(lengthBytes);
        pulledChunks.increment();
        pull.record(tookNs);
        if (Pull.PROBE.isEnabled()) {
            Pull event = new Pull();
            event.slot = slot;
            event.length = lengthBytes;
            event.took = tookNs;
            event.commit();
        }
    }

    /** Its bytes were checked and can be read. */
    public void checked(long tookNs) {
        check.record(tookNs);
    }

    /** Bytes were given to a reader. */
    public void read(long bytes) {
        readBytes.add(bytes);
    }

    /** A reader has waited. */
    public void readerWaited(int file, long tookNs) {
        readerWait.record(tookNs);
        if (ReaderWait.PROBE.isEnabled()) {
            ReaderWait event = new ReaderWait();
            event.file = file;
            event.took = tookNs;
            event.commit();
        }
    }

    /** More bytes went to staging. */
    public void staged(long bytes) {
        stagedBytes.add(bytes);
    }

    /** What is under way has changed by so much; a transfer takes back in the end what it has added. */
    public void underWay(int queued, int inFlight, long stagingUsedBytes) {
        pullsQueued.add(queued);
        pullsInFlight.add(inFlight);
        stagingBytes.add(stagingUsedBytes);
    }
}
