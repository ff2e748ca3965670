package io.ppmr.slurm;

import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.cli.DurationConverter;
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
            "Use it in a Slurm batch script, in the background. It starts PROGRAM with srun on all nodes of the"
                    + " allocation except the spare nodes at its head.",
            "It moves the ranks of a node that is set to drain, or when it gets SIGUSR2. It watches the ranks until"
                    + " they end.",
            "With --mpi the ranks of an MPI job run in pods, which move with their connections.",
            "Exit code: the highest of the ranks', or that of the MPI launcher; 2 for a wrong command line."
        },
        mixinStandardHelpOptions = true)
public final class SlurmRunCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Option(
            names = "--checkpointer",
            paramLabel = "NAME",
            description = "the checkpointer: a [checkpointers.NAME] of source and target; needed without --mpi")
    private String checkpointer;

    @Option(
            names = "--ntasks",
            paramLabel = "N",
            description = "the number of ranks (default: the job's --ntasks-per-node on each node that is not spare)")
    private Integer tasks;

    @Option(
            names = "--spares",
            paramLabel = "N",
            defaultValue = "1",
            description = "the number of spare nodes at the head of the allocation (default: ${DEFAULT-VALUE})")
    private int spares;

    @Option(
            names = "--output",
            paramLabel = "FILE",
            defaultValue = "rank-%t.out",
            description = "a file for the ranks' output: %%t is the rank, %%j the job, %%N the node (default:"
                    + " ${DEFAULT-VALUE})")
    private String output;

    @Option(
            names = "--error",
            paramLabel = "FILE",
            description = "a file for the ranks' error output (default: as --output)")
    private String error;

    @Option(
            names = "--announcements",
            paramLabel = "DIRECTORY",
            defaultValue = "/run/ppmr/announced",
            description = "the directory for announcements, as the sources have it (default: ${DEFAULT-VALUE})")
    private Path announcements;

    @Option(
            names = {"-s", "--socket"},
            paramLabel = "PATH",
            defaultValue = "${env:PPMR_SOCKET:-/run/ppmr/source.sock}",
            description = "the sources' control socket (default: PPMR_SOCKET, or /run/ppmr/source.sock)")
    private Path socket;

    @Option(
            names = "--target-port",
            paramLabel = "PORT",
            defaultValue = "7411",
            description = "the port of the spare nodes' targets (default: ${DEFAULT-VALUE})")
    private int targetPort;

    @Option(
            names = "--drain-check",
            paramLabel = "TIME",
            defaultValue = "30s",
            converter = DurationConverter.class,
            description = "the time between two checks for nodes that are set to drain; 0: no check (default:"
                    + " ${DEFAULT-VALUE})")
    private Duration drainCheck;

    @Option(
            names = "--unknown-exit",
            paramLabel = "N",
            defaultValue = "75",
            description = "the exit status of a moved rank whose own is unknown (default: ${DEFAULT-VALUE})")
    private int unknownExit;

    @Option(names = "--keep-nodes", description = "keep a drained node in the allocation when the job has left it")
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
                    "run the ranks in pods, one on each node, with the launcher of this MPI: openmpi or mpich. The"
                            + " batch script gets their output")
    private MpiRun.Mpi mpi;

    @Option(
            names = "--mpirun",
            paramLabel = "PROGRAM",
            description = "with --mpi, the launcher (default: mpirun of openmpi, mpiexec.hydra of mpich)")
    private String mpirun;

    @Option(
            names = "--launcher",
            paramLabel = "WORD",
            description = "with --mpi, a further argument for the launcher; may be repeated")
    private List<String> launcher = List.of();

    @Option(
            names = "--template",
            paramLabel = "NAME",
            description = "with --mpi, the template, a [pods.NAME]; needed if you may use several")
    private String template;

    @Option(
            names = "--target-socket",
            paramLabel = "PATH",
            defaultValue = "/run/ppmr/target.sock",
            description = "with --mpi, the control socket of the spare node's target (default: ${DEFAULT-VALUE})")
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
                    ExitCode.USAGE,
                    "this is not a Slurm job (SLURM_JOB_ID is not set). Remedy: use it in a batch script");
        }
        Scontrol slurm = new Scontrol();
        Allocation allocation = Allocation.of(job, slurm.hostNames(list), spares, tasks, System.getenv());
        if ((mpi == null) == (checkpointer == null)) {
            throw new CommandFailure(
                    ExitCode.USAGE, "give --mpi for ranks in pods, or --checkpointer for ranks without pods");
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
                drainCheck,
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
