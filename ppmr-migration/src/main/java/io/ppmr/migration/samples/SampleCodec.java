package io.ppmr.migration.samples;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;

/**
 * The file format of samples: compressed, with differences of neighbours in as few bytes as they need. A file is read
 * with limits, since another program could have written it.
 */
final class SampleCodec {
    /** Maximum size of a file. */
    static final int MAX_FILE_BYTES = 64 << 10;

    private static final int MAGIC = 0x70706d72;
    private static final int VERSION = 1;
    private static final int MAX_CURVES = SampledValue.values().length * (MigrationSamples.MAX_RANKS + 3);
    private static final int LAST_BITS = 63;
    private static final int GROUP_BITS = 7;
    private static final int GROUP = 0x7f;
    private static final int MORE = 0x80;

    private SampleCodec() {}

    /** Encodes samples. Samples that are too large lose every second point until they fit. */
    static byte[] encode(MigrationSamples samples) throws IOException {
        MigrationSamples some = samples;
        byte[] encoded = encodeAll(some);
        while (encoded.length > MAX_FILE_BYTES && some.timesMs().size() > 2) {
            some = some.thinned();
            encoded = encodeAll(some);
        }
        return encoded;
    }

    private static byte[] encodeAll(MigrationSamples samples) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(new GZIPOutputStream(bytes))) {
            out.writeInt(MAGIC);
            out.writeByte(VERSION);
            out.writeLong(samples.startEpochMs());
            out.writeShort(samples.timesMs().size());
            writeDifferences(out, samples.timesMs());
            out.writeShort(samples.curves().size());
            for (SampleCurve curve : samples.curves()) {
                out.writeUTF(curve.value().name());
                out.writeInt(curve.rank());
                writeDifferences(out, curve.bytes());
            }
        }
        return bytes.toByteArray();
    }

    private static void writeDifferences(DataOutputStream out, List<Long> values) throws IOException {
        long before = 0;
        for (long value : values) {
            long difference = value - before;
            long rest = difference << 1 ^ difference >> LAST_BITS;
            while ((rest & ~(long) GROUP) != 0) {
                out.writeByte((int) (rest & GROUP) | MORE);
                rest >>>= GROUP_BITS;
            }
            out.writeByte((int) rest);
            before = value;
        }
    }

    /**
     * Decodes samples.
     *
     * @throws IOException the bytes are damaged, or of a newer release
     */
    static MigrationSamples decode(byte[] encoded) throws IOException {
        try (DataInputStream in = new DataInputStream(new GZIPInputStream(new ByteArrayInputStream(encoded)))) {
            if (in.readInt() != MAGIC) {
                throw new IOException("it is no file of samples");
            }
            int version = in.readUnsignedByte();
            if (version != VERSION) {
                throw new IOException("its format " + version + " is of another release; this one knows " + VERSION);
            }
            long startEpochMs = in.readLong();
            int points = atMost(in.readUnsignedShort(), MigrationSamples.MAX_POINTS, "points");
            List<Long> timesMs = readDifferences(in, points);
            int count = atMost(in.readUnsignedShort(), MAX_CURVES, "curves");
            List<SampleCurve> curves = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                String name = in.readUTF();
                int rank = in.readInt();
                List<Long> bytes = readDifferences(in, points);
                // A newer release may have further values.
                Stream.of(SampledValue.values())
                        .filter(value -> value.name().equals(name))
                        .forEach(value -> curves.add(new SampleCurve(value, rank, bytes)));
            }
            return new MigrationSamples(startEpochMs, timesMs, curves);
        }
    }

    private static int atMost(int count, int most, String what) throws IOException {
        if (count > most) {
            throw new IOException("it has " + count + " " + what + ", but at most " + most + " are possible");
        }
        return count;
    }

    private static List<Long> readDifferences(InputStream in, int points) throws IOException {
        List<Long> values = new ArrayList<>();
        long before = 0;
        for (int i = 0; i < points; i++) {
            long rest = 0;
            int shift = 0;
            int next;
            do {
                next = in.read();
                if (next < 0 || shift > LAST_BITS) {
                    throw new IOException("it ends too soon or is damaged");
                }
                rest |= (long) (next & GROUP) << shift;
                shift += GROUP_BITS;
            } while ((next & MORE) != 0);
            before += rest >>> 1 ^ -(rest & 1);
            values.add(before);
        }
        return values;
    }
}
