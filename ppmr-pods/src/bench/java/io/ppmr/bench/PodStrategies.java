package io.ppmr.bench;

import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.daemon.config.CheckpointerConfig;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.linux.Command;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.pods.PodStatus;
import io.ppmr.pods.testbed.BridgedNode;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A pod with connections that is moved between two of three nodes. It is moved by the product, or by CRIU's dump, a
 * copy with scp(1) and CRIU's restore. Its peers are on the third node. They send it a request every 2 ms, and report
 * the longest time to an answer. At the end it reports whether its memory is unchanged. Each run needs one, and one
 * thread uses it.
 */
final class PodStrategies {
    /** The names of the strategies in results. */
    static final String PPMR = "pod";

    static final String COPY = "pod-copy";

    private static final Duration LIMIT = Duration.ofMinutes(15);
    private static final Duration SILENCE_LIMIT = Duration.ofSeconds(90);
    private static final String POD = "bench";
    private static final String ADDRESS = "10.20.0.12";
    private static final String FULL_NAME = BridgedNode.USER + "/" + POD;
    private static final List<String> MOUNTS = List.of("/usr", "/etc", "/bin", "/lib", "/lib64");
    private static final long PAGE_BYTES = 4096;
    private static final int CAP_MS = 1000;
    /** Since Linux 6.15. */
    private static final Path CAP = Path.of("/proc/sys/net/ipv4/tcp_rto_max_ms");

    private static final double MS_A_SECOND = 1e3;
    private static final DateTimeFormatter LOG_TIME =
            DateTimeFormatter.ofPattern("yyyy-MM-dd.HH:mm:ss.SSSXXX", Locale.ROOT);

    private static final Pattern GAP = Pattern.compile("memory (right|wrong), longest gap ([0-9.]+) s");

    /** Each page of its memory begins with its number. An answer is the question, but 1 for 0 when memory is wrong. */
    private static final String SERVER = """
            use IO::Socket::INET; use IO::Select; $| = 1;
            my ($pages, $peers) = @ARGV;
            my $memory = pack("N*", 1 .. 1024) x $pages;
            substr $memory, $_ * 4096, 4, pack "N", $_ for 0 .. $pages - 1;
            my $sum = ($pages * 524799 + $pages * ($pages - 1) / 2) % 2 ** 32;
            my $all = IO::Socket::INET->new(Listen => 5, LocalPort => 7000, ReuseAddr => 1) or die "listen: $!";
            print "listens\\n";
            my $asking = IO::Select->new(map { $all->accept || die "accept: $!" } 1 .. $peers);
            my $right;
            while (my @ready = $asking->can_read) {
                for my $one (@ready) {
                    sysread $one, my $word, 4 or do { $asking->remove($one); next };
                    if (!unpack "N", $word) {
                        $right //= $sum == unpack "%32N*", $memory;
                        $word = pack "N", $right ? 0 : 1;
                    }
                    syswrite $one, $word;
                }
            }
            """;

    private static final String PEER = """
            use IO::Socket::INET; use Time::HiRes qw(time sleep); $| = 1;
            my ($at, $cap_ms, $end) = @ARGV;
            my $pod;
            for (1 .. 600) { $pod = IO::Socket::INET->new($at) and last; sleep 0.1 }
            $pod or die "no connection: $!";
            $cap_ms and (setsockopt($pod, 6, 44, pack "i", $cap_ms) or die "TCP_RTO_MAX_MS: $!");
            print "connected\\n";
            sub ask { syswrite $pod, pack "N", shift; sysread $pod, my $word, 4 or die "lost: $!"; unpack "N", $word }
            my ($number, $longest, $last) = (0, 0, time);
            until (-e $end) {
                ask(++$number) == $number or die "wrong answer";
                my $now = time; $longest = $now - $last if $now - $last > $longest; $last = $now;
                print "beat $number\\n" if $number % 100 == 0;
                sleep 0.002;
            }
            printf "memory %s, longest gap %.3f s\\n", ask(0) ? "wrong" : "right", $longest;
            """;

    /** Starts CRIU with the pod's root as a mount point, and with its network as a descriptor. */
    private static final String ENTER = "mount --bind \"$1\" \"$1\" && exec 9<\"$2\" && shift 2 && exec \"$@\"";

    private final NativePrograms programs;
    private final Path folder;
    private final BridgedNode a;
    private final BridgedNode b;
    private final BridgedNode third;
    private final Map<String, Path> peers = new LinkedHashMap<>();
    private PodStatus pod;

