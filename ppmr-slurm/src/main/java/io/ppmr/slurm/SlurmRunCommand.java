package io.ppmr.slurm;

import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.daemon.service.JavaCommand;
import io.ppmr.daemon.service.ProcessSignals;
import io.ppmr.slurm.SlurmRun.Allocation;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr slurm-run}: inside a batch script, runs a job's ranks so that they can be moved. */
@Command(
        name = "slurm-run",
        description = {
            "Inside a Slurm batch script, run in the background: starts PROGRAM as the job's ranks with srun, on all"
                    + " nodes of the allocation but the spare ones at its head; moves the ranks of a node that is set"
                    + " to drain, or when it gets SIGUSR2; watches them until they end. The batch script:"
                    + " docs/user/slurm-and-mpi.md.",
            "With --mpi the ranks of an MPI are in pods, which move with their connections;"
                    + " docs/user/slurm-and-mpi.md.",
            "Exit code: the highest of the ranks', or the MPI launcher's; 2 for a wrong command line."
        },
        mixinStandardHelpOptions = true)
public final class SlurmRunCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Option(
            names = "--checkpointer",
            paramLabel = "NAME",
            description =
                    "what checkpoints the ranks: a [checkpointers.NAME] of source and target; wanted without --mpi")
    private String checkpointer;

    @Option(
            names = "--ntasks",
            paramLabel = "N",
            description = "how many ranks in all; without it the job's --ntasks-per-node on each node that is no spare")
    private Integer tasks;

    @Option(
            names = "--spares",
            paramLabel = "N",
            defaultValue = "1",
            description = "how many nodes at the head of the allocation are spare (default: ${DEFAULT-VALUE})")
    private int spares;

    @Option(
            names = "--output",
            paramLabel = "FILE",
            defaultValue = "rank-%t.out",
            description = "the ranks' standard output: %%t is the rank, %%j the job, %%N the node (default:"
                    + " ${DEFAULT-VALUE})")
    private String output;

    @Option(names = "--error", paramLabel = "FILE", description = "their standard error; default: the same file")
    private String error;

    @Option(
            names = "--announcements",
            paramLabel = "DIRECTORY",
            defaultValue = "/run/ppmr/announced",
            description = "as in the sources' configuration (default: ${DEFAULT-VALUE})")
    private Path announcements;

    @Option(
            names = "--socket",
            paramLabel = "PATH",
            defaultValue = "/run/ppmr/source.sock",
            description = "the sources' control_socket (default: ${DEFAULT-VALUE})")
    private Path socket;

    @Option(
            names = "--target-port",
            paramLabel = "PORT",
            defaultValue = "7411",
            description = "where the targets of the spare nodes listen (default: ${DEFAULT-VALUE})")
    private int targetPort;

    @Option(
            names = "--drain-check",
            paramLabel = "SECONDS",
            defaultValue = "30",
            description = "how often the controller is asked whether a node is set to drain; 0: never (default:"
                    + " ${DEFAULT-VALUE})")
    private int drainCheckSeconds;

    @Option(
            names = "--unknown-exit",
            paramLabel = "N",
            defaultValue = "75",
            description = "the exit status of a moved rank whose own cannot be learnt (default: ${DEFAULT-VALUE})")
    private int unknownExit;

    @Option(names = "--keep-nodes", description = "do not give a drained node back when the job has left it")
    private boolean keepNodes;

    @Option(
            names = "--srun",
            paramLabel = "OPTION",
            description = "a further option for the ranks' srun; may be repeated")
    private List<String> srunOptions = List.of();

    @Option(
            names = "--mpi",
            paramLabel = "MPI",
            description =
                    "run the ranks in pods, one on each node, by the launcher of this MPI: ${COMPLETION-CANDIDATES}."
                            + " Their output is the batch script's")
    private MpiRun.Mpi mpi;

    @Option(
            names = "--mpirun",
            paramLabel = "PROGRAM",
            description = "with --mpi, the launcher (default: mpirun of openmpi, mpiexec.hydra of mpich)")
    private String mpirun;

    @Option(
            names = "--launcher",
            paramLabel = "WORD",
            description = "with --mpi, a further word for the launcher, before PROGRAM; may be repeated")
    private List<String> launcher = List.of();

    @Option(
            names = "--template",
            paramLabel = "NAME",
            description = "with --mpi, which [pods.NAME]; needed where several are yours")
    private String template;

    @Option(
            names = "--target-socket",
            paramLabel = "PATH",
            defaultValue = "/run/ppmr/target.sock",
            description = "with --mpi, the control_socket of the spare's target (default: ${DEFAULT-VALUE})")
    private Path targetSocket;

    @Parameters(arity = "1..*", paramLabel = "PROGRAM", description = "after --, the program and its arguments")
    private List<String> program;

    @Override
    public Integer call() throws Exception {
        ProcessSignals.requireFreeTrigger(System.getenv());
        String job = System.getenv("SLURM_JOB_ID");
        String list = System.getenv("SLURM_JOB_NODELIST");
        if (job == null || list == null) {
            throw new CommandFailure(
                    ExitCode.USAGE, "this is no Slurm job (SLURM_JOB_ID is not set): call it in a batch script");
        }
        Scontrol slurm = new Scontrol();
        Allocation allocation = Allocation.of(job, slurm.hostNames(list), spares, tasks, System.getenv());
        if ((mpi == null) == (checkpointer == null)) {
            throw new CommandFailure(
                    ExitCode.USAGE, "give --mpi for ranks in pods, or --checkpointer for ranks that are none");
        }
        NativePrograms programs = NativePrograms.fromSystemProperty();
        JavaCommand java = JavaCommand.from(System.getenv(), programs.directory());
        JobRun.RunContext setting = new JobRun.RunContext(
                allocation,
                slurm.nodes(allocation.spares()).stream()
                        .map(node -> node.address() + ":" + targetPort)
                        .toList(),
                socket,
                program,
                Duration.ofSeconds(drainCheckSeconds),
                !keepNodes,
                java,
                spec.commandLine().getErr());
        JobRun run = mpi == null ? ofRanks(setting, programs.of(SlurmPart.TASK)) : inPods(setting);
        ProcessSignals.on("USR2", run::trigger);
        ProcessSignals.on("TERM", run::stop);
        return run.run();
    }

    private JobRun ofRanks(JobRun.RunContext setting, Path task) {
        return new SlurmRun(
                setting,
                new SlurmRun.SlurmOptions(checkpointer, output, error, announcements, unknownExit, srunOptions),
                task);
    }

    private JobRun inPods(JobRun.RunContext setting) {
        String started = mpirun == null ? mpi.launcher() : mpirun;
        MpiRun.MpiOptions options =
                new MpiRun.MpiOptions(mpi, started, targetSocket, Optional.ofNullable(template), launcher);
        return new MpiRun(setting, options, System.getenv());
    }
}
