package io.ppmr.system.guest;

import io.ppmr.protocol.data.RdmaMode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

/** The guest's pair of links: v0 with 10.77.0.1 is the source's, v1 with 10.77.0.2 the target's. */
final class GuestLink {
    private GuestLink() {}

    /** Sets the source's link down. {@link #up} restores it. */
    static void down() throws Exception {
        run("ip", "link", "set", "v0", "down");
    }

    /**
     * Sets the link down at the end that does not copy. Soft-RoCE's connection manager does not recover from sending by
     * a link that is down on its own side. The end that copies sends.
     */
    static void downFor(RdmaMode mode) throws Exception {
        run("ip", "link", "set", mode == RdmaMode.READ ? "v0" : "v1", "down");
    }

    /** Up again, with the routes that the kernel drops with a link. */
    static void up() throws Exception {
        run("ip", "link", "set", "v0", "up");
        run("ip", "link", "set", "v1", "up");
        run("ip", "route", "replace", "table", "77", "10.77.0.2", "dev", "v0", "src", "10.77.0.1");
        run("ip", "route", "replace", "table", "77", "10.77.0.1", "dev", "v1", "src", "10.77.0.2");
    }

    static String run(String... words) throws Exception {
        Process process = new ProcessBuilder(words).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        if (!process.waitFor(60, TimeUnit.SECONDS) || process.exitValue() != 0) {
            process.destroyForcibly();
            throw new IOException(String.join(" ", words) + ": " + said);
        }
        return said;
    }
}
