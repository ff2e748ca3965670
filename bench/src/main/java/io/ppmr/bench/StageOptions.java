package io.ppmr.bench;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.protocol.data.RdmaMode;
import io.ppmr.testbed.SizeConverter;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import picocli.CommandLine;
import picocli.CommandLine.Option;

/**
 * The options of every benchmark. The defaults are the paper's settings, section V, except for the chunk, which is as a
 * service has it.
 */
final class StageOptions {
    /** The most that FUSE hands over in one request, and the size of a write of the paper's processes. */
    static final long BLOCK_BYTES = 128 << 10;

    /** A pool of fewer chunks has none for a writer while others are under way. */
    static final int LEAST_CHUNKS = 4;

    private static final long AS_CHOSEN = -1;

    static final String TCP = "tcp";
    static final String RDMA = "rdma";

    @Option(
            names = "--writers",
            paramLabel = "N",
            defaultValue = "8",
            description = "processes that write, or read (default: ${DEFAULT-VALUE})")
    int writers;

    @Option(
            names = "--chunk",
            paramLabel = "SIZE",
            converter = SizeConverter.class,
            description = "size of a chunk (default: what a service chooses for such a pool)")
    long chunkBytes = AS_CHOSEN;

    @Option(
            names = "--pool",
            paramLabel = "SIZE",
            defaultValue = "8m",
            converter = SizeConverter.class,
            description = "size of each side's pool (default: ${DEFAULT-VALUE})")
    long poolBytes;

    @Option(
            names = "--bytes",
            paramLabel = "SIZE",
            defaultValue = "1g",
            converter = SizeConverter.class,
            description = "bytes of each writer (default: ${DEFAULT-VALUE})")
    long bytesAWriter;

    @Option(
            names = "--transport",
            paramLabel = "tcp|rdma",
            defaultValue = TCP,
            description = "how chunks cross the network (default: ${DEFAULT-VALUE})")
    String transport;

    @Option(
            names = "--rdma-mode",
            paramLabel = "read|write",
            defaultValue = "write",
            converter = RdmaModeConverter.class,
            description = "with --transport rdma, who copies: the target reads, or the source writes (default: "
                    + "${DEFAULT-VALUE})")
    RdmaMode rdmaMode;

    @Option(
            names = "--target-address",
            paramLabel = "ADDRESS",
            defaultValue = "",
            description = "with --transport rdma, the RDMA interface at which the target listens; the source is where "
                    + "the route to it begins (default: that of the last device that is up)")
    String targetAddress;

    @Option(
            names = "--connections",
            paramLabel = "N",
            defaultValue = "4",
            description = "data connections (default: ${DEFAULT-VALUE})")
    int connections;

    @Option(
            names = "--runs",
            paramLabel = "N",
            defaultValue = "5",
            description = "measured runs, each beside one of the limit (default: ${DEFAULT-VALUE})")
    int runs;

    @Option(
            names = "--no-warm-up",
            description = "do not let our side warm itself before it is measured: for a trial on a slow machine")
    private boolean cold;

    @Option(names = "--json", paramLabel = "FILE", description = "write the result there, too")
    Path json;

    private Carrier carrier;

    /** The mode as the configuration of a service names it. */
    static final class RdmaModeConverter implements CommandLine.ITypeConverter<RdmaMode> {
        @Override
        public RdmaMode convert(String value) {
            for (RdmaMode mode : RdmaMode.values()) {
                if (mode.name().toLowerCase(Locale.ROOT).equals(value)) {
                    return mode;
                }
            }
            throw new CommandLine.TypeConversionException("there is no mode " + value + "; take read or write");
        }
    }

    /** {@code whyTcpAlone} is the reason why this command cannot be measured over RDMA, or null if it can. */
    void requireSense(String command, String whyTcpAlone) throws IOException {
        if (!transport.equals(TCP) && !transport.equals(RDMA)) {
            throw new IOException("--transport " + transport + ": there is none of this name; take tcp or rdma");
        }
        if (transport.equals(RDMA) && whyTcpAlone != null) {
            throw new IOException("bench " + command + ": --transport rdma cannot be measured, because " + whyTcpAlone
                    + "; leave it out, or measure transfer, pipeline or whole");
        }
        if (transport.equals(TCP) && !targetAddress.isEmpty()) {
            throw new IOException("--target-address " + targetAddress
                    + ": over TCP both sides are at the loopback address; leave it out, or add --transport rdma");
        }
        if (chunkBytes == AS_CHOSEN) {
            chunkBytes = chosenChunkBytes();
        }
        if (writers < 1
                || runs < 1
                || connections < 1
                || chunkBytes < 1
                || bytesAWriter < chunkBytes
                || poolBytes < LEAST_CHUNKS * chunkBytes) {
            throw new IOException(
                    "writers, runs, connections and --chunk must be above 0, --bytes at least a chunk, and --pool"
                            + " at least four chunks");
        }
        if (bytesAWriter % chunkBytes != 0) {
            throw new IOException("--bytes must be a multiple of --chunk");
        }
        carrier = transport.equals(RDMA) ? Carrier.rdma(this) : Carrier.tcp(this);
    }

    private long chosenChunkBytes() throws IOException {
        try {
            return PoolGeometry.choose(poolBytes).chunkBytes();
        } catch (IllegalArgumentException e) {
            throw new IOException("--pool of " + poolBytes + " bytes: " + e.getMessage() + "; give another size", e);
        }
    }

    boolean warmsUp() {
        return !cold;
    }

    /** Returns the network that chunks cross on. */
    Carrier carrier() {
        return carrier;
    }

    long allBytes() {
        return bytesAWriter * writers;
    }

    long allChunks() {
        return allBytes() / chunkBytes;
    }

    /** Returns the settings for the result. */
    Map<String, Object> settings() {
        Map<String, Object> settings = new LinkedHashMap<>();
        settings.put("writers", writers);
        settings.put("chunkBytes", chunkBytes);
        settings.put("poolBytes", poolBytes);
        settings.put("bytesPerWriter", bytesAWriter);
        settings.put("transport", transport);
        settings.putAll(carrier.settings());
        settings.put("runs", runs);
        settings.put("warmedUp", warmsUp());
        return settings;
    }
}
