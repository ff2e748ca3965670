package io.ppmr.transaction;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.transaction.rules.CoordinatorEvent.OriginalsState;
import io.ppmr.transaction.rules.CoordinatorState;
import io.ppmr.transaction.rules.CoordinatorState.Member;
import io.ppmr.transaction.rules.TransactionTimes;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** One run with a source, its targets, the links between them, and faults, all derived from one seed. */
final class SimCluster {
    private static final double FAULTS_S = 120;
    private static final double END_S = 400;

    final SimWorld world;
    final TransactionTimes times;
    final List<SimTarget> targets = new ArrayList<>();
    final boolean hasFence;
    final double fenceWorks;
    final double restartFails;
    private final SimSource source;
    /** Number of the link to each target; odd while the link is up. Messages of an older number never arrive. */
    private final int[] link;

    private final boolean[] cut;
    private final boolean[] trying;
    private final double lossy;

    SimCluster(long seed) {
        java.util.Random shape = new java.util.Random(seed * 31 + 7);
        int ranks = 1 + shape.nextInt(3);
        int count = Math.min(3, ranks + shape.nextInt(2));
        world = new SimWorld(seed, Math.min(ranks, count), count);
        hasFence = shape.nextInt(4) != 0;
        fenceWorks = shape.nextInt(3) == 0 ? 0.5 : 1;
        restartFails = shape.nextInt(3) == 0 ? 0.3 : 0;
        lossy = shape.nextInt(2) == 0 ? 0 : 0.1;
        times = new TransactionTimes(
                TimeUnit.SECONDS.toNanos(1),
                TimeUnit.MILLISECONDS.toNanos(500),
                TimeUnit.SECONDS.toNanos(30),
                TimeUnit.SECONDS.toNanos(3),
                TimeUnit.SECONDS.toNanos(60),
                hasFence ? TimeUnit.SECONDS.toNanos(20) : 0,
                hasFence ? TimeUnit.SECONDS.toNanos(15) : 0);
        link = new int[count];
        cut = new boolean[count];
        trying = new boolean[count];
        source = new SimSource(this);
        for (int target = 0; target < count; target++) {
            targets.add(new SimTarget(this, target));
            link[target] = 1;
        }
        int faults = shape.nextInt(5);
        for (int i = 0; i < faults; i++) {
            world.clock.after((long) (shape.nextDouble() * (i < 2 ? 12 : FAULTS_S) * 1e9), this::fault);
        }
    }

    /** Runs the schedule. Returns a description of the violation, or null. */
    String run() {
        targets.forEach(target -> target.post(participant -> participant.linkUp(world.clock.nowNs)));
        source.start();
        long endNs = world.clock.nowNs + (long) (END_S * 1e9);
        long quietNs = world.clock.nowNs + (long) (FAULTS_S * 1e9);
        while (world.violation == null && world.clock.step(endNs)) {
            if (world.clock.nowNs > quietNs && isOver()) {
                break;
            }
        }
        return world.violation == null ? stuck() : world.violation;
    }

    private boolean isOver() {
        return source.isOver() && targets.stream().allMatch(SimTarget::isOver);
    }

    /**
     * Checks the end. Each node is over, or held with a reason. It may be held only if a node is off or an original
     * died.
     */
    private String stuck() {
        List<SimNode<?>> nodes = new ArrayList<>(targets);
        nodes.add(source);
        boolean broken =
                source.driver != null && source.driver.state().phase() == CoordinatorState.CoordinatorPhase.BROKEN;
        for (SimNode<?> node : nodes) {
            if (!node.isOver()) {
                boolean bystander = node != source && source.driver != null && !source.isOver();
                if (node.held() == null && !bystander) {
                    return node.name + " waits without a reason: "
                            + (node.driver == null ? "down" : node.driver.state());
                }
                if (!world.anyOff && !broken) {
                    return node.name + " stays held though every node is there: " + node.held();
                }
            }
        }
        return null;
    }

    private void fault() {
        int target = world.random.nextInt(targets.size());
        switch (world.random.nextInt(14)) {
            case 0, 1 -> source.crash();
            case 2, 3 -> targets.get(target).crash();
            case 4 -> sourceOff(false);
            case 5 -> targetOff(target, false);
            case 6, 7 -> cut(target);
            case 8 -> (world.chance(0.5) ? source : targets.get(target)).freeze(world.between(0.5, 90));
            case 9 -> (world.chance(0.5) ? source : targets.get(target)).fullDisk();
            case 10 -> {
                if (world.chance(0.5)) {
                    world.copyDies(target);
                } else if (!source.off && world.originals() != OriginalsState.DEAD) {
                    world.originalDies(world.random.nextInt(world.ranks));
                }
            }
            case 11 -> {
                if (!source.off && !source.hasDecidedCommit()) {
                    world.originalIsContinued(world.random.nextInt(world.ranks));
                }
            }
            case 12 -> forgedCommit(target);
            default -> source.post(coordinator -> coordinator.callOff("called off", world.clock.nowNs));
        }
        // A crash closes the links of the service.
        for (SimTarget one : targets) {
            if (!source.isUp() || !one.isUp()) {
                drop(one);
            }
        }
    }

