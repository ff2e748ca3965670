package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.linux.Command;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.TestNode;
import io.ppmr.testbed.Testbed;
import io.ppmr.testbed.TwoNodes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;

/**
 * Two nodes with services, a folder that each has of its own, and a job of some ranks whose files are in there. Each
 * rank writes numbered lines at its own position of a file, and records each line in a file that both nodes have. A
 * test class owns it.
 */
final class ScratchJob implements AutoCloseable {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final int LINE_BYTES = 8;
    private static final String SCRIPT = "cd /; eval \"exec 3<>\\\"\\$1\\\" $3\"; n=0; while :; do n=$((n+1));"
            + " printf '%07d\\n' $n >&3 || exit 1; echo $n >>\"$2\"; sleep 0.02; done";

    private final Testbed testbed;
    private final JobUser user;
    private final TwoNodes nodes;
    private final Path local;
    private final Path folder;
    /** The file of each rank, below the folder that each node has for itself. */
    private final Map<Integer, String> files = new TreeMap<>();

    /**
     * @param ranks of the job
     * @param toSource further lines of its configuration's [files]
     * @param toTarget further lines of the target's [files]
     */
    ScratchJob(String name, JobUser user, int ranks, String toSource, String toTarget) throws Exception {
        this.user = user;
        testbed = Testbed.create(name);
        try {
            nodes = new TwoNodes(testbed, "");
            folder = testbed.folder("job", user);
            local = testbed.folder("local");
            for (TestNode node : both()) {
                node.run(LIMIT, "mount", "-t", "tmpfs", "-o", "mode=1777,size=256m", "none", local.toString());
            }
            List<String> table = new ArrayList<>();
            for (int rank = 0; rank < ranks; rank++) {
                table.add("{rank = " + rank + ", pid_file = \"" + folder + "/pid-" + rank + "\"}");
            }
            nodes.startServices(
                    "services",
                    """
                    [jobs.job]
                    user = %2$d
                    group = %2$d
                    checkpointer = "criu"
                    ranks = [%3$s]
                    [files]
                    copy = ["%1$s/**"]
                    %4$s
                    """.formatted(local, user.uid(), String.join(", ", table), toSource),
                    """
                    unknown_users = true
                    warm_up_migrations = 0
                    [files]
                    copy = ["%1$s/scratch/**"]
                    %2$s
                    """.formatted(local, toTarget),
                    TwoNodes.criu("auto") + "trusted_users = [" + user.uid() + "]\n");
        } catch (Exception | AssertionError e) {
            testbed.close();
            throw e;
        }
    }

    private List<TestNode> both() {
        return List.of(nodes.a(), nodes.b());
    }

    TwoNodes nodes() {
        return nodes;
    }

    Path local() {
        return local;
    }

    /** Ends the job wherever it is, and empties the folders. */
    void clear() throws Exception {
        files.clear();
        for (TestNode node : both()) {
            node.run(
                    LIMIT,
                    "sh",
                    "-c",
                    "pkill -KILL -u " + user.uid() + "; cd " + local + "; umount scratch/a 2>/dev/null;"
                            + " find . -mindepth 1 -delete");
        }
    }

    /** Runs a line as root in a node, in the folder that each has for itself. */
    String shell(TestNode node, String line) throws Exception {
        return node.run(LIMIT, "sh", "-c", "cd " + local + " && " + line).strip();
    }

    /** Runs a line as the job's user. */
    void asUser(TestNode node, String line) throws Exception {
        shell(
                node,
                "setpriv --reuid " + user.uid() + " --regid " + user.gid() + " --clear-groups sh -c '" + line + "'");
    }

    /**
     * Starts a rank in the first node.
     *
     * @param file that it writes
     * @param further descriptors that it has, as redirections of a shell
     */
    void start(int rank, String file, String further) throws Exception {
        files.put(rank, file);
        Files.deleteIfExists(turns(rank));
        Path pid = folder.resolve("pid-" + rank);
        Files.deleteIfExists(pid);
        nodes.a()
                .startDetached(
                        pid,
                        List.of(
                                new NativePrograms(nodes.bin()).launch().toString(),
                                "--uid",
                                "" + user.uid(),
                                "--gid",
                                "" + user.gid(),
                                "--",
                                "bash",
                                "-c",
                                SCRIPT,
                                "job",
                                local.resolve(file).toString(),
                                turns(rank).toString(),
                                further));
        requireTurns();
    }

    private Path turns(int rank) {
        return folder.resolve("turns-" + rank);
    }

    /** Waits until each rank has written more. */
    void requireTurns() throws Exception {
        for (int rank : files.keySet()) {
            Path turns = turns(rank);
            long before = Files.exists(turns) ? Files.size(turns) : 0;
            Conditions.until(
                    LIMIT,
                    "rank " + rank + " continues",
                    () -> Files.exists(turns) && Files.size(turns) > before + LINE_BYTES);
        }
    }

    /** Moves the job. Returns the exit status and the output. */
    String migrate() throws Exception {
        return command("migrate", "--socket", nodes.socket().toString(), "job");
    }

    CompletableFuture<String> migrateLater() {
        return CompletableFuture.supplyAsync(() -> {
            try {
                return migrate();
            } catch (Exception e) {
                return "failed: " + e;
            }
        });
    }

    /** Runs a command of ppmr in the first node. */
    String command(String... words) throws IOException, InterruptedException {
        Command.CommandResult result = Command.of(
                        nodes.a().command(nodes.java().with(List.of(words))).command())
                .run(LIMIT);
        return result.exitCode() + " " + result.output();
    }

    void requireMoved() throws Exception {
        String said = migrate();
        if (!said.startsWith("0 ")) {
            throw new AssertionError(said + nodes.logEnds());
        }
        requireTurns();
    }

    /** Ends the job in a node. Every line that a rank recorded is in its file there, in order, once. */
    void requireEveryLine(TestNode node) throws Exception {
        node.run(LIMIT, "sh", "-c", "pkill -KILL -u " + user.uid() + "; true");
        for (Map.Entry<Integer, String> rank : files.entrySet()) {
            String told = Files.readString(turns(rank.getKey()));
            long last = told.substring(0, told.lastIndexOf('\n')).lines().count();
            String file = rank.getValue();
            assertEquals(
                    "", shell(node, "awk 'length($0) != 7 || $0 + 0 != NR {print \"line \" NR \": \" $0}' " + file));
            assertTrue(Long.parseLong(shell(node, "wc -l <" + file)) >= last, "the last lines of " + file);
        }
    }

    /** Requires that no file of ppmr's is in a node's folder, or noted. */
    void requireNothingOfOurs(TestNode node) throws Exception {
        assertEquals("", shell(node, "find . -name '.ppmr-*'"));
        try (var notes = Files.list(notes())) {
            assertEquals(List.of(), notes.toList());
        }
    }

    /** The target's notes of files that it puts at their places. */
    Path notes() {
        return nodes.target().folder().resolve("target-journal/carried-files");
    }

    /** Returns the migration whose files the target noted. */
    String noted() throws IOException {
        try (var notes = Files.list(notes())) {
            String name = notes.findFirst().orElseThrow().getFileName().toString();
            return name.substring(0, name.indexOf('.'));
        }
    }

    /** A file of a node as root sees it from here. */
    Path in(TestNode node, String file) {
        return Path.of("/proc/" + node.init().pid() + "/root" + local, file);
    }

    @Override
    public void close() throws IOException {
        testbed.close();
    }
}
