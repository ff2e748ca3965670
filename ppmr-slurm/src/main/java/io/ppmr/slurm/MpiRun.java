package io.ppmr.slurm;

import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.linux.Command;
import io.ppmr.linux.Ipv4Address;
import java.io.IOException;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * An MPI job in pods, from its start to its end. A step on each node makes a pod there and keeps it. The MPI's own
 * launcher starts its daemons in the pods. All pods of a node move to the first spare. A pod ends with the step that
 * keeps it, and the step ends at most with this process.
 */
public final class MpiRun extends JobRun {
    /** The time limit for ending the pods after the job. */
    /** The variable in which ppmr's launcher keeps the LC_ALL of its caller. */
    private static final String CALLERS_LOCALE = "PPMR_CALLERS_LC_ALL";

    private static final Duration END_LIMIT = Duration.ofSeconds(90);
    /** The time limit for the spare's service to list an arrived pod, after the other node released it. */
    private static final Duration ARRIVAL = Duration.ofSeconds(60);

    /**
     * Matches a line of a step that keeps a pod. It contains the address of the pod, or the fact that the pod is gone.
     */
    private static final Pattern KEPT = Pattern.compile("ppmr-pod \\S+ (?:at ([0-9.]+)/([0-9]{1,2})|gone)");
    /** The only variable of Slurm that a program outside a job may have, too. */
    private static final String SLURM_CONF = "SLURM_CONF";

    /** The supported MPI libraries. */
    public enum Mpi {
        OPENMPI("mpirun"),
        MPICH("mpiexec.hydra");

        private final String launcher;

        Mpi(String launcher) {
            this.launcher = launcher;
        }

        /** Returns the program that starts its jobs. */
        public String launcher() {
            return launcher;
        }
    }

    /**
     * The user's options. See {@code ppmr slurm-run --help}.
     *
     * @param mpirun the MPI's launcher
     * @param spareSocket the control socket of the service on the spare, which lists the arriving pods
     * @param template the template of the pods, or empty for the only one
     * @param launcher further words for the launcher
     */
    public record MpiOptions(
            Mpi mpi, String mpirun, Path spareSocket, Optional<String> template, List<String> launcher) {
        public MpiOptions {
            launcher = List.copyOf(launcher);
        }
    }

    /** A pod of the job: the node that made it, its current node, and the step that keeps it. */
    private static final class Pod {
        private final String name;
        private String node;
        private JobStep keeper;
        private Ipv4Address address;
        private int prefixBits;
        private boolean gone;

        Pod(String name, String node) {
            this.name = name;
            this.node = node;
        }
    }

    private final MpiOptions options;
    private final Map<String, String> environment;
    private final List<Pod> pods = new ArrayList<>();
    private Path folder;
    private JobStep launcher;
    private Integer status;
    private boolean ending;
    private long endNs;

    /** @param environment the environment of this process */
    public MpiRun(RunContext setting, MpiOptions options, Map<String, String> environment) {
        super(setting, "pod");
        this.options = options;
        this.environment = Map.copyOf(environment);
    }

    /** Runs the job. Returns the launcher's exit status, or 1 if it could not be started. */
    @Override
    public int run() throws IOException, InterruptedException, CommandFailure {
        requirePlainWords();
        folder = Files.createTempDirectory("ppmr-mpi");
        try {
            for (String node : allocation.computing()) {
                Pod pod = new Pod(jobName() + "-" + pods.size(), node);
                pods.add(pod);
                pod.keeper = begin(JobStep.holding("pod " + pod.name + " on " + node, makeCommand(pod), events));
            }
            awaitSteps();
        } finally {
            steps.forEach(JobStep::stop);
            WorkDirectories.remove(folder);
        }
        int result = status == null ? 1 : status;
        print("the job has ended; exit status " + result);
        return result;
    }

    private String jobName() {
        return "slurm-" + allocation.job();
    }

    @Override
    long waitNs() {
        return ending ? Math.max(1, endNs - System.nanoTime()) : super.waitNs();
    }

    @Override
    boolean onOutput(JobStep step, String line) throws IOException, InterruptedException {
        Matcher kept = KEPT.matcher(line);
        if (kept.matches()) {
            kept(step, kept);
        }
        return kept.matches();
    }

