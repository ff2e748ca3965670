package io.ppmr.cluster.controller;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.record.NodeRecord;
import io.ppmr.cluster.record.NodeStatus;
import io.ppmr.cluster.record.ServiceName;
import io.ppmr.cluster.record.ServiceRecord;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.Test;

/** The rules of nodes' states, in time that the test advances. */
class NodeTableTest {
    private static final Duration GRACE = Duration.ofSeconds(25);
    private static final long TICK_NS = Duration.ofMillis(500).toNanos();
    private static final String BOOT = "0123abcd-0123-0123-0123-00000000000";

    /** A cluster whose network is a set of nodes that answer. Probes and questions are answered at the next tick. */
    private static final class Cluster {
        private final NodeTable table;
        private final Set<String> answering = new HashSet<>();
        private final Set<String> muteWitnesses = new HashSet<>();
        private final Map<String, NodeRecord> kept = new HashMap<>();
        private final List<NodeTable.Change> changes = new ArrayList<>();
        private final List<NodeAct.FenceNode> commands = new ArrayList<>();
        private long nowNs = 1;
        private boolean controllerIsCut;
        private boolean isKnown = true;

        private Cluster(long seed, int nodes) {
            this(seed, nodes, Optional.empty());
        }

        private Cluster(long seed, int nodes, Optional<FenceRules.FenceLimits> fences) {
            table = new NodeTable(new SplittableRandom(seed), GRACE, fences);
            table.begin(Map.of(), nowNs, 1);
            for (int i = 1; i <= nodes; i++) {
                come("n" + i, 1);
            }
            pass(GRACE.plus(Duration.ofSeconds(1)));
            changes.clear();
        }

        private static String address(String host) {
            return "10.0.0." + host.substring(1) + ":40000";
        }

        private void come(String host, int boot) {
            answering.add(address(host));
            come(host, boot, address(host));
        }

        private void come(String host, int boot, String questions) {
            table.appeared(
                    new ServiceName(host, "target"),
                    Optional.of(new ServiceRecord(
                            BOOT + boot,
                            "10.0.0." + host.substring(1) + ":7411",
                            questions,
                            "",
                            "0.3.0",
                            1,
                            1,
                            1,
                            0,
                            List.of("criu"),
                            "00",
                            0)),
                    nowNs,
                    nowNs / 1_000_000);
        }

        private void lose(String host) {
            answering.remove(address(host));
            end(host);
        }

        private void end(String host) {
            table.vanished(new ServiceName(host, "target"), nowNs, nowNs / 1_000_000);
        }

        private void pass(Duration time) {
            for (long endNs = nowNs + time.toNanos(); nowNs < endNs; nowNs += TICK_NS) {
                table.tick(nowNs, nowNs / 1_000_000, isKnown);
                carryOut();
            }
        }

        private void carryOut() {
            for (NodeAct effect : table.takeActs()) {
                if (effect instanceof NodeAct.Probe probe) {
                    table.probed(
                            probe.host(),
                            probe.round(),
                            !controllerIsCut && probe.addresses().stream().anyMatch(answering::contains),
                            nowNs,
                            nowNs / 1_000_000);
                } else if (effect instanceof NodeAct.AskWitnesses ask) {
                    ask.witnesses().forEach(witness -> answer(ask, witness));
                } else if (effect instanceof NodeAct.Write write) {
                    kept.put(write.host(), write.record());
                } else if (effect instanceof NodeAct.FenceNode fence) {
                    commands.add(fence);
                } else if (effect instanceof NodeAct.Remove remove) {
                    kept.remove(remove.host());
                }
            }
            changes.addAll(table.takeChanges());
        }

        private void answer(NodeAct.AskWitnesses ask, NodeAct.Witness witness) {
            boolean isMute = controllerIsCut || muteWitnesses.contains(witness.host());
            Set<String> seen = new HashSet<>(ask.addresses());
            seen.retainAll(answering);
            table.witnessed(
                    ask.batch(),
                    witness.host(),
                    isMute ? Optional.empty() : Optional.of(seen),
                    nowNs,
                    nowNs / 1_000_000);
        }

