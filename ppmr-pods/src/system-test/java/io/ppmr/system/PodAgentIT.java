package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.pods.PodStatus;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A launcher in a pod, which leaves its words in the pod's /tmp, and the command outside that carries them out. */
@Timeout(value = 240, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class PodAgentIT {
    private static final Path SCRIPT = Path.of(System.getProperty("ppmr.home"), "ppmr-pods/conf/pod-agent.sh");
    private static final String BOX = "/tmp/.ppmr-agent";

    private static Testbed testbed;
    private static PodNode node;
    private static Path shared;
    private static Path file;
    private final List<Process> started = new ArrayList<>();

    @BeforeAll
    static void start() throws Exception {
        PodNode.assumePossible();
        testbed = Testbed.create("agent");
        // Pods have a /tmp of their own.
        shared = testbed.add(new Removed(Files.createTempDirectory(Path.of("/opt"), "ppmr-agent")))
                .path();
        Files.setPosixFilePermissions(shared, PosixFilePermissions.fromString("rwxr-xr-x"));
        Files.copy(SCRIPT, shared.resolve("pod-agent.sh"));
        node = new PodNode(testbed, 1);
        node.start("disabled", "mounts = [\"/usr\", \"/etc\", \"/bin\", \"/lib\", \"/lib64\", \"" + shared + "\"]", "");
        file = Files.writeString(
                testbed.folder().resolve("pods"),
                "host1 1/one %1$s\nhost2 1/two %1$s\n# of this test\n".formatted(node.socket()));
    }

    /** A directory that is removed at the end. */
    private record Removed(Path path) implements AutoCloseable {
        @Override
        public void close() throws IOException {
            Files.deleteIfExists(path.resolve("pod-agent.sh"));
            Files.deleteIfExists(path);
        }
    }

    @AfterAll
    static void end() throws Exception {
        if (testbed != null) {
            testbed.close();
        }
    }

    @BeforeEach
    void runPods() throws Exception {
        node.runFor(PodNode.OWNER, "one", "sleep", "infinity");
        node.runFor(PodNode.OWNER, "two", "sleep", "infinity");
    }

    @AfterEach
    void endAll() throws Exception {
        started.forEach(Process::destroyForcibly);
        node.stopAll();
    }

    /** Starts the command outside of the pods. */
    private Process serve(Path output, String pod) throws IOException {
        return serve(output, pod, file);
    }

    private Process serve(Path output, String pod, Path places) throws IOException {
        Process server = new ProcessBuilder(
                        node.words(PpmrCommand.words("pod", "agent", "--serve", pod, "--pods", places.toString())
                                .toArray(String[]::new)))
                .redirectErrorStream(true)
                .redirectOutput(output.toFile())
                .start();
        started.add(server);
        return server;
    }

    /** Starts a launcher's agent in the first pod. Its output, and its exit code, go to /tmp/agent there. */
    private static void launch(String words) throws Exception {
        PpmrCommand begun = PpmrCommand.run(
                "pod",
                "exec",
                "--socket",
                node.socket().toString(),
                "--detach",
                "--output",
                "/tmp/agent",
                "1/one",
                "--",
                "sh",
                "-c",
                shared + "/pod-agent.sh " + words + "; echo \"code $?\"");
        assertEquals(0, begun.exitCode(), begun.said());
    }

    private static String launched() throws Exception {
        List<String> said = new ArrayList<>(List.of(""));
        Conditions.until(PodNode.LIMIT, "the launcher's agent ended", () -> {
            said.set(0, inPod("one", "cat /tmp/agent"));
            return said.get(0).contains("code ");
        });
        return said.get(0);
    }

    private static String inPod(String pod, String line) throws Exception {
        return node.execute("1/" + pod, "sh", "-c", line).output();
    }

    private static void requireEnd(Process server, int exitCode, Path output) throws Exception {
        assertTrue(
                server.waitFor(PodNode.LIMIT.toSeconds(), TimeUnit.SECONDS),
                () -> "the server does not end: " + text(output));
        assertEquals(exitCode, server.exitValue(), text(output));
    }

    private static String text(Path output) {
        try {
            return Files.readString(output);
        } catch (IOException e) {
            return e.toString();
        }
    }

    private Path output() throws IOException {
        return Files.createTempFile(testbed.folder(), "served", ".log");
    }

    @Test
    void shouldStartTheCommandInTheHostsPodWhenALauncherInAPodAsks() throws Exception {
        Path output = output();
        Process server = serve(output, "1/one");
        launch("-x -o Some=Option host2 'echo \"from one\" >/tmp/hello; hostname >>/tmp/hello'");
        assertTrue(launched().contains("code 0"));
        requireEnd(server, 0, output);
        Conditions.until(PodNode.LIMIT, "the command ran in the other pod", () -> inPod("two", "cat /tmp/hello")
                .strip()
                .equals("from one\ntwo"));
        assertEquals("", inPod("one", "ls " + BOX).strip(), "nothing is left in the pod");
        // Whoever is not root reads it by the same path.
        PodStatus one = node.list().stream()
                .filter(pod -> pod.name().equals("1/one"))
                .findFirst()
                .orElseThrow();
        String seen = node.run(
                "setpriv",
                "--reuid",
                "1",
                "--regid",
                "1",
                "--clear-groups",
                "stat",
                "-c",
                "%u",
                "/proc/" + one.init() + "/root" + BOX);
        assertEquals("1", seen.strip());
    }

    @Test
    @Tag("soak")
    void shouldNameWhatFailedAndGoOnWhenALauncherAsksForAHostThatIsNotInTheFile() throws Exception {
        Path output = output();
        Process server = serve(output, "1/one");
        launch("host7 true");
        String said = launched();
        assertTrue(said.contains("was not started (exit code 1)") && said.contains("code 1"), said);
        launch("--pods /etc/shadow host2 true");
        Conditions.until(
                PodNode.LIMIT,
                "the second one is refused, too",
                () -> inPod("one", "cat /tmp/agent")
                                .lines()
                                .filter(line -> line.startsWith("code"))
                                .count()
                        == 2);
        launch("host2 true");
        requireEnd(server, 0, output);
        assertTrue(text(output).contains("has no line for host host7"), text(output));
        assertFalse(text(output).contains("root:"), text(output));
    }

    /** The server is root, and what the pod leaves would have it read, write, or wait elsewhere. */
    @Test
    void shouldReadAndWriteNothingElseWhenAPodLeavesWhatIsNoWords() throws Exception {
        Path secret = Files.writeString(testbed.folder().resolve("secret"), "host2\0touch /tmp/stolen\0");
        Files.setPosixFilePermissions(secret, PosixFilePermissions.fromString("rw-------"));
        inPod("one", """
                mkdir -m 700 %1$s && cd %1$s && ln -s %2$s 1-1.words && mkfifo 1-2.words && mkdir 1-3.words
                head -c 70000 /dev/zero >1-4.words; printf 'host2\\000touch /tmp/unended' >1-5.words
                printf 'ho\\033[2Jst\\000true\\000' >1-6.words; ln 1-5.words '1-7.words;x'
                """.formatted(BOX, secret));
        Path output = output();
        Process server = serve(output, "1/one");
        Conditions.until(
                PodNode.LIMIT,
                "all of it was refused",
                () -> inPod("one", "ls " + BOX)
                                .lines()
                                .filter(name -> name.contains(".done-"))
                                .count()
                        == 6);
        launch("host2 true");
        requireEnd(server, 0, output);
        assertEquals(
                "",
                inPod("two", "ls /tmp")
                        .replace("out", "")
                        .replace("launcher.log", "")
                        .strip());
        assertEquals("host2\0touch /tmp/stolen\0", Files.readString(secret));
        String said = text(output);
        assertTrue(said.contains("is a symbolic link") && said.contains("is no regular file"), said);
        assertTrue(said.contains("is longer than") && said.contains("have no end"), said);
        assertFalse(said.contains("\u001b"), "a control character goes to the terminal");
    }

    @Test
    void shouldTouchNoOtherDirectoryWhenThePodReplacesItsOwnByALink() throws Exception {
        Path outside = Files.createDirectory(testbed.folder().resolve("outside"));
        Files.writeString(outside.resolve("1-1.words"), "host2\0touch /tmp/stolen\0");
        inPod("one", "ln -s " + outside + " " + BOX);
        Path output = output();
        requireEnd(serve(output, "1/one"), 1, output);
        assertTrue(text(output).contains("is not a directory of its user. Remedy: remove it"), text(output));
        try (var entries = Files.list(outside)) {
            assertEquals(List.of(outside.resolve("1-1.words")), entries.toList());
        }
        assertFalse(inPod("two", "ls /tmp").contains("stolen"));
    }

    @Test
    @Tag("soak")
    void shouldRefuseByNameWhenThePodIsNotInTheFileOrEnds() throws Exception {
        Path output = output();
        requireEnd(serve(output, "1/three"), 1, output);
        assertTrue(text(output).contains("has 0 lines with pod 1/three. Remedy: "), text(output));
        Path second = output();
        Process server = serve(second, "1/one");
        launch("host7 true");
        assertTrue(launched().contains("code 1"));
        node.stop("1/one");
        requireEnd(server, 1, second);
        assertTrue(text(second).contains("pod 1/one ended, or was moved"), text(second));
    }

    @Test
    @Tag("soak")
    void shouldEndTheWaitInThePodWhenTheServerIsKilled() throws Exception {
        // The way to the node does not end.
        Path slow = Files.writeString(testbed.folder().resolve("slow"), "#!/bin/sh\nexec sleep 100\n");
        Files.setPosixFilePermissions(slow, PosixFilePermissions.fromString("rwxr-xr-x"));
        Path places = Files.writeString(
                testbed.folder().resolve("slow-pods"),
                "host1 1/one %1$s\nhost2 1/two %1$s %2$s\n".formatted(node.socket(), slow));
        Path output = output();
        Process server = serve(output, "1/one", places);
        launch("host7 true");
        assertTrue(launched().contains("code 1"), "it serves");
        inPod("one", "rm /tmp/agent");
        launch("host2 true");
        Conditions.until(PodNode.LIMIT, "the words were taken", () -> inPod("one", "ls " + BOX)
                .contains(".taken"));
        // The process that the test started only entered the node.
        server.descendants()
                .filter(one -> one.info().command().orElse("").endsWith("java"))
                .forEach(ProcessHandle::destroyForcibly);
        String said = launched();
        assertTrue(said.contains("ppmr pod agent --serve ended. Remedy: ") && said.contains("code 1"), said);
    }
}
