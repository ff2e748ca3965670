package io.ppmr.cluster.zookeeper;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.ClientInfo;
import org.apache.zookeeper.data.Stat;

/**
 * Checks that a site's ensemble gives a cluster's records to its controllers and services alone. It has sessions of its
 * own, and writes nothing. Each check blocks the caller's thread for some seconds at most.
 */
public final class EnsembleCheck {
    private static final String SASL = "sasl";
    private static final Pattern CLUSTER_USER = Pattern.compile("(controller|service)-[0-9a-f]{8}");
    private static final int CLOSE_MS = 2000;

    private final ControllerAccess access;
    private final Duration limit;

    /** @param limit how long to wait for a connection */
    public EnsembleCheck(ControllerAccess access, Duration limit) {
        this.access = access;
        this.limit = limit;
    }

    /**
     * Throws if a server does not authenticate this controller, or if others have rights to the cluster's records.
     * Each server has settings of its own, so each is checked.
     *
     * @return the servers that do not answer; others do
     * @throws ControllerStore.UnreachableException if no server answers in time
     */
    public List<String> requireOwn() throws IOException, InterruptedException {
        List<String> silent = new ArrayList<>();
        for (String server : access.servers()) {
            try (Client client = new Client(server, ClientSettings.of(access.user(), access.tls()))) {
                KeeperState last = client.await(KeeperState.SaslAuthenticated, limit);
                if (last == KeeperState.Disconnected) {
                    silent.add(server);
                    continue;
                }
                if (last != KeeperState.SaslAuthenticated || !isOurs(client.session)) {
                    throw new IOException("the ensemble's server " + server
                            + " does not authenticate this controller as " + access.user()
                            + ". Remedy: give it the users of ppmr controller --print-jaas, and the settings of"
                            + " docs/admin/cluster.md");
                }
                for (String path : ClusterPaths.FIXED) {
                    requireRights(client.session, server, path);
                }
            } catch (KeeperException e) {
                silent.add(server);
            }
        }
        requireSome(silent);
        return silent;
    }

    private void requireSome(List<String> silent) throws ControllerStore.UnreachableException {
        if (silent.size() == access.servers().size()) {
            throw new ControllerStore.UnreachableException(
                    "no server of the ensemble answers: " + String.join(", ", silent)
                            + (access.tls().isPresent() ? ServiceSession.CERTIFICATES : ""),
                    null);
        }
    }

    private boolean isOurs(ZooKeeper session) throws InterruptedException, KeeperException {
        List<ClientInfo> users = session.whoAmI();
        if (users == null) {
            // The connection was lost, or the server is older than the question.
            throw new KeeperException.ConnectionLossException();
        }
        return users.stream()
                .anyMatch(user -> user.getAuthScheme().equals(SASL)
                        && user.getUser().equals(access.user().name()));
    }

    private void requireRights(ZooKeeper session, String server, String path)
            throws IOException, KeeperException, InterruptedException {
        List<ACL> rights;
        try {
            rights = session.getACL(path, new Stat());
        } catch (KeeperException.NoNodeException e) {
            return;
        } catch (KeeperException.NoAuthException e) {
            throw ControllerStore.otherKey(e);
        }
        int most = path.equals(ClusterPaths.SERVICES) ? Perms.READ | Perms.CREATE : Perms.READ;
        for (ACL right : rights) {
            boolean isCluster = right.getId().getScheme().equals(SASL)
                    && CLUSTER_USER.matcher(right.getId().getId()).matches();
            boolean isController = isCluster && right.getId().getId().startsWith("controller-");
            if (!isCluster || (!isController && (right.getPerms() & ~most) != 0)) {
                throw new IOException("the record " + path + " of the ensemble at " + server + " gives rights to "
                        + right.getId().getScheme() + ":" + right.getId().getId()
                        + ", which is no user of this cluster. Remedy: find out who made it, and remove "
                        + ClusterPaths.ROOT + " with all below it");
            }
        }
    }

    /**
     * Throws if a server gives the cluster's records to a client that does not authenticate.
     *
     * @return the servers for which this is unknown: they do not answer, or there is no record yet
     */
    public List<String> requireClosed() throws IOException, InterruptedException {
        List<String> unknown = new ArrayList<>();
        for (String server : access.servers()) {
            try (Client client = new Client(server, ClientSettings.withoutUser(access.tls()))) {
                if (client.await(KeeperState.SyncConnected, limit) != KeeperState.SyncConnected) {
                    unknown.add(server);
                    continue;
                }
                client.session.getData(ClusterPaths.ID, false, null);
            } catch (KeeperException.NoAuthException | KeeperException.SessionClosedRequireAuthException e) {
                continue;
            } catch (KeeperException e) {
                unknown.add(server);
                continue;
            }
            throw new IOException("the ensemble's server " + server + " shows " + ClusterPaths.ID
                    + " to a client that did not authenticate. Remedy: set skipACL=no in its configuration");
        }
        return unknown;
    }

    /** A session with its states. Closed by its owner. */
    private final class Client implements AutoCloseable {
        private final BlockingQueue<KeeperState> states = new LinkedBlockingQueue<>();
        private final ZooKeeper session;

        private Client(String server, ZKClientConfig settings) throws IOException {
            session = new ZooKeeper(server, Math.toIntExact(access.session().toMillis()), this::onEvent, settings);
        }

        private void onEvent(WatchedEvent event) {
            states.add(event.getState());
        }

        /** Waits for a state. Returns it, or the best one that was reached; Disconnected if none was. */
        private KeeperState await(KeeperState wanted, Duration atMost) throws InterruptedException {
            KeeperState reached = KeeperState.Disconnected;
            long endNs = System.nanoTime() + atMost.toNanos();
            for (long leftNs = atMost.toNanos(); leftNs > 0; leftNs = endNs - System.nanoTime()) {
                KeeperState state = states.poll(leftNs, TimeUnit.NANOSECONDS);
                if (state == wanted || state == KeeperState.AuthFailed) {
                    return state;
                }
                if (state == KeeperState.SyncConnected) {
                    reached = state;
                }
            }
            return reached;
        }

        @Override
        public void close() throws InterruptedException {
            session.close(CLOSE_MS);
        }
    }
}
