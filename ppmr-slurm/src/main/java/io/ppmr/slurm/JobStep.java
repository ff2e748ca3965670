package io.ppmr.slurm;

import io.ppmr.linux.Command;
import io.ppmr.linux.LogContext;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A job step: a running srun(1), or the launcher of an MPI. Its standard output becomes events, and the last event is
 * its end. It inherits the standard error of this process. A thread of its own reads. The other methods are for the
 * thread of its {@link JobRun}.
 */
final class JobStep {
    private static final Logger LOG = LoggerFactory.getLogger(JobStep.class);

    /** An event of a run. */
    sealed interface RunEvent {
        /** A step wrote a line. */
        record StepOutput(JobStep step, String line) implements RunEvent {}

        /** A step ended, with srun's exit status: the highest of its tasks'. */
        record StepEnded(JobStep step, int status) implements RunEvent {}

        /** The job manager sent its signal. */
        record Trigger() implements RunEvent {}

        /** This process got a signal to end. */
        record Stop() implements RunEvent {}
    }

    private final String what;
    private final Process process;
    private final BlockingQueue<RunEvent> events;
    private volatile boolean over;

    private JobStep(String what, Process process, BlockingQueue<RunEvent> events) {
        this.what = what;
        this.process = process;
        this.events = events;
    }

    /**
     * Starts a step.
     *
     * @param what its name in messages
     * @param words the whole command, srun and its options first
     */
    static JobStep start(String what, List<String> words, BlockingQueue<RunEvent> events) throws IOException {
        JobStep step = holding(what, words, events);
        step.release();
        return step;
    }

    /** Starts a step whose standard input stays open until {@link #release} or the end of this process. */
    static JobStep holding(String what, List<String> words, BlockingQueue<RunEvent> events) throws IOException {
        return start(what, new ProcessBuilder(words), events);
    }

    /** Starts a step that inherits the standard output of this process, so that it has no lines. */
    static JobStep inheriting(String what, List<String> words, BlockingQueue<RunEvent> events) throws IOException {
        JobStep step = start(what, new ProcessBuilder(words).redirectOutput(ProcessBuilder.Redirect.INHERIT), events);
        step.release();
        return step;
    }

    private static JobStep start(String what, ProcessBuilder builder, BlockingQueue<RunEvent> events)
            throws IOException {
        LOG.debug("{}: {}", what, builder.command());
        Process process = builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
        JobStep step = new JobStep(what, process, events);
        LogContext.thread(step::read, "step-output").start();
        return step;
    }

    private void read() {
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                events.add(new RunEvent.StepOutput(this, line));
            }
        } catch (IOException e) {
            LOG.warn("the output of {} failed: {}", what, e.getMessage());
        }
        try {
            // No limit here: Slurm's time limit ends the batch step and srun with it.
            events.add(new RunEvent.StepEnded(this, process.waitFor()));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    String what() {
        return what;
    }

    /** Joins its thread. Call it after its end left the queue. */
    void markOver() {
        over = true;
    }

    boolean isOver() {
        return over;
    }

    /** Closes the step's standard input. */
    void release() {
        try {
            process.getOutputStream().close();
        } catch (IOException e) {
            LOG.debug("{} ended before its input", what, e);
        }
    }

    /** Returns the words that start a step which shares the node's processors and memory with other steps. */
    static List<String> beside(String node, int tasks) {
        return Command.words(
                "srun --export=ALL --overlap --overcommit --mem=0 --wait=0 --kill-on-bad-exit=0 --no-kill --nodes=1"
                        + " --ntasks=%s --nodelist=%s",
                tasks, node);
    }

    /** Makes srun end the step's tasks. */
    void stop() {
        // Not Process.destroy(), which would close the output while the thread reads it.
        process.toHandle().destroy();
    }
}
