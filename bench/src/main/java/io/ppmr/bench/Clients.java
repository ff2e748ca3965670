package io.ppmr.bench;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Processes that write or read one file each. */
final class Clients {
    private Clients() {}

    static Process start(StageOptions options, String what, long bytesEach, String template, String... more)
            throws BenchFailure, IOException {
        List<String> words = new ArrayList<>(List.of(
                what,
                "--processes",
                Integer.toString(options.writers),
                "--bytes",
                Long.toString(bytesEach),
                "--block",
                Long.toString(StageOptions.BLOCK_BYTES),
                "--path",
                template));
        words.addAll(Arrays.asList(more));
        return Programs.start("bench-io", words);
    }

    static Span run(StageOptions options, String what, long bytesEach, String template, String... more)
            throws BenchFailure, IOException, InterruptedException {
        Process clients = start(options, what, bytesEach, template, more);
        try {
            return Programs.await(clients);
        } finally {
            clients.destroyForcibly();
        }
    }
}
