package io.ppmr.pods;

import io.ppmr.os.HostPort;
import io.ppmr.os.config.Key;
import io.ppmr.os.config.Section;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

/**
 * Holds the settings of all pods of a node, with their keys. Immutable.
 *
 * @param peers where services of other nodes listen that are told when a pod's address is away
 */
@Section(name = "pod_runtime", doc = "What makes [pods](../admin/pods.md) on this node, for all templates.")
public record PodSettings(
        @Key(
                value = "/var/lib/ppmr/pods",
                doc = "where what is known of the pods is kept, root's alone; no user may be able to change a name in"
                        + " its path",
                example = "/local/ppmr/pods")
        Path directory,

        @Key(
                value = "[\"crun\"]",
                doc = "the words that start the OCI runtime, which must understand crun's options",
                example = "[\"/usr/local/bin/crun\"]")
        List<String> program,

        @Key(
                value = "cgroupfs",
                doc = "who makes the pods' cgroups: the runtime itself, systemd, or none; then pods have no limits",
                example = "systemd")
        Cgroups cgroups,

        @Key(
                value = "[]",
                doc = "where targets listen on other nodes with pods; they are told when a pod's address is away and"
                        + " when it is back, so that connections go on soon"
                        + " ([how](../admin/pods.md#connections-during-a-move)). The same list will do on all nodes",
                example = "[\"node-07:7411\"]")
        List<String> peers) {
    public PodSettings {
        program = List.copyOf(program);
        peers = List.copyOf(peers);
    }

    /** Returns the peers that have a form as it must be. */
    List<HostPort> peerAddresses() {
        return peers.stream().map(PodSettings::peer).flatMap(Optional::stream).toList();
    }

    /** Reads the address of a peer; empty if it is none. */
    static Optional<HostPort> peer(String word) {
        return HostPort.parse(word).filter(peer -> peer.port() > 0);
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
