package io.ppmr.cli.slurm;

import io.ppmr.cli.slurm.Scontrol.NodeState;
import io.ppmr.cli.slurm.Step.Event;
import java.io.IOException;
import java.io.PrintWriter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * A job's ranks from their start to their end, wherever that is: the step with the ranks, the order to move those of a
 * node, and the step that watches the moved ones. One thread runs it; {@link #trigger} and {@link #stop} are for any.
 */
final class SlurmRun {
    /** After a migration that failed, a draining node is left alone for so long. */
    private static final Duration PAUSE = Duration.ofSeconds(60);

    private static final long NO_CHECK_S = 3600;

    private final Allocation allocation;
    private final SlurmCommands commands;
    private final Scontrol slurm;
    private final Duration drainCheck;
    private final boolean giveBack;
    private final PrintWriter err;
    private final BlockingQueue<Event> events = new LinkedBlockingQueue<>();
    private final Map<Integer, RankLine.Started> running = new TreeMap<>();
    private final Map<String, List<RankLine.Moved>> toBeKept = new HashMap<>();
    private final Map<String, Step> migrations = new HashMap<>();
    private final Map<String, Long> notBeforeNs = new HashMap<>();
    private final Set<Step> steps = new LinkedHashSet<>();
    private final Set<String> left = new TreeSet<>();
    private Step ranks;
    private int started;
    private int status;
    private boolean triggered;
    private boolean stopping;
    private long nextLookNs = System.nanoTime();

    /**
     * @param drainCheck how often the controller is asked about the nodes; 0 for never
     * @param giveBack whether a drained node that the job has left is taken out of the allocation
     * @param err what happens is told there
     */
    SlurmRun(
            Allocation allocation,
            SlurmCommands commands,
            Scontrol slurm,
            Duration drainCheck,
            boolean giveBack,
            PrintWriter err) {
        this.allocation = allocation;
        this.commands = commands;
        this.slurm = slurm;
        this.drainCheck = drainCheck;
        this.giveBack = giveBack;
        this.err = err;
    }

    /** Has the ranks of the node that is going moved. */
    void trigger() {
        events.add(new Event.Trigger());
    }

    /** Ends all steps. */
    void stop() {
        events.add(new Event.Stop());
    }

    /** Runs the job; gives the highest exit status of a rank. */
    int run() throws IOException, InterruptedException {
        ranks = start("the ranks", commands.ranks());
        while (!steps.isEmpty()) {
            Event event = events.poll(waitNs(), TimeUnit.NANOSECONDS);
            if (event != null) {
                handle(event);
            }
            look();
        }
        say("all ranks have ended; exit status " + status);
        return status;
    }

    private Step start(String what, List<String> words) throws IOException {
        Step step = Step.start(what, words, events);
        steps.add(step);
        return step;
    }

    private long waitNs() {
        return drainCheck.isZero() ? TimeUnit.SECONDS.toNanos(NO_CHECK_S) : Math.max(1, nextLookNs - System.nanoTime());
    }

    private void handle(Event event) throws IOException, InterruptedException {
        if (event instanceof Event.Said said) {
            Optional<RankLine> line = RankLine.parse(said.line());
            if (line.isPresent()) {
                handle(line.get());
            } else {
                err.println(said.line());
            }
        } else if (event instanceof Event.Ended ended) {
            ended(ended.step(), ended.status());
        } else if (event instanceof Event.Trigger) {
            say("SIGUSR2");
            triggered = true;
            moveOnTrigger();
        } else {
            say("told to end: the ranks are ended");
            stopping = true;
            steps.forEach(Step::stop);
        }
    }

    private void handle(RankLine line) throws IOException, InterruptedException {
        if (line instanceof RankLine.Started rank) {
            running.put(rank.rank(), rank);
            started++;
            if (started == allocation.tasks()) {
                say(started + " ranks run on " + String.join(", ", allocation.computing()) + "; spare is "
                        + String.join(", ", allocation.spares()));
                moveOnTrigger();
            }
        } else if (line instanceof RankLine.Moved moved) {
            RankLine.Started before = running.remove(moved.rank());
            String node = before == null ? "" : before.node();
            toBeKept.computeIfAbsent(node, any -> new ArrayList<>()).add(moved);
            if (running.values().stream().noneMatch(rank -> rank.node().equals(node))) {
                keep(node);
            }
        } else if (line instanceof RankLine.Ended ended) {
            running.remove(ended.rank());
            say("rank " + ended.rank() + " has ended with status " + ended.status()
                    + (ended.known() ? "" : ", which stands for \"not known\""));
        }
    }

    /** All ranks of a node have gone: the step that watches them on the spare takes over. */
    private void keep(String node) throws IOException, InterruptedException {
        List<RankLine.Moved> moved = toBeKept.remove(node);
        String address = moved.get(0).address();
        Optional<String> spare = slurm.nodeAt(address, allocation.spares());
        if (!node.isEmpty()) {
            left.add(node);
        }
        if (spare.isEmpty()) {
            status = Math.max(status, 1);
            say("the ranks of " + node + " run at " + address + ", which is no spare of this job: nobody watches them."
                    + " Remedy: have the source's target be one of the job's nodes");
            return;
        }
        say(moved.size() + " ranks have moved from " + node + " to " + spare.get());
        start("the watch over the ranks from " + node, commands.keep(spare.get(), moved));
    }

    private void ended(Step step, int exit) throws IOException, InterruptedException {
        step.markOver();
        steps.remove(step);
        String node = nodeOf(step);
        if (node == null) {
            if (exit != 0) {
                say(step.what() + " ended with status " + exit);
            }
            status = Math.max(status, exit);
        } else {
            migrations.remove(node);
            if (exit != 0) {
                notBeforeNs.put(node, System.nanoTime() + PAUSE.toNanos());
                say("the ranks on " + node + " were not moved (ppmr migrate ended with " + exit
                        + "; docs/operations.md says what it means)");
            }
        }
        if (step.equals(ranks)) {
            running.clear();
            for (String from : List.copyOf(toBeKept.keySet())) {
                keep(from);
            }
        }
        if (ranks.isOver() && migrations.isEmpty()) {
            giveBack();
        }
    }

    private String nodeOf(Step migration) {
        return migrations.entrySet().stream()
                .filter(entry -> entry.getValue().equals(migration))
                .map(Map.Entry::getKey)
                .findFirst()
                .orElse(null);
    }

    /** The nodes that have ranks now. */
    private List<String> inhabited() {
        return running.values().stream()
                .map(RankLine.Started::node)
                .distinct()
                .sorted()
                .toList();
    }

    private void moveOnTrigger() throws IOException, InterruptedException {
        if (!triggered || started < allocation.tasks() || stopping) {
            return;
        }
        triggered = false;
        List<String> nodes = inhabited();
        List<String> going = going(nodes);
        if (going.isEmpty() && nodes.size() == 1) {
            going = nodes;
        }
        if (going.isEmpty()) {
            say(
                    nodes.isEmpty()
                            ? "there is no rank left to be moved"
                            : "which node? None of " + String.join(", ", nodes)
                                    + " is set to drain: set the one that is going" + " to drain, and signal again");
        }
        for (String node : going) {
            migrate(node);
        }
    }

    private void look() throws IOException, InterruptedException {
        if (drainCheck.isZero() || stopping || System.nanoTime() - nextLookNs < 0) {
            return;
        }
        nextLookNs = System.nanoTime() + drainCheck.toNanos();
        if (started < allocation.tasks()) {
            return;
        }
        for (String node : going(inhabited())) {
            Long notBefore = notBeforeNs.get(node);
            if (!migrations.containsKey(node) && (notBefore == null || System.nanoTime() - notBefore >= 0)) {
                say(node + " is set to drain");
                migrate(node);
            }
        }
    }

    /** Those that are set to drain; none where the controller does not answer, which the next look will mend. */
    private List<String> going(List<String> nodes) throws InterruptedException {
        try {
            return slurm.nodes(nodes).stream()
                    .filter(NodeState::going)
                    .map(NodeState::name)
                    .toList();
        } catch (IOException e) {
            say(e.getMessage());
            return List.of();
        }
    }

    private void migrate(String node) throws IOException {
        if (migrations.containsKey(node)) {
            say("the ranks on " + node + " are being moved already");
            return;
        }
        String job = running.values().stream()
                .filter(rank -> rank.node().equals(node))
                .findFirst()
                .orElseThrow()
                .job();
        say("moving the ranks of " + node + " (job " + job + " there)");
        migrations.put(node, start("the migration from " + node, commands.migrate(node, job)));
    }

    /** No step of this run is left on the nodes with ranks: those of them that are set to drain are of no more use. */
    private void giveBack() throws InterruptedException {
        List<String> drained = giveBack && !stopping ? going(List.copyOf(left)) : List.of();
        left.clear();
        if (drained.isEmpty()) {
            return;
        }
        List<String> kept = new ArrayList<>(allocation.spares());
        allocation.computing().stream().filter(node -> !drained.contains(node)).forEach(kept::add);
        try {
            slurm.shrink(allocation.job(), kept);
            say("the job has given back " + String.join(", ", drained));
        } catch (IOException e) {
            say(String.join(", ", drained) + " stays in the allocation: " + e.getMessage());
        }
    }

    private void say(String text) {
        err.println("ppmr slurm-run: " + text);
    }
}
