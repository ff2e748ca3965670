package io.ppmr.pods;

import io.ppmr.migration.RequestException;
import io.ppmr.pods.PodAgentServer.HostCommand;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.Stack;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import picocli.CommandLine.Command;
import picocli.CommandLine.IParameterPreprocessor;
import picocli.CommandLine.Model.ArgSpec;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/**
 * {@code ppmr pod agent}: {@code mpirun} and {@code mpiexec} start it instead of ssh(1). So a node's launcher daemon
 * runs in that node's pod. See docs/internals/pods.md. It accepts the arguments of ssh: options, a host, a command.
 */
@Command(
        name = "agent",
        synopsisHeading = "",
        customSynopsis =
                "Usage: ppmr pod agent [--inside] [--pods FILE] [--serve POD | [SSH-OPTION...] HOST COMMAND...]",
        description = {
            "Runs a COMMAND in the pod that FILE names for HOST, with the arguments of ssh. For mpirun and mpiexec.",
            "The command continues in the pod. Its output goes to /tmp/launcher.log there.",
            "FILE (or PPMR_PODS) has a line for each host: HOST POD SOCKET [WORD...]. SOCKET is the control socket of"
                    + " the source on the pod's node. The WORDs run ppmr on that node, such as: ssh -x node7 ppmr.",
            "Without WORDs the pod is on this node.",
            "If the launcher itself is in a pod, it uses --inside (/usr/lib/ppmr/pod-agent.sh), which needs no Java.",
            "--serve then runs outside of POD, on its node, as its user. It starts what the launcher requests, and ends"
                    + " when a command was started for each other host of FILE."
        },
        mixinStandardHelpOptions = true,
        preprocessor = PodAgentCommand.AsSsh.class)
final class PodAgentCommand implements Callable<Integer> {
    /** The option before socket, pod and encoded command on the pod's node. No shell changes these arguments. */
    private static final String THERE = "--there";

    private static final String OUTPUT = "/tmp/launcher.log";
    private static final String SSH_OPTIONS_WITH_A_VALUE = "bceilmopBDEFIJLOQRSwW";
    private static final int WORDS_THERE = 4;
    private static final Duration LIMIT = Duration.ofMinutes(2);
    /** For how long a server waits for the next words of a launcher. */
    private static final Duration SILENCE_LIMIT = Duration.ofMinutes(10);

    private final List<String> words = new ArrayList<>();

    @Spec
    private CommandSpec spec;

    /** Accepts all words unparsed, because the options belong to the command. */
    static final class AsSsh implements IParameterPreprocessor {
        @Override
        // The type is picocli's.
        @SuppressWarnings("JdkObsolete")
        public boolean preprocess(
                Stack<String> arguments, CommandSpec command, ArgSpec option, Map<String, Object> info) {
            if (!arguments.isEmpty()
                    && List.of("-h", "--help", "-V", "--version").contains(arguments.peek())) {
                return false;
            }
            List<String> all = ((PodAgentCommand) command.userObject()).words;
            all.clear();
            while (!arguments.isEmpty()) {
                all.add(arguments.pop());
            }
            return true;
        }
    }

    /**
     * The pod of a host.
     *
     * @param pod its name
     * @param socket the control socket of the service on the pod's node
     * @param way the words that run ppmr on that node, or empty for this node
     */
    private record Place(String pod, Path socket, List<String> way) {
        private static final int LEAST_WORDS = 3;

        /** Reads the words of each line, by host. The first line of a host counts. */
        private static Map<String, List<String>> lines(Path file) throws IOException {
            Map<String, List<String>> lines = new LinkedHashMap<>();
            for (String line : Files.readAllLines(file, StandardCharsets.UTF_8)) {
                if (!line.isBlank() && !line.startsWith("#")) {
                    List<String> words = List.of(line.strip().split("\\s+", -1));
                    lines.putIfAbsent(words.get(0), words);
                }
            }
            return lines;
        }

        private static Place of(List<String> words, Path file) throws IOException {
            if (words.size() < LEAST_WORDS) {
                throw new IOException(file + ": the line of host " + words.get(0)
                        + " has no pod or no socket. Remedy: HOST POD SOCKET [WORD...]");
            }
            return new Place(words.get(1), Path.of(words.get(2)), words.subList(LEAST_WORDS, words.size()));
        }

        /** Finds the line of a host. The error names the file and the mistake. */
        static Place of(String host, Path file) throws IOException {
            List<String> words = lines(file).get(host);
            if (words == null) {
                throw new IOException(file + " has no line for host " + host
                        + ". Remedy: add one with its pod, the socket of its node's service, and what runs ppmr there");
            }
            return of(words, file);
        }

