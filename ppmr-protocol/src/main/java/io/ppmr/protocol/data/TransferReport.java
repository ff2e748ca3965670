package io.ppmr.protocol.data;

import java.util.ArrayList;
import java.util.List;
import net.openhft.chronicle.bytes.Bytes;

/**
 * The target's figures of a transfer, sent with its vote. Times are the target's monotonic clock.
 *
 * @param arrivedBytes received bytes of all files
 * @param readBytes bytes that restarts read
 * @param stagedBytes bytes that were written to staging
 * @param peakResidentBytes the target service's peak resident memory
 * @param firstReadNs the time of the first read; 0 if there was none
 * @param samples the read bytes at several times, in ascending order
 */
public record TransferReport(
        long arrivedBytes,
        long readBytes,
        long stagedBytes,
        long peakResidentBytes,
        long firstReadNs,
        List<ReadSample> samples) {
    /** The report of a migration without a transfer. */
    public static final TransferReport EMPTY = new TransferReport(0, 0, 0, 0, 0, List.of());

    /** The total {@code readBytes} at {@code timeNs}. */
    public record ReadSample(long timeNs, long readBytes) {}

    public TransferReport {
        samples = List.copyOf(samples);
    }

    /** Returns a lower bound of the bytes read by {@code timeNs}: the value of the last sample before it. */
    public long readBytesAt(long timeNs) {
        long bytes = 0;
        for (ReadSample sample : samples) {
            if (sample.timeNs - timeNs > 0) {
                break;
            }
            bytes = sample.readBytes;
        }
        return bytes;
    }

    /** Writes the report as fields of a message. */
    public void write(Bytes<?> out) {
        out.writeLong(arrivedBytes).writeLong(readBytes).writeLong(stagedBytes);
        out.writeLong(peakResidentBytes).writeLong(firstReadNs);
        MessageFields.writeCount(out, samples.size());
        samples.forEach(sample -> out.writeLong(sample.timeNs()).writeLong(sample.readBytes()));
    }

    /** Reads the report from a message. */
    public static TransferReport read(Bytes<?> in) throws ProtocolException {
        long arrived = in.readLong();
        long read = in.readLong();
        long staged = in.readLong();
        long peakResident = in.readLong();
        long firstRead = in.readLong();
        int count = MessageFields.count(in, 2 * Long.BYTES);
        List<ReadSample> samples = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            samples.add(new ReadSample(in.readLong(), in.readLong()));
        }
        return new TransferReport(arrived, read, staged, peakResident, firstRead, samples);
    }
}
