package io.ppmr.cluster.zookeeper;

import io.ppmr.cluster.job.JobKey;
import io.ppmr.cluster.job.JobReader;
import io.ppmr.cluster.job.JobRecord;
import io.ppmr.cluster.record.ServiceName;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.linux.RareLog;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ConnectStringParser;
import org.apache.zookeeper.client.StaticHostProvider;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A service's session with the ensemble, and its record there. The record exists while the session does. ZooKeeper's
 * client reconnects to any server until the session has expired. The caller's thread owns it, and waits for its events.
 */
public final class ServiceSession implements JobReader, AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(ServiceSession.class);
    /** Follows the text that no server answers, where a certificate can be the cause. */
    static final String CERTIFICATES = ", or a certificate is not valid. Remedy: compare the names and the authorities"
            + " of the certificates at both ends (tls, tls_authorities)";

    private static final String SASL = "sasl";
    private static final long SYNC_LIMIT_MS = 5000;

    /** An event of the session or of its record. */
    public enum Event {
        CONNECTED,
        DISCONNECTED,
        /** The session is over, and so is this object. */
        EXPIRED,
        /** The server refuses the user. */
        REFUSED,
        /** The record was removed, or replaced. */
        RECORD_CHANGED,
        /** A record of a job over several nodes has changed, or pods of this node. */
        JOB_CHANGED
    }

    /**
     * The credentials by which a session can be continued.
     *
     * @param id its number
     * @param password its password, a secret, in hexadecimal digits
     */
    public record Credentials(long id, String password) {
        @Override
        public String toString() {
            return "session " + Long.toHexString(id);
        }
    }

    /**
     * The way of a service to the ensemble.
     *
     * @param servers the servers, each HOST:PORT
     * @param tls the files for TLS, or empty for connections without it
     */
    public record Access(List<String> servers, ClusterUser user, Duration sessionTimeout, Optional<TlsFiles> tls) {
        public Access {
            servers = List.copyOf(servers);
        }
    }

    private final BlockingQueue<Event> events = new LinkedBlockingQueue<>();
    private final RareLog log = new RareLog(LOG::warn);
    private final ZooKeeper client;
    private final boolean isSecure;

    private ServiceSession(Access access, Optional<Credentials> earlier) throws IOException {
        String servers = String.join(",", access.servers());
        isSecure = access.tls().isPresent();
        int timeoutMs = Math.toIntExact(access.sessionTimeout().toMillis());
        client = earlier.isEmpty()
                ? new ZooKeeper(
                        servers, timeoutMs, this::onEvent, false, ClientSettings.of(access.user(), access.tls()))
                : new ZooKeeper(
                        servers,
                        timeoutMs,
                        this::onEvent,
                        earlier.get().id(),
                        HexFormat.of().parseHex(earlier.get().password()),
                        false,
                        new StaticHostProvider(new ConnectStringParser(servers).getServerAddresses()),
                        ClientSettings.of(access.user(), access.tls()));
    }

    /** Begins a session. {@link #awaitConnection} follows. */
    public static ServiceSession begin(Access access) throws IOException {
        return new ServiceSession(access, Optional.empty());
    }

    /**
     * Ends the session of an earlier run of a service, which removes its record. Needs no right to delete it.
     *
     * @param limit how long to wait for the ensemble
     */
    public static void end(Access access, Credentials earlier, Duration limit)
            throws IOException, InterruptedException {
        try (ServiceSession session = new ServiceSession(access, Optional.of(earlier))) {
            session.awaitConnection(limit);
        } catch (SessionExpiredException e) {
            // It was over before, and its record with it.
            return;
        }
    }

    /** The session is over. */
    public static final class SessionExpiredException extends IOException {
        private static final long serialVersionUID = 1;

        SessionExpiredException() {
            super("the session with the ensemble has expired");
        }
    }

    private void onEvent(WatchedEvent event) {
        switch (event.getState()) {
            case SyncConnected, SaslAuthenticated, ConnectedReadOnly -> {
                if (event.getType() == Watcher.Event.EventType.None) {
                    // A session is used only once it is authenticated.
                    if (event.getState() == Watcher.Event.KeeperState.SaslAuthenticated) {
                        events.add(Event.CONNECTED);
                    }
                } else {
                    boolean isJob = event.getPath() != null
                            && (event.getPath().startsWith(ClusterPaths.JOBS + "/")
                                    || event.getPath().startsWith(ClusterPaths.ORDERS + "/"));
                    events.add(isJob ? Event.JOB_CHANGED : Event.RECORD_CHANGED);
                }
            }
            case Disconnected -> events.add(Event.DISCONNECTED);
            case Expired, Closed -> events.add(Event.EXPIRED);
            case AuthFailed -> events.add(Event.REFUSED);
            default -> events.add(Event.DISCONNECTED);
        }
    }

    /** Waits until the session is there. */
    public void awaitConnection(Duration limit) throws IOException, InterruptedException {
        long endNs = System.nanoTime() + limit.toNanos();
        for (long leftNs = limit.toNanos(); leftNs > 0; leftNs = endNs - System.nanoTime()) {
            Event event = events.poll(leftNs, TimeUnit.NANOSECONDS);
            if (event == Event.CONNECTED) {
                return;
            }
            if (event == Event.EXPIRED) {
                throw new SessionExpiredException();
            }
            if (event == Event.REFUSED) {
                throw new IOException(
                        "the ensemble refuses this service's key. Remedy: give this node the cluster's" + " key_file");
            }
        }
        throw new IOException("no server of the ensemble answers within " + limit.toSeconds() + " s"
                + (isSecure ? CERTIFICATES : ""));
    }

    /** Waits for the next event. Returns empty after the limit. */
    public Optional<Event> await(Duration limit) throws InterruptedException {
        return Optional.ofNullable(events.poll(limit.toNanos(), TimeUnit.NANOSECONDS));
    }

    /** Makes {@link #await} return {@link Event#JOB_CHANGED}: pods of this node have changed. */
    public void wake() {
        events.add(Event.JOB_CHANGED);
    }

    @Override
    public Optional<ReadRecord> read(JobName job) throws IOException, InterruptedException {
        String path = ClusterPaths.JOBS + "/" + JobKey.of(job);
        try {
            // A server that lags behind would show an old record.
            sync(path);
            Stat stat = new Stat();
            byte[] record = client.getData(path, true, stat);
            return JobRecord.decode(record)
                    .filter(read -> read.name().equals(job))
                    .map(read -> new ReadRecord(read, stat.getVersion()));
        } catch (KeeperException.NoNodeException e) {
            LOG.trace("{} is not there", path, e);
            awaitRecord(path);
            return Optional.empty();
        } catch (KeeperException e) {
            throw notRead(path, e);
        }
    }

    private void sync(String path) throws KeeperException, InterruptedException, IOException {
        CompletableFuture<Integer> done = new CompletableFuture<>();
        client.sync(path, (code, synced, context) -> done.complete(code), null);
        try {
            int code = done.get(SYNC_LIMIT_MS, TimeUnit.MILLISECONDS);
            if (code != KeeperException.Code.OK.intValue()) {
                throw KeeperException.create(KeeperException.Code.get(code), path);
            }
        } catch (ExecutionException | TimeoutException e) {
            throw new IOException("the ensemble does not answer", e);
        }
    }

    private void awaitRecord(String path) throws IOException, InterruptedException {
        try {
            client.exists(path, true);
        } catch (KeeperException e) {
            throw notRead(path, e);
        }
    }

    @Override
    public Set<String> sets(JobName job) throws IOException, InterruptedException {
        String path = ClusterPaths.JOBS + "/" + JobKey.of(job);
        try {
            Set<String> sets = new TreeSet<>();
            for (String child : client.getChildren(path, false)) {
                if (child.startsWith(JobStore.SET)) {
                    sets.add(child.substring(JobStore.SET.length()));
                }
            }
            return sets;
        } catch (KeeperException e) {
            throw notRead(path, e);
        }
    }

    @Override
    public Set<String> pods(JobName job, long layout, String host) throws IOException, InterruptedException {
        return podsOf(JobStore.place(JobKey.of(job), layout, host), false);
    }

    @Override
    public Set<String> orders(String host) throws IOException, InterruptedException {
        String path = ClusterPaths.ORDERS + "/" + host;
        Set<String> orders = podsOf(path, true);
        if (orders.isEmpty()) {
            awaitRecord(path);
        }
        return orders;
    }

    private Set<String> podsOf(String path, boolean isWatched) throws IOException, InterruptedException {
        try {
            return JobStore.names(client.getData(path, isWatched, null));
        } catch (KeeperException.NoNodeException e) {
            LOG.trace("{} is not there", path, e);
            return Set.of();
        } catch (KeeperException e) {
            throw notRead(path, e);
        }
    }

    private static IOException notRead(String path, KeeperException e) {
        return e instanceof KeeperException.SessionExpiredException
                ? failure(e)
                : new IOException("the ensemble does not show " + path + ": " + e.getMessage(), e);
    }

    /** Returns what a later run of the service needs to end this session. */
    public Credentials credentials() {
        return new Credentials(client.getSessionId(), HexFormat.of().formatHex(client.getSessionPasswd()));
    }

    /** Returns whether the record of this name belongs to this session, and watches it. Writes nothing. */
    public boolean holds(ServiceName name) throws IOException, InterruptedException {
        try {
            Stat found = client.exists(ClusterPaths.SERVICES + "/" + name, true);
            return found != null && found.getEphemeralOwner() == client.getSessionId();
        } catch (KeeperException e) {
            throw failure(e);
        }
    }

    private static IOException failure(KeeperException e) {
        if (e instanceof KeeperException.QuotaExceededException) {
            return new IOException(
                    "the ensemble has no room for the record of this service: " + e.getMessage()
                            + ". Remedy: look for names in ppmr nodes that are no nodes; a holder of the key made them",
                    e);
        }
        return e instanceof KeeperException.SessionExpiredException
                ? (IOException) new SessionExpiredException().initCause(e)
                : new IOException("the ensemble does not take the record of this service: " + e.getMessage(), e);
    }

    /**
     * Writes this service's record, and watches it.
     *
     * @param controllers the users that may read it
     * @return false if a session of another service has a record of this name
     */
    public boolean write(ServiceName name, byte[] record, ClusterUser own, List<String> controllers)
            throws IOException, InterruptedException {
        String path = ClusterPaths.SERVICES + "/" + name;
        try {
            Stat found = client.exists(path, true);
            if (found == null) {
                client.create(path, record, rights(own, controllers), CreateMode.EPHEMERAL);
                return client.exists(path, true) != null;
            }
            if (found.getEphemeralOwner() != client.getSessionId()) {
                return false;
            }
            replace(path, record);
            // The write itself is an event of the watch, and uses it up.
            client.exists(path, true);
            return true;
        } catch (KeeperException.NodeExistsException e) {
            return false;
        } catch (KeeperException e) {
            throw failure(e);
        }
    }

    /** The ensemble may have no room for a longer record. Then the old one stays, and the service in the cluster. */
    private void replace(String path, byte[] record) throws KeeperException, InterruptedException {
        try {
            client.setData(path, record, -1);
        } catch (KeeperException.QuotaExceededException e) {
            log.write("quota", failure(e).getMessage());
        }
    }

    private static List<ACL> rights(ClusterUser own, List<String> controllers) {
        List<ACL> rights = new ArrayList<>();
        rights.add(new ACL(Perms.READ | Perms.WRITE, new Id(SASL, own.name())));
        controllers.forEach(user -> rights.add(new ACL(Perms.ALL, new Id(SASL, user))));
        return rights;
    }

    /** Ends the session, and so removes the record. Waits some seconds at most for the ensemble. */
    @Override
    public void close() throws InterruptedException {
        client.close(2000);
    }
}
