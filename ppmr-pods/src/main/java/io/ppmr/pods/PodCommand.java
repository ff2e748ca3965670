package io.ppmr.pods;

import io.ppmr.cli.DurationConverter;
import io.ppmr.cli.JsonText;
import io.ppmr.cli.SocketArgument;
import io.ppmr.cli.help.JsonResult;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.part.ServicePart.Side;
import io.ppmr.migration.RequestException;
import io.ppmr.protocol.control.PodSpecification;
import java.io.IOException;
import java.io.PrintWriter;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Optional;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr pod}: runs pods on this node, through a service. See docs/internals/pods.md. */
@Command(
        name = "pod",
        description = {
            "Runs and manages pods of this node: processes with namespaces, a /tmp and a network address of their own.",
            "The source's service makes them as root, as the templates of its configuration allow.",
            "You name a pod when you make it. If you control the service, write UID/NAME for another user's pod.",
            "A request is refused if no template allows it, or if the pod is not yours."
        },
        subcommands = PodAgentCommand.class,
        mixinStandardHelpOptions = true)
public final class PodCommand implements Runnable {
    @Spec
    private CommandSpec spec;

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "no command is given");
    }

    /** The directory and the standard streams of a command in a pod. */
    static final class Streams {
        @Option(
                names = "--env",
                paramLabel = "NAME=VALUE",
                description = "a further variable of the command's environment; may be repeated")
        private List<String> environment = List.of();

        @Option(
                names = "--directory",
                paramLabel = "DIR",
                description = "the directory in which the command starts (default: /tmp)")
        private String directory;

        @Option(
                names = "--input",
                paramLabel = "FILE",
                description = "a file in the pod that the command reads (default: /dev/null)")
        private String input;

        @Option(
                names = "--output",
                paramLabel = "FILE",
                description = "a file in the pod that the output is appended to (default: /dev/null)")
        private String output;

        @Option(
                names = "--error",
                paramLabel = "FILE",
                description = "a file in the pod for the error output (default: as --output)")
        private String error;

        private PodOrder order(PodSpecification ordered, String address, String user) {
            PodSpecification specification = ordered.granted(ordered.template(), environment);
            return new PodOrder(specification, address, user, directory, input, output, error);
        }

        private boolean given() {
            return directory != null || input != null || output != null || error != null;
        }
    }

    @Command(
            name = "run",
            description = {
                "Makes a pod and starts COMMAND in it. The pod ends with the command. This command returns when COMMAND"
                        + " has started.",
                "The files are opened in the pod, by its user. The pod continues without the service and this command."
            },
            mixinStandardHelpOptions = true)
    void run(
            @Parameters(
                            index = "0",
                            paramLabel = "NAME",
                            description = "the pod's name and host name: small letters, digits, hyphens")
                    String name,
            @Parameters(
                            index = "1..*",
                            arity = "1..*",
                            paramLabel = "COMMAND",
                            description = "after --, the command and its arguments")
                    List<String> command,
            @Option(
                            names = "--job",
                            paramLabel = "NAME",
                            description =
                                    "the pod's job; your pods of one job on a node move together (default: the pod's"
                                            + " name)")
                    String job,
            @Option(
                            names = "--members",
                            paramLabel = "N",
                            description = {
                                "the number of the job's pods on all nodes, each run with this option: the job is"
                                        + " checkpointed and restarted as one (ppmr job)"
                            })
                    int members,
            @Option(
                            names = "--checkpoint-every",
                            paramLabel = "INTERVAL",
                            description = {
                                "checkpoint the job regularly: 90s, 10m, 2h, 1d, or auto for an interval that the"
                                        + " controllers derive; they may lengthen it; with --members"
                            })
                    String checkpointEvery,
            @Option(
                            names = "--template",
                            paramLabel = "NAME",
                            description = "the template, a [pods.NAME]; needed if you may use several")
                    String template,
            @Option(
                            names = "--address",
                            paramLabel = "ADDRESS",
                            description = "one of your addresses (default: the first that is free)")
                    String address,
            @Option(
                            names = "--user",
                            paramLabel = "USER",
                            description = "the pod's user; only for root, who must give it")
                    String user,
            @Option(
                            names = "--attach",
                            description = "wait for the pod's end; end the pod if this command or its standard input"
                                    + " ends")
                    boolean attach,
            @ArgGroup(exclusive = false, multiplicity = "0..1") Streams streams,
            @Mixin SocketArgument socket)
            throws ConfigException, IOException, RequestException {
        Optional<PodWatch> watch =
                attach ? Optional.of(new PodWatch(socket.path(Side.SOURCE), System.in, out())) : Optional.empty();
        PodOrder order = or(streams)
                .order(
                        new PodSpecification(name, job, template, List.of(), command, members, checkpointEvery),
                        address,
                        user);
        try (PodClient client = new PodClient(socket.path(Side.SOURCE))) {
            PodStatus pod = client.runPod(order);
            out().println(
                            pod.init() == 0
                                    ? "pod " + pod.name() + " ended already: its command was over at once"
                                    : "pod " + pod.name() + " runs at " + pod.address() + ", its init is PID "
                                            + pod.init());
            if (watch.isPresent()) {
                watch.get().attach(pod);
            }
        }
    }

    @Command(
            name = "attach",
            description = {
                "Waits for the end of a pod. Ends the pod if this command or its standard input ends.",
                "For programs it prints the line \"ppmr-pod NAME at ADDRESS/BITS\" and, at the end, \"ppmr-pod NAME"
                        + " gone\"."
            },
            mixinStandardHelpOptions = true)
    void attach(
            @Parameters(paramLabel = "NAME", description = "the pod") String name,
            @Option(
                            names = "--within",
                            paramLabel = "TIME",
                            defaultValue = "0s",
                            converter = DurationConverter.class,
                            description = "wait that long for the pod to come (default: ${DEFAULT-VALUE})")
                    Duration within,
            @Mixin SocketArgument socket)
            throws ConfigException, IOException, RequestException {
        PodWatch watch = new PodWatch(socket.path(), System.in, out());
        watch.attach(watch.find(name, within));
    }

    @JsonResult(value = PodStatus.class, list = true)
    @Command(
            name = "list",
            description = "Lists your pods of this node, or all pods if you control the service.",
            mixinStandardHelpOptions = true)
    void list(
            @Option(names = "--json", description = "print the result as JSON") boolean json,
            @Mixin SocketArgument socket)
            throws ConfigException, IOException, RequestException {
        try (PodClient client = new PodClient(socket.path())) {
            List<PodStatus> pods = client.pods();
            if (json) {
                JsonText.print(out(), pods);
                return;
            }
            PodStatus.lines(pods).forEach(out()::println);
        }
    }

    @JsonResult(PodStatus.class)
    @Command(name = "show", description = "Shows one pod.", mixinStandardHelpOptions = true)
    void show(
            @Parameters(paramLabel = "NAME", description = "the pod") String name,
            @Option(names = "--json", description = "print the result as JSON") boolean json,
            @Mixin SocketArgument socket)
            throws ConfigException, IOException, RequestException {
        try (PodClient client = new PodClient(socket.path())) {
            PodStatus pod = client.showPod(name);
            PrintWriter out = out();
            if (json) {
                JsonText.print(out, pod);
                return;
            }
            out.println("pod        " + pod.name() + ", " + pod.state());
            out.println("job        " + pod.specification().job());
            out.println("template   " + pod.specification().template());
            out.println("address    " + String.join(", ", pod.addresses().all()) + ", "
                    + pod.addresses().mac());
            out.println("cable      " + pod.link() + " in bridge " + pod.bridge());
            out.println("processes  " + pod.processes() + ", its init is PID " + pod.init());
            out.println("started    " + Instant.ofEpochMilli(pod.startedAtMs()).truncatedTo(ChronoUnit.SECONDS));
            out.println("command    " + String.join(" ", pod.specification().command()));
        }
    }

    @Command(
            name = "exec",
            description = {
                "Runs a further COMMAND in a pod, as the pod's user and without privileges. Only that user and root"
                        + " may.",
                "Without --detach this command waits a minute at most and prints the output. Its exit code is that of"
                        + " COMMAND.",
                "Without --detach COMMAND holds a pipe that leads out of the pod. With --detach it has files of the pod"
                        + " instead, and continues in the pod."
            },
            mixinStandardHelpOptions = true)
    int exec(
            @Parameters(index = "0", paramLabel = "NAME", description = "the pod") String name,
            @Parameters(
                            index = "1..*",
                            arity = "1..*",
                            paramLabel = "COMMAND",
                            description = "after --, the command and its arguments")
                    List<String> command,
            @Option(names = "--detach", description = "return at once; COMMAND continues and writes to --output")
                    boolean detach,
            @ArgGroup(exclusive = false, multiplicity = "0..1") Streams streams,
            @Mixin SocketArgument socket)
            throws ConfigException, IOException, RequestException {
        Streams given = or(streams);
        if (!detach && given.given()) {
            throw new ParameterException(
                    spec.commandLine(), "--directory, --input, --output and --error are for a command with --detach");
        }
        try (PodClient client = new PodClient(socket.path())) {
            Pods.Executed executed = client.execute(
                    given.order(new PodSpecification(name, null, null, List.of(), command), null, null), detach);
            if (!executed.output().isEmpty()) {
                out().print(executed.output());
                out().println();
            }
            if (executed.cut()) {
                spec.commandLine().getErr().println("ppmr: the output is longer; this is its beginning");
            }
            return executed.exitCode();
        }
    }

    @Command(
            name = "stop",
            description =
                    "Ends a pod, or all pods of a job on this node. The command gets SIGTERM; after ten seconds all"
                            + " processes are killed.",
            mixinStandardHelpOptions = true)
    void stop(@ArgGroup(multiplicity = "1") StopArguments stopped, @Mixin SocketArgument socket)
            throws ConfigException, IOException, RequestException {
        // A connection carries one request.
        for (String name : stopped.job == null ? List.of(stopped.name) : namesOf(stopped.job, socket)) {
            try (PodClient client = new PodClient(socket.path())) {
                out().println("pod " + client.stopPod(name).name() + " ended");
            }
        }
    }

    private static List<String> namesOf(String job, SocketArgument socket)
            throws ConfigException, IOException, RequestException {
        try (PodClient client = new PodClient(socket.path())) {
            return client.pods().stream()
                    .filter(pod -> isOf(job, pod))
                    .map(PodStatus::name)
                    .toList();
        }
    }

    /** The pod or the job to end. */
    static final class StopArguments {
        @Parameters(paramLabel = "NAME", description = "the pod")
        private String name;

        @Option(
                names = "--job",
                paramLabel = "NAME",
                description = "all pods of that job, also if there are none; UID/NAME for those of one user")
        private String job;
    }

    private static boolean isOf(String job, PodStatus pod) {
        return job.equals(pod.specification().job())
                || job.equals(pod.name().substring(0, pod.name().indexOf('/') + 1)
                        + pod.specification().job());
    }

    private static Streams or(Streams streams) {
        return streams == null ? new Streams() : streams;
    }

    private PrintWriter out() {
        return spec.commandLine().getOut();
    }
}
