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
 * Measures the hops of the bytes at the target, for the life of its service. Any thread; recording allocates nothing,
 * unless the flight recorder takes the event.
 */
public final class TargetHops {
    private final LongAdder headBytes;
    private final LongAdder pulledBytes;
    private final LongAdder readBytes;
    private final LongAdder stagedBytes;
    private final LongAdder advertisedChunks;
    private final LongAdder pulledChunks;
    private final LongAdder pullsQueued = new LongAdder();
    private final LongAdder pullsInFlight = new LongAdder();
    private final LongAdder stagingBytes = new LongAdder();
    private final Timer pullWait;
    private final Timer pull;
    private final Timer check;
    private final Timer readerWait;

    @Name("ppmr.target.Pull")
    @Label("Pull")
    @Description("A chunk was fetched from the source")
    static final class Pull extends HopEvent {
        private static final Pull PROBE = new Pull();

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
    @Description("A restart waited for bytes that had not come")
    static final class ReaderWait extends HopEvent {
        private static final ReaderWait PROBE = new ReaderWait();

        @Label("File")
        int file;
    }

    public TargetHops(MeterRegistry registry) {
        HopMeters meters = new HopMeters(registry, "ppmr.target");
        headBytes = meters.bytes("head");
        pulledBytes = meters.bytes("pulled");
        stagedBytes = meters.bytes("staged");
        readBytes = meters.bytes("read");
        advertisedChunks = meters.chunks("advertised");
        pulledChunks = meters.chunks("pulled");
        Gauge.builder("ppmr.target.pulls.queued", pullsQueued, LongAdder::sum)
                .description("chunks that were advertised and whose pull has not started")
                .register(registry);
        Gauge.builder("ppmr.target.pulls.in.flight", pullsInFlight, LongAdder::sum)
                .description("pulls that are under way, and chunks that are coming")
                .register(registry);
        Gauge.builder("ppmr.target.staging.used", stagingBytes, LongAdder::sum)
                .baseUnit("bytes")
                .description("room that the staging file has taken")
                .register(registry);
        pullWait = meters.timer(".pull.wait", "with RDMA: from the advertisement of a chunk to the start of its pull");
        pull = meters.timer(".pull", "from the start of a pull, or a chunk's first byte, until its bytes are here");
        check = meters.timer(".chunk.check", "from the arrival of a chunk until it can be read: its CRC32C");
        readerWait = meters.timer(".reader.wait", "waits of restarts for bytes that have not come");
    }

    /** Returns the bytes of staging that are taken, of all transfers together, as they last said. */
    public long stagingUsedBytes() {
        return stagingBytes.sum();
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
        pullWait.record(waitedNs, TimeUnit.NANOSECONDS);
        if (PullWait.PROBE.isEnabled()) {
            PullWait event = new PullWait();
            event.slot = slot;
            event.commit(waitedNs);
        }
    }

    /** A pull has brought its bytes. */
    public void pulled(int slot, int lengthBytes, long tookNs) {
        pulledBytes.add(lengthBytes);
        pulledChunks.increment();
        pull.record(tookNs, TimeUnit.NANOSECONDS);
        if (Pull.PROBE.isEnabled()) {
            Pull event = new Pull();
            event.slot = slot;
            event.length = lengthBytes;
            event.commit(tookNs);
        }
    }

    /** Its bytes were checked and can be read. */
    public void checked(long tookNs) {
        check.record(tookNs, TimeUnit.NANOSECONDS);
    }

    /** Bytes were given to a reader. */
    public void read(long bytes) {
        readBytes.add(bytes);
    }

    /** A reader has waited. */
    public void readerWaited(int file, long tookNs) {
        readerWait.record(tookNs, TimeUnit.NANOSECONDS);
        if (ReaderWait.PROBE.isEnabled()) {
            ReaderWait event = new ReaderWait();
            event.file = file;
            event.commit(tookNs);
        }
    }

    /** Counts a change of what is under way; a transfer takes back in the end what it has added. */
    public void underWay(int queued, int inFlight, long stagingUsedBytes) {
        pullsQueued.add(queued);
        pullsInFlight.add(inFlight);
        stagingBytes.add(stagingUsedBytes);
    }

    /**
     * The share of one transfer in what is under way, told as changes: several transfers add to the same meters. Owned
     * by its session's agent, and by whoever ends the transfer after it.
     */
    public final class Share {
        private int queued;
        private int inFlight;
        private long stagingUsedBytes;
        private long stagedBytesSoFar;

        /**
         * Shows what has changed.
         *
         * @param nowQueued pulls that wait
         * @param nowInFlight pulls under way
         * @param nowUsedBytes staging that is in use
         * @param nowStagedBytes what has gone to staging so far
         */
        public void show(int nowQueued, int nowInFlight, long nowUsedBytes, long nowStagedBytes) {
            if (nowQueued != queued || nowInFlight != inFlight || nowUsedBytes != stagingUsedBytes) {
                underWay(nowQueued - queued, nowInFlight - inFlight, nowUsedBytes - stagingUsedBytes);
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