    /** Sends a Committed from a target, although no target can have committed. */
    private void forgedCommit(int target) {
        source.post(coordinator -> {
            boolean early = !coordinator.state().members().stream().allMatch(Member::sealed);
            // A message that waits could be handled after the seals. Then the sender's report would be accepted.
            if (early && coordinator.isSettled()) {
                world.note("a forged Committed of " + SimWorld.name(target));
                coordinator.onMessage(
                        SimWorld.name(target),
                        coordinator.state().attempt(),
                        new ControlMessage.Committed(SimNode.ID),
                        world.clock.nowNs);
            }
        });
    }

    void sourceOff(boolean shot) {
        if (!source.off) {
            source.powerOff();
            world.sourceLost(shot);
            targets.forEach(this::drop);
        }
    }

    void targetOff(int target, boolean shot) {
        if (!targets.get(target).off) {
            targets.get(target).powerOff();
            world.targetLost(target, shot);
            drop(targets.get(target));
        }
    }

    private void cut(int target) {
        if (!cut[target]) {
            world.note("cut between s and " + SimWorld.name(target));
            cut[target] = true;
            world.clock.after(world.between(0.5, 100), () -> {
                cut[target] = false;
                world.note("whole again between s and " + SimWorld.name(target));
                reconnectLater(targets.get(target));
            });
            if (isUp(target)) {
                drop(targets.get(target));
            }
        }
    }

    private boolean isUp(int target) {
        return link[target] % 2 == 1;
    }

    /** Closes the link. Both sides notice after the silence limit, or sooner. */
    void drop(SimTarget target) {
        int index = target.index;
        if (!isUp(index)) {
            return;
        }
        int was = link[index]++;
        world.clock.after(world.between(0, 3), () -> {
            if (link[index] <= was + 1) {
                source.post(coordinator -> {
                    coordinator.linkDown(target.name, world.clock.nowNs);
                    coordinator.fail("link lost", target.name, world.clock.nowNs);
                });
            }
        });
        world.clock.after(
                world.between(0, 3),
                () -> target.post(participant -> {
                    if (link[index] <= was + 1) {
                        participant.linkDown(world.clock.nowNs);
                    }
                }));
        reconnectLater(target);
    }

    /** Lets the source retry until it is connected. */
    void reconnectLater(SimTarget target) {
        if (!trying[target.index]) {
            trying[target.index] = true;
            world.clock.after(world.between(3.5, 6), () -> reconnect(target));
        }
    }

    private void reconnect(SimTarget target) {
        int index = target.index;
        trying[index] = false;
        if (isUp(index) || source.off || target.off) {
            return;
        }
        boolean frozen = source.isFrozen() || target.isFrozen();
        if (cut[index] || !source.isUp() || !target.isUp() || frozen) {
            reconnectLater(target);
            return;
        }
        // Both sides know now that earlier messages were lost.
        target.post(participant -> participant.linkDown(world.clock.nowNs));
        link[index]++;
        target.post(participant -> participant.linkUp(world.clock.nowNs));
        source.post(coordinator -> {
            coordinator.fail("link was lost", target.name, world.clock.nowNs);
            coordinator.linkUp(target.name, world.clock.nowNs);
        });
    }

    private void travel(int index, Runnable arrives) {
        int on = link[index];
        if (on % 2 == 0 || world.chance(lossy)) {
            return;
        }
        int copies = world.chance(lossy) ? 2 : 1;
        for (int i = 0; i < copies; i++) {
            world.clock.after(world.between(0.0005, world.chance(0.05) ? 2 : 0.05), () -> {
                if (link[index] == on) {
                    arrives.run();
                }
            });
        }
    }

    void toSource(SimTarget from, int attempt, ControlMessage message) {
        travel(
                from.index,
                () -> source.post(
                        coordinator -> coordinator.onMessage(from.name, attempt, message, world.clock.nowNs)));
    }

    void toTarget(int index, int attempt, ControlMessage message) {
        SimTarget target = targets.get(index);
        int on = link[index];
        Runnable arrives = () -> target.post(participant -> {
            if (link[index] == on) {
                participant.onMessage(attempt, message, world.clock.nowNs);
            }
        });
        if (message instanceof ControlMessage.Begin) {
            // This opens the stream of the image. Without it, there is no attempt, which the source notices.
            world.clock.after(world.between(0.001, 0.1), () -> {
                if (link[index] == on && on % 2 == 1) {
                    arrives.run();
                } else {
                    source.post(coordinator -> coordinator.fail("unreached", target.name, world.clock.nowNs));
                }
            });
            return;
        }
        travel(index, arrives);
    }

    void imageGoesOut(int index, int attempt) {
        int on = link[index];
        world.clock.after(world.between(0.01, 1), () -> {
            if (link[index] == on && on % 2 == 1) {
                targets.get(index).post(participant -> targets.get(index).imageArrived(attempt));
            }
        });
    }

    void toPeer(SimTarget from, int to, int attempt, ControlMessage message) {
        if (world.chance(lossy)) {
            return;
        }
        world.clock.after(world.between(0.0005, world.chance(0.05) ? 2 : 0.05), () -> {
            if (!from.off) {
                targets.get(to)
                        .post(participant -> participant.onPeerMessage(from.name, attempt, message, world.clock.nowNs));
            }
        });
    }
}
