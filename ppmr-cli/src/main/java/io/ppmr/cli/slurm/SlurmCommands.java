package io.ppmr.cli.slurm;

import io.ppmr.cli.service.JavaCommand;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * The job steps of a run, as commands. Immutable.
 *
 * @param task ppmr-slurm-task
 * @param java how a further ppmr is started
 */
record SlurmCommands(Allocation allocation, Path task, JavaCommand java, Options options) {
    /**
     * What the user chose; see {@link SlurmRunCommand}.
     *
     * @param spares where the targets of the job's own spare nodes listen
     */
    record Options(
            String checkpointer,
            List<String> spares,
            String output,
            String error,
            Path announcements,
            Path socket,
            int unknownExit,
            List<String> srun,
            List<String> program) {
        Options {
            spares = List.copyOf(spares);
            srun = List.copyOf(srun);
            program = List.copyOf(program);
        }
    }

    /**
     * The ranks. Unless the user's options say otherwise, the step goes on when a node of it fails (--no-kill), when a
     * task ends before the others (--wait=0), and when one ends with another status than 0.
     */
    List<String> ranks() {
        List<String> words = new ArrayList<>(List.of(
                "srun",
                "--export=ALL",
                "--input=none",
                "--no-kill",
                "--wait=0",
                "--kill-on-bad-exit=0",
                "--nodes=" + allocation.computing().size(),
                "--ntasks=" + allocation.tasks(),
                "--nodelist=" + String.join(",", allocation.computing())));
        words.addAll(options.srun());
        words.addAll(List.of(
                task.toString(),
                "run",
                "--announce",
                options.announcements().toString(),
                "--checkpointer",
                options.checkpointer(),
                "--output",
                options.output()));
        if (options.error() != null) {
            words.addAll(List.of("--error", options.error()));
        }
        for (String spare : options.spares()) {
            words.addAll(List.of("--spare", spare));
        }
        words.add("--");
        words.addAll(options.program());
        return words;
    }

    /** The order to the source of a node, given on that node through its control socket. */
    List<String> migrate(String node, String job) {
        List<String> words = beside(node, 1);
        words.addAll(java.with(List.of("migrate", "--socket", options.socket().toString(), job)));
        return words;
    }

    /** Watches over ranks that were moved to a node, a task for each. */
    List<String> keep(String node, List<RankLine.Moved> ranks) {
        List<String> words = beside(node, ranks.size());
        words.addAll(List.of(task.toString(), "keep", "--unknown-exit", Integer.toString(options.unknownExit())));
        for (RankLine.Moved rank : ranks) {
            words.add(rank.rank() + ":"
                    + String.join(",", rank.pids().stream().map(String::valueOf).toList()));
        }
        return words;
    }

    /** A step that shares the node's processors and memory with those that run there. */
    private static List<String> beside(String node, int tasks) {
        return new ArrayList<>(List.of(
                "srun",
                "--export=ALL",
                "--input=none",
                "--overlap",
                "--overcommit",
                "--mem=0",
                "--wait=0",
                "--kill-on-bad-exit=0",
                "--no-kill",
                "--nodes=1",
                "--ntasks=" + tasks,
                "--nodelist=" + node));
    }
}
