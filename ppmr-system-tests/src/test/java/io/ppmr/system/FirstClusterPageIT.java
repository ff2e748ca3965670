package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.NodeSystemd;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.TestNode;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The commands of {@code docs/admin/first-cluster.md}, typed on two nodes. Each succeeds and prints the output on the
 * page. The package is the one that the build made, and {@code scp} copies between the nodes.
 *
 * <p>In one test each node has a systemd of its own. In the other {@code systemctl start} has a stand-in, too, which
 * runs the unit's own {@code ExecStart} as root in an empty environment, and its launcher reads the unit's file of
 * variables. Checkpoint commands are children of the service there.
 */
@Tag("soak")
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class FirstClusterPageIT {
    private static final Logger LOG = LoggerFactory.getLogger(FirstClusterPageIT.class);
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final Path PAGE = HOME.resolve("docs/admin/first-cluster.md");
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(90));
    private static final String PATH = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";

    private static final Pattern PROMPT = Pattern.compile("(both|compute|spare)# (.*)");
    private static final Pattern HERE_DOCUMENT = Pattern.compile(".*<<'(\\w+)'");
    private static final Pattern START = Pattern.compile("systemctl start (\\S+)");
    private static final Pattern COPY = Pattern.compile("scp -p (\\S+) (\\w+):(\\S+)");
    private static final Pattern NUMBER = Pattern.compile("\\d+(?:\\.\\d+)?");
    private static final String LEFT_OUT = "...";
    private static final int MOST_COMMANDS = 12;

    /** Makes what a node has for itself: the user alice, and the directories into which the package is installed. */
    private static final String PREPARE = """
            set -e
            for place in etc usr var; do
                mkdir -p /mnt/$place/upper /mnt/$place/work
                mount -t overlay -o lowerdir=/$place,upperdir=/mnt/$place/upper,workdir=/mnt/$place/work node /$place
            done
            mkdir -p /var/lib/ppmr/criu "$1/alice"
            mount --bind "$2" /var/lib/ppmr/criu
            mount --bind "$1" /home
            echo alice:x:20001:20001::/home/alice:/bin/sh >>/etc/passwd
            echo alice:x:20001: >>/etc/group
            echo "alice:*:19000:0:99999:7:::" >>/etc/shadow
            chown 20001:20001 /home/alice
            """;

    /** A command of the page, and the lines that it prints. */
    private record Step(String node, String command, List<String> shown) {}

    private final Map<String, TestNode> nodes = new LinkedHashMap<>();
    private Testbed testbed;
    private Path tree;
    private boolean hasSystemd;

    @Test
    void shouldMoveTheJobWhenTheCommandsOfThePageAreTyped() throws Exception {
        typePage();
    }

    @Tag("soak")
    @Test
    void shouldMoveTheJobWhenTheCommandsOfThePageAreTypedAndSystemdStartsTheUnits() throws Exception {
        Assumptions.assumeTrue(NodeSystemd.isPossible(), "needs systemd (package systemd; it need not run)");
        hasSystemd = true;
        typePage();
    }

    /** The page names these in its text. */
    private void typeWhatThePageNamesBeside() throws Exception {
        String source = " /etc/ppmr/source.toml";
        assertEquals(
                source.strip() + ": a good configuration of a source",
                type("compute", "ppmr config check" + source).strip());
        assertTrue(type("compute", "ppmr status --config" + source).startsWith("idle"));
        assertTrue(type("compute", "ppmr history --config" + source).contains("committed"));
        type("spare", "pkill -u alice");
    }

    /** The page's job has too little memory for that. */
    private void moveAJobWhosePagesAreStreamed() throws Exception {
        String job = HOME.resolve("ppmr-checkpoint/target/native-test/plain-job")
                + " --size 67108864 --passes 1000000 --seed 8 --out out --progress progress --pace 200";
        type(
                "compute",
                "su alice -c 'cd; setsid sh -c \"echo \\$\\$ >count.pid; exec " + job
                        + "\" </dev/null >job.out 2>&1 &'");
        Conditions.until(LIMIT, "the job computes", () -> !type("compute", "cat /home/alice/progress || true")
                .isEmpty());
        String said = type("compute", "ppmr migrate --config /etc/ppmr/source.toml count");
        assertTrue(said.lines().anyMatch(line -> line.startsWith("committed: ")), said);
        assertFalse(said.contains("pages as images"), said);
        type("spare", "pkill -u alice");
    }

    private void typePage() throws Exception {
        JobNodes.assumePossible();
        Path criu = Path.of(System.getenv("PPMR_CRIU").lines().findFirst().orElseThrow());
        while (criu != null && !Files.exists(criu.resolve("complete"))) {
            criu = criu.getParent();
        }
        Assumptions.assumeTrue(criu != null, "needs the CRIU that install-criu.sh unpacks");
        try (Testbed made = Testbed.create("first-cluster")) {
            testbed = made;
            tree = makeTree();
            Path homes = testbed.folder("home");
            for (String name : List.of("compute", "spare")) {
                NodeSystemd systemd = hasSystemd ? new NodeSystemd(testbed, "page-" + name) : null;
                TestNode node = testbed.add(TestNode.create(name));
                node.run(LIMIT, "bash", "-c", PREPARE, "bash", homes.toString(), criu.toString());
                if (systemd != null) {
                    systemd.boot(node);
                }
                nodes.put(name, node);
            }
            TestNode.connect(nodes.get("compute"), "192.0.2.21", nodes.get("spare"), "192.0.2.22");
            List<Step> steps = steps(Files.readAllLines(PAGE));
            assertFalse(steps.isEmpty(), "commands on the page");
            assertTrue(steps.size() <= MOST_COMMANDS, () -> steps.size() + " commands on the page");
            for (Step step : steps) {
                for (String node : step.node().equals("both") ? List.copyOf(nodes.keySet()) : List.of(step.node())) {
                    String printed = type(node, step.command());
                    LOG.info("{}# {}\n{}", node, step.command(), printed);
                    assertTrue(
                            shows(step.shown(), printed.lines().toList()),
                            () -> node + "# " + step.command() + "\nprinted:\n" + printed + "\nthe page shows:\n"
                                    + String.join("\n", step.shown()));
                }
            }
            typeWhatThePageNamesBeside();
            if (hasSystemd) {
                moveAJobWhosePagesAreStreamed();
            }
        }
    }

    @Test
    void shouldCompareLinesWithoutTheirNumbersWhenAPageIsRead() {
        List<Step> steps = steps(List.of(
                "both# not in a block",
                "```console",
                "spare# cat >f <<'END'",
                "both# text",
                "END",
                "compute# run",
                "took  1.5 s",
                "...",
                "```"));
        assertEquals(
                List.of(
                        new Step("spare", "cat >f <<'END'\nboth# text\nEND\n", List.of()),
                        new Step("compute", "run", List.of("took  1.5 s", "..."))),
                steps);
        assertTrue(shows(List.of("took 1 s", "..."), List.of("took  12.75 s")));
        assertTrue(shows(List.of("...", "end"), List.of("a", "b", "end")));
        assertFalse(shows(List.of("...", "end"), List.of("end", "more")));
        assertFalse(shows(List.of(), List.of("more")));
    }

    /** Makes the directory to which the package was copied. */
    private Path makeTree() throws IOException {
        Path made = testbed.folder("tree");
        Path deb = BuiltPackages.deb();
        Files.copy(deb, made.resolve(deb.getFileName()));
        return made;
    }

    /** Types a command as root, requires that it succeeds, and returns what it prints. */
    private String type(String name, String command) throws Exception {
        TestNode node = nodes.get(name);
        Matcher start = START.matcher(command);
        if (start.matches() && !hasSystemd) {
            startUnit(node, start.group(1));
            return "";
        }
        Matcher copy = COPY.matcher(command);
        if (copy.matches()) {
            String content = node.run(LIMIT, "cat", copy.group(1));
            nodes.get(copy.group(2))
                    .run(LIMIT, "sh", "-c", "umask 077; printf %s \"$1\" >\"$2\"", "sh", content, copy.group(3));
            return "";
        }
        List<String> words = List.of("bash", "-c", "cd \"$0\" || exit\n" + command, tree.toString());
        Command.CommandResult result = Command.of(node.command(words).command()).run(LIMIT);
        assertEquals(0, result.exitCode(), () -> name + "# " + command + "\n" + result.output());
        return result.output();
    }

    /** Starts what a unit starts, with its environment files and in its directory, and waits until it is ready. */
    private void startUnit(TestNode node, String unit) throws Exception {
        List<String> words = new ArrayList<>(List.of("env", "--chdir=/", "-i", PATH));
        String start = "";
        for (String line : node.run(LIMIT, "cat", "/usr/lib/systemd/system/" + unit + ".service")
                .lines()
                .toList()) {
            if (line.startsWith("ExecStart=")) {
                start = line.substring("ExecStart=".length());
            }
        }
        assertFalse(start.isEmpty(), "ExecStart= of " + unit);
        words.addAll(Command.words(start));
        Path log = testbed.folder().resolve(unit + ".log");
        Process process = node.command(words)
                .redirectErrorStream(true)
                .redirectOutput(log.toFile())
                .start();
        testbed.add(new Unit(process));
        Conditions.until(LIMIT, unit + " is ready", () -> {
            List<String> logged = Files.readAllLines(log);
            assertTrue(process.isAlive(), () -> unit + " has ended: " + String.join("\n", logged));
            return logged.stream().anyMatch(line -> line.startsWith("ready"));
        });
    }

    /** A started unit, which ends at the end of the test. */
    private record Unit(Process process) implements AutoCloseable {
        @Override
        public void close() throws InterruptedException {
            process.descendants().forEach(ProcessHandle::destroy);
            if (!process.waitFor(LIMIT.toSeconds(), TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        }
    }

    private static List<Step> steps(List<String> lines) {
        List<Step> steps = new ArrayList<>();
        boolean isConsole = false;
        String end = null;
        for (String line : lines) {
            Step last = steps.isEmpty() ? null : steps.get(steps.size() - 1);
            Matcher prompt = PROMPT.matcher(line);
            if (end != null && last != null) {
                steps.set(steps.size() - 1, new Step(last.node(), last.command() + line + "\n", last.shown()));
                end = line.equals(end) ? null : end;
            } else if (line.startsWith("```")) {
                isConsole = line.equals("```console");
            } else if (isConsole && prompt.matches()) {
                Matcher document = HERE_DOCUMENT.matcher(line);
                end = document.matches() ? document.group(1) : null;
                steps.add(new Step(prompt.group(1), prompt.group(2) + (end == null ? "" : "\n"), new ArrayList<>()));
            } else if (isConsole && last != null) {
                last.shown().add(line);
            }
        }
        return steps;
    }

    /** Returns true if these lines are shown. Dots on the page mean any lines, and a number means any number. */
    private static boolean shows(List<String> shown, List<String> printed) {
        if (shown.isEmpty()) {
            return printed.isEmpty();
        }
        List<String> rest = shown.subList(1, shown.size());
        if (shown.get(0).equals(LEFT_OUT)) {
            for (int from = 0; from <= printed.size(); from++) {
                if (shows(rest, printed.subList(from, printed.size()))) {
                    return true;
                }
            }
            return false;
        }
        return !printed.isEmpty()
                && plain(shown.get(0)).equals(plain(printed.get(0)))
                && shows(rest, printed.subList(1, printed.size()));
    }

    private static String plain(String line) {
        return NUMBER.matcher(line.strip()).replaceAll("N").replaceAll("\\s+", " ");
    }
}
