package io.ppmr.pods;

import io.ppmr.linux.Ipv4Address;
import io.ppmr.migration.RequestException;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.ReturnToken;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * This node's pods as peers of a moving pod. While its address is away, they drop their own packets to it, so that
 * their connections continue soon when it is back. That lasts for a lease, which the service that moves the pod renews.
 * The kernel ends it without renewal. It is safe for any thread. It has a thread only while there are leases.
 */
final class PodPeers {
    private static final Logger LOG = LoggerFactory.getLogger(PodPeers.class);

    private final Pods pods;
    private final PodQuiet quiet;
    /** Maximum number of leases of one address. Each migration has one. */
    private static final int MOST_LEASES = 64;

    /** The leases by address and by the lock that ends each. Guarded by this. */
    private final Map<Ipv4Address, Map<String, Lease>> leases = new HashMap<>();
    /** Guarded by this. */
    private Thread watch;

    /**
     * A lease of an address that is away.
     *
     * @param migration the migration that moves the address
     * @param endNs the end of the lease
     * @param isBack whether the address is back: then late notices of that migration are ignored
     */
    private record Lease(String migration, long endNs, boolean isBack) {}

    PodPeers(Pods pods, PodQuiet quiet) {
        this.pods = pods;
        this.quiet = quiet;
    }

    /**
     * Handles a notice that an address is away for the time of the lease, or back if the lease is 0. Every node with
     * the key can send one. A notice that it is back ends only the lease of the same lock, and no notice shortens
     * another lease.
     *
     * @return the number of pods here that are peers
     */
    synchronized int onNotice(ControlMessage.AddressAway notice) throws IOException, RequestException {
        Optional<Ipv4Address> known = Ipv4Address.parse(notice.address());
        Optional<PodTemplate> granting = known.flatMap(pods::granting);
        if (granting.isEmpty()) {
            throw new RequestException("no [pods.NAME] of this node grants that address: write the same templates on"
                    + " all nodes of the pods' network");
        }
        Ipv4Address address = known.get();
        boolean isBack = notice.leaseMs() == 0;
        List<PodRecord> peers = new ArrayList<>();
        for (PodRecord pod : pods.running()) {
            if (!pod.address().equals(address.toString())) {
                peers.add(pod);
            } else if (!pod.moves() && !isBack) {
                throw new RequestException("pod " + pod.fullName() + " has that address here, and nothing moves it");
            }
        }
        String lock = isBack ? new ReturnToken(notice.token()).digest() : notice.token();
        Map<String, Lease> all = leases.computeIfAbsent(address, one -> new HashMap<>());
        Lease last = all.get(lock);
        if (last == null && all.size() == MOST_LEASES) {
            throw new RequestException("more than " + MOST_LEASES + " migrations report that address as away:"
                    + " find the node that has the key, and is none of them");
        }
        if (isBack) {
            isBack(address, notice.migrationId(), all, lock, peers);
        } else if (last == null || !last.isBack()) {
            isAway(address, notice, all, granting.get(), peers);
        }
        return peers.size();
    }

    private void isBack(
            Ipv4Address address, String migration, Map<String, Lease> all, String lock, List<PodRecord> peers) {
        boolean wasAway = isAway(all.get(lock));
        all.put(lock, new Lease(migration, System.nanoTime() + PeerNotices.LEASE.toNanos(), true));
        watchLeases();
        if (!wasAway) {
            // The kernel ends the leases of an earlier run of this service.
            LOG.debug("no notice with that token that address {} is away; it stays away", address);
        } else if (all.values().stream().noneMatch(PodPeers::isAway)) {
            peers.forEach(pod -> unmute(address, pod));
            LOG.info(
                    "address {} is back by migration {}: {} pods here send to it again",
                    address,
                    migration,
                    peers.size());
        } else {
            LOG.warn(
                    "address {} is back by migration {}, and another one keeps it away: pods here wait",
                    address,
                    migration);
        }
    }

    private static boolean isAway(Lease lease) {
        return lease != null && !lease.isBack();
    }

