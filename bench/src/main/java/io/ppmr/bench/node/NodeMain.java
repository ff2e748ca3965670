package io.ppmr.bench.node;

import com.sun.management.ThreadMXBean;
import io.ppmr.logging.ServiceLog;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * The program of a measured process, started with the words of a {@link NodeSetting}. Each line of its standard input
 * is a command, answered by one line: {@code begin ...}, {@code end}, {@code allocated}, or one of the role's own; the
 * end of the input ends the process.
 */
public final class NodeMain {
    private static final String OK = "ok ";

    private NodeMain() {}

    public static void main(String[] arguments) throws Exception {
        ServiceLog.begin(System.getenv(), "ppmr-bench");
        try (BenchNode node = make(NodeSetting.of(arguments))) {
            System.out.println(OK + "ready");
            serve(node);
        }
        // Daemon threads of FUSE and of sessions may still be on their way out; nothing of theirs matters any more.
        System.exit(0);
    }

    private static BenchNode make(NodeSetting setting) throws Exception {
        return switch (setting.role()) {
            case "aggregation" -> new AggregationNode(setting);
            case "null" -> new NullNode(setting.mountPoint());
            case "source" -> new SourceNode(setting);
            case "offer" -> new OfferNode(setting.geometry());
            case "target" -> new TargetNode(setting);
            case "restart" -> new RestartNode(setting);
            default -> throw new IllegalArgumentException("no role " + setting.role());
        };
    }

    private static void serve(BenchNode node) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = System.out;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                out.println(OK + answer(node, List.of(line.split(" ", -1))));
            } catch (Exception e) {
                if (e instanceof InterruptedException) {
                    Thread.currentThread().interrupt();
                }
                out.println("failed " + e);
            }
        }
    }

    private static String answer(BenchNode node, List<String> words) throws Exception {
        return switch (words.get(0)) {
            case "begin" -> node.begin(words.subList(1, words.size()));
            case "allocated" -> Long.toString(allocatedBytes());
            case "end" -> {
                node.end();
                yield "";
            }
            default -> node.command(words);
        };
    }

    /** What all threads but this one have allocated so far. A thread that has ended is not counted any more. */
    private static long allocatedBytes() {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        long self = Thread.currentThread().getId();
        long sum = 0;
        long[] ids = threads.getAllThreadIds();
        long[] bytes = threads.getThreadAllocatedBytes(ids);
        for (int i = 0; i < ids.length; i++) {
            sum += ids[i] == self ? 0 : Math.max(0, bytes[i]);
        }
        return sum;
    }
}