    private void kept(JobStep keeper, Matcher line) throws IOException, InterruptedException {
        for (Pod pod : pods) {
            if (keeper.equals(pod.keeper) && line.group(1) == null) {
                pod.gone = true;
            } else if (keeper.equals(pod.keeper)) {
                pod.address = Ipv4Address.parse(line.group(1)).orElse(null);
                pod.prefixBits = Integer.parseInt(line.group(2));
            }
        }
        if (launcher == null && !ending && pods.stream().allMatch(pod -> pod.address != null)) {
            launch();
        }
    }

    /** Starts the launcher, after every pod started. */
    private void launch() throws IOException, InterruptedException {
        Pod first = pods.get(0);
        String network = first.address.network(first.prefixBits) + "/" + first.prefixBits;
        Optional<Pod> elsewhere = pods.stream()
                .filter(pod -> pod.prefixBits != first.prefixBits
                        || !pod.address.sharesNetwork(first.address, first.prefixBits))
                .findFirst();
        Optional<String> own = ownAddress(first);
        if (elsewhere.isPresent()) {
            print("pod " + elsewhere.get().name + " on " + elsewhere.get().node + " is at " + elsewhere.get().address
                    + ", outside of the network " + network + " of the others. Remedy: write the same template on all"
                    + " nodes");
            endAll();
        } else if (own.isEmpty()) {
            print("this node has no address in the network " + network
                    + " of the pods, which the launcher needs. Remedy:" + " give its bridge one");
            endAll();
        } else {
            print(allocation.tasks() + " ranks are started in pods on " + String.join(", ", allocation.computing())
                    + "; spare is " + spare());
            launcher = begin(JobStep.inheriting("the launcher", launchCommand(network, own.get()), events));
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

    @Override
    void ended(JobStep step, String emptied, int exit) throws IOException, InterruptedException {
        if (step.equals(launcher)) {
            status = exit;
            if (exit != 0) {
                print("the launcher has ended with status " + exit);
            }
            endAll();
        } else if (emptied != null) {
            giveBack(emptied);
        } else {
            for (Pod pod : pods) {
                if (step.equals(pod.keeper)) {
                    keeperEnded(pod, exit);
                }
            }
        }
    }

    /** Handles a pod that is gone. The pod moved, or it ended and the job ends, too. */
    private void keeperEnded(Pod pod, int exit) throws IOException, InterruptedException {
        String before = pod.node;
        if (ending && !(pod.gone && migrations.containsKey(before))) {
            return;
        }
        if (!pod.gone || before.equals(spare())) {
            print("pod " + pod.name + " on " + before + " has ended (status " + exit + "): so does the job");
            endAll();
            return;
        }
        pod.gone = false;
        pod.node = spare();
        pod.keeper = begin(JobStep.holding("pod " + pod.name + " on " + pod.node, keepCommand(pod), events));
        if (ending) {
            pod.keeper.release();
        }
        print("pod " + pod.name + " has left " + before + ": it is kept on " + pod.node);
        giveBack(before);
    }

    private String spare() {
        return allocation.spares().get(0);
    }

    @Override
    void end() {
        print("received a signal to end: the job and its pods are ended");
        endAll();
    }

    /** Ends the job: the launcher ends the ranks, and each step ends the pod that it keeps. */
    private void endAll() {
        if (ending) {
            return;
        }
        ending = true;
        endNs = System.nanoTime() + END_LIMIT.toNanos();
        if (launcher != null && !launcher.isOver()) {
            launcher.stop();
        }
        pods.stream().map(pod -> pod.keeper).forEach(JobStep::release);
    }

    @Override
    List<String> inhabited() {
        return pods.stream()
                .map(pod -> pod.node)
                .filter(node -> !node.equals(spare()))
                .distinct()
                .toList();
    }

    @Override
    boolean isUnderWay() {
        return launcher != null && !ending;
    }

    @Override
    List<String> order(String node) {
        return List.of(jobName(), "--to", setting.targets().get(0));
    }

    @Override
    void look() throws IOException, InterruptedException {
        if (ending && System.nanoTime() - endNs >= 0) {
            print("after " + END_LIMIT.toSeconds() + " s these steps have not ended, and are no longer waited for: "
                    + String.join(", ", steps.stream().map(JobStep::what).toList()));
            steps.forEach(JobStep::stop);
            steps.clear();
        }
        super.look();
    }

    /** Releases a node without pods and steps of this run, if it is set to drain. */
    private void giveBack(String node) throws InterruptedException {
        if (ending
                || !setting.giveBack()
                || inhabited().contains(node)
                || migrations.containsKey(node)
                || !allocation.computing().contains(node)
                || slurm.going(List.of(node), this::print).isEmpty()) {
            return;
        }
        List<String> kept = new ArrayList<>(allocation.spares());
        kept.addAll(inhabited());
        slurm.giveBack(allocation.job(), kept, node, this::print);
    }

    // ---- commands ------------------------------------------------------------------------------------------------

    /** Requires a text without spaces: the file of the pods' places separates words by them. */
    private void requirePlainWords() throws CommandFailure {
        for (String word : setting.java().with(List.of(setting.socket().toString()))) {
            if (word.chars().anyMatch(Character::isWhitespace)) {
                throw new CommandFailure(
                        ExitCode.USAGE,
                        "'" + word + "' has a blank in it, and no launcher takes that. Remedy: install ppmr, and have"
                                + " its sockets, in folders whose names have none");
            }
        }
    }

    /** Returns the step that makes a pod on its node and keeps it until the step's input is closed. */
    private List<String> makeCommand(Pod pod) {
        List<String> words = JobStep.beside(pod.node, 1);
        words.addAll(setting.java()
                .with(List.of(
                        "pod", "run", "--attach", "--socket", setting.socket().toString())));
        options.template().ifPresent(template -> words.addAll(List.of("--template", template)));
        words.addAll(List.of("--job", jobName(), pod.name, "--", "sleep", "infinity"));
        return words;
    }

    /** Returns the step that keeps a pod that arrived at the spare. */
    private List<String> keepCommand(Pod pod) {
        List<String> words = JobStep.beside(pod.node, 1);
        words.addAll(setting.java()
                .with(Command.words(
                        "pod attach --within %ss --socket %s %s",
                        ARRIVAL.toSeconds(), options.spareSocket(), pod.name)));
        return words;
    }

    /** Returns the launcher's command. Slurm is hidden from the launcher, which would otherwise start Slurm steps. */
    private List<String> launchCommand(String network, String own) throws IOException {
        Path agent = writeAgent();
        List<String> words = new ArrayList<>(List.of("env"));
        environment.keySet().stream()
                .filter(name -> name.startsWith("SLURM_") && !name.equals(SLURM_CONF))
                .sorted()
                .forEach(name -> words.addAll(List.of("-u", name)));
        // The job gets the locale of the caller, not the one that ppmr's launcher chose for itself.
        words.addAll(List.of("-u", "LC_ALL", "-u", CALLERS_LOCALE));
        String locale = environment.getOrDefault(CALLERS_LOCALE, "");
        if (!locale.isEmpty()) {
            words.add("LC_ALL=" + locale);
        }
        int each = (allocation.tasks() + pods.size() - 1) / pods.size();
        String hosts =
                String.join(",", pods.stream().map(pod -> pod.name + ":" + each).toList());
        switch (options.mpi()) {
            case OPENMPI ->
                // Its daemons search the agent's first word in the pods, which do not have the file.
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
        words.addAll(setting.program());
        return words;
    }

    /** Writes the file of the pods' places, and the program that the launcher starts instead of ssh. */
    private Path writeAgent() throws IOException {
        StringBuilder lines = new StringBuilder();
        for (Pod pod : pods) {
            List<String> words =
                    new ArrayList<>(List.of(pod.name, pod.name, setting.socket().toString()));
            words.addAll(JobStep.beside(pod.node, 1));
            words.addAll(List.of("--input=none", "--jobid=" + allocation.job(), "--chdir=/"));
            words.addAll(setting.java().words());
            lines.append(String.join(" ", words)).append('\n');
        }
        Path file = Files.writeString(folder.resolve("pods"), lines);
        String command = setting.java().with(List.of("pod", "agent", "--pods", file.toString())).stream()
                .map(word -> "'" + word.replace("'", "'\\''") + "'")
                .collect(Collectors.joining(" "));
        Path agent = Files.writeString(folder.resolve("agent"), "#!/bin/sh\nexec " + command + " \"$@\"\n");
        return Files.setPosixFilePermissions(agent, PosixFilePermissions.fromString("rwx------"));
    }
}
