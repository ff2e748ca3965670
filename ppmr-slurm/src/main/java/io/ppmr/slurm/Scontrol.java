package io.ppmr.slurm;

import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.linux.Command;
import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Queries Slurm's controller by scontrol(1). It is for one thread. */
public final class Scontrol {
    private static final Duration LIMIT = Duration.ofSeconds(30);
    private static final Pattern FIELD = Pattern.compile("(?:^|\\s)(NodeName|NodeAddr|State)=(\\S*)");
    private static final Set<String> GOING = Set.of("DRAIN", "DRAINING", "DRAINED", "FAIL", "FAILING");

    /**
     * A node as the controller sees it.
     *
     * @param address its NodeAddr: an address, or a name of it
     * @param going whether it is set to drain or to fail
     */
    public record NodeState(String name, String address, boolean going) {}

    /** Lists the nodes of a list such as {@code n[1-3,7]}, in its order. */
    public List<String> hostNames(String list) throws IOException, InterruptedException {
        return run("show", "hostnames", list).lines().toList();
    }

    /** Returns the states of the nodes. */
    public List<NodeState> nodes(List<String> names) throws IOException, InterruptedException {
        return names.isEmpty() ? List.of() : parse(run("--oneliner", "show", "node", String.join(",", names)));
    }

    /**
     * Lists the nodes that are set to drain. If the controller does not answer, the list is empty until the next query.
     *
     * @param messages receives the reason if it does not answer
     */
    List<String> going(List<String> names, Consumer<String> messages) throws InterruptedException {
        try {
            return nodes(names).stream()
                    .filter(NodeState::going)
                    .map(NodeState::name)
                    .toList();
        } catch (IOException e) {
            messages.accept(e.getMessage());
            return List.of();
        }
    }

    /**
     * Lists the nodes that the job manager's signal refers to: those that are set to drain, or the only node. None if
     * they are unknown, which is logged.
     *
     * @param names the nodes that the job can leave
     * @param what the word for the moved thing in messages
     */
    List<String> meant(List<String> names, String what, Consumer<String> messages) throws InterruptedException {
        List<String> going = going(names, messages);
        if (!going.isEmpty()) {
            return going;
        }
        if (names.size() == 1) {
            return names;
        }
        messages.accept(
                names.isEmpty()
                        ? "there is no " + what + " left to be moved"
                        : "which node? None of " + String.join(", ", names)
                                + " is set to drain: set the one that is going to drain, and signal again");
        return List.of();
    }

    /** Parses the output of {@code scontrol --oneliner show node}. */
    static List<NodeState> parse(String text) {
        List<NodeState> nodes = new ArrayList<>();
        for (String line : text.lines().toList()) {
            String name = "";
            String address = "";
            String state = "";
            Matcher field = FIELD.matcher(line);
            while (field.find()) {
                switch (field.group(1)) {
                    case "NodeName" -> name = field.group(2);
                    case "NodeAddr" -> address = field.group(2);
                    default -> state = field.group(2);
                }
            }
            if (!name.isEmpty()) {
                // Such as ALLOCATED+DRAIN, with a flag character at the end if the node does not respond.
                boolean going = Arrays.stream(state.split("[+*~#!%$@^-]+", -1)).anyMatch(GOING::contains);
                nodes.add(new NodeState(name, address, going));
            }
        }
        return nodes;
    }

    /** Returns the node of a target's address, HOST:PORT. The only node if there is one. */
    Optional<String> nodeAt(String address, List<String> names) throws IOException, InterruptedException {
        if (names.size() == 1) {
            return Optional.of(names.get(0));
        }
        String host = address.substring(0, Math.max(0, address.lastIndexOf(':')));
        for (NodeState node : nodes(names)) {
            if (host.equals(node.name()) || host.equals(node.address()) || same(host, node.address())) {
                return Optional.of(node.name());
            }
        }
        return Optional.empty();
    }

    private static boolean same(String one, String other) {
        try {
            return Arrays.asList(InetAddress.getAllByName(one)).contains(InetAddress.getByName(other));
        } catch (UnknownHostException e) {
            return false;
        }
    }

    /**
     * Releases all nodes of a running job except some.
     *
     * @param gone names the released nodes in messages
     */
    void giveBack(String job, List<String> kept, String gone, Consumer<String> messages) throws InterruptedException {
        try {
            shrink(job, kept);
            messages.accept("the job has given back " + gone);
        } catch (IOException e) {
            messages.accept(gone + " stays in the allocation: " + e.getMessage());
        }
    }

    private static void shrink(String job, List<String> kept) throws IOException, InterruptedException {
        // The command leaves two scripts in the working directory, for shells that continue. No program runs them here.
        Path directory = Files.createTempDirectory("ppmr-slurm");
        try {
            run(directory, "update", "JobId=" + job, "NodeList=" + String.join(",", kept));
        } finally {
            WorkDirectories.remove(directory);
        }
    }

    private static String run(String... arguments) throws IOException, InterruptedException {
        return run(Path.of("."), arguments);
    }

    private static String run(Path directory, String... arguments) throws IOException, InterruptedException {
        List<String> words = new ArrayList<>(List.of("scontrol"));
        words.addAll(List.of(arguments));
        Command.CommandResult result = Command.of(words).in(directory).run(LIMIT);
        if (result.timedOut()) {
            throw new IOException(String.join(" ", words) + " has not answered within " + LIMIT.toSeconds()
                    + " s. Remedy: start slurmctld, or check its network");
        }
        return result.requireOutput();
    }
}
