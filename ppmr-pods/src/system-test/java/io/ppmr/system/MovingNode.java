package io.ppmr.system;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.linux.Command;
import io.ppmr.migration.RequestException;
import io.ppmr.pods.PodStatus;
import io.ppmr.pods.testbed.BridgedNode;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.Testbed;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Assumptions;

/** A {@link BridgedNode} of a test. A script has CRIU's arguments, so that a test can have a restore fail, or wait. */
final class MovingNode {
    static final Duration LIMIT = BridgedNode.LIMIT;
    private static final List<String> STEPS = List.of("dump", "restore", "cable-out", "cut", "cable-in", "announce");

    /**
     * A function of sh(1) that waits while a file of that step exists. It stores its PID in another file during the
     * wait.
     */
    private static final String HOLD = """
            hold() {
                while [ -e "%1$s/hold-$1" ]; do echo $$ >"%1$s/waits-$1"; sleep 0.02; done
                rm -f "%1$s/waits-$1"
            }""";

    private static final Path POD_NET =
            NativePrograms.fromSystemProperty().of("ppmr-pod-net").toAbsolutePath();
    private static final Path WITHOUT_NFTABLES =
            Path.of(System.getProperty("ppmr.home"), "ppmr-system-tests/target/native-test/without-nftables");

    private final BridgedNode node;

    /** Skips the caller's tests, with the reason, where no user's pod can be moved. */
    static void assumePossible() throws Exception {
        PodNode.assumePossible();
        Assumptions.assumeTrue(!System.getenv().getOrDefault("PPMR_CRIU", "").isBlank(), "needs CRIU (./ppmr setup)");
    }

    MovingNode(Testbed testbed, int number) throws Exception {
        this(testbed, number, "tmp = \"8m\"\nshm = \"8m\"");
    }

    /**
     * @param pods further lines of the template of its pods, here and on the nodes they are moved to
     */
    MovingNode(Testbed testbed, int number, String pods) throws Exception {
        this(testbed, number, pods, false);
    }

