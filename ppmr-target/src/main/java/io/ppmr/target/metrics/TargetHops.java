package io.ppmr.target.metrics;

import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import io.ppmr.transport.metrics.HopEvent;
import io.ppmr.transport.metrics.HopMeters;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.Name;

/**
 * Measures the stages of the bytes at the target while its service runs. Any thread. Recording allocates nothing,
 * unless the flight recorder records the event.
 */
public final class TargetHops {
    private final LongAdder prefixBytes;
    private final LongAdder receivedBytes;
    private final LongAdder readBytes;
    private final LongAdder stagedBytes;
    private final LongAdder expectedChunks;
    private final LongAdder receivedChunks;
    private final LongAdder pullsQueued = new LongAdder();
    private final LongAdder chunksInFlight = new LongAdder();
    private final LongAdder stagingBytes = new LongAdder();
    private final Timer pullWait;
    private final Timer receive;
    private final Timer check;
    private final Timer readerWait;

    @Name("ppmr.target.ChunkReceive")
    @Label("Chunk receive")
    @Description("The bytes of a chunk arrived")
    static final class ChunkReceive extends HopEvent {
        private static final ChunkReceive PROBE = new ChunkReceive();

        @Label("Slot")
        int slot;

        @Label("Length")
        int length;
    }

    @Name("ppmr.target.PullWait")
    @Label("Pull wait")
    @Description("An advertised chunk waited for its pull to start")
    static final class PullWait extends HopEvent {
        private static final PullWait PROBE = new PullWait();

        @Label("Slot")
        int slot;
    }

    @Name("ppmr.target.ReaderWait")
    @Label("Reader wait")
    @Description("A restart waited for bytes that had not arrived")
    static final class ReaderWait extends HopEvent {
        private static final ReaderWait PROBE = new ReaderWait();

        @Label("File")
        int file;
    }

    public TargetHops(MeterRegistry registry) {
        HopMeters meters = new HopMeters(registry, "ppmr.target");
        prefixBytes = meters.bytes("prefix");
        receivedBytes = meters.bytes("received");
        stagedBytes = meters.bytes("staged");
        readBytes = meters.bytes("read");
        expectedChunks = meters.chunks("expected");
        receivedChunks = meters.chunks("received");
        Gauge.builder("ppmr.target.pulls.queued", pullsQueued, LongAdder::sum)
                .description("with RDMA Read: chunks that were advertised and whose pull did not start yet")
                .register(registry);
        Gauge.builder("ppmr.target.chunks.in.flight", chunksInFlight, LongAdder::sum)
                .description("chunks whose bytes are arriving: RDMA Reads that were started, and chunks that the"
                        + " source sends")
                .register(registry);
        Gauge.builder("ppmr.target.staging.used", stagingBytes, LongAdder::sum)
                .baseUnit("bytes")
                .description("disk space that the staging files use")
                .register(registry);
        pullWait = meters.timer(
                ".pull.wait", "with RDMA Read: from the advertisement of a chunk to the start of its pull");
        receive = meters.timer(
                ".chunk.receive",
                "from the first byte of a chunk, or the start of its RDMA Read, until all its bytes arrived");
        check = meters.timer(".chunk.check", "from the arrival of a chunk until it can be read: its CRC32C");
        readerWait = meters.timer(".reader.wait", "waits of restarts for bytes that have not arrived");
    }

    /** Returns the used bytes of staging, of all transfers together, as they last reported them. */
    public long stagingUsedBytes() {
        return stagingBytes.sum();
    }

    /** Counts bytes of a file's prefix that arrived. */
    public void prefixReceived(int lengthBytes) {
        prefixBytes.add(lengthBytes);
    }

    /** Counts a chunk that was advertised, or began to arrive. */
    public void chunkExpected() {
        expectedChunks.increment();
    }

    /** Records the start of a pull, and its wait since the advertisement. */
    public void pullStarted(int slot, long waitedNs) {
        pullWait.record(waitedNs, TimeUnit.NANOSECONDS);
        if (PullWait.PROBE.isEnabled()) {
            PullWait event = new PullWait();
            event.slot = slot;
            event.commit(waitedNs);
        }
    }

    /** Records a chunk whose bytes all arrived. */
    public void chunkReceived(int slot, int lengthBytes, long tookNs) {
        receivedBytes.add(lengthBytes);
        receivedChunks.increment();
        receive.record(tookNs, TimeUnit.NANOSECONDS);
        if (ChunkReceive.PROBE.isEnabled()) {
            ChunkReceive event = new ChunkReceive();
            event.slot = slot;
            event.length = lengthBytes;
            event.commit(tookNs);
        }
    }

    /** Records the check of a chunk, which is readable then. */
    public void recordCheck(long tookNs) {
        check.record(tookNs, TimeUnit.NANOSECONDS);
    }

    /** Counts bytes that were copied to a reader. */
    public void addRead(long bytes) {
        readBytes.add(bytes);
    }

    /** Records a reader's wait. */
    public void readerWaited(int file, long tookNs) {
        readerWait.record(tookNs, TimeUnit.NANOSECONDS);
        if (ReaderWait.PROBE.isEnabled()) {
            ReaderWait event = new ReaderWait();
            event.file = file;
            event.commit(tookNs);
        }
    }

    /** Changes the gauges. The changes of a transfer add up to 0 at its end. */
    public void changeGauges(int queued, int inFlight, long stagingUsedBytes) {
        pullsQueued.add(queued);
        chunksInFlight.add(inFlight);
        stagingBytes.add(stagingUsedBytes);
    }

    /**
     * The contribution of one transfer to the gauges, reported as changes, because several transfers share the meters.
     * Owned by its session's agent, and afterwards by the thread that ends the transfer.
     */
    public final class TransferShare {
        private int queued;
        private int inFlight;
        private long stagingUsedBytes;
        private long stagedBytesSoFar;

        /**
         * Reports the present values.
         *
         * @param nowQueued waiting pulls
         * @param nowInFlight chunks that are arriving
         * @param nowUsedBytes used bytes of staging
         * @param nowStagedBytes bytes written to staging so far
         */
        public void update(int nowQueued, int nowInFlight, long nowUsedBytes, long nowStagedBytes) {
            if (nowQueued != queued || nowInFlight != inFlight || nowUsedBytes != stagingUsedBytes) {
                changeGauges(nowQueued - queued, nowInFlight - inFlight, nowUsedBytes - stagingUsedBytes);
                queued = nowQueued;
                inFlight = nowInFlight;
                stagingUsedBytes = nowUsedBytes;
            }
            if (nowStagedBytes > stagedBytesSoFar) {
                stagedBytes.add(nowStagedBytes - stagedBytesSoFar);
                stagedBytesSoFar = nowStagedBytes;
            }
        }
    }
}