    private void isAway(
            Ipv4Address address,
            ControlMessage.AddressAway notice,
            Map<String, Lease> all,
            PodTemplate template,
            List<PodRecord> peers)
            throws IOException {
        long nowNs = System.nanoTime();
        boolean first = all.values().stream().noneMatch(PodPeers::isAway);
        long leaseNs = TimeUnit.MILLISECONDS.toNanos(notice.leaseMs());
        all.put(notice.token(), new Lease(notice.migrationId(), nowNs + leaseNs, false));
        watchLeases();
        // Another service of this node may have set a lease in the same kernel, which must not be shortened.
        long longestNs = all.values().stream()
                .filter(PodPeers::isAway)
                .mapToLong(lease -> lease.endNs() - nowNs)
                .reduce(PeerNotices.LEASE.toNanos(), Math::max);
        muteTowards(address, peers, template, Duration.ofNanos(longestNs));
        if (first) {
            LOG.info(
                    "address {} is away by migration {}: {} pods here wait for it",
                    address,
                    notice.migrationId(),
                    peers.size());
        }
    }

    private void watchLeases() {
        if (watch == null) {
            watch = new Thread(this::watch, "ppmr-pod-leases");
            watch.setDaemon(true);
            watch.start();
        } else {
            notifyAll();
        }
    }

    /** Applies it to all pods, and throws afterwards if it failed for one. */
    private void muteTowards(Ipv4Address address, List<PodRecord> peers, PodTemplate template, Duration lease)
            throws IOException {
        IOException failure = null;
        for (PodRecord pod : peers) {
            boolean near = Ipv4Address.parse(pod.address())
                    .filter(own -> own.sharesNetwork(address, template.network().prefix()))
                    .isPresent();
            try {
                // A pod whose own veth pair is down sends nothing.
                if (!pod.moves()) {
                    quiet.muteTowards(
                            pod,
                            networkOf(pod),
                            address,
                            template.address6Of(address),
                            near ? template.macOf(address) : "",
                            lease);
                }
            } catch (IOException e) {
                failure = new IOException(
                        "pod " + pod.fullName() + " cannot be kept from sending to " + address
                                + " (needs nft of package nftables, and Linux 5.16): " + e.getMessage(),
                        e);
            }
        }
        if (failure != null) {
            throw failure;
        }
    }

    private void unmute(Ipv4Address address, PodRecord pod) {
        try {
            quiet.unmuteTowards(networkOf(pod), address);
        } catch (IOException e) {
            LOG.warn(
                    "pod {}: it sends to {} again only when the lease ends: {}",
                    pod.fullName(),
                    address,
                    e.getMessage());
        }
    }

    private Path networkOf(PodRecord pod) {
        return PodRuntime.networkFile(pods.folderOf(pod));
    }

    /** Removes the ended leases of a crashed service from the pods here. */
    void sweep() throws IOException {
        List<PodRecord> running = pods.running();
        if (running.isEmpty() || !quiet.isPossible()) {
            return;
        }
        for (PodRecord pod : running) {
            try {
                quiet.sweep(networkOf(pod));
            } catch (IOException e) {
                LOG.warn(
                        "pod {}: empty tables for addresses that were away stay there: {}",
                        pod.fullName(),
                        e.getMessage());
            }
        }
    }

    private synchronized void watch() {
        try {
            while (!leases.isEmpty()) {
                long nextNs = leases.values().stream()
                        .flatMap(all -> all.values().stream())
                        .mapToLong(lease -> lease.endNs() - System.nanoTime())
                        .min()
                        .orElse(0);
                if (nextNs > 0) {
                    TimeUnit.NANOSECONDS.timedWait(this, nextNs + TimeUnit.MILLISECONDS.toNanos(1));
                }
                endOverdue();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            watch = null;
        }
    }

    private void endOverdue() {
        Map<Ipv4Address, String> over = new HashMap<>();
        leases.forEach((address, all) -> {
            boolean wasAway = all.values().stream().anyMatch(PodPeers::isAway);
            String migration = all.values().stream()
                    .filter(PodPeers::isAway)
                    .findFirst()
                    .map(Lease::migration)
                    .orElse("");
            all.values().removeIf(lease -> lease.endNs() - System.nanoTime() <= 0);
            if (wasAway && all.values().stream().noneMatch(PodPeers::isAway)) {
                over.put(address, migration);
            }
        });
        leases.values().removeIf(Map::isEmpty);
        over.forEach((address, migration) -> {
            LOG.warn(
                    "the lease for address {}, away by migration {}, ended: the pods here send to it again",
                    address,
                    migration);
            try {
                pods.running().stream()
                        .filter(pod -> !pod.address().equals(address.toString()))
                        .forEach(pod -> unmute(address, pod));
            } catch (IOException e) {
                LOG.warn("empty tables for address {} stay in the pods here: {}", address, e.getMessage());
            }
        });
    }
}
