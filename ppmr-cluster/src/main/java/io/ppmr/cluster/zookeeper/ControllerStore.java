package io.ppmr.cluster.zookeeper;

import io.ppmr.cluster.job.JobRecords;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.ACLProvider;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.CuratorCacheStorage;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryUntilElapsed;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Quotas;
import org.apache.zookeeper.StatsTrack;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A controller's access to the ensemble: the records of services and nodes, and the election of the active controller.
 * Its listener is called on Curator's threads. Safe for any thread; closed by its owner.
 */
public final class ControllerStore implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(ControllerStore.class);
    private static final String SASL = "sasl";
    private static final Duration CONNECT_LIMIT = Duration.ofSeconds(5);
    /** No call waits longer for the ensemble, so that no thread hangs without a majority. */
    private static final int CALL_LIMIT_MS = 2000;

    private static final int RETRY_MS = 200;
    /** The records that each ensemble of ZooKeeper has of its own, and that any user may change at first. */
    private static final List<String> OF_THE_ENSEMBLE = List.of("/", "/zookeeper", "/zookeeper/quota");

    /** Limits what holders of the services' key can store: ten thousand nodes with a source and a target each. */
    private static final int MOST_SERVICES = 20_480;

    private static final long MOST_SERVICE_BYTES = MOST_SERVICES * 512L;

    /** Receives what happens in the ensemble. Must not block. */
    public interface Listener {
        /** A record of a service is there, has changed, or is gone (empty). */
        void serviceChanged(String name, Optional<byte[]> record);

        /** All records of services that were there have been reported. */
        void servicesKnown();

        /** This controller becomes the active one, or is no longer. */
        void active(boolean isActive);

        /** The record of a node could not be written. */
        void notWritten(String host);

        /** The connection to the ensemble was lost, or is there again. */
        void connected(boolean isConnected);
    }

    /** No majority of the ensemble answered in time. */
    public static final class UnreachableException extends IOException {
        private static final long serialVersionUID = 1;

        UnreachableException(String message, Throwable cause) {
            super(message, cause);
        }
    }

    private final CuratorFramework client;
    private final ControllerAccess access;
    private final Listener listener;
    private final LeaderLatch latch;
    private CuratorCache cache;

    /** @param me this controller's address for questions, which services receive while it is active */
    public ControllerStore(ControllerAccess access, String me, Listener listener) {
        this.access = access;
        this.listener = listener;
        client = CuratorFrameworkFactory.builder()
                .connectString(String.join(",", access.servers()))
                .sessionTimeoutMs(Math.toIntExact(access.session().toMillis()))
                .connectionTimeoutMs(Math.toIntExact(
                        Math.min(CONNECT_LIMIT.toMillis(), access.session().toMillis())))
                .retryPolicy(new RetryUntilElapsed(CALL_LIMIT_MS, RETRY_MS))
                .aclProvider(new ControllersAlone())
                .zkClientConfig(ClientSettings.of(access.user(), access.tls()))
                .build();
        latch = new LeaderLatch(client, ClusterPaths.LATCH, me);
    }

    /** Connects. Returns false if no server answers within the limit; it continues to try. */
    public boolean connect(Duration limit) throws InterruptedException {
        client.getConnectionStateListenable()
                .addListener((unused, state) ->
                        listener.connected(state == ConnectionState.CONNECTED || state == ConnectionState.RECONNECTED));
        client.start();
        return awaitConnection(limit);
    }

    /** Waits for the connection. Returns false if no server answers within the limit. */
    public boolean awaitConnection(Duration limit) throws InterruptedException {
        return client.blockUntilConnected(Math.toIntExact(limit.toMillis()), TimeUnit.MILLISECONDS);
    }

    /**
     * Makes the fixed records where they are missing, with the rights of this controller's keys.
     *
     * @param fresh the name of the cluster if it has none yet
     * @param own whether the ensemble is this cluster's own, so that no other user may write anywhere in it
     * @return the name of the cluster
     */
    public String prepare(String fresh, boolean own) throws IOException {
        try {
            if (own) {
                for (String path : OF_THE_ENSEMBLE) {
                    if (client.checkExists().forPath(path) != null) {
                        client.setACL().withACL(rights(false)).forPath(path);
                    }
                }
            }
            for (String path : ClusterPaths.FIXED) {
                boolean isId = path.equals(ClusterPaths.ID);
                ensure(
                        path,
                        isId ? fresh.getBytes(StandardCharsets.US_ASCII) : new byte[0],
                        rights(path.equals(ClusterPaths.SERVICES)));
            }
            if (own) {
                limitServices();
            }
            return new String(client.getData().forPath(ClusterPaths.ID), StandardCharsets.US_ASCII);
        } catch (KeeperException.NoAuthException e) {
            throw otherKey(e);
        } catch (KeeperException.ConnectionLossException | KeeperException.SessionExpiredException e) {
            throw new UnreachableException("the cluster's records cannot be made: " + e.getMessage(), e);
        } catch (Exception e) {
            throw failure("the cluster's records cannot be made", e);
        }
    }

    static IOException otherKey(KeeperException.NoAuthException refused) {
        return new IOException(
                "the ensemble's records belong to another controller key. Remedy: give this controller the"
                        + " controller_key_file of the others",
                refused);
    }

    /** Sets a quota of ZooKeeper on the records of services. */
    private void limitServices() throws Exception {
        StatsTrack limit = new StatsTrack();
        limit.setCountHardLimit(MOST_SERVICES);
        limit.setByteHardLimit(MOST_SERVICE_BYTES);
        ensure(Quotas.quotaPath(ClusterPaths.ROOT), new byte[0], rights(false));
        ensure(Quotas.quotaPath(ClusterPaths.SERVICES), new byte[0], rights(false));
        ensure(Quotas.limitPath(ClusterPaths.SERVICES), limit.getStatsBytes(), rights(false));
        ensure(Quotas.statPath(ClusterPaths.SERVICES), new StatsTrack().getStatsBytes(), rights(false));
    }

    /** Gives the records that Curator makes to the controllers: those of the election. */
    private final class ControllersAlone implements ACLProvider {
        @Override
        public List<ACL> getDefaultAcl() {
            return rights(false);
        }

        @Override
        public List<ACL> getAclForPath(String path) {
            return rights(false);
        }
    }

    private void ensure(String path, byte[] data, List<ACL> rights) throws Exception {
        try {
            client.create().withMode(CreateMode.PERSISTENT).withACL(rights).forPath(path, data);
        } catch (KeeperException.NodeExistsException e) {
            client.setACL().withACL(rights).forPath(path);
        }
    }

    private List<ACL> rights(boolean servicesCreate) {
        List<ACL> rights = new java.util.ArrayList<>();
        rights.add(new ACL(Perms.ALL, new Id(SASL, access.user().name())));
        for (ClusterUser service : access.services()) {
            rights.add(new ACL(servicesCreate ? Perms.READ | Perms.CREATE : Perms.READ, new Id(SASL, service.name())));
        }
        return rights;
    }

    /** Returns the records of jobs over several nodes. */
    public JobRecords jobs() {
        return new JobStore(client);
    }

    /** Joins the election. */
    public void begin() throws IOException {
        try {
            latch.addListener(new LeaderLatchListener() {
                @Override
                public void isLeader() {
                    listener.active(true);
                }

                @Override
                public void notLeader() {
                    listener.active(false);
                }
            });
            latch.start();
        } catch (Exception e) {
            throw failure("the election of the active controller cannot begin", e);
        }
    }

    /** Watches the records of all services from now on. Reports those that are there, too. */
    public synchronized void watchServices() {
        stopWatching();
        // The listener receives the records; a second copy of all of them would be of no use.
        cache = CuratorCache.builder(client, ClusterPaths.SERVICES)
                .withStorage(CuratorCacheStorage.dataNotCached())
                .build();
        cache.listenable()
                .addListener(CuratorCacheListener.builder()
                        .forCreates(this::changed)
                        .forChanges((before, now) -> changed(now))
                        .forDeletes(gone -> report(gone.getPath(), Optional.empty()))
                        .forInitialized(listener::servicesKnown)
                        .build());
        cache.start();
    }

    /** Ends the watch of services. */
    public synchronized void stopWatching() {
        if (cache != null) {
            cache.close();
            cache = null;
        }
    }

    private void changed(ChildData record) {
        // Containers and records with a time to live have negative owners.
        boolean isLasting = record.getStat().getEphemeralOwner() <= 0;
        if (isLasting && record.getPath().startsWith(ClusterPaths.SERVICES + "/")) {
            // Services have sessions. A record without one would show a node that nothing can end.
            remove(record.getPath());
            return;
        }
        report(record.getPath(), Optional.of(record.getData()));
    }

    private void remove(String path) {
        try {
            client.delete()
                    .inBackground((unused, event) -> {
                        if (event.getResultCode() == KeeperException.Code.NOTEMPTY.intValue()) {
                            client.delete()
                                    .deletingChildrenIfNeeded()
                                    .inBackground()
                                    .forPath(path);
                        }
                    })
                    .forPath(path);
        } catch (Exception e) {
            LOG.warn("a record without a session was not removed: {}", e.getMessage());
        }
    }

    private void report(String path, Optional<byte[]> record) {
        if (path.startsWith(ClusterPaths.SERVICES + "/")) {
            listener.serviceChanged(path.substring(ClusterPaths.SERVICES.length() + 1), record);
        }
    }

    /** Returns the address of the active controller, if there is one. */
    public Optional<String> active() throws IOException {
        if (!client.getZookeeperClient().isConnected()) {
            return Optional.empty();
        }
        try {
            String id = latch.getLeader().getId();
            return id.isEmpty() ? Optional.empty() : Optional.of(id);
        } catch (Exception e) {
            throw failure("the active controller is unknown", e);
        }
    }

    /** Returns the records of all nodes, by their names. */
    public Map<String, byte[]> nodes() throws IOException {
        try {
            Map<String, byte[]> nodes = new HashMap<>();
            for (String host : client.getChildren().forPath(ClusterPaths.NODES)) {
                nodes.put(host, client.getData().forPath(ClusterPaths.NODES + "/" + host));
            }
            return nodes;
        } catch (Exception e) {
            throw failure("the records of the nodes cannot be read", e);
        }
    }

    /**
     * Writes the record of a node, without waiting for it, if this controller is still in the election. One that was
     * frozen is not: another one may have written that the node is off. A failure is in the log.
     */
    public void writeNode(String host, byte[] record) {
        String path = ClusterPaths.NODES + "/" + host;
        writeNode(host, () -> client.transactionOp().setData().forPath(path, record), code -> {
            if (code == KeeperException.Code.NONODE) {
                createNode(host, record);
            } else {
                notWritten(host, code.toString());
            }
        });
    }

    private void createNode(String host, byte[] record) {
        String path = ClusterPaths.NODES + "/" + host;
        writeNode(
                host,
                () -> client.transactionOp()
                        .create()
                        .withMode(CreateMode.PERSISTENT)
                        .withACL(rights(false))
                        .forPath(path, record),
                code -> notWritten(host, code.toString()));
    }

    /** An operation on a node's record. */
    @FunctionalInterface
    private interface NodeOperation {
        CuratorOp of() throws Exception;
    }

    private void writeNode(String host, NodeOperation operation, Consumer<KeeperException.Code> failed) {
        String candidate = latch.getOurPath();
        if (candidate == null) {
            notWritten(host, "this controller is not in the election");
            return;
        }
        try {
            client.transaction()
                    .inBackground((unused, event) -> {
                        KeeperException.Code code = KeeperException.Code.get(event.getResultCode());
                        if (code != KeeperException.Code.OK) {
                            failed.accept(code);
                        }
                    })
                    .forOperations(client.transactionOp().check().forPath(candidate), operation.of());
        } catch (Exception e) {
            notWritten(host, e.getMessage());
        }
    }

    private void notWritten(String host, String reason) {
        LOG.info("the record of node {} was not written: {}", host, reason);
        listener.notWritten(host);
    }

    /**
     * Changes the record of a node by the version that was just read, after a sync. Blocks for some seconds at most.
     *
     * @param change returns the new record; empty if there must be none
     * @return false if there is no record, if the change is none, or if another controller wrote it since
     */
    public boolean changeNode(String host, Function<byte[], Optional<byte[]>> change) throws IOException {
        String path = ClusterPaths.NODES + "/" + host;
        try {
            sync(path);
            Stat stat = new Stat();
            Optional<byte[]> next =
                    change.apply(client.getData().storingStatIn(stat).forPath(path));
            if (next.isEmpty()) {
                return false;
            }
            client.setData().withVersion(stat.getVersion()).forPath(path, next.get());
            return true;
        } catch (KeeperException.BadVersionException | KeeperException.NoNodeException e) {
            LOG.info("the record of node {} was changed by another controller: {}", host, e.getMessage());
            return false;
        } catch (Exception e) {
            throw failure("the record of node " + host + " cannot be changed", e);
        }
    }

    /** Waits until this controller's server has all changes that were made before. */
    private void sync(String path) throws Exception {
        CompletableFuture<Integer> done = new CompletableFuture<>();
        client.sync()
                .inBackground((unused, event) -> done.complete(event.getResultCode()))
                .forPath(path);
        KeeperException.Code code = KeeperException.Code.get(done.get(CALL_LIMIT_MS, TimeUnit.MILLISECONDS));
        if (code != KeeperException.Code.OK) {
            throw KeeperException.create(code, path);
        }
    }

    /** Removes the record of a node, without waiting for it. A failure is in the log. */
    public void removeNode(String host) {
        try {
            client.delete()
                    .inBackground((unused, event) -> {
                        KeeperException.Code result = KeeperException.Code.get(event.getResultCode());
                        if (result != KeeperException.Code.OK && result != KeeperException.Code.NONODE) {
                            LOG.warn(
                                    "the record of node {} was not removed: {}. Remedy: forget it again", host, result);
                        }
                    })
                    .forPath(ClusterPaths.NODES + "/" + host);
        } catch (Exception e) {
            LOG.warn("the record of node {} was not removed: {}. Remedy: forget it again", host, e.getMessage());
        }
    }

    static IOException failure(String what, Exception e) {
        if (e instanceof InterruptedException) {
            Thread.currentThread().interrupt();
        }
        return new IOException(what + ": " + e.getMessage(), e);
    }

    @Override
    public void close() {
        try {
            if (latch.getState() == LeaderLatch.State.STARTED) {
                latch.close();
            }
        } catch (IOException e) {
            LOG.debug("leaving the election", e);
        }
        stopWatching();
        client.close();
    }
}
