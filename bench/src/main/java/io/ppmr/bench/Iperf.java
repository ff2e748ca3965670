package io.ppmr.bench;

import java.io.BufferedReader;
import java.io.IOException;
import java.net.ServerSocket;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What iperf3(1) gets through the loopback device: one program for one process of two, and for all its connections. */
final class Iperf {
    private static final String PROGRAM = "iperf3";
    /** With several connections the last line of this kind is the sum. */
    private static final Pattern RECEIVED = Pattern.compile("([0-9.]+) Gbits/sec.*receiver");

    private static final double MIB_A_GBIT = 1e9 / 8 / (1 << 20);

    private static final long LIMIT_S = 30;

    private Iperf() {}

    static boolean present() {
        return Programs.present(PROGRAM);
    }

    /** For a second, over so many connections. */
    static double mibPerSecond(int connections) throws BenchFailure, IOException, InterruptedException {
        String port = Integer.toString(freePort());
        Process server = new ProcessBuilder(PROGRAM, "-s", "-1", "-p", port, "--forceflush")
                .redirectErrorStream(true)
                .start();
        Programs.endAfter(server, LIMIT_S);
        try {
            // It says so when it listens, or ends.
            BufferedReader said = server.inputReader();
            String line = said.readLine();
            while (line != null && !line.contains("listening")) {
                line = said.readLine();
            }
            String report = Programs.call(List.of(
                    PROGRAM,
                    "-c",
                    "127.0.0.1",
                    "-p",
                    port,
                    "-t",
                    "1",
                    "-l",
                    "128K",
                    "-P",
                    Integer.toString(connections)));
            Matcher rate = RECEIVED.matcher(report);
            double last = 0;
            while (rate.find()) {
                last = Double.parseDouble(rate.group(1)) * MIB_A_GBIT;
            }
            if (last == 0) {
                throw new BenchFailure("iperf3 gives no figure: " + report);
            }
            return last;
        } finally {
            server.destroyForcibly();
        }
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }
}
