package io.ppmr.pods;

import io.ppmr.linux.Ipv4Address;
import io.ppmr.linux.config.Key;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * A template of pods, which root grants: their network, the files of the node that they see, and their limits. A user
 * only picks a template. It is immutable, and read once from the configuration.
 *
 * @param name the name, as in {@code [pods.NAME]}
 * @param network the network of the pods
 * @param shares the addresses of each user; no address is in two shares
 * @param mounts the directories of the node that the pods see
 * @param limits the limits of their memory and their processes
 * @param checkpointer the name of the checkpointer that moves them, or empty if they cannot be moved
 * @param checkpoints the directory of checkpoints of jobs over several nodes, or empty for none
 * @param copies the directory of the copies of these checkpoints, or empty for none
 * @param onLoss the act on a job over several nodes when a node with pods of it is off
 */
public record PodTemplate(
        String name,
        PodNetwork network,
        List<Share> shares,
        Mounts mounts,
        PodLimits limits,
        Optional<String> checkpointer,
        Optional<Path> checkpoints,
        Optional<Path> copies,
        OnLoss onLoss) {
    /** The act on a job over several nodes when a node with pods of it is off. */
    public enum OnLoss {
        /** Nothing: an operator or the job's user decides. */
        HOLD,
        /** The controllers bring it back from its newest set. */
        RECOVER
    }

    public PodTemplate {
        shares = List.copyOf(shares);
    }

    /** The network of pods, with its keys. */
    public record PodNetwork(
            @Key(doc = "the bridge of this node into which the pods are plugged", example = "br0")
            String bridge,

            @Key(
                    value = "24",
                    doc = "number of leading bits of an address that name the network",
                    example = "16",
                    least = 8,
                    most = 30)
            int prefix,

            @Key(
                    doc = "the network of the pods' IPv6 addresses; the last four bytes are the IPv4 address."
                            + " Default: no IPv6 address",
                    example = "fd00:20::/64")
            Optional<Ipv6Network> network6,

            @Key(doc = "the gateway to other networks. Default: no gateway", example = "10.20.0.1")
            Optional<Ipv4Address> gateway,

            @Key(
                    value = "02:50",
                    doc = "the first two bytes of a pod's MAC address; the other four are its IPv4 address. Use a"
                            + " locally administered address: the first byte ends in 2, 6, a or e",
                    example = "06:51")
            String macPrefix,

            @Key(value = "1500", doc = "the largest packet, in bytes", example = "9000", least = 1280, most = 65535)
            int mtu) {}

    /** The directories of the node that pods see, with their keys. */
    public record Mounts(
            @Key(
                    value = "[\"/usr\", \"/bin\", \"/sbin\", \"/lib\", \"/lib64\", \"/etc\"]",
                    doc = "directories of the node that the pods see read-only, without the mounts below them",
                    example = "[\"/usr\", \"/etc\", \"/opt\"]")
            List<String> mounts,

            @Key(
                    value = "[]",
                    doc = "directories of the node that the pods see and may write as their user may. To be moved,"
                            + " a pod needs them at both nodes",
                    example = "[\"/home\"]")
            List<String> writableMounts) {
        /** Lists all directories as the kernel shows them: without a slash at the end. */
        List<String> all() {
            return Stream.concat(mounts.stream(), writableMounts.stream())
                    .map(word -> Path.of(word).toString())
                    .toList();
        }
    }

    /** The limits of a pod, with their keys. */
    public record PodLimits(
            @Key(value = "1g", doc = "size of /tmp, which is in memory", example = "4g")
            long tmp,

            @Key(value = "1g", doc = "size of /dev/shm, which is in memory", example = "4g")
            long shm,

            @Key(doc = "memory limit of a pod, including /tmp and /dev/shm. Default: no limit", example = "64g")
            Optional<Long> memory,

            @Key(
                    doc = "limit of processes and threads of a pod. Default: no limit",
                    example = "4096",
                    least = 2,
                    most = 4_194_304)
            Optional<Integer> tasks) {}

    /**
     * The addresses that a user may have.
     *
     * @param uid the user
     * @param first the lowest address
     * @param last the highest address, not below the first
     */
    public record Share(int uid, Ipv4Address first, Ipv4Address last) {
        /** Returns true if the address is in the share. */
        boolean has(Ipv4Address address) {
            return first.compareTo(address) <= 0 && last.compareTo(address) >= 0;
        }

        /** Returns true if an address is in both shares. */
        public boolean overlaps(Share other) {
            return first.compareTo(other.last) <= 0 && other.first.compareTo(last) <= 0;
        }
    }

    /** Returns true if a user may have pods of this kind. */
    boolean grants(int uid) {
        return shares.stream().anyMatch(share -> share.uid() == uid);
    }

    /** Returns true if a user may have that address. */
    boolean grants(int uid, Ipv4Address address) {
        return shares.stream().anyMatch(share -> share.uid() == uid && share.has(address));
    }

    /** Returns the IPv6 address that belongs to an IPv4 address, or empty for none. */
    String address6Of(Ipv4Address address) {
        return network.network6().map(six -> six.addressOf(address)).orElse("");
    }

    /** Returns the MAC address that belongs to an IPv4 address, the same on every node. */
    String macOf(Ipv4Address address) {
        return network.macPrefix() + ":" + address.bytes("%02x", ":");
    }
}