    /** Makes the nodes and both services. {@code link} is a rate in the form of tc(8), or empty for none. */
    PodStrategies(Testbed testbed, String link) throws Exception {
        programs = new NativePrograms(testbed.programs());
        folder = testbed.folder("pods");
        String template = "tmp = \"8m\"\nshm = \"8m\"\nmounts = [\"" + String.join("\", \"", MOUNTS) + "\"]";
        List<String> criu = CheckpointerConfig.criu(System.getenv());
        a = new BridgedNode(testbed, 1, criu, template);
        b = new BridgedNode(testbed, 2, criu, template);
        third = new BridgedNode(testbed, 3, criu, template);
        if (link.isEmpty()) {
            BridgedNode.connect(a, b);
        } else {
            BridgedNode.connect(a, b, link);
        }
        BridgedNode.connect(a, third);
        // With fewer tries than usual pods allow, connections end while a large pod is copied.
        third.run("sh", "-c", "echo 200 >/proc/sys/net/ipv4/tcp_retries2");
        a.warmServices();
        b.warmServices();
        // Room for the memory of a pod that is copied while it runs.
        b.startTarget("br0", "[staging]\nlimit = \"6g\"", "[" + BridgedNode.USER + "]");
        a.startSource();
    }

    /** Returns true if sockets can have a maximum time between two retransmissions. */
    static boolean knowsCap() {
        return Files.exists(CAP);
    }

    /** Moves a pod of that much memory by the product, or by plain CRIU. */
    Run move(String strategy, long memoryBytes) throws Exception {
        start(memoryBytes);
        Run moved = strategy.equals(PPMR) ? migrate() : copy();
        moved.longestGapSeconds = gaps();
        return moved;
    }

    private void start(long memoryBytes) throws Exception {
        List<Integer> caps = knowsCap() ? List.of(CAP_MS, 0) : List.of(0);
        pod = a.runPod(POD, ADDRESS, "perl", "-e", SERVER, Long.toString(memoryBytes / PAGE_BYTES), "" + caps.size());
        Conditions.until(LIMIT, "the pod listens", () -> a.output(pod).contains("listens"));
        for (int cap : caps) {
            Path output = folder.resolve("peer-" + cap);
            String[] words = {"perl", "-e", PEER, ADDRESS + ":7000", Integer.toString(cap), end().toString()};
            new ProcessBuilder(third.words(words))
                    .redirectErrorStream(true)
                    .redirectOutput(output.toFile())
                    .start();
            peers.put(cap == 0 ? "tcp_rto_max_ms as it is" : "tcp_rto_max_ms " + cap, output);
        }
        awaitBeats();
    }

    /** Returns the file whose creation ends the peers' requests. */
    private Path end() {
        return folder.resolve("end");
    }

    /** Waits until each peer has had two hundred more answers. */
    private void awaitBeats() throws Exception {
        for (Path output : peers.values()) {
            long wanted = beats(output) + 2;
            Conditions.until(LIMIT, "the pod answers: " + Files.readString(output), () -> beats(output) >= wanted);
        }
    }

    private static long beats(Path output) throws IOException {
        return Files.readString(output)
                .lines()
                .filter(line -> line.startsWith("beat"))
                .count();
    }

    /** Ends the peers, and returns each one's longest time without an answer, in seconds. */
    private Map<String, Double> gaps() throws Exception {
        awaitBeats();
        Files.createFile(end());
        Map<String, Double> gaps = new LinkedHashMap<>();
        for (Map.Entry<String, Path> peer : peers.entrySet()) {
            Path output = peer.getValue();
            Conditions.until(
                    LIMIT, "the pod reports the state of its memory", () -> GAP.matcher(Files.readString(output))
                            .find());
            Matcher gap = GAP.matcher(Files.readString(output));
            if (!gap.find() || gap.group(1).equals("wrong")) {
                throw new IOException("the pod's memory is not what it was");
            }
            gaps.put(peer.getKey(), Double.parseDouble(gap.group(2)));
        }
        return gaps;
    }

    // ---- by the product ----------------------------------------------------------------------------------------

    private Run migrate() throws Exception {
        long begunMs = System.currentTimeMillis();
        MigrationReport report;
        try (ControlClient client = new ControlClient(a.socket())) {
            client.start(FULL_NAME, List.of(b.endpoint()), Optional.empty(), true);
            report = client.awaitReport(SILENCE_LIMIT, progress -> {});
        } catch (RequestException e) {
            throw new IOException("the source refuses to migrate: " + e.getMessage());
        }
        if (report.outcome() != MigrationReport.Outcome.COMMITTED) {
            throw new IOException("the migration ended with " + report.outcome() + ": " + report.reason() + "\n"
                    + a.source().logEnd(20) + "\n" + b.target().logEnd(20));
        }
        double out = secondsSince(begunMs, "source", a, "its cable is out");
        double in = secondsSince(begunMs, "target", b, "its cable is in");
        Map<String, double[]> phases = new LinkedHashMap<>();
        phases.put("until cable out", new double[] {0, out});
        phases.put("until cable in", new double[] {out, in});
        String strategy = PPMR + ", " + report.pages().split(":", 2)[0];
        Run run = Run.migration(
                strategy,
                report.images().bytes(),
                in - out,
                phases,
                report.times().pauseSeconds());
        run.peakRssBytes =
                Math.max(report.memory().sourcePeakRssBytes(), report.memory().targetPeakRssBytes());
        return run;
    }