        /** Reads all lines, by host. */
        static Map<String, Place> all(Path file) throws IOException {
            Map<String, Place> places = new LinkedHashMap<>();
            for (Map.Entry<String, List<String>> line : lines(file).entrySet()) {
                places.put(line.getKey(), of(line.getValue(), file));
            }
            return places;
        }
    }

    @Override
    public Integer call() throws IOException, RequestException, InterruptedException {
        if (words.size() == WORDS_THERE && words.get(0).equals(THERE)) {
            String command = new String(Base64.getUrlDecoder().decode(words.get(3)), StandardCharsets.UTF_8);
            return run(new Place(words.get(2), Path.of(words.get(1)), List.of()), command);
        }
        String file = System.getenv("PPMR_PODS");
        String served = null;
        int at = 0;
        while (at + 1 < words.size() && List.of("--pods", "--serve").contains(words.get(at))) {
            if (words.get(at).equals("--pods")) {
                file = words.get(at + 1);
            } else {
                served = words.get(at + 1);
            }
            at += 2;
        }
        if (at < words.size() && words.get(at).equals("--inside")) {
            throw new ParameterException(
                    spec.commandLine(),
                    "--inside is for a pod, and first of the words. Remedy: ppmr pod agent --inside HOST COMMAND");
        }
        Optional<HostCommand> command = hostCommand(words.subList(at, words.size()));
        if (served == null ? command.isEmpty() : at < words.size()) {
            throw new ParameterException(
                    spec.commandLine(),
                    served == null
                            ? "HOST or COMMAND is missing. Type: ppmr pod agent [--pods FILE] HOST COMMAND"
                            : "--serve takes no HOST. Type: ppmr pod agent --serve POD --pods FILE");
        }
        if (file == null) {
            throw new ParameterException(
                    spec.commandLine(), "no file names the pods. Remedy: --pods FILE, or the variable PPMR_PODS");
        }
        return served == null ? start(command.get(), Path.of(file)) : serve(served, Path.of(file));
    }

    /** Finds host and command behind the options of ssh. Returns empty if one of them is missing. */
    static Optional<HostCommand> hostCommand(List<String> words) {
        int host = 0;
        while (host < words.size() && words.get(host).startsWith("-")) {
            String option = words.get(host);
            boolean takesNext = option.length() == 2 && SSH_OPTIONS_WITH_A_VALUE.indexOf(option.charAt(1)) >= 0;
            host += takesNext ? 2 : 1;
        }
        return host + 1 >= words.size()
                ? Optional.empty()
                : Optional.of(
                        new HostCommand(words.get(host), String.join(" ", words.subList(host + 1, words.size()))));
    }

    private int start(HostCommand command, Path file) throws IOException, RequestException, InterruptedException {
        return run(Place.of(command.host(), file), command.command());
    }

    private int serve(String pod, Path file) throws IOException, RequestException, InterruptedException {
        Map<String, Place> places = Place.all(file);
        Set<String> own = places.entrySet().stream()
                .filter(place -> place.getValue().pod().equals(pod))
                .map(Map.Entry::getKey)
                .collect(Collectors.toSet());
        if (own.size() != 1) {
            throw new IOException(file + " has " + own.size() + " lines with pod " + pod
                    + ". Remedy: write one, with the socket of the service on this node");
        }
        Set<String> others = new TreeSet<>(places.keySet());
        others.removeAll(own);
        PrintWriter out = spec.commandLine().getOut();
        PrintWriter err = spec.commandLine().getErr();
        try (PodAgentBox box =
                        PodAgentBox.of(pod, places.get(own.iterator().next()).socket());
                PodAgentServer server = new PodAgentServer(box, command -> start(command, file), out, err)) {
            server.serve(others, SILENCE_LIMIT);
        }
        return 0;
    }

    private int run(Place place, String command) throws IOException, RequestException, InterruptedException {
        if (!place.way().isEmpty()) {
            List<String> all = new ArrayList<>(place.way());
            all.addAll(List.of("pod", "agent", THERE, place.socket().toString(), place.pod()));
            all.add(Base64.getUrlEncoder().withoutPadding().encodeToString(command.getBytes(StandardCharsets.UTF_8)));
            io.ppmr.linux.Command.CommandResult result =
                    io.ppmr.linux.Command.of(all).run(LIMIT);
            if (!result.succeeded()) {
                throw new IOException("the way to the node of pod " + place.pod() + ": " + result.describe());
            }
            return 0;
        }
        PodOrder order =
                PodOrder.inPod(place.pod(), List.of("sh", "-c", command)).withOutput(OUTPUT);
        try (PodClient client = new PodClient(place.socket())) {
            Pods.Executed started = client.execute(order, true);
            return started.exitCode();
        }
    }
}
