package io.ppmr.bench;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/** The limits that need no filesystem. */
final class Limits {
    private final StageOptions options;

    Limits(StageOptions options) {
        this.options = options;
    }

    /** B: pool to pool over as many connections; {@code crc} at both ends. */
    Span net(boolean crc) throws BenchFailure, IOException, InterruptedException {
        List<String> words = words("net", options.connections);
        if (crc) {
            words.add("--crc");
        }
        return Programs.run("bench-limits", words);
    }

    Span copy(int threads) throws BenchFailure, IOException, InterruptedException {
        return Programs.run("bench-limits", words("copy", threads));
    }

    Span disk(String file) throws BenchFailure, IOException, InterruptedException {
        List<String> words = words("disk", 1);
        words.add("--path");
        words.add(file);
        return Programs.run("bench-limits", words);
    }

    private List<String> words(String what, int threads) {
        return new ArrayList<>(List.of(
                what,
                "--threads",
                Integer.toString(threads),
                "--bytes",
                Long.toString(options.allBytes()),
                "--pool",
                Long.toString(options.poolBytes),
                "--chunk",
                Long.toString(options.chunkBytes)));
    }
}
