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
 * A job of Slurm's from its start to its end: its steps, what they say, and the orders to move what runs on a node
 * that is set to drain, or that the job manager's signal is about. One thread runs it; {@link #trigger} and {@link
 * #stop} are for any.
 */
public abstract class JobRun {
    /** After a migration a draining node is left alone for that time. */
    private static final Duration PAUSE = Duration.ofSeconds(60);

    private static final Duration NO_CHECK = Duration.ofHours(1);

    /**
     * The settings of every kind of run; see {@code ppmr slurm-run --help}.
     *
     * @param targets where the targets of the job's own spare nodes listen
     * @param socket the control socket of the sources
     * @param program the job's program and its arguments
     * @param drainCheck how often the controller is asked about the nodes; 0 for never
     * @param giveBack whether a drained node that the job has left is taken out of the allocation
     * @param java how a further ppmr is started
     * @param err what happens is told there
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
    /** Those under way, by the node that they are to empty. */
    final Map<String, JobStep> migrations = new HashMap<>();

    private final String moved;
    private final Map<String, Long> notBeforeNs = new HashMap<>();
    private boolean triggered;
    private long nextLookNs = System.nanoTime();

    /** @param moved what is moved, for messages: a rank, or a pod */
    JobRun(RunContext setting, String moved) {
        this.setting = setting;
        this.allocation = setting.allocation();
        this.moved = moved;
    }

    /** Has what runs on the node that is going moved. */
    public final void trigger() {
        events.add(new RunEvent.Trigger());
    }

    /** Ends the job. */
    public final void stop() {
        events.add(new RunEvent.Stop());
    }

    /** Runs the job; gives the exit status of {@code ppmr slurm-run}. */
    public abstract int run() throws IOException, InterruptedException, CommandFailure;

    /** Takes a line of a step's; false if it is none of its own, but the program's. */
    abstract boolean onOutput(JobStep step, String line) throws IOException, InterruptedException;

    /** Goes on when a step has ended; {@code emptied} is the node that it was to empty, null if it was no migration. */
    abstract void ended(JobStep step, String emptied, int exit) throws IOException, InterruptedException;

    /** Ends the job's steps. */
    abstract void end();

    /** Returns true from when all of the job has been started until something ends it. */
    abstract boolean isUnderWay();

    /** Lists the nodes on which something runs that can be moved. */
    abstract List<String> inhabited();

    /** Gives the words that say to the source of a node what is moved, and where to. */
    abstract List<String> order(String node);

    final JobStep begin(JobStep step) {
        steps.add(step);
        return step;
    }

    /** Deals with all that happens until the last step has ended. */
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
        if (event instanceof RunEvent.StepOutput said) {
            if (!onOutput(said.step(), said.line())) {
                setting.err().println(said.line());
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
            // Where it has succeeded, what has moved is heard of elsewhere in a moment.
            notBeforeNs.put(node, System.nanoTime() + PAUSE.toNanos());
            if (exit != 0) {
                print("the " + moved + "s on " + node + " were not moved (ppmr migrate ended with " + exit
                        + "; docs/reference/exit-codes.md says what it means)");
            }
        }
        ended(step, node, exit);
    }

    /** Moves what a signal that came before is about. */
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
        // It is given on that node through its control socket.
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
