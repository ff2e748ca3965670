package io.ppmr.protocol.data;

import java.util.ArrayList;
import java.util.List;
import net.openhft.chronicle.bytes.Bytes;

/**
 * The target's figures of a transfer, sent when it is prepared. Times are the target's monotonic clock.
 *
 * @param arrivedBytes bytes of all files that have arrived
 * @param readBytes bytes that restarts have read
 * @param stagedBytes bytes that went to staging on their way
 * @param peakResidentBytes the target service's peak resident memory
 * @param firstReadNs when the first byte was read; 0 if none was
 * @param samples how many bytes had been read when, ascending in time
 */
public record TransferReport(
        long arrivedBytes,
        long readBytes,
        long stagedBytes,
        long peakResidentBytes,
        long firstReadNs,
        List<ReadSample> samples) {
    /** The report where nothing was transferred. */
    public static final TransferReport EMPTY = new TransferReport(0, 0, 0, 0, 0, List.of());

    /** At {@code timeNs}, {@code readBytes} had been read. */
    public record ReadSample(long timeNs, long readBytes) {}

    public TransferReport {
        samples = List.copyOf(samples);
    }

    /** Bytes that had certainly been read at {@code timeNs}: those of the last sample before it. */
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

    /** Writes it as fields of a message. */
    public void write(Bytes<?> out) {
        out.writeLong(arrivedBytes).writeLong(readBytes).writeLong(stagedBytes);
        out.writeLong(peakResidentBytes).writeLong(firstReadNs);
        MessageFields.writeCount(out, samples.size());
        samples.forEach(sample -> out.writeLong(sample.timeNs()).writeLong(sample.readBytes()));
    }

    /** Reads it out of a message. */
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
