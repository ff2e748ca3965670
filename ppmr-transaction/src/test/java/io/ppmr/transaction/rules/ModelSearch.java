package io.ppmr.transaction.rules;

import io.ppmr.transaction.journal.TransactionRecord;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Deque;
import java.util.List;

/** Visits every state of a model, nearest first, in a table of fixed size. */
final class ModelSearch {
    private static final int WORDS = 5;

    private final ModelMachine machine;
    private final ModelActions actions;
    private final ModelBudget budget;
    private final boolean fenceWorks;
    private final long[] table;
    private final int[] order;
    private final int[] parent;
    /** For each slot the beginning of its list of next states in {@link #ways}: their number, then their slots. */
    private final int[] firstWay;

    private int[] ways = new int[1 << 20];
    private int waysEnd;
    private final int mask;
    private final long[] key = new long[WORDS];
    private int count;
    private boolean stop;
    private String problem;
    private int problemAt = -1;
    private ModelWorld problemWorld;
    private String problemLabel;

    ModelSearch(
            ModelBudget budget,
            ModelVariant variant,
            Class<? extends TransactionRecord> notSynced,
            boolean fenceWorks,
            boolean writeAhead,
            int logSlots) {
        this.machine = new ModelMachine(variant, notSynced, writeAhead);
        this.actions = new ModelActions(machine, fenceWorks);
        this.budget = budget;
        this.fenceWorks = fenceWorks;
        int slots = 1 << logSlots;
        this.table = new long[slots * WORDS];
        this.order = new int[slots];
        this.parent = new int[slots];
        this.firstWay = new int[slots];
        this.mask = slots - 1;
    }

    int states() {
        return count;
    }

    String problem() {
        return problem;
    }

    /** Searches all states. Returns true if no problem was found. */
    boolean run() {
        add(machine.start(budget), -1, "", "");
        for (int at = 0; at < count && !stop; at++) {
            int slot = order[at];
            ModelWorld world = world(slot);
            beginWays(slot);
            actions.each(world, (next, label, detail, good) -> {
                int to = add(next, slot, label, detail);
                if (good && to >= 0 && to != slot) {
                    addWay(slot, to);
                }
            });
            if (ways[firstWay[slot]] == 0 && !stop) {
                String stuck = ModelEnds.stuck(machine, world, fenceWorks);
                if (stuck != null) {
                    found(stuck, slot, null, "");
                }
            }
        }
        return problem == null;
    }

    /**
     * Returns true if events without a failure can form a circle, so that a run need not end. Call it after
     * {@link #run}.
     */
    boolean hasCircle() {
        byte[] seen = new byte[mask + 1];
        Deque<int[]> path = new ArrayDeque<>();
        for (int i = 0; i < count; i++) {
            if (seen[order[i]] == 0) {
                enter(order[i], seen, path);
            }
            while (!path.isEmpty()) {
                int[] at = path.peek();
                int first = firstWay[at[0]];
                if (at[1] == ways[first]) {
                    seen[at[0]] = 2;
                    path.pop();
                } else {
                    at[1]++;
                    int slot = ways[first + at[1]];
                    if (seen[slot] == 1) {
                        return true;
                    }
                    if (seen[slot] == 0) {
                        enter(slot, seen, path);
                    }
                }
            }
        }
        return false;
    }

    private static void enter(int slot, byte[] seen, Deque<int[]> path) {
        seen[slot] = 1;
        path.push(new int[] {slot, 0});
    }

    private void beginWays(int slot) {
        firstWay[slot] = waysEnd;
        put(0);
    }

    private void addWay(int slot, int to) {
        ways[firstWay[slot]]++;
        put(to);
    }

    private void put(int number) {
        if (waysEnd == ways.length) {
            ways = Arrays.copyOf(ways, ways.length + ways.length / 2);
        }
        ways[waysEnd] = number;
        waysEnd++;
    }

    private ModelWorld world(int slot) {
        return ModelWorld.decode(Arrays.copyOfRange(table, slot * WORDS, slot * WORDS + WORDS));
    }

    private void found(String what, int slot, ModelWorld world, String label) {
        if (!stop) {
            stop = true;
            problem = what;
            problemAt = slot;
            problemWorld = world;
            problemLabel = label;
        }
    }

    /** Returns the slot of a state, which is new or known, or a negative number if a rule was violated before it. */
    private int add(ModelWorld world, int from, String label, Object detail) {
        if (machine.violation != null) {
            found(machine.violation, from, world, label + " " + detail);
            machine.violation = null;
            return -1;
        }
        world.encode(key);
        int slot = find();
        if (isFree(slot)) {
            System.arraycopy(key, 0, table, slot * WORDS, WORDS);
            parent[slot] = from;
            order[count] = slot;
            count++;
            if (count > mask * 0.9) {
                throw new IllegalStateException("more states than " + count + ": give the table more room");
            }
        }
        return slot;
    }

    /** Returns the slot of the key, or the free slot for it. */
    private int find() {
        long hash = 0;
        for (long word : key) {
            hash = (hash ^ word) * 0x9E3779B97F4A7C15L;
            hash ^= hash >>> 29;
        }
        int slot = (int) (hash >>> 20) & mask;
        while (!isFree(slot) && !Arrays.equals(key, 0, WORDS, table, slot * WORDS, slot * WORDS + WORDS)) {
            slot = slot + 1 & mask;
        }
        return slot;
    }

    /** Returns true for a free slot. A used slot is never all 0, because a service exists or existed. */
    private boolean isFree(int slot) {
        int at = slot * WORDS;
        return table[at + 2] == 0 && table[at + 3] == 0 && table[at + 4] == 0;
    }

    /** Returns the steps to the problem, one line for each. */
    List<String> trace() {
        List<Integer> slots = new ArrayList<>();
        for (int slot = problemAt; slot >= 0; slot = parent[slot]) {
            slots.add(slot);
        }
        Collections.reverse(slots);
        List<String> lines = new ArrayList<>();
        for (int i = 0; i + 1 < slots.size(); i++) {
            int next = slots.get(i + 1);
            String[] line = {"?"};
            actions.each(world(slots.get(i)), (world, label, detail, good) -> {
                world.encode(key);
                if (line[0].equals("?") && find() == next) {
                    line[0] = label + ": " + detail;
                }
            });
            machine.violation = null;
            lines.add(line[0]);
        }
        if (problemWorld != null) {
            lines.add(problemLabel);
        } else {
            lines.add("stuck:" + describe(world(problemAt)));
        }
        return lines;
    }

    private String describe(ModelWorld world) {
        StringBuilder text = new StringBuilder();
        for (int node = 0; node <= 2; node++) {
            text.append("\n  node ").append(node).append(world.isOff(node) ? " off " : " ");
            text.append(world.state[node] < 0 ? "down" : machine.states.get(world.state[node]));
        }
        return text + "\n  alive=" + world.alive + " held=" + world.held + " copies=" + Arrays.toString(world.copy)
                + " window=" + world.window + " fencing=" + world.fencing;
    }
}
