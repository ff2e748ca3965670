package io.ppmr.bench;

import io.ppmr.os.Command;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * B of RDMA: ib_read_bw(1) between the two devices that the benchmark uses, reading as many messages of a chunk's size,
 * but {@link #LEAST_MESSAGES} at least. Its server is at the source, whose memory is read, its client at the target.
 */
final class IbReadBw {
    static final String PROGRAM = "ib_read_bw";
    /** Reads under way at once: what every device of the last fifteen years can have. */
    static final int UNDER_WAY = 16;

    /** Of fewer its figure is one of chance. */
    private static final long LEAST_MESSAGES = 128;

    private static final int MOST_TRIES = 10;

    private static final Duration LIMIT = Duration.ofMinutes(10);
    private static final long LISTEN_LIMIT_NS = TimeUnit.SECONDS.toNanos(30);
    private static final long PAUSE_NS = TimeUnit.MILLISECONDS.toNanos(100);
    private static final Duration SERVER_LIMIT = Duration.ofMillis(100);
    /** Columns of its report: bytes, iterations, peak and average in MiB/s, messages a second. */
    private static final int AVERAGE_COLUMN = 3;

    private final Carrier.End source;
    private final Carrier.End target;

    IbReadBw(Carrier.End source, Carrier.End target) {
        this.source = source;
        this.target = target;
    }

    double mibPerSecond(long messageBytes, long messages) throws IOException, InterruptedException {
        double average = 0;
        for (int tried = 0; average == 0; tried++) {
            if (tried == MOST_TRIES) {
                throw new IOException(PROGRAM + " gave no speed " + MOST_TRIES + " times: it could not measure the "
                        + "processor's clock; let the machine come to rest");
            }
            average = once(messageBytes, messages);
        }
        return average;
    }

    private double once(long messageBytes, long messages) throws IOException, InterruptedException {
        int port = Programs.freePort(source.address());
        Command.Running server =
                Command.of(words(source.device(), messageBytes, messages, port)).start();
        try {
            List<String> client = words(target.device(), messageBytes, messages, port);
            client.add(source.host());
            return average(read(client, server), messageBytes);
        } finally {
            server.kill();
        }
    }

    /** Runs the client until its server listens. */
    private static String read(List<String> client, Command.Running server) throws IOException, InterruptedException {
        long deadlineNs = System.nanoTime() + LISTEN_LIMIT_NS;
        while (true) {
            Command.Result read = Command.of(client).run(LIMIT);
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
                        + "\n(does it run by itself between these two devices?)");
            }
            LockSupport.parkNanos(PAUSE_NS);
        }
    }

    /** The figure out of a report; 0 where the machine was too busy to measure its clock. */
    static double average(String report, long messageBytes) throws IOException {
        for (String line : report.lines().toList()) {
            String[] columns = line.strip().split("\\s+", -1);
            if (columns.length > AVERAGE_COLUMN && columns[0].equals(Long.toString(messageBytes))) {
                return Double.parseDouble(columns[AVERAGE_COLUMN]);
            }
        }
        throw new IOException(PROGRAM + " gives no figure: " + report.strip());
    }

    private static List<String> words(String device, long messageBytes, long messages, int port) {
        // It connects as ours does (-R), without a word about the processor's frequency (-F).
        return Programs.words(
                PROGRAM + " -d %s -s %s -n %s -t %s -o %s -p %s -R -F",
                device,
                messageBytes,
                Math.max(messages, LEAST_MESSAGES),
                UNDER_WAY,
                UNDER_WAY,
                port);
    }
}
