package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * A copy that {@code ppmr-pages target} restores by CRIU in namespaces of its own, without services. Its folder has the
 * image. Closed by its test, which owns it; nothing of the copy is left then.
 */
final class RestoredCopy implements AutoCloseable {
    /**
     * The shell is the namespace's first process, and ends with its parent. The file gets the restore's status.
     */
    private static final String RESTORE = """
            cd %1$s
            %2$s target --images images --work work --pids-file %1$s/pids --store %3$d %5$s -- \
                %4$s restore --images-dir images --work-dir work --log-file %1$s/restore.log \
                --pidfile %1$s/pid --restore-detached --leave-stopped --shell-job --manage-cgroups=ignore \
                --lazy-pages >%1$s/target.log 2>&1
            echo $? >%1$s/status.new
            mv %1$s/status.new %1$s/status
            sleep 600
            """;

    private static final String OUTSIDE = """
            cd %1$s
            %2$s target --images images --work work --pids-file %1$s/pids --store %3$d \\
                --behind %1$s/fillers --namespace other -- %4$s --enter %5$s --directory %1$s -- \\
                %6$s restore --images-dir images --work-dir work --log-file %1$s/restore.log \\
                --pidfile %1$s/pid --restore-detached --leave-stopped --shell-job --manage-cgroups=ignore \\
                --lazy-pages >%1$s/target.log 2>&1
            echo $? >%1$s/status.new
            mv %1$s/status.new %1$s/status
            """;

    private final Path own;
    /** A process that has begun the restore. */
    private final Process begun;
    /** The copy's PID namespace, as links in {@code /proc} name it. */
    private final String namespace;
    /** True if the programs that fill the copy are in that namespace, too. */
    private final boolean fillersInside;

    private RestoredCopy(Path own, Process begun, String namespace, boolean fillersInside) {
        this.own = own;
        this.begun = begun;
        this.namespace = namespace;
        this.fillersInside = fillersInside;
    }

    /** Begins to restore a copy that is held until all pages are there. */
    static RestoredCopy held(Path own, long storeBytes, String... words) throws Exception {
        return begin(own, RoundTool.program("ppmr.native.dir", "ppmr-pages"), storeBytes, String.join(" ", words));
    }

    /** Begins to restore a copy that may run before all pages are there, which takes a second for 125 MiB. */
    static RestoredCopy behind(Path own, long storeBytes, String program) throws Exception {
        return begin(
                own,
                RoundTool.program("ppmr.native.test.dir", program),
                storeBytes,
                "--behind " + own + "/fillers --namespace own");
    }

    private static RestoredCopy begin(Path own, String program, long storeBytes, String words) throws Exception {
        Files.createDirectory(own.resolve("work"));
        String text = RESTORE.formatted(own, program, storeBytes, String.join(" ", CriuInstall.program()), words);
        Path script = Files.writeString(own.resolve("restore.sh"), text);
        Files.setPosixFilePermissions(script, PosixFilePermissions.fromString("rwxr-xr-x"));
        Process begun = start(List.of(
                "unshare", "--pid", "--mount", "--fork", "--mount-proc", "--kill-child", "sh", script.toString()));
        RoundTool.until(
                "the namespace is there", () -> begun.children().findFirst().isPresent());
        return new RestoredCopy(
                own,
                begun,
                namespaceOf(begun.children().findFirst().orElseThrow().pid()),
                true);
    }

    /** The same as {@link #behind}, by programs that are outside of the copy's namespace, as those of pods are. */
    static RestoredCopy behindFromOutside(Path own, long storeBytes) throws Exception {
        Files.createDirectory(own.resolve("work"));
        String init = Command.of(List.of(RoundTool.program("ppmr.native.dir", "ppmr-rank-init"), "--grace", "60"))
                .run(RoundTool.LIMIT)
                .requireOutput()
                .strip();
        String text = OUTSIDE.formatted(
                own,
                RoundTool.program("ppmr.native.test.dir", "slow-pages"),
                storeBytes,
                RoundTool.program("ppmr.native.dir", "ppmr-launch"),
                init,
                String.join(" ", CriuInstall.program()));
        return new RestoredCopy(own, start(List.of("sh", "-c", text)), namespaceOf(Long.parseLong(init)), false);
    }

    private static Process start(List<String> words) throws IOException {
        return new ProcessBuilder(words)
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .start();
    }

    private static String namespaceOf(long pid) throws IOException {
        return Files.readSymbolicLink(Path.of("/proc/" + pid + "/ns/pid")).toString();
    }

    /** Waits for the restore's end, and returns its status. */
    String status() throws Exception {
        Path status = own.resolve("status");
        RoundTool.until("the copy is restored", () -> Files.exists(status));
        return Files.readString(status).strip();
    }

    /** Returns the programs that fill the copy and hold its memory. */
    List<Long> fillers() throws IOException {
        Map<Long, Long> inside = inside();
        List<Long> fillers = new ArrayList<>();
        for (String line : Files.readAllLines(own.resolve("fillers"))) {
            long number = Long.parseLong(line);
            fillers.add(fillersInside ? inside.getOrDefault(number, -1L) : number);
        }
        return fillers;
    }

    /** Returns the living processes of the copy with these PIDs in its namespace, and their PIDs here. */
    Map<Long, Long> processes(List<Long> originals) {
        Map<Long, Long> copies = inside();
        copies.keySet().retainAll(originals);
        return copies;
    }

    /** Continues the copy. */
    void release(List<Long> originals) throws Exception {
        for (long pid : processes(originals).values()) {
            signal("-CONT", pid);
        }
    }

    /** Has the copy check all of its memory and end. */
    void requireRight(long root) throws Exception {
        Path report = own.resolve("report");
        Long pid = inside().get(root);
        assertTrue(pid != null, () -> "the copy is gone: " + RoundTool.text(report));
        signal("-TERM", pid);
        RoundTool.until(
                "the copy ends",
                () -> RoundTool.text(report).contains("end:")
                        || RoundTool.text(report).contains("wrong")
                        || !inside().containsKey(root));
        String text = RoundTool.text(report);
        assertFalse(text.contains("wrong") || !text.contains("end:"), text);
    }

    private static void signal(String which, long pid) throws Exception {
        assertTrue(pid > 1, "a number below 2 is no process of a copy");
        new ProcessBuilder("kill", which, Long.toString(pid)).start().waitFor();
    }

    /** Returns the PIDs here of all processes of the namespace, by their PIDs there. */
    private Map<Long, Long> inside() {
        Map<Long, Long> all = new HashMap<>();
        ProcessHandle.allProcesses()
                .map(ProcessHandle::pid)
                .filter(this::isInside)
                .forEach(pid -> {
                    String line = RoundTool.text(Path.of("/proc/" + pid + "/status"))
                            .lines()
                            .filter(one -> one.startsWith("NSpid:"))
                            .findFirst()
                            .orElse("0");
                    all.put(Long.parseLong(line.replaceAll(".*\\s", "")), pid);
                });
        return all;
    }

    private boolean isInside(long pid) {
        try {
            return namespaceOf(pid).equals(namespace);
        } catch (IOException gone) {
            return false;
        }
    }

    @Override
    public void close() throws Exception {
        begun.destroyForcibly();
        RoundTool.until("nothing is left of the copy", () -> {
            inside().values().forEach(pid -> ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly));
            return inside().isEmpty();
        });
    }
}
