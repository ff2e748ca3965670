package io.ppmr.pods;

import io.ppmr.linux.HostPort;
import io.ppmr.linux.config.Key;
import io.ppmr.linux.config.Section;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

/**
 * The settings of all pods of a node, with their keys. It is immutable.
 *
 * @param peers the targets of other nodes, which get the notices about addresses that are away
 */
@Section(name = "pod_runtime", doc = "How this node makes [pods](../admin/pods.md), for all templates.")
public record PodSettings(
        @Key(
                value = "/var/lib/ppmr/pods",
                doc = "the directory of the pods' records, owned by root. No user may be able to rename any part of"
                        + " its path",
                example = "/local/ppmr/pods")
        Path directory,

        @Key(
                value = "[\"crun\"]",
                doc = "the command words that start the OCI runtime, which must accept crun's options",
                example = "[\"/usr/local/bin/crun\"]")
        List<String> program,

        @Key(
                value = "cgroupfs",
                doc = "the component that makes the pods' cgroups. With cgroupfs it is the runtime, with systemd it"
                        + " is systemd. With disabled pods have no cgroups and no limits",
                example = "systemd")
        Cgroups cgroups,

        @Key(
                value = "[]",
                doc = "the targets of other nodes with pods. ppmr notifies them when a pod's address is away and"
                        + " when it is back, so that connections continue soon"
                        + " ([how](../admin/pods.md#connections-during-a-move)). All nodes can have the same list",
                example = "[\"node-07:7411\"]")
        List<String> peers) {
    public PodSettings {
        program = List.copyOf(program);
        peers = List.copyOf(peers);
    }

    /** Returns the peers in the right form. */
    List<HostPort> peerAddresses() {
        return peers.stream().map(PodSettings::peer).flatMap(Optional::stream).toList();
    }

    /** Parses the address of a peer. Returns empty if the text is no address. */
    static Optional<HostPort> peer(String word) {
        return HostPort.parse(word).filter(peer -> peer.port() > 0);
    }

    /** The component that makes the cgroups, which limits need. */
    public enum Cgroups {
        /** The runtime itself, in the node's cgroup filesystem. */
        CGROUPFS,
        /** The node's systemd, on request of the runtime. */
        SYSTEMD,
        /** None: pods have no limits. */
        DISABLED
    }
}