        private NodeStatus state(String host) {
            return table.state(host).orElseThrow();
        }
    }

    @Test
    void shouldBeServiceDownWhenItsKernelAnswersAndUpWhenItsServiceIsBack() {
        Cluster cluster = new Cluster(1, 4);
        cluster.end("n2");
        cluster.pass(Duration.ofSeconds(2));
        assertEquals(NodeStatus.SERVICE_DOWN, cluster.state("n2"));
        cluster.come("n2", 1);
        assertEquals(NodeStatus.UP, cluster.state("n2"));
    }

    @Test
    void shouldBeSuspectWhenTwoOtherNodesGetNoAnswerToo() {
        Cluster cluster = new Cluster(2, 4);
        cluster.lose("n3");
        cluster.pass(NodeTable.SILENT_LIMIT);
        assertEquals(NodeStatus.SUSPECT, cluster.state("n3"));
        assertEquals(NodeStatus.UP, cluster.state("n1"));
        // Its cable is mended: the kernel answers, then the service returns.
        cluster.answering.add(Cluster.address("n3"));
        cluster.pass(NodeTable.PROBE_AGAIN.plus(Duration.ofSeconds(1)));
        assertEquals(NodeStatus.SERVICE_DOWN, cluster.state("n3"));
    }

    @Test
    void shouldBeUnknownWhenTooFewNodesCanConfirmIt() {
        Cluster cluster = new Cluster(3, 2);
        cluster.lose("n1");
        cluster.pass(NodeTable.SILENT_LIMIT);
        assertEquals(NodeStatus.UNKNOWN, cluster.state("n1"));
        Cluster mute = new Cluster(3, 4);
        mute.muteWitnesses.addAll(List.of("n1", "n2"));
        mute.lose("n4");
        mute.pass(NodeTable.SILENT_LIMIT);
        assertEquals(NodeStatus.UNKNOWN, mute.state("n4"));
    }

    @Test
    void shouldSuspectNoNodeWhenTheControllerIsCutFromAll() {
        Cluster cluster = new Cluster(4, 6);
        cluster.controllerIsCut = true;
        for (int i = 1; i <= 6; i++) {
            cluster.end("n" + i);
        }
        cluster.pass(Duration.ofMinutes(1));
        for (int i = 1; i <= 6; i++) {
            assertEquals(NodeStatus.UNKNOWN, cluster.state("n" + i));
        }
    }

    @Test
    void shouldBeServiceDownWhenOnlyTheControllerGetsNoAnswer() {
        Cluster cluster = new Cluster(5, 4);
        cluster.end("n1");
        cluster.table.tick(cluster.nowNs, 1, true);
        for (NodeAct effect : cluster.table.takeActs()) {
            if (effect instanceof NodeAct.Probe probe) {
                cluster.table.probed("n1", probe.round(), false, cluster.nowNs, 1);
            }
        }
        cluster.pass(Duration.ofSeconds(1));
        assertEquals(NodeStatus.SERVICE_DOWN, cluster.state("n1"));
    }

    @Test
    void shouldKeepStatesWhenSessionsEndAfterAPause() {
        Cluster cluster = new Cluster(6, 4);
        cluster.nowNs += Duration.ofMinutes(1).toNanos();
        cluster.table.paused(cluster.nowNs);
        for (int i = 1; i <= 4; i++) {
            cluster.end("n" + i);
        }
        cluster.pass(Duration.ofSeconds(10));
        for (int i = 1; i <= 4; i++) {
            cluster.come("n" + i, 1);
        }
        cluster.pass(Duration.ofMinutes(1));
        assertEquals(List.of(), cluster.changes);
    }

