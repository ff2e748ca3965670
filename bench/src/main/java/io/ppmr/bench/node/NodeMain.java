package io.ppmr.bench.node;

import com.sun.management.ThreadMXBean;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.daemon.log.ServiceLog;
import io.ppmr.daemon.warmup.WarmUp;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The program of a measured process, started with the words of a {@link Setting}. Each line of its standard input is a
 * command, answered by one line. Commands are {@code begin ...}, {@code end}, {@code allocated}, and those of the role.
 * The end of the input ends the process.
 */
public final class NodeMain {
    private static final String OK = "ok ";

    private NodeMain() {}

    /**
     * The arguments of a measured process.
     *
     * @param role which part of the data path it is
     * @param warmsUp whether it warms itself as a service does before it is ready
     * @param listen arguments of a target: the transport and the address to listen at
     */
    public record Setting(String role, Path mountPoint, PoolGeometry geometry, boolean warmsUp, List<String> listen) {
        private static final int LISTEN_AT = 5;

        /** Returns the settings as arguments. */
        public List<String> words() {
            List<String> words = new ArrayList<>(List.of(role, mountPoint.toString()));
            words.addAll(List.of("" + geometry.poolBytes(), "" + geometry.chunkBytes(), "" + warmsUp));
            words.addAll(listen);
            return words;
        }

        /** Warms this process up, if that is wanted. */
        void warmUp() throws IOException, InterruptedException {
            if (warmsUp) {
                Path work = Files.createDirectories(mountPoint.resolveSibling(mountPoint.getFileName() + ".work"));
                try (WarmUp warmUp = new WarmUp(role, work, work.resolve("journal"), geometry, WarmUp.LIMIT)) {
                    warmUp.run(WarmUp.MIGRATIONS);
                }
            }
        }

        private static Setting of(String[] words) {
            return new Setting(
                    words[0],
                    Path.of(words[1]),
                    PoolGeometry.of(Long.parseLong(words[2]), Integer.parseInt(words[3])),
                    Boolean.parseBoolean(words[4]),
                    Arrays.asList(words).subList(LISTEN_AT, words.length));
        }
    }

    public static void main(String[] arguments) throws Exception {
        ServiceLog.begin(System.getenv(), "ppmr-bench");
        try (BenchNode node = make(Setting.of(arguments))) {
            System.out.println(OK + "ready");
            serve(node);
        }
        // Daemon threads of FUSE and of sessions may still be ending. They no longer matter.
        System.exit(0);
    }

    private static BenchNode make(Setting setting) throws Exception {
        return switch (setting.role()) {
            case "null" -> new NullNode(setting.mountPoint());
            case "source", "aggregation" -> new SourceNode(setting);
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

    /** Returns the bytes that all other threads have allocated so far. Ended threads are not counted. */
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

    /**
     * One side, or one stage, of the data path in a process of its own. {@link NodeMain} sends it commands, and its
     * thread runs them.
     */
    interface BenchNode extends AutoCloseable {

        /**
         * Prepares a run.
         *
         * @param words the command's words after "begin"
         * @return the data for the caller: a directory below the mount point, a port
         */
        String begin(List<String> words) throws Exception;

        /** Runs another command for the run under way. */
        default String command(List<String> words) throws Exception {
            throw new IllegalArgumentException("this node cannot do " + words);
        }

        /** Ends the run and frees what it used. */
        void end() throws Exception;

        @Override
        void close() throws IOException;
    }
}
