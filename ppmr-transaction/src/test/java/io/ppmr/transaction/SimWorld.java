package io.ppmr.transaction;

import io.ppmr.transaction.rules.CoordinatorEvent.OriginalsState;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;

/**
 * The processes and nodes of a simulated cluster. It checks the promise: never two, never half, none only in the named
 * cases.
 */
final class SimWorld {
    enum Copy {
        NONE,
        RESTORING,
        HELD,
        RUNNING,
        DEAD
    }

    final SimClock clock = new SimClock();
    final Random random;
    final int ranks;
    final int targets;
    final boolean[] alive;
    final boolean[] held;
    /** Originals that ran after their image was written. */
    final boolean[] moved;

    final Copy[] copies;
    final boolean[] saidHeld;
    /** The attempt of each target's last vote. */
    final int[] votedFor;

    int attempt;
    final List<String> log = new ArrayList<>();
    List<String> participants = List.of();
    boolean rollBackDecided;
    boolean continued;
    boolean ran;
    boolean excused;
    boolean anyOff;
    private int losses;
    String violation;

    SimWorld(long seed, int ranks, int targets) {
        this.random = new Random(seed);
        this.ranks = ranks;
        this.targets = targets;
        this.alive = new boolean[ranks];
        this.held = new boolean[ranks];
        this.moved = new boolean[ranks];
        this.copies = new Copy[targets];
        this.saidHeld = new boolean[targets];
        this.votedFor = new int[targets];
        Arrays.fill(alive, true);
        Arrays.fill(copies, Copy.NONE);
    }

    static String name(int target) {
        return "t" + target;
    }

    static int index(String name) {
        return Integer.parseInt(name.substring(1));
    }

    void note(String text) {
        if (log.size() < 4000) {
            log.add(String.format("%9.3f %s", (clock.nowNs / 1_000_000 - 3_600_000) / 1000.0, text));
        }
    }

    long between(double fromS, double toS) {
        return (long) ((fromS + random.nextDouble() * (toS - fromS)) * 1e9);
    }

    boolean chance(double probability) {
        return random.nextDouble() < probability;
    }

    OriginalsState originals() {
        for (boolean one : alive) {
            if (!one) {
                return OriginalsState.DEAD;
            }
        }
        for (int rank = 0; rank < ranks; rank++) {
            if (!held[rank] || moved[rank]) {
                return OriginalsState.ALIVE;
            }
        }
        return OriginalsState.HELD;
    }

    void loss(boolean named) {
        losses++;
        excused |= named || losses > 1;
    }

    void sourceLost(boolean shot) {
        note("the source's node is off" + (shot ? ", fenced" : ""));
        if (!shot) {
            loss(!allVoted() || rollBackDecided);
        }
        anyOff = true;
        Arrays.fill(alive, false);
        check();
    }

    private boolean allVoted() {
        return !participants.isEmpty() && participants.stream().allMatch(name -> votedFor[index(name)] == attempt);
    }

    void targetLost(int target, boolean shot) {
        note(name(target) + "'s node is off" + (shot ? ", fenced" : ""));
        if (!shot && participants.contains(name(target))) {
            loss(saidHeld[target]);
        }
        anyOff = true;
        copies[target] = Copy.NONE;
        check();
    }

    void originalDies(int rank) {
        note("original " + rank + " dies");
        loss(!allVoted() || rollBackDecided);
        alive[rank] = false;
        check();
    }

    /** Continues a held original as its user, and may stop it again. */
    void originalIsContinued(int rank) {
        if (alive[rank] && held[rank]) {
            moved[rank] = true;
            held[rank] = chance(0.5);
            note("original " + rank + " is continued" + (held[rank] ? " and stopped again" : ""));
        }
    }

    /** Checks the originals, which are about to be killed. */
    void requireNotRun() {
        if (!ran && originals() == OriginalsState.ALIVE) {
            require(false, "committed although an original has run since its image was written");
        }
    }

    void copyDies(int target) {
        if (copies[target] == Copy.HELD) {
            note("a copy on " + name(target) + " dies");
            loss(saidHeld[target]);
            copies[target] = Copy.DEAD;
            check();
        }
    }

    void continueOriginals() {
        note("the originals continue");
        Arrays.fill(held, false);
        Arrays.fill(moved, false);
        continued = true;
        require(!ran, "originals continue after a copy has run");
        check();
    }

    void release(int target) {
        if (copies[target] == Copy.HELD) {
            note("copies on " + name(target) + " run");
            copies[target] = Copy.RUNNING;
            ran = true;
            require(!continued, "a copy runs after the originals have continued");
        }
        check();
    }

    void require(boolean good, String text) {
        if (!good && violation == null) {
            violation = text;
            note("VIOLATION " + text);
        }
    }

    void check() {
        boolean running = false;
        boolean whole = !participants.isEmpty();
        boolean half = false;
        for (String name : participants) {
            Copy copy = copies[index(name)];
            running |= copy == Copy.RUNNING;
            whole &= copy == Copy.RUNNING || copy == Copy.HELD;
            half |= ran && copy == Copy.NONE && !excused;
        }
        for (int rank = 0; rank < ranks; rank++) {
            require(!(running && alive[rank]), "an original lives while a copy runs");
        }
        require(!half, "half of the copies run");
        require(originals() != OriginalsState.DEAD || whole || excused, "no copy is left, and no case is named for it");
    }
}