    @Test
    void shouldNeverBeSuspectWhenItsFirewallDropsTheProbe() {
        Cluster cluster = new Cluster(7, 4);
        cluster.answering.clear();
        cluster.come("n5", 1);
        cluster.answering.remove(Cluster.address("n5"));
        cluster.pass(Duration.ofSeconds(1));
        assertTrue(cluster.table.views("", Optional.empty(), Optional.empty(), 10).stream()
                .anyMatch(view -> view.host().equals("n5") && view.unprobed()));
        cluster.end("n5");
        cluster.pass(Duration.ofMinutes(1));
        assertEquals(NodeStatus.UNKNOWN, cluster.state("n5"));
    }

    @Test
    void shouldBeOffForOneBootWhenAnOperatorReportsIt() {
        Cluster cluster = new Cluster(8, 4);
        assertTrue(cluster.table.turnOff("n1", 1).orElseThrow().contains("have a session now"));
        assertTrue(cluster.table.turnOff("n9", 1).orElseThrow().contains("has no node n9"));
        cluster.lose("n1");
        cluster.pass(Duration.ofSeconds(6));
        assertEquals(Optional.empty(), cluster.table.turnOff("n1", 1));
        cluster.pass(Duration.ofMinutes(1));
        assertEquals(NodeStatus.OFF, cluster.state("n1"));
        assertEquals(BOOT + 1, cluster.kept.get("n1").bootId());
        cluster.come("n1", 2);
        assertEquals(NodeStatus.UP, cluster.state("n1"));
        assertEquals(Optional.empty(), cluster.table.returnedFromOff("n1"));
    }

    /** The operator's report comes while a probe of the node is on its way. */
    @Test
    void shouldStayOffWhenAnEarlierProbeIsAnsweredLate() {
        Cluster cluster = new Cluster(12, 4);
        cluster.lose("n1");
        cluster.pass(Duration.ofSeconds(6));
        cluster.nowNs += NodeTable.PROBE_AGAIN.toNanos();
        cluster.table.tick(cluster.nowNs, 1, true);
        List<NodeAct> acts = cluster.table.takeActs();
        cluster.table.turnOff("n1", 1);
        for (NodeAct act : acts) {
            if (act instanceof NodeAct.Probe probe) {
                cluster.table.probed(probe.host(), probe.round(), true, cluster.nowNs, 1);
            }
        }
        cluster.pass(Duration.ofSeconds(1));
        assertEquals(NodeStatus.OFF, cluster.state("n1"));
    }

    @Test
    void shouldProbeAgainWhenAProbeHasNoResult() {
        Cluster cluster = new Cluster(13, 4);
        cluster.end("n1");
        cluster.table.tick(cluster.nowNs, 1, true);
        // The probe fails here, for want of descriptors.
        cluster.table.takeActs();
        cluster.pass(NodeTable.SILENT_LIMIT.plus(NodeTable.LOST_PROBE).plus(Duration.ofSeconds(1)));
        assertEquals(NodeStatus.SERVICE_DOWN, cluster.state("n1"));
    }

    @Test
    void shouldBeUnknownWhenItsRecordNeverHadAnAddress() {
        Cluster cluster = new Cluster(14, 4);
        cluster.table.appeared(new ServiceName("n9", "target"), Optional.empty(), cluster.nowNs, 1);
        cluster.table.vanished(new ServiceName("n9", "target"), cluster.nowNs, 1);
        cluster.pass(Duration.ofSeconds(20));
        assertEquals(NodeStatus.UNKNOWN, cluster.state("n9"));
    }

    @Test
    void shouldJudgeManySilentNodesInTime() {
        Cluster cluster = new Cluster(15, 1000);
        for (int i = 1; i <= 990; i++) {
            cluster.lose("n" + i);
        }
        cluster.pass(NodeTable.SILENT_LIMIT);
        assertEquals(990, cluster.table.counts().get(NodeStatus.SUSPECT));
    }

