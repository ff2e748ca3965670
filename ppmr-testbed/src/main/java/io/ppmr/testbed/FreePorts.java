package io.ppmr.testbed;

import java.io.IOException;
import java.net.ServerSocket;

/** Finds TCP ports of this machine that no process listens on. */
public final class FreePorts {
    private FreePorts() {}

    /** Returns a port. Another process could take it before the caller does. */
    public static int one() throws IOException {
        try (ServerSocket free = new ServerSocket(0)) {
            return free.getLocalPort();
        }
    }
}
