package io.ppmr.cli;

import io.ppmr.daemon.service.ProcessSignals;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/** The terminal that a standard stream leads to. */
final class Terminal {
    static final int OUT = 1;
    static final int ERR = 2;
    static final int USUAL_WIDTH = 80;

    private static final int LEAST_WIDTH = 20;
    private static final long STTY_LIMIT_MS = 500;

    private final AtomicBoolean resized = new AtomicBoolean(true);
    private int width = USUAL_WIDTH;

    /** The terminal of standard error. */
    Terminal() {
        ProcessSignals.on("WINCH", () -> resized.set(true));
    }

    /**
     * Returns true if a descriptor of this process leads to a terminal. From JDK 22 on, {@code System.console()} does
     * not show that, so this reads the descriptor's link. See proc_pid_fd(5).
     */
    static boolean isTerminal(int descriptor) {
        try {
            String leadsTo = Files.readSymbolicLink(Path.of("/proc/self/fd/" + descriptor))
                    .toString();
            return leadsTo.startsWith("/dev/pts/") || leadsTo.startsWith("/dev/tty") || leadsTo.equals("/dev/console");
        } catch (IOException e) {
            return false;
        }
    }

    /** Returns true if the terminal can neither redraw a line nor show colors. */
    static boolean isDumb(Map<String, String> environment) {
        return "dumb".equals(environment.get("TERM"));
    }

    /** Returns the columns of the terminal now. */
    int width() {
        if (resized.getAndSet(false)) {
            width = measured();
        }
        return width;
    }

    /** Runs stty(1), which prints rows and columns. */
    private static int measured() {
        try {
            Process stty = new ProcessBuilder("stty", "size")
                    .redirectInput(new File("/proc/self/fd/" + ERR))
                    .redirectError(ProcessBuilder.Redirect.DISCARD)
                    .start();
            if (stty.waitFor(STTY_LIMIT_MS, TimeUnit.MILLISECONDS)) {
                String[] size = new String(stty.getInputStream().readAllBytes(), StandardCharsets.US_ASCII)
                        .strip()
                        .split(" ", -1);
                int columns = size.length == 2 && size[1].matches("[0-9]{1,4}") ? Integer.parseInt(size[1]) : 0;
                return columns >= LEAST_WIDTH ? columns : USUAL_WIDTH;
            }
            stty.destroyForcibly();
        } catch (IOException e) {
            // Without stty the usual width is used.
            return USUAL_WIDTH;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return USUAL_WIDTH;
    }
}
