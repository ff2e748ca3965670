package io.ppmr.daemon.pods;

import io.ppmr.migration.RequestException;
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
 * This node's pods as peers of a pod that is being moved: while its address is away nothing leaves them for it, so that
 * their connections go on soon when it is back. That lasts for a lease, which whoever moves the pod renews; the kernel
 * ends it where nobody does. Safe for any thread. It has a thread only while there are leases.
 */
final class PodPeers {
    private static final Logger LOG = LoggerFactory.getLogger(PodPeers.class);

    private final Pods pods;
    private final PodQuiet quiet;
    /** By address; guarded by this. */
    private final Map<Ipv4Address, Lease> leases = new HashMap<>();
    /** Guarded by this. */
    private Thread watch;

    /**
     * Holds what is known of an address.
     *
     * @param migration by which it leaves
     * @param endNs when this is over
     * @param isBack whether it has come back: then a word of that migration that was late on its way is not believed
     */
    private record Lease(String migration, long endNs, boolean isBack) {}

    PodPeers(Pods pods, PodQuiet quiet) {
        this.pods = pods;
        this.quiet = quiet;
    }

    /**
     * Hears that an address is away for as long as the lease, or, where that is nothing, that it is back.
     *
     * @return how many pods here are peers
     */
    synchronized int hear(String text, String migration, Duration lease) throws IOException, RequestException {
        Optional<Ipv4Address> known = Ipv4Address.parse(text);
        Optional<PodTemplate> granting = known.flatMap(pods::granting);
        if (granting.isEmpty()) {
            throw new RequestException("no [pods.NAME] of this node grants that address: write the same templates on"
                    + " all nodes of the pods' network");
        }
        Ipv4Address address = known.get();
        List<PodRecord> peers = new ArrayList<>();
        for (PodRecord pod : pods.running()) {
            if (!pod.address().equals(address.toString())) {
                peers.add(pod);
            } else if (pod.move() == null && !lease.isZero()) {
                throw new RequestException("pod " + pod.fullName() + " has that address here, and nothing moves it");
            }
        }
        if (lease.isZero()) {
            isBack(address, migration, peers);
        } else if (!hasJustComeBack(address, migration)) {
            isAway(address, migration, granting.get(), peers, lease);
        }
        return peers.size();
    }

    private void isBack(Ipv4Address address, String migration, List<PodRecord> peers) {
        leases.put(address, new Lease(migration, System.nanoTime() + PeerNotices.LEASE.toNanos(), true));
        watchLeases();
        peers.forEach(pod -> speakTo(address, pod));
        LOG.info(
                "address {} is back by migration {}: {} pods here speak to it again", address, migration, peers.size());
    }

    private boolean hasJustComeBack(Ipv4Address address, String migration) {
        Lease last = leases.get(address);
        return last != null
                && last.isBack()
                && last.migration().equals(migration)
                && last.endNs() - System.nanoTime() > 0;
    }

    private void isAway(
            Ipv4Address address, String migration, PodTemplate template, List<PodRecord> peers, Duration lease)
            throws IOException {
        Lease before = leases.put(address, new Lease(migration, System.nanoTime() + lease.toNanos(), false));
        watchLeases();
        hushTowards(address, peers, template, lease);
        if (before == null || before.isBack()) {
            LOG.info("address {} is away by migration {}: {} pods here wait for it", address, migration, peers.size());
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

    /** All of them; then it throws if that has failed for one. */
    private void hushTowards(Ipv4Address address, List<PodRecord> peers, PodTemplate template, Duration lease)
            throws IOException {
        IOException failure = null;
        for (PodRecord pod : peers) {
            boolean near = Ipv4Address.parse(pod.address())
                    .filter(own -> own.sharesNetwork(address, template.prefixBits()))
                    .isPresent();
            try {
                // Whose own cable is out says nothing to anybody.
                if (pod.move() == null) {
                    quiet.hushTowards(
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

    private void speakTo(Ipv4Address address, PodRecord pod) {
        try {
            quiet.unhushTowards(pod, networkOf(pod), address);
        } catch (IOException e) {
            LOG.warn(
                    "pod {}: it speaks to {} again only when the lease ends: {}",
                    pod.fullName(),
                    address,
                    e.getMessage());
        }
    }

    private static Path networkOf(PodRecord pod) {
        return Path.of("/proc", Integer.toString(pod.init().pid()), "ns", "net");
    }

    /** Takes away what a service that died has left in the pods here, once the kernel has ended it. */
    void sweep() throws IOException {
        List<PodRecord> running = pods.running();
        if (running.isEmpty() || !quiet.isPossible()) {
            return;
        }
        for (PodRecord pod : running) {
            try {
                quiet.sweep(pod, networkOf(pod));
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
        List<Ipv4Address> over = leases.entrySet().stream()
                .filter(lease -> lease.getValue().endNs() - System.nanoTime() <= 0)
                .map(Map.Entry::getKey)
                .toList();
        for (Ipv4Address address : over) {
            Lease lease = leases.remove(address);
            if (lease.isBack()) {
                continue;
            }
            LOG.warn(
                    "nobody says any more that address {} is away by migration {}: the pods here speak to it again",
                    address,
                    lease.migration());
            try {
                pods.running().stream()
                        .filter(pod -> !pod.address().equals(address.toString()))
                        .forEach(pod -> speakTo(address, pod));
            } catch (IOException e) {
                LOG.warn("empty tables for address {} stay in the pods here: {}", address, e.getMessage());
            }
        }
    }
}
