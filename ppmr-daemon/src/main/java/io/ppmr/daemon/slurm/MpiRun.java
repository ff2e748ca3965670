package io.ppmr.daemon.slurm;

import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.daemon.pods.Ipv4Address;
import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.daemon.service.JavaCommand;
import io.ppmr.daemon.slurm.SlurmRun.Allocation;
import io.ppmr.daemon.slurm.Step.Event;
import io.ppmr.os.Command;
import java.io.IOException;
import java.io.PrintWriter;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * An MPI job in pods, from its start to its end: a step on each node that has a pod made there and keeps it, the MPI's
 * own launcher, whose daemons are started in the pods, and the orders to move the pods of a node to the spare. A pod
 * ends with the step that keeps it, which ends with this process at the latest. One thread runs it; {@link #trigger}
 * and {@link #stop} are for any.
 */
public final class MpiRun {
    /** After a migration a draining node is left alone for so long. */
    private static final Duration PAUSE = Duration.ofSeconds(60);
    /** The limit on ending the pods when the job is over. */
    private static final Duration END_LIMIT = Duration.ofSeconds(90);
    /** The limit on the spare's service to show a pod that has come, when the other node has given it up. */
    private static final Duration ARRIVAL = Duration.ofSeconds(60);

    /** Matches what a step says that keeps a pod: where the pod is, or that it is not there any more. */
    private static final Pattern KEPT = Pattern.compile("ppmr-pod \\S+ (?:at ([0-9.]+)/([0-9]{1,2})|gone)");
    /** Of Slurm's variables the one that does not say that this is a job. */
    private static final String SLURM_CONF = "SLURM_CONF";

    /** The libraries whose launchers are known. */
    public enum Mpi {
        OPENMPI("mpirun"),
        MPICH("mpiexec.hydra");

        private final String launcher;

        Mpi(String launcher) {
            this.launcher = launcher;
        }

        /** Names the program that starts its jobs. */
        public String launcher() {
            return launcher;
        }
    }

    /**
     * What the user chose; see {@code ppmr slurm-run --help}.
     *
     * @param mpirun the program that is the MPI's launcher
     * @param socket the control socket of the services on the nodes with pods
     * @param spareSocket that of the service on the spare, which lists the pods that come
     * @param target where the target of the first spare listens
     * @param template which template the pods are of; empty for the only one
     * @param launcher further words for the launcher
     * @param drainCheck how often the controller is asked about the nodes; 0 for never
     * @param giveBack whether a drained node that the job has left is taken out of the allocation
     */
    public record Options(
            Mpi mpi,
            String mpirun,
            Path socket,
            Path spareSocket,
            String target,
            Optional<String> template,
            List<String> launcher,
            List<String> program,
            Duration drainCheck,
            boolean giveBack) {
        public Options {
            launcher = List.copyOf(launcher);
            program = List.copyOf(program);
        }
    }

    /** A pod of the job: where it was made, where it is, and who keeps it there. */
    private static final class Pod {
        private final String name;
        private String node;
        private Step keeper;
        private Ipv4Address address;
        private int prefixBits;
        private boolean gone;

        Pod(String name, String node) {
            this.name = name;
            this.node = node;
        }
    }

    private final Allocation allocation;
    private final Options options;
    private final JavaCommand java;
    private final Map<String, String> environment;
    private final Scontrol slurm = new Scontrol();
    private final PrintWriter err;
    private final BlockingQueue<Event> events = new LinkedBlockingQueue<>();
    private final Set<Step> steps = new LinkedHashSet<>();
    private final List<Pod> pods = new ArrayList<>();
    private final Map<String, Step> migrations = new HashMap<>();
    private final Map<String, Long> notBeforeNs = new HashMap<>();
    private Path folder;
    private Step launcher;
    private Integer status;
    private boolean triggered;
    private boolean ending;
    private long nextLookNs = System.nanoTime();
    private long endNs;

    /**
     * @param java how a further ppmr is started
     * @param environment of this process
     * @param err what happens is told there
     */
    public MpiRun(
            Allocation allocation,
            Options options,
            JavaCommand java,
            Map<String, String> environment,
            PrintWriter err) {
        this.allocation = allocation;
        this.options = options;
        this.java = java;
        this.environment = Map.copyOf(environment);
        this.err = err;
    }

    /** Has the pods of the node that is going moved. */
    public void trigger() {
        events.add(new Event.Trigger());
    }

    /** Ends the launcher and the pods. */
    public void stop() {
        events.add(new Event.Stop());
    }

    /** Runs the job; gives the launcher's exit status, or 1 if it could not be started. */
    public int run() throws IOException, InterruptedException, CommandFailure {
        requirePlainWords();
        folder = Files.createTempDirectory("ppmr-mpi");
        try {
            for (String node : allocation.computing()) {
                Pod pod = new Pod(jobName() + "-" + pods.size(), node);
                pods.add(pod);
                pod.keeper = begin(Step.holding("pod " + pod.name + " on " + node, makeCommand(pod), events));
            }
            while (!steps.isEmpty()) {
                Event event = events.poll(waitNs(), TimeUnit.NANOSECONDS);
                if (event != null) {
                    handle(event);
                }
                look();
            }
        } finally {
            steps.forEach(Step::stop);
            WorkDirectories.remove(folder);
        }
        int result = status == null ? 1 : status;
        say("the job has ended; exit status " + result);
        return result;
    }

    private Step begin(Step step) {
        steps.add(step);
        return step;
    }

    private String jobName() {
        return "slurm-" + allocation.job();
    }

    private long waitNs() {
        if (!ending && (launcher == null || options.drainCheck().isZero())) {
            return TimeUnit.HOURS.toNanos(1);
        }
        return Math.max(1, (ending ? endNs : nextLookNs) - System.nanoTime());
    }

    private void handle(Event event) throws IOException, InterruptedException {
        if (event instanceof Event.Said said) {
            Matcher kept = KEPT.matcher(said.line());
            if (kept.matches()) {
                kept(said.step(), kept);
            } else {
                err.println(said.line());
            }
        } else if (event instanceof Event.Ended ended) {
            ended(ended.step(), ended.status());
        } else if (event instanceof Event.Trigger) {
            say("SIGUSR2");
            triggered = true;
            moveOnTrigger();
        } else {
            say("told to end: the job and its pods are ended");
            end();
        }
    }

    private void kept(Step keeper, Matcher said) throws IOException, InterruptedException {
        for (Pod pod : pods) {
            if (keeper.equals(pod.keeper) && said.group(1) == null) {
                pod.gone = true;
            } else if (keeper.equals(pod.keeper)) {
                pod.address = Ipv4Address.parse(said.group(1)).orElse(null);
                pod.prefixBits = Integer.parseInt(said.group(2));
            }
        }
        if (launcher == null && !ending && pods.stream().allMatch(pod -> pod.address != null)) {
            launch();
        }
    }

    /** Every pod runs: the launcher begins. */
    private void launch() throws IOException, InterruptedException {
        Pod first = pods.get(0);
        String network = first.address.network(first.prefixBits) + "/" + first.prefixBits;
        Optional<Pod> elsewhere = pods.stream()
                .filter(pod -> pod.prefixBits != first.prefixBits
                        || !pod.address.sharesNetwork(first.address, first.prefixBits))
                .findFirst();
        Optional<String> own = ownAddress(first);
        if (elsewhere.isPresent()) {
            say("pod " + elsewhere.get().name + " on " + elsewhere.get().node + " is at " + elsewhere.get().address
                    + ", outside of the network " + network + " of the others. Remedy: write the same template on all"
                    + " nodes");
            end();
        } else if (own.isEmpty()) {
            say("this node has no address in the network " + network + " of the pods, which the launcher needs. Remedy:"
                    + " give its bridge one");
            end();
        } else {
            say(allocation.tasks() + " ranks are started in pods on " + String.join(", ", allocation.computing())
                    + "; spare is " + spare());
            launcher = begin(Step.inheriting("the launcher", launchCommand(network, own.get()), events));
            moveOnTrigger();
        }
    }

    private static Optional<String> ownAddress(Pod pod) throws IOException {
        return NetworkInterface.networkInterfaces()
                .flatMap(NetworkInterface::inetAddresses)
                .map(InetAddress::getHostAddress)
                .filter(text -> Ipv4Address.parse(text)
                        .filter(address -> address.sharesNetwork(pod.address, pod.prefixBits))
                        .isPresent())
                .findFirst();
    }

    private void ended(Step step, int exit) throws IOException, InterruptedException {
        steps.remove(step);
        step.markOver();
        Optional<String> from = migrations.entrySet().stream()
                .filter(entry -> entry.getValue().equals(step))
                .map(Map.Entry::getKey)
                .findFirst();
        if (step.equals(launcher)) {
            status = exit;
            if (exit != 0) {
                say("the launcher has ended with status " + exit);
            }
            end();
        } else if (from.isPresent()) {
            migrationEnded(from.get(), exit);
        } else {
            for (Pod pod : pods) {
                if (step.equals(pod.keeper)) {
                    keeperEnded(pod, exit);
                }
            }
        }
    }

    private void migrationEnded(String node, int exit) throws InterruptedException {
        migrations.remove(node);
        // Where they have moved, the steps that keep them there say so in a moment.
        notBeforeNs.put(node, System.nanoTime() + PAUSE.toNanos());
        if (exit != 0) {
            say("the pods on " + node + " were not moved (ppmr migrate ended with " + exit
                    + "; docs/operations.md says what it means)");
        }
        giveBack(node);
    }

    /** The pod has moved, or it has ended, and the job with it. */
    private void keeperEnded(Pod pod, int exit) throws IOException, InterruptedException {
        String before = pod.node;
        if (ending && !(pod.gone && migrations.containsKey(before))) {
            return;
        }
        if (!pod.gone || before.equals(spare())) {
            say("pod " + pod.name + " on " + before + " has ended (status " + exit + "): so does the job");
            end();
            return;
        }
        pod.gone = false;
        pod.node = spare();
        pod.keeper = begin(Step.holding("pod " + pod.name + " on " + pod.node, keepCommand(pod), events));
        if (ending) {
            pod.keeper.letGo();
        }
        say("pod " + pod.name + " has left " + before + ": it is kept on " + pod.node);
        giveBack(before);
    }

    private String spare() {
        return allocation.spares().get(0);
    }

    /** Ends what is left: the launcher ends the ranks, and each step the pod that it keeps. */
    private void end() {
        if (ending) {
            return;
        }
        ending = true;
        endNs = System.nanoTime() + END_LIMIT.toNanos();
        if (launcher != null && !launcher.isOver()) {
            launcher.stop();
        }
        pods.stream().map(pod -> pod.keeper).forEach(Step::letGo);
    }

    private List<String> inhabited() {
        return pods.stream()
                .map(pod -> pod.node)
                .filter(node -> !node.equals(spare()))
                .distinct()
                .toList();
    }

    private void moveOnTrigger() throws IOException, InterruptedException {
        if (!triggered || launcher == null || ending) {
            return;
        }
        triggered = false;
        for (String node : slurm.meant(inhabited(), "pod", this::say)) {
            migrate(node);
        }
    }

    private void look() throws IOException, InterruptedException {
        if (ending && System.nanoTime() - endNs >= 0) {
            say("after " + END_LIMIT.toSeconds() + " s these steps have not ended, and are given up: "
                    + String.join(", ", steps.stream().map(Step::what).toList()));
            steps.forEach(Step::stop);
            steps.clear();
            return;
        }
        if (ending || launcher == null || options.drainCheck().isZero() || System.nanoTime() - nextLookNs < 0) {
            return;
        }
        nextLookNs = System.nanoTime() + options.drainCheck().toNanos();
        for (String node : slurm.going(inhabited(), this::say)) {
            Long notBefore = notBeforeNs.get(node);
            if (!migrations.containsKey(node) && (notBefore == null || System.nanoTime() - notBefore >= 0)) {
                say(node + " is set to drain");
                migrate(node);
            }
        }
    }

    private void migrate(String node) throws IOException {
        if (migrations.containsKey(node)) {
            say("the pods on " + node + " are being moved already");
            return;
        }
        say("moving the pods of " + node + " (job " + jobName() + " there) to " + options.target());
        List<String> words = Step.beside(node, 1);
        words.add("--input=none");
        words.addAll(java.with(
                List.of("migrate", "--socket", options.socket().toString(), jobName(), "--to", options.target())));
        migrations.put(node, begin(Step.start("the migration from " + node, words, events)));
    }

    /** No pod and no step of this run is left on a node: where it is set to drain it is of no more use. */
    private void giveBack(String node) throws InterruptedException {
        if (ending
                || !options.giveBack()
                || inhabited().contains(node)
                || migrations.containsKey(node)
                || !allocation.computing().contains(node)
                || slurm.going(List.of(node), this::say).isEmpty()) {
            return;
        }
        List<String> kept = new ArrayList<>(allocation.spares());
        kept.addAll(inhabited());
        slurm.giveBack(allocation.job(), kept, node, this::say);
    }

    private void say(String text) {
        err.println("ppmr slurm-run: " + text);
    }

    // ---- commands ------------------------------------------------------------------------------------------------

    /** The file that says where pods are has words between spaces. */
    private void requirePlainWords() throws CommandFailure {
        for (String word : java.with(List.of(options.socket().toString()))) {
            if (word.chars().anyMatch(Character::isWhitespace)) {
                throw new CommandFailure(
                        ExitCode.USAGE,
                        "'" + word + "' has a blank in it, and no launcher takes that. Remedy: install ppmr, and have"
                                + " its sockets, in folders whose names have none");
            }
        }
    }

    /** Has a pod made on its node, and keeps it, until the step's input ends. */
    private List<String> makeCommand(Pod pod) {
        List<String> words = Step.beside(pod.node, 1);
        words.addAll(java.with(
                List.of("pod", "run", "--keep", "--socket", options.socket().toString())));
        options.template().ifPresent(template -> words.addAll(List.of("--template", template)));
        words.addAll(List.of("--job", jobName(), pod.name, "--", "sleep", "infinity"));
        return words;
    }

    /** Keeps a pod that has come to the spare. */
    private List<String> keepCommand(Pod pod) {
        List<String> words = Step.beside(pod.node, 1);
        words.addAll(java.with(Command.words(
                "pod keep --within %s --socket %s %s", ARRIVAL.toSeconds(), options.spareSocket(), pod.name)));
        return words;
    }

    /** The launcher's own words; it must not take this for a job of Slurm's, whose steps it would start. */
    private List<String> launchCommand(String network, String own) throws IOException {
        Path agent = writeAgent();
        List<String> words = new ArrayList<>(List.of("env"));
        environment.keySet().stream()
                .filter(name -> name.startsWith("SLURM_") && !name.equals(SLURM_CONF))
                .sorted()
                .forEach(name -> words.addAll(List.of("-u", name)));
        int each = (allocation.tasks() + pods.size() - 1) / pods.size();
        String hosts =
                String.join(",", pods.stream().map(pod -> pod.name + ":" + each).toList());
        switch (options.mpi()) {
            case OPENMPI ->
                // Its daemons look for the agent's first word in the pods, where the file is not.
                words.addAll(Command.words(
                        "%s --mca plm rsh --mca plm_rsh_agent %s --mca plm_rsh_no_tree_spawn 1 --mca btl tcp,self"
                                + " --mca btl_tcp_if_include %s --mca oob_tcp_if_include %s --host %s -np %s",
                        options.mpirun(), "/bin/sh " + agent, network, network, hosts, allocation.tasks()));
            case MPICH ->
                words.addAll(Command.words(
                        "%s -launcher ssh -launcher-exec %s -localhost %s -genv UCX_TLS tcp,self"
                                + " -genv UCX_NET_DEVICES eth0 -hosts %s -np %s",
                        options.mpirun(), agent, own, hosts, allocation.tasks()));
        }
        words.addAll(options.launcher());
        words.addAll(options.program());
        return words;
    }

    /** Writes where the pods are, and what the launcher starts in the place of ssh. */
    private Path writeAgent() throws IOException {
        StringBuilder lines = new StringBuilder();
        for (Pod pod : pods) {
            List<String> words =
                    new ArrayList<>(List.of(pod.name, pod.name, options.socket().toString()));
            words.addAll(Step.beside(pod.node, 1));
            words.addAll(List.of("--input=none", "--jobid=" + allocation.job(), "--chdir=/"));
            words.addAll(java.words());
            lines.append(String.join(" ", words)).append('\n');
        }
        Path file = Files.writeString(folder.resolve("pods"), lines);
        String command = java.with(List.of("pod", "agent", "--pods", file.toString())).stream()
                .map(word -> "'" + word.replace("'", "'\\''") + "'")
                .collect(Collectors.joining(" "));
        Path agent = Files.writeString(folder.resolve("agent"), "#!/bin/sh\nexec " + command + " \"$@\"\n");
        return Files.setPosixFilePermissions(agent, PosixFilePermissions.fromString("rwx------"));
    }
}
