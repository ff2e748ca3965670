package io.ppmr.slurm;

import io.ppmr.os.Command;
import io.ppmr.os.LogContext;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A job step: a running srun(1), or the launcher of an MPI, whose standard output becomes events, the last of which is
 * its end. Its standard error is this process's. A thread of its own reads; the rest is for the thread of its
 * {@link JobRun}.
 */
final class Step {
    private static final Logger LOG = LoggerFactory.getLogger(Step.class);

    /** Something that happens to a run. */
    sealed interface Event {
        /** A step has said a line. */
        record Said(Step step, String line) implements Event {}

        /** A step has ended, with srun's exit status: the highest of its tasks'. */
        record Ended(Step step, int status) implements Event {}

        /** The job manager's signal. */
        record Trigger() implements Event {}

        /** This process is told to end. */
        record Stop() implements Event {}
    }

    private final String what;
    private final Process process;
    private final BlockingQueue<Event> events;
    private volatile boolean over;

    private Step(String what, Process process, BlockingQueue<Event> events) {
        this.what = what;
        this.process = process;
        this.events = events;
    }

    /**
     * Starts one.
     *
     * @param what for messages
     * @param words the whole command, srun and its options first
     */
    static Step start(String what, List<String> words, BlockingQueue<Event> events) throws IOException {
        Step step = holding(what, words, events);
        step.letGo();
        return step;
    }

    /** Starts one whose standard input stays open until {@link #letGo}, or until this process ends. */
    static Step holding(String what, List<String> words, BlockingQueue<Event> events) throws IOException {
        return start(what, new ProcessBuilder(words), events);
    }

    /** Starts one whose standard output is this process's, so that it says nothing. */
    static Step inheriting(String what, List<String> words, BlockingQueue<Event> events) throws IOException {
        Step step = start(what, new ProcessBuilder(words).redirectOutput(ProcessBuilder.Redirect.INHERIT), events);
        step.letGo();
        return step;
    }

    private static Step start(String what, ProcessBuilder builder, BlockingQueue<Event> events) throws IOException {
        LOG.debug("{}: {}", what, builder.command());
        Process process = builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
        Step step = new Step(what, process, events);
        LogContext.thread(step::read, "step-output").start();
        return step;
    }

    private void read() {
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                events.add(new Event.Said(this, line));
            }
        } catch (IOException e) {
            LOG.warn("the output of {} broke off: {}", what, e.getMessage());
        }
        try {
            // Slurm's time limit ends the batch step and srun with it: no limit of our own.
            events.add(new Event.Ended(this, process.waitFor()));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    String what() {
        return what;
    }

    /** To be called when its end was taken out of the queue. */
    void markOver() {
        over = true;
    }

    boolean isOver() {
        return over;
    }

    /** Ends the step's standard input. */
    void letGo() {
        try {
            process.getOutputStream().close();
        } catch (IOException e) {
            LOG.debug("{} has ended before its input", what, e);
        }
    }

    /** Gives the words that start a step which shares the node's processors and memory with those that run there. */
    static List<String> beside(String node, int tasks) {
        return Command.words(
                "srun --export=ALL --overlap --overcommit --mem=0 --wait=0 --kill-on-bad-exit=0 --no-kill --nodes=1"
                        + " --ntasks=%s --nodelist=%s",
                tasks, node);
    }

    /** Has srun end the step's tasks. */
    void stop() {
        // Not Process.destroy(), which would close the output that is still being read.
        process.toHandle().destroy();
    }
}
