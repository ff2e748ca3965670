package io.ppmr.daemon.pods;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.CommandStarter;
import io.ppmr.os.Command;
import io.ppmr.os.ProcessIdentity;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/**
 * Runs the programs that make pods and take them away: an OCI runtime, crun(1), for namespaces, mounts and cgroups, and
 * ip(8) for the network. Each is given {@link #LIMIT}, and is started as checkpointers' commands are, so that what it
 * leaves outlives the service. Immutable, for any thread.
 *
 * @param settings the configuration's
 * @param starter by whom the programs are started
 */
record PodRuntime(PodSettings settings, CommandStarter starter) {
    /** What one of them may take; a busy node needs a second. */
    static final Duration LIMIT = Duration.ofSeconds(30);

    private static final String NETWORK_LINK = "eth0";
    private static final String STATE = "state";
    private static final String CGROUPS = "/ppmr-pod-";

    /** Gives the place of a pod's cgroup in the words of the runtime; empty for none. */
    String cgroupOf(PodRecord pod) {
        return switch (settings.cgroups()) {
            case CGROUPFS -> CGROUPS + pod.id();
            // Slice, prefix and name, of which systemd makes a scope.
            case SYSTEMD -> "system.slice:ppmr-pod:" + pod.id();
            case DISABLED -> "";
        };
    }

    /** Makes everything of a pod but its command, which has not begun yet; gives the PID of its init. */
    int create(Path folder, PodRecord pod) throws IOException {
        Path pidFile = folder.resolve("pid");
        run(crun(folder, "create", "--bundle", folder.toString(), "--pid-file", pidFile.toString(), pod.id()));
        String text = Files.readString(pidFile, StandardCharsets.US_ASCII).strip();
        try {
            return Integer.parseInt(text);
        } catch (NumberFormatException e) {
            throw new IOException("the runtime names '" + text + "' as the PID of a pod's init", e);
        }
    }

    /** Lets the command begin. */
    void start(Path folder, PodRecord pod) throws IOException {
        run(crun(folder, "start", pod.id()));
    }

    /** Runs a further command in it to its end; it has no descriptors but its output, a pipe. */
    Command.Result execute(Path folder, PodRecord pod, Path process, Duration limit) throws IOException {
        return result(crun(folder, "exec", "--process", process.toString(), pod.id()), limit);
    }

    /** Ends what is left of a pod, and takes its cgroup away; nothing happens if the runtime does not know it. */
    void delete(Path folder, PodRecord pod) throws IOException {
        if (Files.exists(folder.resolve(STATE).resolve(pod.id()), LinkOption.NOFOLLOW_LINKS)) {
            run(crun(folder, "delete", "--force", pod.id()));
        }
    }

    /** Its input is a pipe that has ended: it gives its standard streams to the pod's user, as fchown(2) does. */
    private List<String> crun(Path folder, String... words) {
        List<String> all = new ArrayList<>(List.of("sh", "-c", "true | exec \"$@\"", "sh"));
        all.addAll(settings.program());
        all.addAll(List.of(
                "--root",
                folder.resolve(STATE).toString(),
                "--cgroup-manager",
                settings.cgroups().name().toLowerCase(Locale.ROOT)));
        all.addAll(List.of(words));
        return all;
    }

    /** Lays the cable between the node's bridge and a pod whose init is there; both ends are up when this returns. */
    void connect(Path folder, PodRecord pod, PodTemplate template, ProcessIdentity init) throws IOException {
        String pid = Integer.toString(init.pid());
        String mtu = Integer.toString(template.mtuBytes());
        disconnect(pod);
        run(List.of(
                "ip",
                "link",
                "add",
                "name",
                pod.link(),
                "mtu",
                mtu,
                "type",
                "veth",
                "peer",
                "name",
                NETWORK_LINK,
                "address",
                pod.mac(),
                "mtu",
                mtu,
                "netns",
                pid));
        List<String> inside = new ArrayList<>(List.of(
                "link set dev lo up",
                "address add " + pod.address() + "/" + template.prefixBits() + " dev " + NETWORK_LINK,
                "link set dev " + NETWORK_LINK + " up"));
        template.gateway().ifPresent(gateway -> inside.add("route add default via " + gateway));
        Path batch = Files.write(folder.resolve("network"), inside);
        run(List.of("nsenter", "--target", pid, "--net", "--", "ip", "-batch", batch.toString()));
        run(List.of("ip", "link", "set", "dev", pod.link(), "master", pod.bridge(), "up"));
    }

    /** Takes the node's end of a cable away, and with it the pod's; nothing happens if it is not there. */
    void disconnect(PodRecord pod) throws IOException {
        if (isThere(pod.link())) {
            Command.Result gone = result(List.of("ip", "link", "delete", "dev", pod.link()), LIMIT);
            // The kernel takes it away itself a moment after a pod has ended.
            if (!gone.succeeded() && isThere(pod.link())) {
                throw new IOException(gone.describe());
            }
        }
    }

    private boolean isThere(String link) throws IOException {
        return result(List.of("ip", "link", "show", "dev", link), LIMIT).succeeded();
    }

    /** Says why pods cannot be plugged into a bridge; empty if they can. */
    Optional<String> whyNoBridge(String bridge) throws IOException {
        Command.Result shown =
                result(List.of("ip", "-oneline", "link", "show", "dev", bridge, "type", "bridge"), LIMIT);
        return shown.succeeded() && !shown.output().isEmpty()
                ? Optional.empty()
                : Optional.of("there is no bridge " + bridge + " on this node");
    }

    private void run(List<String> words) throws IOException {
        result(words, LIMIT).requireOutput();
    }

    private Command.Result result(List<String> words, Duration limit) throws IOException {
        try {
            return starter.run(words, limit);
        } catch (CheckpointException e) {
            throw new IOException(e.getMessage(), e);
        }
    }
}
