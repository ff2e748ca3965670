package io.ppmr.pods.testbed;

import io.ppmr.linux.Command;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * An MPI program of checked values for Debian's Open MPI and MPICH, and the words that run it over pods.
 * {@code ppmr pod agent} replaces ssh and enters the pods. Its folder must be visible to pods. close() removes it.
 */
public final class MpiRing implements AutoCloseable {
    public static final Duration LIMIT = Patience.of(Duration.ofMinutes(2));
    private static final String NETWORK = "10.20.0.0/24";
    private static final Pattern RESULT =
            Pattern.compile("result ([0-9a-f]{16}), ([0-9]+) rounds, longest gap ([0-9.]+) s");

    /**
     * The result of a run that ended.
     *
     * @param sum over all that was received
     * @param longestGapSeconds for which a rank was without a block
     */
    public record Result(String sum, long rounds, double longestGapSeconds) {
        /** Finds the result in a run's output. */
        public static Result of(String output) throws IOException {
            Matcher result = RESULT.matcher(output);
            if (!result.find()) {
                throw new IOException("the MPI program printed no result: " + output);
            }
            return new Result(result.group(1), Long.parseLong(result.group(2)), Double.parseDouble(result.group(3)));
        }
    }

    private final Path folder;
    private final Path ppmr;

    private MpiRing(Path folder) throws IOException {
        this.folder = folder;
        this.ppmr = script("ppmr", "'" + String.join("' '", ServiceProcess.command()) + "'");
    }

    /** Returns why a program of these MPIs cannot run here, or empty if it can. */
    public static Optional<String> whyNot(String... mpis) throws IOException, InterruptedException {
        for (String mpi : mpis) {
            String compiler = "mpicc." + mpi;
            if (!Command.of(List.of("sh", "-c", "command -v " + compiler))
                    .run(LIMIT)
                    .succeeded()) {
                return Optional.of(compiler + " is not installed");
            }
        }
        return Optional.empty();
    }

    /** Compiles the program for these MPIs, {@code openmpi} and {@code mpich}. */
    public static MpiRing create(String... mpis) throws IOException, InterruptedException {
        // Pods have a /tmp of their own.
        Path folder = Files.createTempDirectory(Path.of("/opt"), "ppmr-mpi");
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
        MpiRing ring = new MpiRing(folder);
        Path source = Testbed.jobSources("ppmr-pods").resolve("mpi-ring.c");
        for (String mpi : mpis) {
            Command.of(List.of("mpicc." + mpi, "-O2", "-Wall", "-o", ring.program(mpi), source.toString()))
                    .run(LIMIT)
                    .requireOutput();
        }
        return ring;
    }

    public Path folder() {
        return folder;
    }

    public String program(String mpi) {
        return folder.resolve("mpi-ring-" + mpi).toString();
    }

    /** Returns the lines of a template that pods of this program have beside their addresses. */
    public String template() {
        return """
                tmp = "64m"
                shm = "64m"
                mounts = ["/usr", "/etc", "/bin", "/lib", "/lib64", "%s"]
                """.formatted(folder);
    }

