package io.ppmr.cluster.zookeeper;

import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/**
 * The settings of a server of an own ensemble. Immutable.
 *
 * @param data the directory of its transaction log and its snapshots, on a local disk
 * @param client the address for clients
 * @param members the hosts of all members, in their order; empty for an ensemble of one server
 * @param me the number of this member, from 1
 * @param quorumPorts the ports on which members send to the leader and elect it
 * @param tick the unit of its time limits
 * @param tls the files for TLS between all servers and clients, or empty for connections without it
 */
public record EnsembleSettings(
        Path data,
        InetSocketAddress client,
        List<String> members,
        int me,
        QuorumPorts quorumPorts,
        Duration tick,
        Optional<TlsFiles> tls) {
    /** The ports of each member for the other members. */
    public record QuorumPorts(int leader, int election) {}

    public EnsembleSettings {
        members = List.copyOf(members);
    }
}
