package io.ppmr.checkpoint;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A process that executes another program between two rounds, as a script does. Its memory is another one then. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class RoundExecIT {
    private static final int MIB = 48;
    private static final int PAGES_A_MIB = 256;
    private static final Pattern SENT = Pattern.compile("round \\d+ sent (\\d+) .* untracked 0.*");

    @TempDir
    private Path folder;

    private Process job;

    @AfterEach
    void end() {
        RoundTool.kill(job);
    }

    @Test
    void shouldSendTheMemoryOfTheNewProgramInTheNextRound() throws Exception {
        Path go = folder.resolve("go");
        Path ready = folder.resolve("ready");
        job = new ProcessBuilder(
                        "setsid",
                        "sh",
                        "-c",
                        "while [ ! -e " + go + " ]; do sleep 0.1; done; exec perl -e '"
                                + "my $memory = pack(\"N*\", 1 .. 1024) x " + MIB * PAGES_A_MIB + ";"
                                + " open my $file, \">\", \"" + ready + "\"; close $file; sleep 600'")
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .start();
        try (RoundTool tool =
                new RoundTool(Files.createDirectory(folder.resolve("round")), job, List.of(), List.of("/bin/false"))) {
            // A process that is younger than two seconds is only registered.
            RoundTool.until("the script is tracked", () -> sentPages(tool.round()) > 0);
            Files.createFile(go);
            RoundTool.until("the new program has its memory", () -> Files.exists(ready));
            RoundTool.until(
                    "a round sends the new program's memory", () -> sentPages(tool.round()) >= MIB * PAGES_A_MIB);
        }
    }

    private static long sentPages(String line) {
        Matcher sent = SENT.matcher(line);
        return sent.matches() ? Long.parseLong(sent.group(1)) : 0;
    }
}