    private Path script(String name, String command) throws IOException {
        Path script = Files.writeString(folder.resolve(name), "#!/bin/sh\nexec " + command + " \"$@\"\n");
        return Files.setPosixFilePermissions(script, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    /**
     * Writes the file with the places of the pods, and returns it.
     *
     * @param pods each pod's full name and its service's socket; the first is on the node of mpirun
     */
    private Path pods(List<String> pods) throws IOException {
        StringBuilder lines = new StringBuilder("# of this test\n");
        for (int i = 0; i < pods.size(); i++) {
            lines.append("pod").append(i + 1).append(' ').append(pods.get(i));
            // The first node's agent talks to its service itself. The others' files are all on this machine, sockets
            // too.
            if (i > 0) {
                lines.append(' ').append(ppmr);
            }
            lines.append('\n');
        }
        return Files.writeString(folder.resolve("pods"), lines);
    }

    private static String hosts(List<String> pods) {
        List<String> hosts = new ArrayList<>();
        for (int number = 1; number <= pods.size(); number++) {
            hosts.add("pod" + number + ":2");
        }
        return String.join(",", hosts);
    }

    /** Returns the words that run a program on two ranks for each pod. */
    public List<String> openMpi(List<String> pods) throws IOException {
        return Command.words(
                "mpirun.openmpi --allow-run-as-root --mca plm_rsh_agent %s --mca plm_rsh_no_tree_spawn 1"
                        + " --mca btl tcp,self --mca btl_tcp_if_include %s --mca oob_tcp_if_include %s"
                        + " --host %s -np %s",
                ppmr + " pod agent --pods " + pods(pods), NETWORK, NETWORK, hosts(pods), ranks(pods));
    }

    /**
     * Returns the words that run a program by Open MPI from within the first pod, whose agent is a script.
     *
     * @param pods the names of the pods, which are their host names, too
     */
    public List<String> openMpiInside(List<String> pods) throws IOException {
        Path agent = folder.resolve("pod-agent.sh");
        Files.copy(
                Path.of(System.getProperty("ppmr.home"), "ppmr-pods/conf/pod-agent.sh"),
                agent,
                StandardCopyOption.REPLACE_EXISTING);
        Files.setPosixFilePermissions(agent, PosixFilePermissions.fromString("rwxr-xr-x"));
        return Command.words(
                "mpirun.openmpi --allow-run-as-root --mca plm_rsh_agent %s --mca plm_rsh_no_tree_spawn 1"
                        + " --mca btl tcp,self --mca btl_tcp_if_include %s --mca oob_tcp_if_include %s"
                        + " --host %s -np %s",
                agent, NETWORK, NETWORK, String.join(":2,", pods) + ":2", ranks(pods));
    }

    /**
     * Writes the file with the places of pods for a launcher in the first of them, and returns it.
     *
     * @param pods the sockets of the pods' services by the names of the pods
     */
    public Path placesFromInside(String uid, Map<String, Path> pods) throws IOException {
        StringBuilder lines = new StringBuilder();
        pods.forEach((pod, socket) ->
                lines.append(pod + " " + uid + "/" + pod + " " + socket + (lines.isEmpty() ? "" : " " + ppmr) + "\n"));
        return Files.writeString(folder.resolve("places"), lines);
    }

    /**
     * Returns these words for MPICH.
     *
     * @param address of the node on which it is started
     * @param limit after which a run is ended: some of Debian's MPICH hang in MPI_Finalize, independent of the
     *     launcher, when the result is out
     */
    public List<String> mpich(List<String> pods, String address, Duration limit) throws IOException {
        Path agent = script("agent", ppmr + " pod agent");
        return Command.words(
                "env PPMR_PODS=%s timeout %s mpiexec.hydra -launcher ssh -launcher-exec %s -localhost %s"
                        + " -genv UCX_TLS tcp,self -genv UCX_NET_DEVICES eth0 -hosts %s -np %s",
                pods(pods), limit.toSeconds(), agent, address, hosts(pods), ranks(pods));
    }

    private static String ranks(List<String> pods) {
        return Integer.toString(2 * pods.size());
    }

    /** Runs as many rounds without pods, by Open MPI on this machine. */
    public Result apart(List<String> pods, long rounds) throws IOException, InterruptedException {
        List<String> words = Command.words(
                "mpirun.openmpi --allow-run-as-root --oversubscribe --mca btl tcp,self -np %s %s %s 0",
                ranks(pods), program("openmpi"), rounds);
        return Result.of(Command.of(words).run(LIMIT).output());
    }

    @Override
    public void close() throws IOException, InterruptedException {
        Command.of(List.of("rm", "-r", folder.toString())).run(LIMIT);
    }
}