    @Test
    void shouldRaiseAnAlarmWhenABootIsBackThatWasReportedOff() {
        Cluster cluster = new Cluster(9, 4);
        cluster.lose("n1");
        cluster.pass(Duration.ofSeconds(6));
        cluster.table.turnOff("n1", 1);
        cluster.come("n1", 1);
        assertEquals(Optional.of(BOOT + 1), cluster.table.returnedFromOff("n1"));
    }

    @Test
    void shouldBeServiceDownWhenOneOfItsTwoServicesHasNoSession() {
        Cluster cluster = new Cluster(10, 4);
        cluster.table.appeared(new ServiceName("n1", "source"), Optional.empty(), cluster.nowNs, 1);
        assertEquals(NodeStatus.UP, cluster.state("n1"));
        cluster.table.vanished(new ServiceName("n1", "source"), cluster.nowNs, 1);
        assertEquals(NodeStatus.SERVICE_DOWN, cluster.state("n1"));
        assertEquals("?", viewWithUnreadableRecord());
    }

    private static String viewWithUnreadableRecord() {
        NodeTable table = new NodeTable(new SplittableRandom(1), GRACE, Optional.empty());
        table.appeared(new ServiceName("n1", "source"), Optional.empty(), 1, 1);
        return table.views("", Optional.empty(), Optional.empty(), 1).get(0).release();
    }

    @Test
    void shouldKnowLostNodesWhenAnotherControllerBecomesActive() {
        Cluster cluster = new Cluster(11, 5);
        cluster.lose("n5");
        cluster.pass(Duration.ofSeconds(6));
        assertEquals(NodeStatus.SUSPECT, cluster.state("n5"));
        Map<String, NodeRecord> kept = Map.copyOf(cluster.kept);
        NodeTable next = new NodeTable(new SplittableRandom(1), GRACE, Optional.empty());
        next.begin(kept, 1, 1);
        assertEquals(Optional.of(NodeStatus.SUSPECT), next.state("n5"));
        assertEquals(Optional.of(NodeStatus.UP), next.state("n1"));
    }

    /** Only a node without a session becomes suspect, and no node stays silent, in any order of events. */
    @Property(tries = 300)
    void shouldSuspectOnlyNodesThatDoNotAnswer(@ForAll long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        Cluster cluster = new Cluster(seed, 6);
        Set<String> there = new HashSet<>(Set.of("n1", "n2", "n3", "n4", "n5", "n6"));
        Map<String, Long> silentSince = new HashMap<>();
        for (int step = 0; step < 60; step++) {
            String host = "n" + random.nextInt(1, 7);
            switch (random.nextInt(6)) {
                case 0 -> {
                    cluster.lose(host);
                    there.remove(host);
                }
                case 1 -> {
                    cluster.end(host);
                    there.remove(host);
                }
                case 2 -> {
                    cluster.come(host, random.nextInt(3));
                    there.add(host);
                }
                case 3 -> cluster.controllerIsCut = random.nextBoolean();
                case 4 -> {
                    if (random.nextBoolean()) {
                        cluster.muteWitnesses.add(host);
                    } else {
                        cluster.muteWitnesses.clear();
                    }
                }
                default -> cluster.table.paused(cluster.nowNs);
            }
            cluster.pass(Duration.ofMillis(500L * random.nextInt(1, 12)));
            for (int i = 1; i <= 6; i++) {
                String one = "n" + i;
                NodeStatus state = cluster.state(one);
                if (there.contains(one)) {
                    assertEquals(NodeStatus.UP, state, "seed " + seed + ", step " + step);
                }
                if (state == NodeStatus.SILENT) {
                    long sinceNs = silentSince.computeIfAbsent(one, unused -> cluster.nowNs);
                    assertTrue(cluster.nowNs - sinceNs <= NodeTable.SILENT_LIMIT.toNanos() + TICK_NS, "seed " + seed);
                } else {
                    silentSince.remove(one);
                }
            }
            for (NodeTable.Change change : cluster.changes) {
                if (change.to() == NodeStatus.SUSPECT) {
                    assertNotEquals(true, there.contains(change.host()), "seed " + seed);
                }
            }
            cluster.changes.clear();
        }
    }

