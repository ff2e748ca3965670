package io.ppmr.bench.node;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.cli.warmup.WarmUp;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * What a measured process is started with; {@link NodeMain} gets it as its arguments.
 *
 * @param role which part of the data path it is
 * @param warmsUp whether it warms itself as a service does before it is ready
 * @param listen what a target must know: the transport and the address to listen at
 */
public record NodeSetting(String role, Path mountPoint, PoolGeometry geometry, boolean warmsUp, List<String> listen) {
    private static final int LISTEN_AT = 5;

    /** As arguments. */
    public List<String> words() {
        List<String> words = new ArrayList<>(List.of(
                role,
                mountPoint.toString(),
                Long.toString(geometry.poolBytes()),
                Integer.toString(geometry.chunkBytes()),
                Boolean.toString(warmsUp)));
        words.addAll(listen);
        return words;
    }

    /** Warms this process up, if that is wanted. */
    void warmUp() throws IOException, InterruptedException {
        if (warmsUp) {
            Path work = Files.createDirectories(mountPoint.resolveSibling(mountPoint.getFileName() + ".work"));
            try (WarmUp warmUp = new WarmUp(role, work, work.resolve("journal"), geometry, WarmUp.LIMIT)) {
                warmUp.run(WarmUp.MIGRATIONS);
            }
        }
    }

    static NodeSetting of(String[] words) {
        return new NodeSetting(
                words[0],
                Path.of(words[1]),
                PoolGeometry.of(Long.parseLong(words[2]), Integer.parseInt(words[3])),
                Boolean.parseBoolean(words[4]),
                Arrays.asList(words).subList(LISTEN_AT, words.length));
    }
}
