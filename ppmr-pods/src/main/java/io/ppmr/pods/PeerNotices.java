package io.ppmr.pods;

import io.ppmr.linux.HostPort;
import io.ppmr.linux.RareLog;
import io.ppmr.migration.RequestException;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.ReturnToken;
import io.ppmr.protocol.data.Message;
import io.ppmr.transport.auth.PeerAuthenticator;
import io.ppmr.transport.tcp.Connector;
import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Notifies this node's pods and the services of other nodes that a pod's address is away. It repeats the notice while
 * the address is away, and sends one when it is back. No caller waits for the notices, so a node that does not answer
 * never prolongs a pause. It is safe for any thread. It has threads only while a pod moves, and for some seconds
 * afterwards.
 */
final class PeerNotices {
    /** The time for which a peer accepts one notice that an address is away. */
    static final Duration LEASE = Duration.ofSeconds(10);

    private static final Logger LOG = LoggerFactory.getLogger(PeerNotices.class);
    private static final Duration RENEWED = Duration.ofSeconds(3);
    private static final Duration CONNECT_LIMIT = Duration.ofSeconds(2);
    private static final Duration ANSWER_LIMIT = Duration.ofSeconds(5);
    private static final long IDLE_S = 5;

    private final List<HostPort> peers;
    private final PeerAuthenticator key;
    private final PodPeers here;
    private final Predicate<String> underWay;
    private final RareLog log = new RareLog(LOG::warn);
    /** The addresses that are away, with the tokens of their return, by move. Guarded by this. */
    private final Map<String, Map<String, ReturnToken>> away = new HashMap<>();
    /** The notices that threads send now. No notice is sent twice at once. Guarded by this. */
    private final Set<Notice> beingSent = new HashSet<>();
    /** Guarded by this. */
    private Thread rounds;

    private final ExecutorService senders = new ThreadPoolExecutor(
            0, Integer.MAX_VALUE, IDLE_S, TimeUnit.SECONDS, new SynchronousQueue<>(), PeerNotices::daemon);

    /** A notice to one peer. The peer is null for this node's own pods. */
    private record Notice(HostPort peer, String address, String migration, Duration lease, ReturnToken token) {
        ControlMessage.AddressAway message() {
            return new ControlMessage.AddressAway(
                    address, migration, lease.toMillis(), lease.isZero() ? token.text() : token.digest());
        }
    }

    /**
     * Sends nothing yet.
     *
     * @param peers where the services of the peers' nodes listen
     * @param key the shared key of the nodes
     * @param here this node's pods
     * @param underWay returns true for a move that is not over
     */
    PeerNotices(List<HostPort> peers, PeerAuthenticator key, PodPeers here, Predicate<String> underWay) {
        this.peers = List.copyOf(peers);
        this.key = key;
        this.here = here;
        this.underWay = underWay;
    }

    private static Thread daemon(Runnable task) {
        Thread thread = new Thread(task, "ppmr-pod-notice");
        thread.setDaemon(true);
        return thread;
    }

    /** Starts notices that an address is away by a move. */
    synchronized void leaves(String move, String address, ReturnToken token) {
        away.computeIfAbsent(move, one -> new HashMap<>()).put(address, token);
        if (rounds == null) {
            rounds = new Thread(this::rounds, "ppmr-pod-notices");
            rounds.setDaemon(true);
            rounds.start();
        } else {
            notifyAll();
        }
    }

    /** Stops the notices about that move: another service sends them, or the leases end. */
    synchronized void leave(String move) {
        away.remove(move);
        notifyAll();
    }

    /** Returns the addresses about which notices of that move are sent. */
    synchronized Set<String> addressesOf(String move) {
        return Set.copyOf(away.getOrDefault(move, Map.of()).keySet());
    }

    private synchronized void leave(String move, String address) {
        away.getOrDefault(move, new HashMap<>()).remove(address);
        away.values().removeIf(Map::isEmpty);
        notifyAll();
    }

    /** Stops the notices about that move, except that this node's pods learn that the address is back. */
    synchronized void hasGone(String move, String address, ReturnToken token) {
        leave(move, address);
        submit(new Notice(null, address, migrationOf(move), Duration.ZERO, token));
    }

    /** Sends notices that the address is back. */
    synchronized void isBack(String move, String address, ReturnToken token) {
        leave(move, address);
        submitToAll(move, address, Duration.ZERO, token);
    }

    private synchronized void rounds() {
        try {
            while (!away.isEmpty()) {
                // The move may be over: another service can share these pods, and end it.
                away.keySet().removeIf(underWay.negate());
                away.forEach((move, all) -> all.forEach((address, token) -> submitToAll(move, address, LEASE, token)));
                long endNs = System.nanoTime() + RENEWED.toNanos();
                Map<String, Map<String, ReturnToken>> notified = new HashMap<>();
                away.forEach((move, all) -> notified.put(move, Map.copyOf(all)));
                for (long leftNs = RENEWED.toNanos();
                        leftNs > 0 && notified.equals(away);
                        leftNs = endNs - System.nanoTime()) {
                    TimeUnit.NANOSECONDS.timedWait(this, leftNs);
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            rounds = null;
        }
    }

    private void submitToAll(String move, String address, Duration lease, ReturnToken token) {
        submit(new Notice(null, address, migrationOf(move), lease, token));
        peers.forEach(peer -> submit(new Notice(peer, address, migrationOf(move), lease, token)));
    }

    /** Returns the name of the migration without the attempt, which a target's name of a move has. */
    private static String migrationOf(String move) {
        return move.split("\\.", 2)[0];
    }

    private synchronized void submit(Notice notice) {
        if (beingSent.add(notice)) {
            senders.execute(() -> send(notice));
        }
    }

    private void send(Notice notice) {
        String whom = notice.peer() == null
                ? "this node's pods"
                : HostPort.participant(notice.peer().unresolved());
        try {
            if (notice.peer() == null) {
                here.onNotice(notice.message());
            } else {
                sendToPeer(notice);
            }
        } catch (IOException | RequestException e) {
            log.write(
                    whom,
                    whom + " cannot be notified that address " + notice.address()
                            + (notice.lease().isZero() ? " is back" : " is away")
                            + ", so connections of peers there may"
                            + " take longer to continue: " + e.getMessage());
        } finally {
            synchronized (this) {
                beingSent.remove(notice);
            }
        }
    }

    private void sendToPeer(Notice notice) throws IOException {
        Message answer = new Connector(notice.peer().lookUp(), key, CONNECT_LIMIT)
                .request(notice::message, ControlMessage::read, ANSWER_LIMIT);
        if (answer instanceof ControlMessage.Refuse refuse) {
            throw new IOException("it refuses: " + refuse.reason());
        }
        if (!(answer instanceof ControlMessage.AddressAwayAck)) {
            throw new IOException("it answers with " + answer);
        }
    }
}
