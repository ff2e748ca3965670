package io.ppmr.pods;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.CommandStarter;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.linux.Command;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.protocol.control.PodAddresses;
import io.ppmr.protocol.control.PodSpecification;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Real networks: one with a pod's interface, and one at the other end of its cable, with two addresses. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class PodRuntimeTest {
    private static final Duration LIMIT = Duration.ofSeconds(30);
    private static final String MAC = "02:50:0a:14:00:0c";
    /** Makes the first pod, whose veth pair goes to the network of the process with that PID. */
    private static final String NETWORK = """
            ip link add eth0 address %s type veth peer name ppmr0a14000c address 02:51:00:00:00:09 netns "$1"
            ip link set eth0 up
            nsenter --target "$1" --net -- sh -ec '
                ip address add 10.20.0.12/24 dev ppmr0a14000c
                ip address add 10.20.0.13/24 dev ppmr0a14000c
                ip link add br0 type bridge
                ip link set br0 up
                ip link set ppmr0a14000c up'
            echo ready; exec sleep 100
            """.formatted(MAC);

    @TempDir
    Path folder;

    private Process peer;
    private Process network;
    private PodRuntime runtime;

    @BeforeEach
    void makeNetwork() throws Exception {
        Assumptions.assumeTrue(
                Command.of(List.of("unshare", "--net", "true")).run(LIMIT).succeeded(),
                "needs a root that can make networks");
        NativePrograms programs = NativePrograms.fromSystemProperty();
        runtime = new PodRuntime(
                new PodSettings(folder, List.of("crun"), PodSettings.Cgroups.DISABLED, List.of()),
                programs.of("ppmr-pod-net"),
                programs.of("ppmr-pod-enter"),
                CommandStarter.of(Map.of()));
        peer = new ProcessBuilder("unshare", "--net", "sh", "-c", "echo ready; exec sleep 100").start();
        assertEquals("ready", peer.inputReader().readLine());
        network = new ProcessBuilder("unshare", "--net", "sh", "-ec", NETWORK, "sh", Long.toString(peer.pid()))
                .redirectErrorStream(true)
                .start();
        assertEquals("ready", network.inputReader().readLine());
    }

    @AfterEach
    void end() throws InterruptedException {
        for (Process process : new Process[] {network, peer}) {
            if (process != null) {
                process.destroyForcibly().waitFor();
            }
        }
    }

    private Path networkFile() {
        return Path.of("/proc/" + network.pid() + "/ns/net");
    }

    private static PodRecord pod() {
        return new PodRecord(
                new PodSpecification("client", null, "usual", List.of(), List.of("true")),
                1,
                1,
                new PodAddresses("10.20.0.12", "", MAC),
                "br0",
                "ppmr0a14000c",
                List.of(),
                0,
                null,
                true,
                0,
                null);
    }

    @Test
    void shouldAnnounceInThePodsNetworkWhenTheProcessThatHadItHasEnded() throws Exception {
        ProcessTable processes = new ProcessTable();
        ProcessIdentity init = processes.of((int) network.pid());
        long number = PodRuntime.number(networkFile());
        runtime.adoptNetwork(folder, init, processes);
        Path file = PodRuntime.networkFile(folder);
        try {
            // Whatever has its PID from now on is another process, in another network.
            network.destroyForcibly().waitFor();
            assertEquals(number, PodRuntime.number(file));
            assertDoesNotThrow(() -> runtime.announce(pod(), file));
        } finally {
            runtime.forgetNetwork(folder);
        }
        assertFalse(Files.exists(file));
    }

    /** The runtime of the node, whose network has the other end of the cable. */
    private PodRuntime atNode() throws Exception {
        Path atNode = folder.resolve("at-node");
        Files.writeString(
                atNode,
                "#!/bin/sh\nexec nsenter --net=/proc/" + peer.pid() + "/ns/net -- "
                        + NativePrograms.fromSystemProperty().of("ppmr-pod-net") + " \"$@\"\n");
        assertTrue(atNode.toFile().setExecutable(true));
        return new PodRuntime(runtime.settings(), atNode, runtime.podEnter(), runtime.starter());
    }

    private String inside(String... words) throws Exception {
        List<String> all = new ArrayList<>(List.of("nsenter", "--net=" + networkFile(), "--"));
        all.addAll(List.of(words));
        return Command.of(all).run(LIMIT).requireOutput();
    }

    /** Both can be repeated, as by the next run of a service. */
    @Test
    void shouldDropAllPacketsUntilTheCableIsPluggedIn() throws Exception {
        requireDroppedUntilPlugged(atNode(), Optional.empty());
    }

    @Test
    void shouldDropThemWhenAProgramWasStartedBefore() throws Exception {
        PodRuntime node = atNode();
        try (PodCables cables = node.startCables()) {
            assertEquals("all", cables.request(List.of("unplug", networkFile().toString(), "eth0", "ppmr0a14000c")));
            requireDroppedUntilPlugged(node, Optional.of(cables));
            List<String> nowhere = List.of("unplug", "/nowhere", "eth0", "ppmr0a14000c");
            assertThrows(IOException.class, () -> cables.request(nowhere));
            assertEquals("all", cables.request(List.of("unplug", networkFile().toString(), "eth0", "ppmr0a14000c")));
        }
    }

    @Test
    void shouldDropThemWhenTheProgramThatWasStartedBeforeHasEnded() throws Exception {
        PodRuntime node = atNode();
        PodCables cables = node.startCables();
        cables.close();
        requireDroppedUntilPlugged(node, Optional.of(cables));
    }

    private void requireDroppedUntilPlugged(PodRuntime node, Optional<PodCables> cables) throws Exception {
        Assumptions.assumeTrue(
                Command.of(List.of("sh", "-c", "command -v nft")).run(LIMIT).succeeded(), "needs nft");
        for (int i = 0; i < 2; i++) {
            assertEquals(PodRuntime.DroppedPackets.ALL, node.unplug(pod(), networkFile(), cables));
            String link = inside("ip", "link", "show", "eth0");
            assertTrue(link.contains("NO-CARRIER") && link.contains("NOARP"), link);
            String rules = inside("nft", "list", "ruleset");
            assertTrue(rules.contains("hook egress device \"eth0\" priority filter; policy drop"), rules);
            assertTrue(rules.contains("hook egress device \"lo\" priority filter; policy drop"), rules);
            assertTrue(rules.contains("hook ingress device \"lo\" priority filter; policy drop"), rules);
        }
        for (int i = 0; i < 2; i++) {
            node.plug(pod(), networkFile(), cables);
            String link = inside("ip", "link", "show", "eth0");
            assertTrue(link.contains("LOWER_UP") && !link.contains("NOARP"), link);
            assertEquals("", inside("nft", "list", "ruleset"));
        }
        String cable = Command.of(List.of(
                        "nsenter", "--net=/proc/" + peer.pid() + "/ns/net", "ip", "link", "show", "ppmr0a14000c"))
                .run(LIMIT)
                .requireOutput();
        assertTrue(cable.contains("master br0"), cable);
    }

    /** The processes of a pod stay held until its sockets are reset. */
    @Test
    void shouldResetTheSocketsOfANetworkHoweverManyItHas() throws Exception {
        String sockets = "for (1 .. 70) { next if fork; socket(my $s, 1, 1, 0) && push(@all, $s) || die for 1 .. 950;"
                + " print qq(.); sleep 100; exit } sleep 100";
        Process many = new ProcessBuilder("nsenter", "--net=" + networkFile(), "perl", "-e", "$| = 1; " + sockets)
                .redirectErrorStream(true)
                .start();
        try {
            assertEquals(".".repeat(70), new String(many.getInputStream().readNBytes(70), StandardCharsets.US_ASCII));
            PodRuntime node = atNode();
            assertDoesNotThrow(() -> node.unplug(pod(), networkFile(), Optional.empty()));
            assertDoesNotThrow(() -> node.plug(pod(), networkFile(), Optional.empty()));
        } finally {
            many.descendants().forEach(ProcessHandle::destroyForcibly);
            many.destroyForcibly().waitFor();
        }
    }

    @Test
    void shouldAdoptNoNetworkWhenThePodHasEnded() throws Exception {
        ProcessTable processes = new ProcessTable();
        ProcessIdentity init = processes.of((int) network.pid());
        ProcessIdentity earlier =
                new ProcessIdentity(init.bootId(), init.pidNamespace(), init.pid(), init.startTimeTicks() - 1);
        runtime.adoptNetwork(folder, earlier, processes);
        assertFalse(Files.exists(PodRuntime.networkFile(folder)));
        network.destroyForcibly().waitFor();
        runtime.adoptNetwork(folder, init, processes);
        assertFalse(Files.exists(PodRuntime.networkFile(folder)));
    }

    @Test
    void shouldSayWhoHasEachAddressWhenSeveralAreAskedForAtOnce() throws Exception {
        Path ask = folder.resolve("ask");
        // The program as it is called in the network.
        Files.writeString(
                ask,
                "#!/bin/sh\nexec nsenter --net=" + networkFile() + " -- "
                        + NativePrograms.fromSystemProperty().of("ppmr-pod-net") + " \"$@\"\n");
        assertTrue(ask.toFile().setExecutable(true));
        PodRuntime there = new PodRuntime(runtime.settings(), ask, runtime.podEnter(), runtime.starter());
        long startNs = System.nanoTime();
        Map<String, Set<String>> having =
                there.whoHas("eth0", List.of("10.20.0.12", "10.20.0.13", "10.20.0.14", "fd00:20::a14:c"));
        double seconds = (System.nanoTime() - startNs) / 1e9;
        Set<String> peers = Set.of("02:51:00:00:00:09");
        assertEquals(Map.of("10.20.0.12", peers, "10.20.0.13", peers), having);
        System.out.printf("figure: four addresses are asked for in %.1f s%n", seconds);
    }
}
