package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** What ppmr-notify does where nobody listens; that systemd hears it is shown in a guest. */
@Timeout(value = 30, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class NotifyProgramIT {
    private static final NativePrograms PROGRAMS = NativePrograms.fromSystemProperty();

    @TempDir
    private Path directory;

    private static String run(String socket, String... command) throws Exception {
        ProcessBuilder builder = new ProcessBuilder(PROGRAMS.notifier().toString()).redirectErrorStream(true);
        builder.command().addAll(List.of(command));
        builder.environment().remove("NOTIFY_SOCKET");
        if (socket != null) {
            builder.environment().put("NOTIFY_SOCKET", socket);
        }
        Process process = builder.redirectInput(ToolProcess.NULL).start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        return process.waitFor() + " " + said.strip();
    }

    @Test
    void shouldBecomeTheCommandWhenNobodyListens() throws Exception {
        assertEquals("7 none", run(null, "sh", "-c", "echo ${PPMR_NOTIFY:-none}; exit 7"));
    }

    @Test
    void shouldSayWhatIsWrongWhenTheSocketIsNotThere() throws Exception {
        String said = run(directory.resolve("none").toString(), "true");
        assertTrue(said.startsWith("125 ppmr-notify: " + directory + "/none: No such file"), said);
        said = run("@" + "x".repeat(200), "true");
        assertTrue(said.startsWith("125 ppmr-notify: @xxx"), said);
    }

    @Test
    void shouldSayWhatIsWrongWhenTheCommandIsNotThere() throws Exception {
        String missing = directory.resolve("none").toString();
        assertEquals("125 ppmr-notify: " + missing + ": No such file or directory", run(null, missing));
        assertTrue(run(null).startsWith("125 usage: ppmr-notify"), run(null));
    }
}