    /**
     * Returns the time at which a service last logged these words. Both services log them when they are done, and they
     * have one clock.
     */
    private static double secondsSince(long begunMs, String service, BridgedNode node, String words)
            throws IOException {
        String line = Files.readString(node.folder().resolve(service + ".log"))
                .lines()
                .filter(one -> one.contains(words))
                .reduce((first, second) -> second)
                .orElseThrow(() -> new IOException("the " + service + " has not logged: " + words));
        long atMs = OffsetDateTime.parse(line.split(" ", 2)[0], LOG_TIME)
                .toInstant()
                .toEpochMilli();
        return (atMs - begunMs) / MS_A_SECOND;
    }

    // ---- by plain CRIU -----------------------------------------------------------------------------------------

    /** Makes what does not depend on the pod's state beforehand: its root directory and its network there. */
    private Run copy() throws Exception {
        CriuCommand criu = new CriuCommand(programs);
        Path here = Files.createDirectories(folder.resolve("criu-a/images"));
        Path there = Files.createDirectories(folder.resolve("criu-b"));
        Path root = folder.resolve("root");
        Programs.call(List.of(
                "cp", "-a", a.folder().resolve("pods/1-" + POD + "/root").toString(), root.toString()));
        Path network = makeNetwork();
        String inode = a.run("stat", "-L", "-c", "%i", "/proc/" + pod.init() + "/ns/net")
                .strip();
        Path pidFile = folder.resolve("restored.pid");
        try (SshServer server = SshServer.start(a.node(), b.node(), b.address(), folder)) {
            Clock clock = new Clock();
            a.run("ip", "link", "set", pod.link(), "down");
            run(
                    a,
                    criu.words(
                            List.of("env", "LD_PRELOAD=" + programs.criuLimits()), "dump", here, dumpArguments(inode)));
            clock.ends("dump");
            server.copy(List.of(here), there);
            clock.ends("copy");
            Programs.call(List.of("sync"));
            clock.ends("sync");
            run(
                    b,
                    criu.words(
                            Command.words(
                                    "unshare --mount --propagation slave -- sh -c %s sh %s %s", ENTER, root, network),
                            "restore",
                            there.resolve("images"),
                            restoreArguments(root, pidFile)));
            plugIn(network);
            clock.ends("restore");
            return clock.run(COPY, FileStrategies.bytes(there));
        }
    }

    private List<String> dumpArguments(String network) {
        List<String> arguments = new ArrayList<>(Command.words(
                "--tree %s --leave-stopped --tcp-established --network-lock skip --manage-cgroups=ignore --external %s",
                pod.init(), "net[" + network + "]:extnet"));
        for (String mount : MOUNTS) {
            arguments.addAll(List.of("--external", "mnt[" + mount + "]:node" + mount.replace('/', '.')));
        }
        return arguments;
    }

    private static List<String> restoreArguments(Path root, Path pidFile) throws IOException {
        List<String> arguments = new ArrayList<>(Command.words(
                "--root %s --pidfile %s --restore-detached --shell-job --tcp-established --network-lock skip"
                        + " --manage-cgroups=ignore --inherit-fd fd[9]:extnet",
                root, pidFile));
        for (String mount : MOUNTS) {
            arguments.addAll(List.of(
                    "--external",
                    "mnt[node" + mount.replace('/', '.') + "]:" + Path.of(mount).toRealPath()));
        }
        return arguments;
    }

    /** Makes the pod's network in the second node, with its veth pair down, and returns the network's file. */
    private Path makeNetwork() throws Exception {
        Path network = Files.createFile(folder.resolve("network"));
        b.run("unshare", "--net=" + network, "--", "true");
        String lay = "nsenter --net=\"$1\" -- ip link add eth0 address $2 type veth peer name $3 netns $$";
        b.run("sh", "-c", lay, "sh", network.toString(), pod.addresses().mac(), pod.link());
        b.run(
                "nsenter",
                "--net=" + network,
                "--",
                "sh",
                "-ec",
                "ip link set lo up; ip address add " + ADDRESS + "/24 dev eth0;"
                        + " ip link set eth0 up; echo 200 >/proc/sys/net/ipv4/tcp_retries2");
        return network;
    }

    private void plugIn(Path network) throws Exception {
        b.run("ip", "link", "set", pod.link(), "master", "br0", "up");
        b.run(programs.of("ppmr-pod-net").toString(), "announce", network.toString(), "eth0", ADDRESS);
    }

    private static void run(BridgedNode node, List<String> words) throws Exception {
        Command.of(node.words(words.toArray(String[]::new))).run(LIMIT).requireOutput();
    }
}