    /** Probes and questions about it are on their way, and their results must not bring it back. */
    @Test
    void shouldKeepNothingOfANodeWhenItIsForgotten() {
        for (int steps = 0; steps < 30; steps++) {
            Cluster cluster = new Cluster(steps, 5);
            cluster.lose("n2");
            for (int i = 0; i < steps; i++) {
                cluster.table.tick(cluster.nowNs, 1, true);
                cluster.nowNs += TICK_NS;
                if (i % 3 == 0) {
                    cluster.carryOut();
                }
            }
            assertEquals(Optional.empty(), cluster.table.forget("n2", cluster.nowNs, 1));
            cluster.changes.clear();
            cluster.pass(Duration.ofMinutes(2));
            assertEquals(Optional.empty(), cluster.table.state("n2"), "after " + steps + " steps");
            assertEquals(Set.of("n1", "n3", "n4", "n5"), cluster.kept.keySet());
            cluster.come("n2", 1);
            cluster.pass(Duration.ofSeconds(2));
            assertEquals(Optional.of(NodeStatus.UP), cluster.table.state("n2"));
        }
    }

    @Test
    void shouldBeUpWhenTheServiceThatItHasNoLongerIsForgotten() {
        Cluster cluster = new Cluster(1, 3);
        ServiceName source = new ServiceName("n2", "source");
        cluster.table.appeared(source, Optional.empty(), cluster.nowNs, 1);
        cluster.table.vanished(source, cluster.nowNs, 1);
        cluster.pass(Duration.ofSeconds(2));
        assertEquals(Optional.of(NodeStatus.SERVICE_DOWN), cluster.table.state("n2"));
        assertEquals(Optional.empty(), cluster.table.forget("n2", cluster.nowNs, 1));
        assertEquals(Optional.of(NodeStatus.UP), cluster.table.state("n2"));
        assertTrue(cluster.table.forget("n2", cluster.nowNs, 1).orElseThrow().contains("have a session now"));
        assertEquals(Optional.empty(), cluster.table.forget("n9", cluster.nowNs, 1));
    }

    @Test
    void shouldTakeNoFurtherNamesWhenItHasAsManyAsItKeeps() {
        NodeTable table = new NodeTable(new SplittableRandom(1), GRACE, Optional.empty());
        table.begin(Map.of(), 1, 1);
        for (int i = 0; i < NodeTable.MOST_NODES; i++) {
            assertTrue(table.appeared(new ServiceName("n" + i, "target"), Optional.empty(), 1, 1));
        }
        assertFalse(table.appeared(new ServiceName("more", "target"), Optional.empty(), 1, 1));
        assertTrue(table.appeared(new ServiceName("n1", "source"), Optional.empty(), 1, 1));
        table.vanished(new ServiceName("n7", "target"), 1, 1);
        assertEquals(Optional.empty(), table.forget("n7", 1, 1));
        assertTrue(table.appeared(new ServiceName("more", "target"), Optional.empty(), 1, 1));
    }

    // ---- fences ------------------------------------------------------------------------------------------------

    private static final Duration DELAY = Duration.ofSeconds(30);
    private static final FenceRules.FenceLimits FENCES = new FenceRules.FenceLimits(DELAY, Duration.ofSeconds(20), 4);

    private static Cluster fenced(int nodes) {
        return new Cluster(7, nodes, Optional.of(FENCES));
    }

    private static void end(Cluster cluster, boolean isProved) {
        NodeAct.FenceNode fence = cluster.commands.get(cluster.commands.size() - 1);
        cluster.table.fenced(fence.host(), fence.number(), isProved, cluster.nowNs, cluster.nowNs / 1_000_000);
        cluster.carryOut();
    }

