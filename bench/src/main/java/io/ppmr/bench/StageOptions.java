package io.ppmr.bench;

import io.ppmr.cli.config.BadValueException;
import io.ppmr.cli.config.CommonKeys;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Option;
import picocli.CommandLine.TypeConversionException;

/** What every benchmark can be told. The defaults are the paper's settings, section V. */
final class StageOptions {
    /** What FUSE hands over in one request at most, and what the paper's processes write at a time. */
    static final long BLOCK_BYTES = 128 << 10;

    @Option(
            names = "--writers",
            paramLabel = "N",
            defaultValue = "8",
            description = "processes that write, or read (default: ${DEFAULT-VALUE})")
    int writers;

    @Option(
            names = "--chunk",
            paramLabel = "SIZE",
            defaultValue = "128k",
            converter = Size.class,
            description = "size of a chunk (default: ${DEFAULT-VALUE})")
    long chunkBytes;

    @Option(
            names = "--pool",
            paramLabel = "SIZE",
            defaultValue = "8m",
            converter = Size.class,
            description = "size of each side's pool (default: ${DEFAULT-VALUE})")
    long poolBytes;

    @Option(
            names = "--bytes",
            paramLabel = "SIZE",
            defaultValue = "1g",
            converter = Size.class,
            description = "bytes of each writer (default: ${DEFAULT-VALUE})")
    long bytesAWriter;

    @Option(
            names = "--transport",
            paramLabel = "tcp",
            defaultValue = "tcp",
            description = "how chunks cross the network (default: ${DEFAULT-VALUE})")
    String transport;

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

    @Option(names = "--json", paramLabel = "FILE", description = "write the result there, too")
    Path json;

    /** Sizes as in the configuration. */
    static final class Size implements ITypeConverter<Long> {
        @Override
        public Long convert(String text) {
            try {
                return CommonKeys.POOL_SIZE.type().parse(text, null);
            } catch (BadValueException e) {
                throw new TypeConversionException(e.getMessage());
            }
        }
    }

    void requireSense() throws BenchFailure {
        if (!transport.equals("tcp")) {
            throw new BenchFailure("transport '" + transport + "': this build measures tcp only");
        }
        if (writers < 1 || runs < 1 || connections < 1 || bytesAWriter < chunkBytes || poolBytes < 4 * chunkBytes) {
            throw new BenchFailure("writers, runs and connections must be above 0, --bytes at least a chunk, and --pool"
                    + " at least four chunks");
        }
        if (bytesAWriter % chunkBytes != 0) {
            throw new BenchFailure("--bytes must be a multiple of --chunk");
        }
    }

    long allBytes() {
        return bytesAWriter * writers;
    }

    long allChunks() {
        return allBytes() / chunkBytes;
    }

    /** For the result. */
    Map<String, Object> settings() {
        Map<String, Object> settings = new LinkedHashMap<>();
        settings.put("writers", writers);
        settings.put("chunkBytes", chunkBytes);
        settings.put("poolBytes", poolBytes);
        settings.put("bytesPerWriter", bytesAWriter);
        settings.put("transport", transport);
        settings.put("connections", connections);
        settings.put("runs", runs);
        return settings;
    }
}
