package io.ppmr.pods;

import io.ppmr.os.HostPort;
import java.nio.file.Path;
import java.util.List;

/**
 * Holds what the configuration says of all pods of a node. Immutable.
 *
 * @param directory where what is known of them is kept, root's alone
 * @param program the words that start the runtime
 * @param cgroups who makes their cgroups
 * @param peers where services of other nodes listen that are told when a pod's address is away
 */
public record PodSettings(Path directory, List<String> program, Cgroups cgroups, List<HostPort> peers) {
    public PodSettings {
        program = List.copyOf(program);
        peers = List.copyOf(peers);
    }

    /** Names who makes the cgroups that limits need. */
    public enum Cgroups {
        /** The runtime itself, in the node's cgroup filesystem. */
        CGROUPFS,
        /** The node's systemd, as the runtime asks it. */
        SYSTEMD,
        /** None: pods have no limits. */
        DISABLED
    }
}