    @Test
    void shouldFenceANodeThatStaysSuspectAndBeOffWhenTheCommandProvesIt() {
        Cluster cluster = fenced(5);
        cluster.lose("n2");
        cluster.pass(DELAY);
        assertEquals(List.of(), cluster.commands);
        cluster.pass(Duration.ofSeconds(3));
        assertEquals(1, cluster.commands.size());
        assertEquals("n2", cluster.commands.get(0).host());
        assertEquals(BOOT + 1, cluster.commands.get(0).bootId());
        assertEquals(NodeStatus.FENCING, cluster.state("n2"));
        cluster.pass(FENCES.deadline().plus(Duration.ofSeconds(10)));
        assertEquals(1, cluster.commands.size(), "it is asked once");
        end(cluster, true);
        assertEquals(NodeStatus.OFF, cluster.state("n2"));
        assertEquals(NodeStatus.OFF, cluster.kept.get("n2").state());
        assertEquals(Set.of(BOOT + 1), cluster.table.endedBoots(Set.of(BOOT + 1, BOOT + 2)));
        cluster.come("n2", 2);
        assertEquals(NodeStatus.UP, cluster.state("n2"));
        assertEquals(Optional.empty(), cluster.table.returnedFromOff("n2"));
    }

    @Test
    void shouldNotFenceANodeThatAnswersWhenItIsProbedOnceMore() {
        Cluster cluster = fenced(5);
        cluster.lose("n2");
        cluster.pass(DELAY);
        cluster.answering.add(Cluster.address("n2"));
        cluster.pass(DELAY);
        assertEquals(List.of(), cluster.commands);
        assertEquals(NodeStatus.SERVICE_DOWN, cluster.state("n2"));
    }

    @Test
    void shouldBeginTheDelayAnewWhenThisControllerWasPausedOrACommandFailed() {
        Cluster cluster = fenced(5);
        cluster.lose("n2");
        cluster.pass(DELAY.minus(Duration.ofSeconds(2)));
        cluster.table.paused(cluster.nowNs);
        cluster.pass(DELAY.minus(Duration.ofSeconds(2)));
        assertEquals(List.of(), cluster.commands);
        cluster.pass(Duration.ofSeconds(6));
        assertEquals(1, cluster.commands.size());
        end(cluster, false);
        assertEquals(NodeStatus.SUSPECT, cluster.state("n2"));
        cluster.pass(DELAY.minus(Duration.ofSeconds(2)));
        assertEquals(1, cluster.commands.size());
        cluster.pass(Duration.ofSeconds(6));
        assertEquals(2, cluster.commands.size());
    }

    @Test
    void shouldFenceNoneWhenManyAreSuspectAtOnceAndReturnTheReason() {
        Cluster cluster = fenced(5);
        List.of("n2", "n3").forEach(cluster::lose);
        cluster.pass(Duration.ofSeconds(6));
        cluster.lose("n4");
        cluster.pass(Duration.ofSeconds(6));
        // Only two are left, which is one witness too few for a SUSPECT controller, and enough for these.
        cluster.pass(DELAY.multipliedBy(2));
        assertEquals(List.of(), cluster.commands);
        assertTrue(
                cluster.table.heldBack().orElseThrow().contains("n2, n3"),
                cluster.table.heldBack().get());
    }

    @Test
    void shouldNeverFenceAnUnknownNode() {
        Cluster cluster = fenced(5);
        cluster.lose("n2");
        cluster.controllerIsCut = true;
        cluster.pass(DELAY.multipliedBy(4));
        assertEquals(NodeStatus.UNKNOWN, cluster.state("n2"));
        assertEquals(List.of(), cluster.commands);
    }

    @Test
    void shouldAskTheCommandAgainWhenAnEarlierControllerHasBegunAFence() {
        Cluster cluster = fenced(5);
        cluster.lose("n2");
        cluster.pass(DELAY.plus(Duration.ofSeconds(3)));
        assertEquals(1, cluster.commands.size());
        Map<String, NodeRecord> records = new HashMap<>(cluster.kept);
        records.put("n2", records.get("n2").fencing(5, 6));
        cluster.table.begin(records, cluster.nowNs, cluster.nowNs / 1_000_000);
        // Its services have a session again: it is not UP until the command ended.
        cluster.come("n2", 1);
        cluster.pass(Duration.ofSeconds(2));
        assertEquals(2, cluster.commands.size());
        assertEquals(NodeStatus.FENCING, cluster.state("n2"));
        end(cluster, false);
        assertEquals(NodeStatus.UP, cluster.state("n2"));
    }

