package io.ppmr.slurm;

import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.JavaCommand;
import io.ppmr.slurm.JobStep.RunEvent;
import io.ppmr.slurm.SlurmRun.Allocation;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * A Slurm job from its start to its end: its steps, their messages, and the orders to move the ranks of a node. An
 * order is caused by a node that is set to drain, or by the job manager's signal. One thread runs it. {@link #trigger}
 * and {@link #stop} are for any thread.
 */
public abstract class JobRun {
    /** The time after a migration in which a draining node causes no further one. */
    private static final Duration PAUSE = Duration.ofSeconds(60);

    private static final Duration NO_CHECK = Duration.ofHours(1);

    /**
     * The settings of every kind of run. See {@code ppmr slurm-run --help}.
     *
     * @param targets the addresses of the targets of the job's own spare nodes
     * @param socket the control socket of the sources
     * @param program the job's program and its arguments
     * @param drainCheck the time between two queries of the controller about the nodes, or 0 for never
     * @param giveBack whether a drained node that the job left is released from the allocation
     * @param java starts a further ppmr
     * @param err the stream for messages
     */
    public record RunContext(
            Allocation allocation,
            List<String> targets,
            Path socket,
            List<String> program,
            Duration drainCheck,
            boolean giveBack,
            JavaCommand java,
            PrintWriter err) {
        public RunContext {
            targets = List.copyOf(targets);
            program = List.copyOf(program);
        }
    }

    final RunContext setting;
    final Allocation allocation;
    final Scontrol slurm = new Scontrol();
    final BlockingQueue<RunEvent> events = new LinkedBlockingQueue<>();
    final Set<JobStep> steps = new LinkedHashSet<>();
    /** The running migrations, by the node that each one empties. */
    final Map<String, JobStep> migrations = new HashMap<>();

    private final String moved;
    private final Map<String, Long> notBeforeNs = new HashMap<>();
    private boolean triggered;
    private long nextLookNs = System.nanoTime();

    /** @param moved the word for a moved thing in messages: a rank, or a pod */
    JobRun(RunContext setting, String moved) {
        this.setting = setting;
        this.allocation = setting.allocation();
        this.moved = moved;
    }

    /** Moves the ranks of the failing node. */
    public final void trigger() {
        events.add(new RunEvent.Trigger());
    }

    /** Ends the job. */
    public final void stop() {
        events.add(new RunEvent.Stop());
    }

    /** Runs the job. Returns the exit status of {@code ppmr slurm-run}. */
    public abstract int run() throws IOException, InterruptedException, CommandFailure;

    /** Handles a line of a step. Returns false if the job's program wrote it. */
    abstract boolean onOutput(JobStep step, String line) throws IOException, InterruptedException;

    /** Handles the end of a step. {@code emptied} is the node that it emptied, null if it was no migration. */
    abstract void ended(JobStep step, String emptied, int exit) throws IOException, InterruptedException;

    /** Ends the job's steps. */
    abstract void end();

    /** Returns true after the whole job started, until it is ended. */
    abstract boolean isUnderWay();

    /** Lists the nodes with ranks that can be moved. */
    abstract List<String> inhabited();

    /** Returns the command that makes the source of a node move its ranks. */
    abstract List<String> order(String node);

    final JobStep begin(JobStep step) {
        steps.add(step);
        return step;
    }

    /** Handles all events until the last step ended. */
    final void awaitSteps() throws IOException, InterruptedException {
        while (!steps.isEmpty()) {
            RunEvent event = events.poll(waitNs(), TimeUnit.NANOSECONDS);
            if (event != null) {
                handle(event);
            }
            look();
        }
    }

    long waitNs() {
        return looks() ? Math.max(1, nextLookNs - System.nanoTime()) : NO_CHECK.toNanos();
    }

    private boolean looks() {
        return isUnderWay() && !setting.drainCheck().isZero();
    }

    private void handle(RunEvent event) throws IOException, InterruptedException {
        if (event instanceof RunEvent.StepOutput output) {
            if (!onOutput(output.step(), output.line())) {
                setting.err().println(output.line());
            }
        } else if (event instanceof RunEvent.StepEnded ended) {
            ended(ended.step(), ended.status());
        } else if (event instanceof RunEvent.Trigger) {
            print("SIGUSR2");
            triggered = true;
            moveOnTrigger();
        } else {
            end();
        }
    }

    private void ended(JobStep step, int exit) throws IOException, InterruptedException {
        step.markOver();
        steps.remove(step);
        String node = migrations.entrySet().stream()
                .filter(entry -> entry.getValue().equals(step))
                .map(Map.Entry::getKey)
                .findFirst()
                .orElse(null);
        if (node != null) {
            migrations.remove(node);
            // If it succeeded, the watching step soon reports the moved ranks.
            notBeforeNs.put(node, System.nanoTime() + PAUSE.toNanos());
            if (exit != 0) {
                print("the " + moved + "s on " + node + " were not moved (exit code of ppmr migrate: " + exit
                        + "; ppmr migrate --help lists the codes)");
            }
        }
        ended(step, node, exit);
    }

    /** Starts the migration that an earlier signal requested. */
    final void moveOnTrigger() throws IOException, InterruptedException {
        if (triggered && isUnderWay()) {
            triggered = false;
            for (String node : slurm.meant(inhabited(), moved, this::print)) {
                migrate(node);
            }
        }
    }

    void look() throws IOException, InterruptedException {
        if (!looks() || System.nanoTime() - nextLookNs < 0) {
            return;
        }
        nextLookNs = System.nanoTime() + setting.drainCheck().toNanos();
        for (String node : slurm.going(inhabited(), this::print)) {
            Long notBefore = notBeforeNs.get(node);
            if (!migrations.containsKey(node) && (notBefore == null || System.nanoTime() - notBefore >= 0)) {
                print(node + " is set to drain");
                migrate(node);
            }
        }
    }

    private void migrate(String node) throws IOException {
        if (migrations.containsKey(node)) {
            print("the " + moved + "s on " + node + " are being moved already");
            return;
        }
        List<String> order = order(node);
        print("moving the " + moved + "s of " + node + " (job " + order.get(0) + " there)"
                + (order.size() > 1 ? " to " + order.get(order.size() - 1) : ""));
        // The order goes to the control socket on that node.
        List<String> words = JobStep.beside(node, 1);
        words.add("--input=none");
        words.addAll(setting.java()
                .with(List.of("migrate", "--socket", setting.socket().toString())));
        words.addAll(order);
        migrations.put(node, begin(JobStep.start("the migration from " + node, words, events)));
    }

    final void print(String text) {
        setting.err().println("ppmr slurm-run: " + text);
    }
}
