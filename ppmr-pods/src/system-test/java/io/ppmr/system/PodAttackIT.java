package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import io.ppmr.linux.Command;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Users who request pods, and through pods, privileges that were not granted. */
@Timeout(value = 240, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class PodAttackIT {
    private static final String SLEEP = "\"command\": [\"sleep\", \"600\"]";

    private static Testbed testbed;
    private static PodNode node;
    /** Outside of /tmp, which is each pod's own. */
    private static Path shared;

    @BeforeAll
    static void start() throws Exception {
        PodNode.assumePossible();
        testbed = Testbed.create("pod-attack");
        shared = Files.createTempDirectory(Path.of("/var/tmp"), "ppmr-pod-attack-");
        testbed.add(() -> Command.of(List.of("rm", "-rf", "--one-file-system", "--", shared.toString()))
                .run(PodNode.LIMIT)
                .requireOutput());
        Files.setPosixFilePermissions(shared, PosixFilePermissions.fromString("rwxr-xr-x"));
        for (String open : List.of("open", "users")) {
            Files.setPosixFilePermissions(
                    Files.createDirectory(shared.resolve(open)), PosixFilePermissions.fromString("rwxrwxrwx"));
        }
        Files.createDirectory(shared.resolve("open/exchangeable"));
        Files.writeString(shared.resolve("roots"), "root's\n");
        node = new PodNode(testbed, 1);
        node.start("""
                [pods.exchangeable]
                bridge = "br0"
                shares = [{user = 1, first = "10.20.0.101", last = "10.20.0.101"}]
                mounts = ["/usr", "/bin", "/lib", "/lib64", "%1$s/open/exchangeable"]
                [pods.sharing]
                bridge = "br0"
                shares = [{user = 1, first = "10.20.0.102", last = "10.20.0.102"}]
                writable_mounts = ["%1$s"]
                [pods.others]
                bridge = "br0"
                shares = [{user = 8, first = "10.20.0.103", last = "10.20.0.103"}]
                [pods.nowhere]
                bridge = "br7"
                shares = [{user = 1, first = "10.20.0.104", last = "10.20.0.104"}]
                """.formatted(shared));
    }

    @AfterEach
    void stopAll() throws Exception {
        node.stopAll();
    }

    @AfterAll
    static void end() throws IOException {
        if (testbed != null) {
            testbed.close();
        }
    }

    private static JsonNode run(int uid, String fields) throws Exception {
        return node.ask(uid, "{\"request\": \"pod_run\", " + fields + "}");
    }

    private static void requireNothingMade() throws Exception {
        assertEquals(List.of(), node.list());
        try (Stream<Path> left = Files.list(node.folder().resolve("pods"))) {
            assertEquals(List.of(), left.toList());
        }
        assertEquals("", node.podProcesses());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '\u0001',
            value = {
                "9|\"name\": \"x\"|no template grants addresses to user 9",
                "1|\"name\": \"x\", \"template\": \"others\"|no such template is yours",
                "1|\"name\": \"x\", \"template\": \"usual\", \"address\": \"10.20.0.15\"|none of yours",
                "1|\"name\": \"x\", \"template\": \"usual\", \"address\": \"10.20.0.10; ip link\"|none of yours",
                "1|\"name\": \"x\", \"template\": \"usual\", \"user\": \"root\"|only root may run a pod for another",
                "1|\"name\": \"x\", \"template\": \"usual\", \"user\": \"8\"|only root may run a pod for another",
                "5|\"name\": \"x\", \"template\": \"usual\", \"user\": \"1\"|only root may run a pod for another",
                "1|\"name\": \"../x\", \"template\": \"usual\"|a pod's name has",
                "1|\"name\": \"-x\", \"template\": \"usual\"|a pod's name has",
                "1|\"name\": null, \"template\": \"usual\"|a pod's name has",
                "1|\"name\": \"x\", \"template\": \"usual\", \"environment\": [\"=\"]|written NAME=VALUE",
                "1|\"name\": \"x\", \"template\": \"usual\", \"environment\": [\"A=b\\u0000c\"]|a NUL in it",
                "1|\"name\": \"x\", \"template\": \"usual\", \"output\": \"/tmp/a\\u0000b\"|a NUL in it",
                "1|\"name\": \"x\"|there are several templates",
                "1|\"name\": \"x\", \"template\": \"nowhere\"|there is no bridge br7",
            })
    void shouldRefuseWhatNoTemplateGrants(int uid, String fields, String said) throws Exception {
        JsonNode answer = run(uid, fields + ", " + SLEEP);
        assertTrue(answer.path("refused").asText().contains(said), answer.toString());
        requireNothingMade();
    }

    /** The runtime passes its own standard streams to the pod's user, who could then close them for all users. */
    @Test
    void shouldLeaveTheNodesNullDeviceToRootWhenAPodIsMadeAndEntered() throws Exception {
        Path device = Path.of("/dev/null");
        assertEquals(0, Files.getAttribute(device, "unix:uid"), "before");
        JsonNode made = run(PodNode.OWNER, "\"name\": \"mine\", \"template\": \"usual\", " + SLEEP);
        assertEquals("1/mine", made.path("pod").path("name").asText(), made.toString());
        JsonNode entered = node.ask(
                PodNode.OWNER, "{\"request\": \"pod_exec\", \"order\": {\"name\": \"mine\", \"command\": [\"id\"]}}");
        assertEquals(0, entered.path("executed").path("exitCode").asInt(-1), entered.toString());
        assertEquals(0, Files.getAttribute(device, "unix:uid"), "after");
    }

    /** Output is chosen that is largest in an answer: each byte of it becomes six. */
    @Test
    void shouldServeOthersWhenAUsersCommandsPrintFourMebibytesEachAtATime() throws Exception {
        assertTrue(run(PodNode.OWNER, "\"name\": \"loud\", \"template\": \"usual\", " + SLEEP)
                .has("pod"));
        assertTrue(run(PodNode.OTHER, "\"name\": \"calm\", \"template\": \"usual\", " + SLEEP)
                .has("pod"));
        String loud = "{\"request\": \"pod_exec\", \"order\": {\"name\": \"loud\", \"command\":"
                + " [\"sh\", \"-c\", \"head -c 4194304 /dev/zero | tr '\\\\0' '\\\\1'; exit 3\"]}}";
        String calm =
                "{\"request\": \"pod_exec\", \"order\": {\"name\": \"calm\", \"command\":" + " [\"seq\", \"1000\"]}}";
        List<CompletableFuture<JsonNode>> all = new ArrayList<>();
        for (int i = 0; i < 16; i++) {
            all.add(CompletableFuture.supplyAsync(() -> answer(PodNode.OWNER, loud), inThreads()));
        }
        for (int i = 0; i < 5; i++) {
            JsonNode said = node.ask(PodNode.OTHER, calm).path("executed");
            assertTrue(said.path("output").asText().endsWith("999\n1000"), said.toString());
        }
        int executed = 0;
        for (CompletableFuture<JsonNode> one : all) {
            JsonNode said = one.get(PodNode.LIMIT.toSeconds(), TimeUnit.SECONDS);
            if (said.has("executed")) {
                executed++;
                JsonNode end = said.path("executed");
                assertEquals(3, end.path("exitCode").asInt(), "how the command ended");
                assertTrue(end.path("cut").asBoolean());
                assertTrue(end.path("output").asText().length() <= 256 << 10);
            } else {
                // A user has eight connections.
                assertTrue(said.path("error").asText().contains("as many as a user may"), said.toString());
            }
        }
        assertTrue(executed >= 8, "only " + executed + " were carried out");
    }

    @Test
    void shouldServeOthersWhenWhatACommandLeavesPrintsWithoutEnd() throws Exception {
        assertTrue(run(PodNode.OWNER, "\"name\": \"loud\", \"template\": \"usual\", " + SLEEP)
                .has("pod"));
        String left = "{\"request\": \"pod_exec\", \"order\": {\"name\": \"loud\", \"command\":"
                + " [\"sh\", \"-c\", \"yes & exit 3\"]}}";
        for (int i = 0; i < 3; i++) {
            JsonNode end = node.ask(PodNode.OWNER, left).path("executed");
            assertEquals(3, end.path("exitCode").asInt(), end.toString());
        }
    }

    /** A terminal obeys ESC and a letter, and their one-character forms. A line end could forge a line. */
    @Test
    void shouldShowAsTextWhatATerminalWouldObeyInAUsersWords() throws Exception {
        String words = "\"command\": [\"sleep\", \"600\", \"\\u001b[2J\\nforged \\u009b1m\"]";
        assertTrue(run(
                        PodNode.OWNER,
                        "\"name\": \"sly\", \"template\": \"usual\", "
                                + words.replace("\"sleep\", \"600\"", "\"sh\", \"-c\", \"sleep 600\""))
                .has("pod"));
        String socket = node.socket().toString();
        String shown =
                PpmrCommand.run("pod", "show", "--socket", socket, "1/sly").said()
                        + PpmrCommand.run("pod", "list", "--socket", socket).said();
        assertTrue(shown.contains("\\u001b[2J\\nforged \\u009b1m"), shown);
        String printed = PpmrCommand.run(
                        "pod", "exec", "--socket", socket, "1/sly", "--", "printf", "\\033[2J\\302\\233two\\nlines")
                .said();
        assertEquals("\\u001b[2J\\u009btwo\nlines", printed);
        node.ask(PodNode.OWNER, "{\"request\": \"\u001b[2J\u009bforged\"}");
        node.ask(PodNode.OTHER, "{\"request\": \"status\", \"x\": \"\u001b[2J\u009bforged\"}");
        String log = node.service().log();
        for (String text : List.of(shown, printed, log)) {
            assertTrue(text.chars().noneMatch(one -> Character.isISOControl(one) && one != '\n'), text);
        }
        assertTrue(log.lines().noneMatch(line -> line.startsWith("forged")), log);
    }

    private static Executor inThreads() {
        return work -> {
            Thread thread = new Thread(work, "asks");
            thread.setDaemon(true);
            thread.start();
        };
    }

    private static JsonNode answer(int uid, String request) {
        try {
            return node.ask(uid, request);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new IllegalStateException("the test was ended", e);
        }
    }

    @Test
    void shouldKeepAUserFromAnothersPod() throws Exception {
        JsonNode made = run(PodNode.OWNER, "\"name\": \"mine\", \"template\": \"usual\", " + SLEEP);
        assertEquals("1/mine", made.path("pod").path("name").asText(), made.toString());
        String execute = "{\"request\": \"pod_exec\", \"order\": {\"name\": \"1/mine\", \"command\": [\"id\"]}}";
        for (int stranger : List.of(PodNode.OTHER, PodNode.NOBODY)) {
            for (String request : List.of(
                    execute,
                    "{\"request\": \"pod_show\", \"name\": \"1/mine\"}",
                    "{\"request\": \"pod_stop\", \"name\": \"1/mine\"}",
                    "{\"request\": \"pod_stop\", \"name\": \"mine\"}")) {
                JsonNode answer = node.ask(stranger, request);
                assertTrue(answer.path("refused").asText().contains("no pod '"), request + answer);
            }
            assertEquals(
                    "[]",
                    node.ask(stranger, "{\"request\": \"pod_list\"}")
                            .path("pods")
                            .toString());
        }
        // A user who controls the service may end every user's pods, and act as no other user.
        assertEquals(
                1,
                node.ask(PodNode.CONTROLLER, "{\"request\": \"pod_list\"}")
                        .path("pods")
                        .size());
        JsonNode entered = node.ask(PodNode.CONTROLLER, execute);
        assertTrue(entered.path("refused").asText().contains("only its user and root"), entered.toString());
        JsonNode own = node.ask(PodNode.OWNER, execute.replace("1/mine", "mine"));
        assertTrue(own.path("executed").path("output").asText().startsWith("uid=1("), own.toString());
        // Another user's pod of that name is another pod.
        JsonNode others = run(PodNode.OTHER, "\"name\": \"mine\", \"template\": \"usual\", " + SLEEP);
        assertEquals("8/mine", others.path("pod").path("name").asText(), others.toString());
        JsonNode ended = node.ask(PodNode.OTHER, "{\"request\": \"pod_stop\", \"name\": \"mine\"}");
        assertEquals("8/mine", ended.path("pod").path("name").asText(), ended.toString());
        JsonNode stopped = node.ask(PodNode.CONTROLLER, "{\"request\": \"pod_stop\", \"name\": \"1/mine\"}");
        assertEquals("ended", stopped.path("pod").path("state").asText(), stopped.toString());
        requireNothingMade();
    }

    @Test
    void shouldOpenNothingAsRootWhenAUserNamesRootsFiles() throws Exception {
        String order = "\"name\": \"x\", \"template\": \"sharing\", " + SLEEP;
        for (String file : List.of(shared + "/roots", "/etc/passwd", "/new", "/proc/sysrq-trigger")) {
            JsonNode answer = run(PodNode.OWNER, order + ", \"output\": \"" + file + "\"");
            assertTrue(answer.path("refused").asText().contains("cannot begin: the output: "), file + answer);
        }
        JsonNode hidden = run(PodNode.OWNER, order + ", \"input\": \"/etc/shadow\"");
        assertTrue(
                hidden.path("refused").asText().contains("cannot begin: the input: Permission denied"),
                hidden.toString());
        // A directory that is missing is not made, as root or otherwise.
        JsonNode missing = run(PodNode.OWNER, order + ", \"directory\": \"" + shared + "/made\"");
        assertTrue(
                missing.path("refused").asText().contains("cannot begin: the directory: No such"), missing.toString());
        assertFalse(Files.exists(shared.resolve("made")));
        assertEquals("root's\n", Files.readString(shared.resolve("roots")));
        requireNothingMade();
        // What the user may write is written as the user.
        JsonNode good = run(PodNode.OWNER, order + ", \"output\": \"" + shared + "/users/out\"");
        assertEquals("1/x", good.path("pod").path("name").asText(), good.toString());
        assertEquals(PodNode.OWNER, Files.getAttribute(shared.resolve("users/out"), "unix:uid"));
    }

    @Test
    void shouldMountNothingThatAUserCanExchange() throws Exception {
        JsonNode answer = run(PodNode.OWNER, "\"name\": \"x\", \"template\": \"exchangeable\", " + SLEEP);
        assertTrue(
                answer.path("refused").asText().contains("could put another directory in its place"),
                answer.toString());
        requireNothingMade();
    }

    @Test
    void shouldKeepItsUserOutOfTheRuntimeWhenAPodIsHalfMade() throws Exception {
        Path wait = Files.createFile(node.folder().resolve("wait"));
        CompletableFuture<JsonNode> made = CompletableFuture.supplyAsync(() -> {
            try {
                return run(PodNode.OWNER, "\"name\": \"half\", \"template\": \"usual\", " + SLEEP);
            } catch (Exception e) {
                throw new IllegalStateException("the pod was not asked for", e);
            }
        });
        try {
            Conditions.until(
                    "the pod is half made", () -> Files.exists(node.folder().resolve("waits")));
            String pid =
                    Files.readString(node.folder().resolve("pods/1-half/pid")).strip();
            String user = "setpriv --reuid 1 --regid 1 --clear-groups ";
            String shown = node.run("sh", "-c", "ls -l /proc/" + pid + "/fd | wc -l");
            assertTrue(Integer.parseInt(shown) > 3, "it holds nothing: " + shown);
            for (String attack : List.of("ls -l /proc/%s/fd", "cat /proc/%s/environ", "ls -l /proc/%s/root/")) {
                String said = node.run("sh", "-c", user + attack.formatted(pid) + " 2>&1 || true");
                assertTrue(said.contains("Permission denied"), attack + ": " + said);
            }
        } finally {
            Files.delete(wait);
        }
        assertEquals(
                "1/half",
                made.get(Patience.of(60), TimeUnit.SECONDS)
                        .path("pod")
                        .path("name")
                        .asText());
    }

    @Test
    void shouldGiveNoWayToRootWhenAUserIsInAPod() throws Exception {
        JsonNode made = run(PodNode.OWNER, "\"name\": \"mine\", \"template\": \"usual\", " + SLEEP);
        assertEquals("1/mine", made.path("pod").path("name").asText(), made.toString());
        for (String attack : List.of(
                "chmod 4755 /ppmr-pod-init",
                "echo x >/ppmr-pod-init",
                "touch /x",
                "touch /usr/x",
                "mount -t tmpfs x /tmp",
                "mknod /tmp/sda b 8 0",
                "echo 1 >/proc/sys/net/ipv4/tcp_retries2",
                "/usr/sbin/ip address add 10.20.0.15/24 dev eth0",
                "/usr/sbin/ip link set eth0 address 02:50:0a:14:00:0f",
                "cat /etc/shadow")) {
            assertFalse(
                    node.execute("1/mine", "sh", "-c", attack + " 2>/tmp/said && echo done")
                                    .exitCode()
                            == 0,
                    attack);
        }
        // A set-user-ID program of the node grants no privilege here.
        assertEquals(
                "1",
                node.execute("1/mine", "sh", "-c", "cp /usr/bin/id /tmp/id; chmod 4755 /tmp/id; /tmp/id -u")
                        .output());
        String said =
                node.execute("1/mine", "sh", "-c", "echo | su root -c id; true").output();
        assertFalse(said.contains("uid=0"), said);
    }

    /**
     * Ends the init of a pod that is being made, as its user can. Then another process in networks of the user's gets
     * its PID. The user would retry until that succeeds. Here the test sets the kernel's next PID.
     */
    private static final String EXCHANGE = """
            my $caught = shift; my $pid;
            for (0 .. $#ARGV) { $pid = `cat $ARGV[$_ + 1]` + 0 if $ARGV[$_] eq "--pid-file" }
            kill 9, $pid; select undef, undef, undef, 0.01 while kill 0, $pid;
            for my $try (1 .. 1000) {
                my $helper = fork;
                if (!$helper) {
                    syscall 272, 0x60000000 and die "unshare: $!";
                    open my $last, ">", "/proc/sys/kernel/ns_last_pid"; syswrite $last, $pid - 1;
                    my $child = fork;
                    exec "timeout", "10", "sh", "-c",
                        "until ip link show dev eth0 2>/dev/null; do :; done >$caught.part; mv $caught.part $caught"
                        if defined $child and !$child;
                    exit 0 if $child == $pid;
                    kill 9, $child; exit 1;
                }
                waitpid $helper, 0;
                exit 0 if $? == 0;
            }
            die "nobody got PID $pid";
            """;

    @Test
    void shouldLayNoCableIntoAUsersNetworkWhenThePodsInitIsExchanged() throws Exception {
        Path exchange = Files.writeString(node.folder().resolve("exchange"), EXCHANGE);
        try {
            JsonNode answer = run(PodNode.OWNER, "\"name\": \"mine\", \"template\": \"usual\", " + SLEEP);
            assertFalse(answer.has("pod"), answer.toString());
            assertFalse(answer.toString().contains("nobody got PID"), answer.toString());
        } finally {
            Files.delete(exchange);
        }
        assertFalse(
                Files.exists(node.folder().resolve("caught")),
                "a process of the user's had the pod's end of the cable");
        requireNothingMade();
    }

    /** With a user namespace a user would have all capabilities there. A Landlock domain would be lost by a move. */
    @Test
    void shouldRefuseUserNamespacesAndSandboxesWhenAUserIsInAPod() throws Exception {
        JsonNode made = run(PodNode.OWNER, "\"name\": \"mine\", \"template\": \"usual\", " + SLEEP);
        assertEquals("1/mine", made.path("pod").path("name").asText(), made.toString());
        Confinement.require(line -> node.execute("1/mine", "sh", "-c", line).output());
        // What the pod's init has started is filtered as well, and so is the init.
        String filtered = node.execute("1/mine", "sh", "-c", "grep -h Seccomp: /proc/[0-9]*/status")
                .output();
        assertTrue(filtered.lines().count() >= 3, filtered);
        assertTrue(filtered.lines().allMatch(line -> line.equals("Seccomp:\t2")), filtered);
        node.execute("1/mine", "sh", "-c", "unshare --user --map-root-user id >/tmp/made 2>&1");
        assertFalse(node.execute("1/mine", "cat", "/tmp/made").output().contains("uid=0"), "a user namespace was made");
    }
}
