package io.ppmr.pods;

import io.ppmr.os.Ipv4Address;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * Names what root grants to pods of one kind: their network, what they see of the node's files, and their limits. A
 * user only picks one. Immutable, read once from the configuration.
 *
 * @param name as in {@code [pods.NAME]}
 * @param bridge the network interface of the node that they are plugged into
 * @param prefixBits how many leading bits of an address name the network
 * @param network6 where they have an IPv6 address besides; empty for nowhere
 * @param gateway where packets for other networks go, if they may go there
 * @param macPrefix the first two bytes of their MAC addresses; the other four are those of the IPv4 address
 * @param mtuBytes the largest packet
 * @param shares which users may have which addresses; no address is in two of them
 * @param mounts directories of the node that they see, and cannot change
 * @param writableMounts directories of the node that they see, and can write as far as the user may
 * @param tmpBytes the size of /tmp, which is memory
 * @param shmBytes the size of /dev/shm, which is memory
 * @param memoryBytes how much memory all of its processes may have together, with /tmp and /dev/shm; empty for no limit
 * @param tasks how many processes and threads there may be; empty for no limit
 * @param checkpointer the name of that by which they are moved; empty if they are not
 */
public record PodTemplate(
        String name,
        String bridge,
        int prefixBits,
        Optional<Ipv6Network> network6,
        Optional<Ipv4Address> gateway,
        String macPrefix,
        int mtuBytes,
        List<Share> shares,
        List<Path> mounts,
        List<Path> writableMounts,
        long tmpBytes,
        long shmBytes,
        Optional<Long> memoryBytes,
        Optional<Integer> tasks,
        Optional<String> checkpointer) {
    public PodTemplate {
        shares = List.copyOf(shares);
        mounts = List.copyOf(mounts);
        writableMounts = List.copyOf(writableMounts);
    }

    /**
     * The addresses that a user may have.
     *
     * @param uid whose
     * @param first the lowest
     * @param last the highest, which is not below the first
     */
    public record Share(int uid, Ipv4Address first, Ipv4Address last) {
        /** Returns true if the address is one of them. */
        boolean has(Ipv4Address address) {
            return first.compareTo(address) <= 0 && last.compareTo(address) >= 0;
        }

        /** Returns true if an address is in both. */
        public boolean overlaps(Share other) {
            return first.compareTo(other.last) <= 0 && other.first.compareTo(last) <= 0;
        }
    }

    /** Lists all directories of the node that pods of this kind see. */
    List<String> allMounts() {
        return Stream.concat(mounts.stream(), writableMounts.stream())
                .map(Path::toString)
                .toList();
    }

    /** Returns true if a user may have pods of this kind. */
    boolean grants(int uid) {
        return shares.stream().anyMatch(share -> share.uid() == uid);
    }

    /** Returns true if a user may have that address. */
    boolean grants(int uid, Ipv4Address address) {
        return shares.stream().anyMatch(share -> share.uid() == uid && share.has(address));
    }

    /** Gives the IPv6 address that a pod has besides, empty for none. */
    String address6Of(Ipv4Address address) {
        return network6.map(network -> network.addressOf(address)).orElse("");
    }

    /** Gives the MAC address that belongs to an IPv4 address, so that it is the same wherever the pod runs. */
    String macOf(Ipv4Address address) {
        return macPrefix + ":" + address.bytes("%02x", ":");
    }
}