    @Test
    void shouldFenceNoNodeBeforeTheSessionsAreKnown() {
        Cluster cluster = fenced(5);
        cluster.lose("n2");
        cluster.pass(DELAY.plus(Duration.ofSeconds(3)));
        Map<String, NodeRecord> records = new HashMap<>(cluster.kept);
        records.put("n2", records.get("n2").fencing(5, 6));
        cluster.table.begin(records, cluster.nowNs, cluster.nowNs / 1_000_000);
        cluster.isKnown = false;
        cluster.pass(Duration.ofSeconds(2));
        cluster.come("n2", 2);
        cluster.isKnown = true;
        cluster.pass(Duration.ofSeconds(2));
        assertEquals(1, cluster.commands.size(), "another boot has a session");
        assertEquals(NodeStatus.UP, cluster.state("n2"));
    }

    @Test
    void shouldNotWantTheCommandWhenASessionBeganSinceOrTheFenceIsOver() {
        Cluster cluster = fenced(5);
        cluster.lose("n2");
        cluster.pass(DELAY.plus(Duration.ofSeconds(3)));
        long number = cluster.commands.get(0).number();
        assertTrue(cluster.table.isFenceWanted("n2", number));
        assertFalse(cluster.table.isFenceWanted("n2", number + 1));
        assertFalse(cluster.table.isFenceWanted("n9", number));
        cluster.come("n2", 1);
        assertFalse(cluster.table.isFenceWanted("n2", number));
        cluster.come("n2", 2);
        cluster.end("n2");
        assertFalse(cluster.table.isFenceWanted("n2", number));
    }

    @Test
    void shouldDateTheProofByTheProbeAndNotByItsConclusion() {
        Cluster cluster = fenced(5);
        cluster.lose("n2");
        // The tick in which the delay is over begins the probe; the witnesses are asked in the same one, or later.
        cluster.pass(DELAY);
        while (cluster.commands.isEmpty()) {
            cluster.table.tick(cluster.nowNs, cluster.nowNs / 1_000_000, true);
            List<NodeAct> acts = cluster.table.takeActs();
            long sentNs = cluster.nowNs;
            for (NodeAct act : acts) {
                if (act instanceof NodeAct.Probe probe) {
                    cluster.nowNs += TICK_NS;
                    cluster.table.probed(probe.host(), probe.round(), false, cluster.nowNs, 1);
                    cluster.pass(Duration.ofSeconds(1));
                    if (!cluster.commands.isEmpty()) {
                        assertEquals(sentNs, cluster.commands.get(0).provedNs());
                    }
                }
            }
            cluster.nowNs += TICK_NS;
        }
    }

    @Test
    void shouldNotFenceWhenTheLimitIsReachedWhileTheNodeIsProbedOnceMore() {
        Cluster cluster = fenced(6);
        cluster.lose("n2");
        boolean isConfirming = false;
        cluster.pass(DELAY.minus(Duration.ofSeconds(2)));
        while (!isConfirming) {
            cluster.table.tick(cluster.nowNs, cluster.nowNs / 1_000_000, true);
            isConfirming = cluster.table.isConfirming("n2");
            if (isConfirming) {
                List.of("n3", "n4").forEach(cluster::lose);
            }
            cluster.carryOut();
            cluster.nowNs += TICK_NS;
        }
        cluster.pass(DELAY);
        assertEquals(List.of(), cluster.commands);
    }

