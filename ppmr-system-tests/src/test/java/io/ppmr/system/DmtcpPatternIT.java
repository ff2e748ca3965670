package io.ppmr.system;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * DMTCP's calls, one by one. Several processes write into one directory under temporary names, which they change after
 * a barrier over all. The restart reads the heads of all images before the rest of any.
 */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class DmtcpPatternIT {
    private static final int PROCESSES = 4;
    private static final int HEADER = 4096;
    private static final int AREA_HEADER = 4176;
    private static final int[] AREAS = {24_576, 0, 8 << 20, 135_168, 0, 12 << 20, 4096};

    @TempDir
    private Path directory;

    private static List<String> areas(String call) {
        List<String> calls = new ArrayList<>();
        for (int bytes : AREAS) {
            calls.add(call + " " + AREA_HEADER);
            if (bytes > 0) {
                calls.add(call + " " + bytes + " " + bytes);
            }
        }
        return calls;
    }

    private static String image(int process) {
        return "ckpt_a.out_" + process + ".dmtcp";
    }

    /** One process writes its image, closes it, waits for the others and renames it to its final name. */
    private Path writer(ReplayJob job, int process) throws Exception {
        List<String> calls = new ArrayList<>(List.of(
                "seed " + process,
                "open " + image(process) + ".temp wct",
                "write " + HEADER + " " + HEADER,
                "write " + HEADER + " " + HEADER));
        calls.addAll(areas("write"));
        calls.addAll(List.of("close", "touch " + job.outside("written-" + process)));
        for (int other = 0; other < PROCESSES; other++) {
            calls.add("await " + job.outside("written-" + other));
        }
        calls.add("rename " + image(process) + ".temp " + image(process));
        return job.script("writer-" + process, calls);
    }

    private Path reader(ReplayJob job, int process) throws Exception {
        List<String> calls =
                new ArrayList<>(List.of("seed " + process, "use " + process, "read " + HEADER + " " + HEADER));
        calls.addAll(areas("read"));
        calls.add("eof");
        return job.script("reader-" + process, calls);
    }

    @ParameterizedTest(name = "staging of {0} bytes")
    @ValueSource(longs = {0, 1L << 30})
    void shouldMoveTheJobWhenAllHeadsAreReadBeforeAnyBody(long stagingBytes) throws Exception {
        try (ReplayJob job = new ReplayJob(directory).temporary(".dmtcp.temp", ".dmtcp")) {
            List<String> checkpoint = new ArrayList<>();
            List<String> restart = new ArrayList<>();
            String[] names = new String[PROCESSES];
            for (int process = 0; process < PROCESSES; process++) {
                names[process] = image(process);
                checkpoint.add("also " + writer(job, process));
                // Before that, the first byte of compressed images is read.
                restart.addAll(List.of(
                        "seed " + process,
                        "exists " + image(process),
                        "open " + image(process) + " r",
                        "read 1",
                        "seek 0",
                        "read " + HEADER + " " + HEADER,
                        "seek 0",
                        "read " + HEADER + " " + HEADER));
            }
            checkpoint.addAll(List.of(
                    "join",
                    "seed 99",
                    "open dmtcp_restart_script_x.sh wct",
                    "write 3000",
                    "close",
                    "chmod 0755 dmtcp_restart_script_x.sh",
                    "symlink dmtcp_restart_script_x.sh dmtcp_restart_script.sh",
                    "touch " + job.outside("script")));
            for (int process = 0; process < PROCESSES; process++) {
                restart.add("also " + reader(job, process));
            }
            restart.addAll(List.of(
                    "join",
                    "await " + job.outside("script"),
                    "open dmtcp_restart_script_x.sh r",
                    "seed 99",
                    "read 3000",
                    "close",
                    "open dmtcp_restart_script.sh r",
                    "read 3000",
                    "eof"));
            try (ServicePair pair = new ServicePair(
                    directory,
                    ServicePair.Options.with(job.announces(names)
                                    .rank(checkpoint, restart)
                                    .checkpointer())
                            .pool(32, 128 << 10)
                            .staging(stagingBytes)
                            .stall(Duration.ofSeconds(8)))) {
                job.commits(pair);
            }
        }
    }
}
