package io.ppmr.bench;

import io.ppmr.linux.Command;
import io.ppmr.protocol.data.RdmaMode;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Figure B of RDMA: ib_read_bw(1) or ib_write_bw(1) between the two devices of the benchmark. It sends the benchmark's
 * number of messages of a chunk's size, and at least {@link #LEAST_MESSAGES}. Its client copies. It is at the target if
 * the target reads, and at the source if the source writes.
 */
final class IbBandwidth {
    /** Messages under way at once. Every device of the last fifteen years supports this number. */
    static final int UNDER_WAY = 16;

    /** With fewer messages the figure is random. */
    private static final long LEAST_MESSAGES = 128;

    private static final int MOST_TRIES = 10;

    private static final Duration LIMIT = Duration.ofMinutes(10);
    private static final long LISTEN_LIMIT_NS = TimeUnit.SECONDS.toNanos(30);
    private static final long PAUSE_NS = TimeUnit.MILLISECONDS.toNanos(100);
    private static final Duration SERVER_LIMIT = Duration.ofMillis(100);
    /** Columns of its report: bytes, iterations, peak and average in MiB/s, messages a second. */
    private static final int AVERAGE_COLUMN = 3;

    private final RdmaMode mode;
    private final Carrier.CarrierEnd client;
    private final Carrier.CarrierEnd server;

    IbBandwidth(RdmaMode mode, Carrier.CarrierEnd source, Carrier.CarrierEnd target) {
        this.mode = mode;
        client = mode == RdmaMode.READ ? target : source;
        server = mode == RdmaMode.READ ? source : target;
    }

    /** The program's name. */
    static String program(RdmaMode mode) {
        return mode == RdmaMode.READ ? "ib_read_bw" : "ib_write_bw";
    }

    double mibPerSecond(long messageBytes, long messages) throws IOException, InterruptedException {
        double average = 0;
        for (int tried = 0; average == 0; tried++) {
            if (tried == MOST_TRIES) {
                throw new IOException(program(mode) + " gave no speed " + MOST_TRIES
                        + " times: it could not measure the " + "processor's clock; let the machine come to rest");
            }
            average = once(messageBytes, messages);
        }
        return average;
    }

    private double once(long messageBytes, long messages) throws IOException, InterruptedException {
        int port = Programs.freePort(server.address());
        Command.RunningCommand serving =
                Command.of(words(server.device(), messageBytes, messages, port)).start();
        try {
            List<String> copying = words(client.device(), messageBytes, messages, port);
            copying.add(server.host());
            return average(report(copying, serving), messageBytes);
        } finally {
            serving.kill();
        }
    }

    /** Runs the client until its server listens. */
    private static String report(List<String> client, Command.RunningCommand server)
            throws IOException, InterruptedException {
        long deadlineNs = System.nanoTime() + LISTEN_LIMIT_NS;
        while (true) {
            Command.CommandResult read = Command.of(client).run(LIMIT);
            if (read.succeeded()) {
                return read.output();
            }
            if (read.timedOut()) {
                throw new IOException(String.join(" ", client) + " has not ended within " + LIMIT.toSeconds()
                        + " s: give fewer --bytes, or look whether the link is up");
            }
            if (!server.isAlive() || System.nanoTime() - deadlineNs > 0) {
                throw new IOException(String.join(" ", client) + " fails: " + read.output() + "\nits server: "
                        + server.await(SERVER_LIMIT).output()
                        + "\n(does it run alone between these two devices?)");
            }
            LockSupport.parkNanos(PAUSE_NS);
        }
    }

    /** Returns the figure in a report, or 0 if the machine was too busy to measure its clock. */
    static double average(String report, long messageBytes) throws IOException {
        for (String line : report.lines().toList()) {
            String[] columns = line.strip().split("\\s+", -1);
            if (columns.length > AVERAGE_COLUMN && columns[0].equals(Long.toString(messageBytes))) {
                return Double.parseDouble(columns[AVERAGE_COLUMN]);
            }
        }
        throw new IOException("perftest gives no figure: " + report.strip());
    }

    private List<String> words(String device, long messageBytes, long messages, int port) {
        // It connects as ours does (-R), without a word about the processor's frequency (-F).
        return Command.words(
                program(mode) + (mode == RdmaMode.READ ? " -o " + UNDER_WAY : "")
                        + " -d %s -s %s -n %s -t %s -p %s -R -F",
                device,
                messageBytes,
                Math.max(messages, LEAST_MESSAGES),
                UNDER_WAY,
                port);
    }
}