    @Test
    void shouldEndAFenceThatHasNoResultLongAfterItsDeadline() {
        Cluster cluster = fenced(5);
        cluster.lose("n2");
        cluster.pass(DELAY.plus(Duration.ofSeconds(3)));
        assertEquals(NodeStatus.FENCING, cluster.state("n2"));
        cluster.pass(FENCES.deadline().plus(NodeTable.LOST_FENCE).plus(Duration.ofSeconds(2)));
        assertEquals(NodeStatus.SUSPECT, cluster.state("n2"));
    }

    @Test
    void shouldNotForgetANodeThatWasFencedWithinTheHour() {
        Cluster cluster = fenced(5);
        cluster.lose("n2");
        cluster.pass(DELAY.plus(Duration.ofSeconds(3)));
        end(cluster, true);
        long nowMs = cluster.nowNs / 1_000_000;
        assertTrue(
                cluster.table.forget("n2", cluster.nowNs, nowMs).orElseThrow().contains("most_an_hour"));
        assertEquals(Optional.empty(), cluster.table.forget("n2", cluster.nowNs, nowMs + 3_700_000));
    }

    /** A holder of the services' key can write a record with an address that answers once. */
    @Test
    void shouldNotFenceALivingNodeWhoseLastAddressDoesNotAnswer() {
        Cluster cluster = fenced(5);
        for (int boot = 1; boot <= 2; boot++) {
            cluster.come("n2", boot, "10.9.9.9:1");
        }
        cluster.answering.add("10.9.9.9:1");
        cluster.pass(Duration.ofSeconds(2));
        cluster.answering.remove("10.9.9.9:1");
        cluster.end("n2");
        cluster.pass(DELAY.multipliedBy(2));
        assertEquals(NodeStatus.SERVICE_DOWN, cluster.state("n2"));
        assertEquals(List.of(), cluster.commands);
    }

    /** The fence lied: nothing can be done but an error in the log. */
    @Test
    void shouldBeUpAndReportThatTheCommandLiedWhenTheSameBootKeepsItsSession() {
        Cluster cluster = fenced(5);
        cluster.lose("n2");
        cluster.pass(DELAY.plus(Duration.ofSeconds(3)));
        cluster.come("n2", 1);
        end(cluster, true);
        assertEquals(NodeStatus.FENCING, cluster.state("n2"));
        assertEquals(Set.of(), cluster.table.endedBoots(Set.of(BOOT + 1)));
        cluster.pass(GRACE.plus(Duration.ofSeconds(1)));
        assertEquals(NodeStatus.UP, cluster.state("n2"));
        assertEquals(Optional.of(BOOT + 1), cluster.table.returnedFromOff("n2"));
    }

    @Test
    void shouldBeUpWhenTheNodeBootsWhileItIsFenced() {
        Cluster cluster = fenced(5);
        cluster.lose("n2");
        cluster.pass(DELAY.plus(Duration.ofSeconds(3)));
        cluster.come("n2", 2);
        assertEquals(NodeStatus.UP, cluster.state("n2"));
        end(cluster, true);
        assertEquals(NodeStatus.UP, cluster.state("n2"));
        assertEquals(Set.of(), cluster.table.endedBoots(Set.of(BOOT + 1, BOOT + 2)));
    }

    @Test
    void shouldEndAFenceOfAnEarlierControllerByItsTimeWhenThisOneHasNoCommand() {
        Cluster cluster = new Cluster(7, 5);
        cluster.lose("n2");
        cluster.pass(DELAY);
        Map<String, NodeRecord> records = new HashMap<>(cluster.kept);
        long nowMs = cluster.nowNs / 1_000_000;
        records.put("n2", records.get("n2").fencing(nowMs, nowMs + 20_000));
        cluster.table.begin(records, cluster.nowNs, nowMs);
        List.of("n1", "n3", "n4", "n5").forEach(host -> cluster.come(host, 1));
        cluster.pass(Duration.ofSeconds(18));
        assertEquals(NodeStatus.FENCING, cluster.state("n2"));
        cluster.pass(Duration.ofSeconds(4));
        assertEquals(NodeStatus.SUSPECT, cluster.state("n2"));
    }
}