    /**
     * @param hasSystemd whether a systemd starts its services with the limits of their units; they run no script of a
     *     folder that others may write
     */
    MovingNode(Testbed testbed, int number, String pods, boolean hasSystemd) throws Exception {
        Path criu = testbed.folder().resolve("criu-" + number);
        List<String> words = System.getenv("PPMR_CRIU").lines().toList();
        node = new BridgedNode(testbed, number, hasSystemd ? words : List.of(criu.toString()), pods, hasSystemd);
        Files.writeString(criu, """
                #!/bin/sh
                if [ "$1" = restore ] && rm %1$s/fail-one 2>/dev/null; then exit 9; fi
                while [ "$1" = restore ] && [ -e %1$s/wait ]; do touch %1$s/waits; sleep 0.1; done
                if [ "$1" = restore ] && [ -e %1$s/fail ]; then exit 9; fi
                %3$s
                case $1 in dump | restore) hold $1 ;; esac
                if [ -e "%1$s/kill-$1" ]; then
                    for word; do [ "$last" != --tree ] || tree=$word; last=$word; done
                    %2$s "$@" &
                    case $1 in
                    dump) until grep -q '^TracerPid:.*[1-9]' /proc/$tree/status; do :; done ;;
                    restore) until [ -n "$(cat /proc/$!/task/$!/children)" ]; do :; done ;;
                    esac
                    kill -9 $!
                    wait $!
                    exit
                fi
                exec %2$s "$@"
                """.formatted(folder(), String.join(" ", words), HOLD.formatted(folder())));
        Files.setPosixFilePermissions(criu, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    /**
     * From now on the tools that the services here call go through scripts, so that a test can have it {@link #hold}.
     */
    void useHeldTools() throws IOException, InterruptedException {
        useHeldTool("ip", "*\" link delete dev ppmr\"*) hold cut ;;\n");
        // Behind the cable, and before the service knows of it.
        useHeldTool(POD_NET.toString(), """
                " unplug "*) hold cable-out ;;
                " plug "*) hold cable-in; %s "$@" || exit; hold announce; exit 0 ;;
                """.formatted(folder().resolve("real-ppmr-pod-net")));
    }

    /** @param cases of sh(1), by the words that it is called with */
    private void useHeldTool(String tool, String cases) throws IOException, InterruptedException {
        String name = Path.of(tool).getFileName().toString();
        Path real = folder().resolve("real-" + name);
        Path held = Files.writeString(
                folder().resolve("held-" + name), """
                #!/bin/sh
                %1$s
                case " $* " in
                %2$sesac
                exec %3$s "$@"
                """.formatted(HOLD.formatted(folder()), cases, real));
        Files.setPosixFilePermissions(held, PosixFilePermissions.fromString("rwxr-xr-x"));
        run(
                "sh",
                "-ec",
                "tool=$(readlink -f \"$(command -v $1)\"); cp \"$tool\" $2; mount --bind $3 \"$tool\"",
                "sh",
                tool,
                real.toString(),
                held.toString());
    }

    /** From now on the services here, and doctor, find a kernel without nf_tables. */
    void hideNfTables() throws IOException, InterruptedException {
        Path real = folder().resolve("real-ppmr-pod-net");
        Files.copy(POD_NET, real, StandardCopyOption.COPY_ATTRIBUTES, StandardCopyOption.REPLACE_EXISTING);
        Path instead = Files.writeString(
                folder().resolve("pod-net-without-nftables"),
                "#!/bin/sh\nexec " + WITHOUT_NFTABLES + " " + real + " \"$@\"\n");
        Files.setPosixFilePermissions(instead, PosixFilePermissions.fromString("rwxr-xr-x"));
        run("mount", "--bind", instead.toString(), POD_NET.toString());
        run("sh", "-ec", "mount --bind /dev/null \"$(readlink -f \"$(command -v nft)\")\"");
    }

    void showNfTables() throws IOException, InterruptedException {
        run("sh", "-ec", "umount \"$(readlink -f /usr/sbin/nft)\"");
        run("umount", POD_NET.toString());
    }

    /** Has what the services here call wait at a step: dump, restore, cable-out, cut, cable-in, announce. */
    void hold(String step) throws IOException {
        Files.createFile(folder().resolve("hold-" + step));
    }

    void awaitHeld(String step) throws Exception {
        Conditions.until(LIMIT, step + " is about to begin", () -> Files.exists(folder().resolve("waits-" + step)));
    }

    /** Ends the wait. The waiting process continued or is dead when this returns. */
    void letGo(String step) throws IOException, InterruptedException {
        Files.deleteIfExists(folder().resolve("hold-" + step));
        run(
                "sh",
                "-c",
                "while [ -s $1 ] && kill -0 $(cat $1) 2>/dev/null; do sleep 0.02; done; rm -f $1",
                "sh",
                folder().resolve("waits-" + step).toString());
    }

    /** Has CRIU killed in the middle of a dump or a restore. */
    void killCriu(String command) throws IOException {
        Files.createFile(folder().resolve("kill-" + command));
    }

    /** Removes all faults that tests injected into the tools here. */
    void forgetFaults() throws IOException {
        for (String step : STEPS) {
            for (String what : List.of("hold-", "waits-", "kill-")) {
                Files.deleteIfExists(folder().resolve(what + step));
            }
        }
    }

    void useCgroups() throws IOException, InterruptedException {
        node.useCgroups();
    }

    /** Configures how its services send the memory of pods. Call it before they start. */
    void sendPages(String way) {
        node.sendPages(way);
    }

    /** Joins the bridges of two nodes by a cable that carries no more than a rate, as tc(8) writes it. */
    static void connect(MovingNode a, MovingNode b, String rate) throws Exception {
        BridgedNode.connect(a.node, b.node, rate);
    }

    /** Joins the bridges of two nodes. */
    static void connect(MovingNode a, MovingNode b) throws Exception {
        BridgedNode.connect(a.node, b.node);
    }

    /** Moves a network card of the machine into this node, and connects it to its bridge. */
    void plugIn(String card) throws IOException, InterruptedException {
        Command.of(List.of(
                        "ip",
                        "link",
                        "set",
                        "dev",
                        card,
                        "netns",
                        "" + node.node().init().pid()))
                .run(LIMIT)
                .requireOutput();
        run("ip", "link", "set", "dev", card, "master", "br0", "up");
    }

    /** Configures its services to notify others when a pod's address is away. Call it before they start. */
    void tellPeers(List<String> endpoints) {
        node.notifyPeers(endpoints);
    }

    String address() {
        return node.address();
    }

    String endpoint() {
        return node.endpoint();
    }

    Path folder() {
        return node.folder();
    }

    Path socket() {
        return node.socket();
    }

    List<String> words(String... command) {
        return node.words(command);
    }

    void start() throws Exception {
        startSource();
        startTarget("");
    }

    void startSource() throws Exception {
        node.startSource();
    }

    /** @param template further lines of the template at this target, or other ones */
    void startTarget(String template) throws Exception {
        node.startTarget("br0", template, "[1]");
    }

    /**
     * @param trusted the users whose pods it accepts
     */
    void startTargetTrusting(String trusted) throws Exception {
        node.startTarget("br0", "", trusted);
    }

    /** @param bridge what pods are plugged into at this target */
    void startTargetAt(String bridge) throws Exception {
        node.startTarget(bridge, "", "[1]");
    }

    ServiceProcess source() {
        return node.source();
    }

    ServiceProcess target() {
        return node.target();
    }

    String run(String... words) throws IOException, InterruptedException {
        return node.run(words);
    }

    /** Starts a program on the node, as root. close() ends it. */
    Spawned spawn(String... words) throws IOException {
        return new Spawned(words(words), Files.createTempFile(folder(), words[0], ".log"));
    }

    boolean hasLink(String name) throws IOException, InterruptedException {
        return node.hasLink(name);
    }

    PodStatus runPodAt(String name, String at, String... command) throws IOException, RequestException {
        return node.runPod(name, at, command);
    }

    /** Runs a pod of a job. */
    PodStatus runPodOf(String job, String name, String at, String... command) throws IOException, RequestException {
        return node.runPodOf(job, name, at, command);
    }

    /** Configures its services to join a cluster. Call it before they start. */
    void joinCluster(String controllers) {
        node.joinCluster(controllers);
    }

    /** Runs a pod of a job over several nodes. */
    PodStatus runMember(String job, int members, String name, String at, String... command)
            throws IOException, RequestException {
        return node.runMember(job, members, name, at, command);
    }

    /** Returns the underlying node. */
    BridgedNode bridged() {
        return node;
    }

    /** Returns its host name, as the cluster shows it. */
    String host() {
        return "bridged-" + node.number();
    }

    /** Returns a path of a pod's in this JVM's namespace. */
    Path within(PodStatus pod, String path) throws IOException {
        return Path.of("/proc/" + node.pidOf(pod) + "/root" + path);
    }

    String said(PodStatus pod) throws IOException {
        return node.output(pod);
    }

    List<PodStatus> list(String service) throws IOException, RequestException {
        return node.pods(folder().resolve(service + ".sock"));
    }

    /** The only pod here. */
    PodStatus only() throws IOException, RequestException {
        List<PodStatus> all = list("target");
        if (all.size() != 1) {
            throw new IOException("node " + node.number() + " has the pods " + all);
        }
        return all.get(0);
    }

    /** Waits until a pod has written something that a text is in. */
    void await(PodStatus pod, String text) throws Exception {
        Conditions.until(
                LIMIT, "pod " + pod.name() + " says " + text, () -> said(pod).contains(text));
    }

    /** Moves a pod, or all of a job, and returns the command's output. */
    PpmrCommand move(String pod, MovingNode to) throws Exception {
        return PpmrCommand.run("migrate", "--socket", socket().toString(), pod, "--to", to.endpoint());
    }

    /** An ordinary user sends a request to the source. Returns the first line of the answer. */
    String askAs(int uid, String request) throws IOException, InterruptedException {
        return Command.of(List.of(
                        "setpriv",
                        "--reuid",
                        "" + uid,
                        "--regid",
                        "" + uid,
                        "--clear-groups",
                        "perl",
                        "-MIO::Socket::UNIX",
                        "-e",
                        PodNode.ASK,
                        socket().toString(),
                        request))
                .in(Path.of("/"))
                .run(LIMIT)
                .requireOutput();
    }

    /** Reads the journal of a service here. */
    List<TransactionRecord> records(String service) throws IOException {
        return Nodes.journal(folder(), service);
    }

    /** Waits until a service's journal has such a record of a migration. */
    void awaitRecord(String service, String id, Class<? extends TransactionRecord> kind) throws Exception {
        Conditions.until(
                LIMIT, "the " + service + "'s journal has " + kind.getSimpleName(), () -> records(service).stream()
                        .anyMatch(record ->
                                kind.isInstance(record) && record.migrationId().equals(id)));
    }

    /**
     * Waits until the target here received the message that the image of a migration's first attempt is whole. From
     * then on it may vote. Before that, no process opens the file that CRIU writes last.
     */
    void awaitWholeImage(String id) throws IOException, InterruptedException {
        Path last = folder().resolve("target-mount").resolve(id + ".1/rank-0/inventory.img");
        run("timeout", "" + LIMIT.toSeconds(), "head", "-c", "1", last.toString());
    }

    /** Runs something in a pod's network, as root of the node. */
    String runIn(PodStatus pod, String... command) throws IOException, InterruptedException {
        List<String> words = new ArrayList<>(List.of("nsenter", "--target", "" + node.pidOf(pod), "--net", "--"));
        words.addAll(List.of(command));
        return Command.of(words).run(LIMIT).requireOutput();
    }

    /** Ends a pod and its veth pair, as when the node loses its power. The service must have ended. */
    void losePod(PodStatus pod) throws IOException, InterruptedException {
        ProcessHandle.of(node.pidOf(pod)).ifPresent(ProcessHandle::destroyForcibly);
        // The kernel removes it itself shortly after the pod ended.
        String link = pod.link();
        run("sh", "-c", "ip link delete dev " + link + " || ! ip link show dev " + link);
    }

    /**
     * Kills everything of a pod here, including a half restored pod or an ending one, and the processes that the
     * services here started. One service continues, because it represents a service on another node.
     */
    void loseAllOf(PodStatus pod) throws IOException, InterruptedException {
        run("sh", "-c", """
                for one in /proc/[0-9]*; do
                    [ "$(cat $one/comm 2>/dev/null)" != java ] || continue
                    grep -qaF "$2/" $one/cmdline 2>/dev/null && [ ${one#/proc/} != $$ ] && kill -9 ${one#/proc/}
                    [ "$(nsenter --net=$one/ns/net ip -o addr 2>/dev/null | grep -c "inet $1/")" = 1 ] \\
                        && kill -9 ${one#/proc/}
                done
                ip link delete $3 2>/dev/null
                true
                """, "sh", pod.address(), folder().toString(), pod.link());
    }

    /** Reads what is recorded of a pod. */
    JsonNode journal(String name) throws IOException {
        return new ObjectMapper()
                .readTree(folder().resolve("pods/" + name + "/pod.json").toFile());
    }
}
