package io.ppmr.pods;

import io.ppmr.cli.SocketArgument;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.io.PrintWriter;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Optional;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr pod}: runs pods on this node, by the source's service; docs/internals/pods.md. */
@Command(
        name = "pod",
        description = {
            "Runs processes in pods of this node: namespaces, /tmp and a network address of their own, as templates of"
                    + " the source's configuration grant them. Asks the source's service, which makes them as root.",
            "A pod's NAME is given by its user. If you control the service, write UID/NAME for another user's pod.",
            "Refused (4) where no template grants it, or the pod is not yours."
        },
        subcommands = PodAgentCommand.class,
        mixinStandardHelpOptions = true)
public final class PodCommand implements Runnable {
    @Spec
    private CommandSpec spec;

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "no command given");
    }

    /** Names the directory and the standard streams of a command in a pod. */
    static final class Streams {
        @Option(
                names = "--env",
                paramLabel = "NAME=VALUE",
                description = "a variable of the command's environment, which is the pod's otherwise; may be repeated")
        private List<String> environment = List.of();

        @Option(
                names = "--directory",
                paramLabel = "DIR",
                description = "where in the pod the command begins; default: /tmp")
        private String directory;

        @Option(
                names = "--input",
                paramLabel = "FILE",
                description = "what the command reads, a file in the pod; default: /dev/null")
        private String input;

        @Option(
                names = "--output",
                paramLabel = "FILE",
                description = "what its output is appended to, a file in the pod; default: /dev/null")
        private String output;

        @Option(
                names = "--error",
                paramLabel = "FILE",
                description = "the same for its error output; default: where the output goes")
        private String error;

        private PodOrder order(
                String name, String job, String template, String address, String user, List<String> command) {
            return new PodOrder(
                    name, job, template, address, user, environment, directory, input, output, error, command);
        }

        private boolean given() {
            return directory != null || input != null || output != null || error != null;
        }
    }

    @Command(
            name = "run",
            description = {
                "Makes a pod and starts COMMAND in it, below an init that reaps and ends the pod with the command."
                        + " Returns when the command has begun.",
                "The files are opened in the pod, by its user. The pod outlives the service and this command."
            },
            mixinStandardHelpOptions = true)
    void run(
            @Parameters(
                            index = "0",
                            paramLabel = "NAME",
                            description = "what it is called: small letters, digits, hyphens; also its host name")
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
                            description = "the job that it belongs to: your pods of one job on a node move together;"
                                    + " default: a job of its own, of the pod's name")
                    String job,
            @Option(
                            names = "--template",
                            paramLabel = "NAME",
                            description = "which [pods.NAME]; needed where several are yours")
                    String template,
            @Option(
                            names = "--address",
                            paramLabel = "ADDRESS",
                            description = "which of your addresses; default: the first that is free")
                    String address,
            @Option(names = "--user", paramLabel = "USER", description = "whose it is to be; for root, who needs it")
                    String user,
            @Option(
                            names = "--keep",
                            description = "wait for the pod's end, and end it when this command is told to end or its"
                                    + " standard input ends; it says at which address the pod is, and when it is gone,"
                                    + " in words for programs")
                    boolean keep,
            @ArgGroup(exclusive = false, multiplicity = "0..1") Streams streams,
            @ArgGroup(multiplicity = "1") SocketArgument socket)
            throws ConfigException, IOException, RequestException {
        Optional<PodWatch> watch = keep ? Optional.of(new PodWatch(socket.path(), System.in, out())) : Optional.empty();
        PodOrder order = or(streams).order(name, job, template, address, user, command);
        try (PodClient client = new PodClient(socket.path())) {
            PodStatus pod = client.runPod(order);
            out().println(
                            pod.init() == 0
                                    ? "pod " + pod.name() + " has ended already: its command was over at once"
                                    : "pod " + pod.name() + " runs at " + pod.address() + ", its init is PID "
                                            + pod.init());
            if (watch.isPresent()) {
                watch.get().keep(pod);
            }
        }
    }

    @Command(
            name = "keep",
            description = "Waits for the end of a pod that is here, and ends it when this command is told to end or its"
                    + " standard input ends. It says at which address the pod is, and when it is gone, in words for"
                    + " programs.",
            mixinStandardHelpOptions = true)
    void keep(
            @Parameters(paramLabel = "NAME", description = "the pod") String name,
            @Option(
                            names = "--within",
                            paramLabel = "SECONDS",
                            defaultValue = "0",
                            description = "how long it may take to come (default: ${DEFAULT-VALUE})")
                    int withinSeconds,
            @ArgGroup(multiplicity = "1") SocketArgument socket)
            throws ConfigException, IOException, RequestException {
        PodWatch watch = new PodWatch(socket.path(), System.in, out());
        watch.keep(watch.find(name, Duration.ofSeconds(withinSeconds)));
    }

    @Command(
            name = "list",
            description = "Lists your pods of this node, or all pods if you control the service.",
            mixinStandardHelpOptions = true)
    void list(@ArgGroup(multiplicity = "1") SocketArgument socket)
            throws ConfigException, IOException, RequestException {
        try (PodClient client = new PodClient(socket.path())) {
            List<PodStatus> pods = client.pods();
            if (pods.isEmpty()) {
                out().println("no pod");
            }
            for (PodStatus pod : pods) {
                out().println(String.format(
                        "%-24s %-15s %-12s %4d processes  %s",
                        pod.name(), pod.address(), pod.template(), pod.processes(), String.join(" ", pod.command())));
            }
        }
    }

    @Command(name = "show", description = "Shows one pod.", mixinStandardHelpOptions = true)
    void show(
            @Parameters(paramLabel = "NAME", description = "the pod") String name,
            @ArgGroup(multiplicity = "1") SocketArgument socket)
            throws ConfigException, IOException, RequestException {
        try (PodClient client = new PodClient(socket.path())) {
            PodStatus pod = client.showPod(name);
            PrintWriter out = out();
            out.println("pod        " + pod.name() + ", " + pod.state());
            out.println("job        " + pod.job());
            out.println("template   " + pod.template());
            out.println("address    " + pod.address() + (pod.address6().isEmpty() ? "" : ", " + pod.address6()) + ", "
                    + pod.mac());
            out.println("cable      " + pod.link() + " in bridge " + pod.bridge());
            out.println("processes  " + pod.processes() + ", its init is PID " + pod.init());
            out.println("started    " + Instant.ofEpochMilli(pod.startedAtMs()).truncatedTo(ChronoUnit.SECONDS));
            out.println("command    " + String.join(" ", pod.command()));
        }
    }

    @Command(
            name = "exec",
            description = {
                "Runs a further COMMAND in a pod, as its user and without any privilege; for its user and root.",
                "Without --detach it is waited for, a minute at most, its output is printed, and its exit status is"
                        + " this command's. While it runs, or where it leaves processes behind, it holds a pipe from"
                        + " outside of the pod. With --detach it continues as a child of the pod's init, with files of"
                        + " the pod as its streams."
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
            @Option(names = "--detach", description = "let it continue in the pod; its output goes to --output")
                    boolean detach,
            @ArgGroup(exclusive = false, multiplicity = "0..1") Streams streams,
            @ArgGroup(multiplicity = "1") SocketArgument socket)
            throws ConfigException, IOException, RequestException {
        Streams given = or(streams);
        if (!detach && given.given()) {
            throw new ParameterException(
                    spec.commandLine(), "--directory, --input, --output and --error are for a command with --detach");
        }
        try (PodClient client = new PodClient(socket.path())) {
            Pods.Executed executed = client.execute(given.order(name, null, null, null, null, command), detach);
            if (!executed.output().isEmpty()) {
                out().print(executed.output());
                out().println();
            }
            if (executed.cut()) {
                spec.commandLine().getErr().println("ppmr: its output is longer; this is the beginning of it");
            }
            return executed.exitCode();
        }
    }

    @Command(
            name = "stop",
            description = "Ends a pod, or all pods of a job that are here: its command gets SIGTERM, and all of it is"
                    + " killed after ten seconds. Nothing of it is left when this returns.",
            mixinStandardHelpOptions = true)
    void stop(@ArgGroup(multiplicity = "1") StopArguments stopped, @ArgGroup(multiplicity = "1") SocketArgument socket)
            throws ConfigException, IOException, RequestException {
        // A connection carries one request.
        for (String name : stopped.job == null ? List.of(stopped.name) : namesOf(stopped.job, socket)) {
            try (PodClient client = new PodClient(socket.path())) {
                out().println("pod " + client.stopPod(name).name() + " has ended");
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

    /** Says what must be ended. */
    static final class StopArguments {
        @Parameters(paramLabel = "NAME", description = "the pod")
        private String name;

        @Option(
                names = "--job",
                paramLabel = "NAME",
                description = "all pods of that job; none is none too many. As UID/NAME, of that user's alone")
        private String job;
    }

    private static boolean isOf(String job, PodStatus pod) {
        return job.equals(pod.job())
                || job.equals(pod.name().substring(0, pod.name().indexOf('/') + 1) + pod.job());
    }

    private static Streams or(Streams streams) {
        return streams == null ? new Streams() : streams;
    }

    private PrintWriter out() {
        return spec.commandLine().getOut();
    }
}
