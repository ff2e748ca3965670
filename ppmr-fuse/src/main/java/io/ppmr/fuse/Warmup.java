package io.ppmr.fuse;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Drives I/O through a mount from child processes until the JVM has compiled the way from libfuse's upcall through the
 * service's own view: cold, that way runs at a quarter of its speed, and a migration is over before it is warm.
 *
 * <p>The service serves a directory for it: client {@code i} writes {@code warmup-i} there (made or cut by the client),
 * or in round {@code r} reads {@code warmup-r-i} up to the bytes it wants or the end of the file: a name of its own for
 * each round, since a stream is read once. Round 0 is the one of small requests. {@code dd} of coreutils does both.
 * Owned by the calling thread, which it blocks; holds nothing afterwards.
 */
public final class Warmup {
    private static final double MIB = 1024.0 * 1024.0;
    private static final double NS_PER_S = 1e9;
    /** A round that gains less than this over the best before it counts as steady. */
    private static final double STEADY_GAIN = 1.10;

    private static final Pattern COPIED = Pattern.compile("(?m)^(\\d+) bytes?.* copied,");

    private final Path directory;
    private final WarmupPlan plan;
    private final long startNs = System.nanoTime();
    private final long deadlineNs;
    private int largeRounds;
    private long bytes;
    private double firstMiBPerS;
    private double lastMiBPerS;

    private Warmup(Path directory, WarmupPlan plan) {
        this.directory = directory;
        this.plan = plan;
        this.deadlineNs = startNs + plan.timeoutNs();
    }

    /**
     * Warms the mount that {@code directory} lies in.
     *
     * @throws IOException where {@code dd} cannot be started; clients that fail are told in the report instead
     */
    public static WarmupReport run(Path directory, WarmupPlan plan) throws IOException, InterruptedException {
        return new Warmup(directory, plan).run();
    }

    private WarmupReport run() throws IOException, InterruptedException {
        int smallEach = (plan.smallRequests() + plan.clients() - 1) / plan.clients();
        String trouble = smallEach == 0 ? "" : round(WarmupPlan.SMALL_BYTES, smallEach);
        long largeEach = Math.max(1, plan.largeBytes() / WarmupPlan.LARGE_BYTES / plan.clients());
        double best = 0;
        for (int rounds = 0; rounds < plan.roundsMax() && trouble.isEmpty(); rounds++) {
            long bytesBefore = bytes;
            long beforeNs = System.nanoTime();
            trouble = round(WarmupPlan.LARGE_BYTES, largeEach);
            lastMiBPerS = (bytes - bytesBefore) / MIB / ((System.nanoTime() - beforeNs) / NS_PER_S);
            if (rounds == 0) {
                firstMiBPerS = lastMiBPerS;
            }
            if (rounds > 0 && lastMiBPerS < best * STEADY_GAIN) {
                break;
            }
            best = Math.max(best, lastMiBPerS);
        }
        return new WarmupReport(
                bytes, System.nanoTime() - startNs, firstMiBPerS, lastMiBPerS, trouble.isEmpty(), trouble);
    }

    /** Runs all clients once; answers what went wrong, or nothing. */
    private String round(int requestBytes, long requestsEach) throws IOException, InterruptedException {
        int number = requestBytes == WarmupPlan.SMALL_BYTES ? 0 : ++largeRounds;
        List<List<String>> commands = new ArrayList<>();
        List<Process> clients = new ArrayList<>();
        StringBuilder trouble = new StringBuilder();
        try {
            for (int client = 0; client < plan.clients(); client++) {
                List<String> command = command(number, client, requestBytes, requestsEach);
                commands.add(command);
                clients.add(ChildProcess.start(command));
            }
            for (int client = 0; client < clients.size(); client++) {
                ChildProcess.Result result = ChildProcess.await(commands.get(client), clients.get(client), deadlineNs);
                Matcher copied = COPIED.matcher(result.output());
                if (copied.find()) {
                    bytes += Long.parseLong(copied.group(1));
                }
                if (!result.succeeded() && trouble.isEmpty()) {
                    trouble.append(result.describe());
                }
            }
        } finally {
            clients.forEach(Process::destroyForcibly);
        }
        return trouble.toString();
    }

    /** The name that a client reads in a round. */
    public static String readName(int round, int client) {
        return "warmup-" + round + "-" + client;
    }

    private List<String> command(int round, int client, int requestBytes, long requests) {
        boolean writes = plan.direction() == WarmupPlan.Direction.WRITE;
        String file = directory
                .resolve(writes ? "warmup-" + client : readName(round, client))
                .toString();
        return List.of(
                "dd",
                "if=" + (writes ? "/dev/zero" : file),
                "of=" + (writes ? file : "/dev/null"),
                "bs=" + requestBytes,
                "count=" + requests);
    }
}
