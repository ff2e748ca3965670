package io.ppmr.testbed;

import io.ppmr.daemon.config.CheckpointerConfig;
import io.ppmr.daemon.config.KeyFile;
import io.ppmr.daemon.service.JavaCommand;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;

/**
 * Two isolated nodes on this machine, connected by a link that can be shaped. They have a source and a target as an
 * operator would start them. All of it belongs to a {@link Testbed}, whose folder both nodes see.
 */
public final class TwoNodes {
    public static final String ADDRESS_A = "169.254.77.1";
    public static final String ADDRESS_B = "169.254.77.2";

    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    public static final int PORT = 7411;

    private final Testbed testbed;
    private final Path bin;
    private final JavaCommand java;
    private final TestNode a;
    private final TestNode b;
    private ServiceProcess source;
    private ServiceProcess target;
    private Callable<ServiceProcess> sourceAgain;
    private Callable<ServiceProcess> targetAgain;

    /** Makes the nodes. {@code link} is a rate in the form of tc(8), or empty for none. */
    public TwoNodes(Testbed testbed, String link) throws Exception {
        this.testbed = testbed;
        bin = testbed.programs();
        java = JavaCommand.from(System.getenv(), bin);
        KeyFile.create(testbed.folder().resolve("key"));
        a = testbed.add(TestNode.create("node-a"));
        b = testbed.add(TestNode.create("node-b"));
        TestNode.connect(a, ADDRESS_A, b, ADDRESS_B);
        if (!link.isEmpty()) {
            a.shape("node0", link);
            b.shape("node0", link);
        }
    }

    /**
     * From now on, the nodes have only the kernel features of Linux 3.10 (old-kernel.c). It is for x86-64 only. The
     * second node's kernel lacks CONFIG_CHECKPOINT_RESTORE, as some do, so {@code map_files} is missing there.
     */
    public void useOldKernel() {
        String launcher = bin.resolve("old-kernel").toString();
        a.startBy(List.of(launcher));
        b.startBy(List.of(launcher, "--without", "map_files"));
    }

    /** Returns the node of the source, where the job's processes start. */
    public TestNode a() {
        return a;
    }

    /** Returns the node of the target, which they are moved to. */
    public TestNode b() {
        return b;
    }

    /** The helpers and the jobs' programs. */
    public Path bin() {
        return bin;
    }

    /** Returns the command that starts ppmr in them. */
    public JavaCommand java() {
        return java;
    }

    /**
     * Starts a source and a target, in place of those before, and waits until both are ready.
     *
     * @param name a new one, for the folder of what they keep
     * @param toSource lines of the source's configuration, in its table {@code target} to begin with
     * @param toTarget lines of the target's configuration
     * @param toBoth tables of both
     */
    public void startServices(String name, String toSource, String toTarget, String toBoth) throws Exception {
        Path folder = testbed.folder(name);
        String address = '"' + ADDRESS_B + ":" + PORT + '"';
        targetAgain = () -> begin(b, "target", folder, "listen = " + address, toTarget, toBoth);
        sourceAgain = () -> begin(a, "source", folder, "[target]\naddress = " + address, toSource, toBoth);
        target = targetAgain.call();
        source = sourceAgain.call();
        target.awaitReady(LIMIT);
        source.awaitReady(LIMIT);
    }

    private ServiceProcess begin(TestNode node, String role, Path folder, String... settings) throws Exception {
        List<String> all = new ArrayList<>(List.of("""
                key_file = "%s/key"
                control_socket = "%s/%s.sock"
                transport = "tcp"
                """.formatted(testbed.folder(), folder, role) + settings[0]));
        all.addAll(List.of(settings).subList(1, settings.length));
        return testbed.add(ServiceProcess.begin(node, java, role, folder, List.of(role), all.toArray(String[]::new)));
    }

    /** Starts the target again with what it has kept, after it was killed, and waits until it is ready. */
    public void startTargetAgain() throws Exception {
        testbed.close(target);
        target = targetAgain.call();
        target.awaitReady(LIMIT);
    }

    /** Starts the source again. */
    public void startSourceAgain() throws Exception {
        testbed.close(source);
        source = sourceAgain.call();
        source.awaitReady(LIMIT);
    }

    /** Ends both. */
    public void stopServices() throws Exception {
        testbed.close(source);
        testbed.close(target);
    }

    public ServiceProcess source() {
        return source;
    }

    public ServiceProcess target() {
        return target;
    }

    /** The source's control socket. */
    public Path socket() {
        return source.folder().resolve("source.sock");
    }

    /** The ends of both logs, for a failure. */
    public String logEnds() throws IOException {
        return "--- end of the source's log\n" + source.logEnd(20) + "\n--- end of the target's log\n"
                + target.logEnd(20);
    }

    /**
     * Real CRIU as a table of both configurations.
     *
     * @param pages how a job's memory travels: auto, streamed or images
     */
    public static String criu(String pages) {
        return """
                [checkpointers.criu]
                type = "criu"
                program = [%s]
                pages = "%s"
                """.formatted(
                        CheckpointerConfig.criu(System.getenv()).stream()
                                .map(word -> "\"" + word + "\"")
                                .collect(Collectors.joining(", ")),
                        pages);
    }

    /** Returns BLCR's stand-ins as a table of both configurations. */
    public String blcr(Path restartProgram) {
        return """
                [checkpointers.blcr]
                type = "blcr"
                checkpoint_program = "%s/cr_checkpoint"
                restart_program = "%s"
                kernel_module = false
                """.formatted(bin, restartProgram);
    }
}
