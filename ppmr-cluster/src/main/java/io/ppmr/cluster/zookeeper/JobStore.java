package io.ppmr.cluster.zookeeper;

import com.fasterxml.jackson.core.JacksonException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.cluster.job.JobRecords;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Consumer;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The records of jobs over several nodes, for a controller. Each job has one record, which members watch, and records
 * below it: the pods of each node ({@code place-LAYOUT-HOST}), and its sets ({@code set-ID}). Each change is one
 * transaction that requires the version of the job's record that was read. So a controller that was frozen changes
 * nothing. Safe for any thread.
 */
public final class JobStore implements JobRecords {
    private static final Logger LOG = LoggerFactory.getLogger(JobStore.class);
    private static final String PLACE = "place-";
    static final String SET = "set-";
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final TypeReference<Set<String>> PODS = new TypeReference<>() {};

    /** A record has another form. */
    private static final class DamagedException extends IOException {
        private static final long serialVersionUID = 1;

        DamagedException(String message, Throwable cause) {
            super(message, cause);
        }
    }

    private final CuratorFramework client;

    JobStore(CuratorFramework client) {
        this.client = client;
    }

    @Override
    public Map<String, StoredJob> read() throws IOException {
        try {
            Map<String, StoredJob> jobs = new HashMap<>();
            for (String key : client.getChildren().forPath(ClusterPaths.JOBS)) {
                try {
                    read(key).ifPresent(job -> jobs.put(key, job));
                } catch (DamagedException e) {
                    // One job must not keep a controller from managing the others.
                    LOG.error("job {} is not managed: {}", key, e.getMessage());
                }
            }
            return jobs;
        } catch (Exception e) {
            throw ControllerStore.failure("the records of jobs cannot be read", e);
        }
    }

    @Override
    public Optional<StoredJob> read(String key) throws IOException {
        String path = ClusterPaths.JOBS + "/" + key;
        try {
            Stat stat = new Stat();
            byte[] record = client.getData().storingStatIn(stat).forPath(path);
            Map<Long, Map<String, Set<String>>> places = new TreeMap<>();
            Map<String, byte[]> sets = new TreeMap<>();
            for (String child : client.getChildren().forPath(path)) {
                if (child.startsWith(SET)) {
                    sets.put(child.substring(SET.length()), client.getData().forPath(path + "/" + child));
                } else if (child.startsWith(PLACE)) {
                    int end = child.indexOf('-', PLACE.length());
                    places.computeIfAbsent(
                                    Long.parseLong(child.substring(PLACE.length(), end)), unused -> new TreeMap<>())
                            .put(
                                    child.substring(end + 1),
                                    names(client.getData().forPath(path + "/" + child)));
                }
            }
            return Optional.of(
                    new StoredJob(stat.getVersion(), new String(record, StandardCharsets.UTF_8), places, sets));
        } catch (KeeperException.NoNodeException e) {
            LOG.trace("job {} is not in the ensemble", key, e);
            return Optional.empty();
        } catch (JacksonException | IndexOutOfBoundsException | NumberFormatException e) {
            throw new DamagedException("a record below it cannot be read: " + e.getMessage(), e);
        } catch (Exception e) {
            throw ControllerStore.failure("the records of job " + key + " cannot be read", e);
        }
    }

    /** Reads a list of names. */
    static Set<String> names(byte[] bytes) throws IOException {
        return new TreeSet<>(JSON.readValue(bytes, PODS));
    }

    private static byte[] bytes(Set<String> pods) {
        try {
            return JSON.writeValueAsString(new TreeSet<>(pods)).getBytes(StandardCharsets.UTF_8);
        } catch (JacksonException e) {
            throw new IllegalStateException("names cannot be written", e);
        }
    }

    @Override
    public Written create(String key, byte[] record) {
        try {
            client.create().withMode(CreateMode.PERSISTENT).forPath(ClusterPaths.JOBS + "/" + key, record);
            return Written.DONE;
        } catch (Exception e) {
            return failed(key, e);
        }
    }

    @Override
    public Written plan(String key, long layout, Map<String, Set<String>> places) {
        try {
            for (Map.Entry<String, Set<String>> place : places.entrySet()) {
                client.create()
                        .orSetData()
                        .withMode(CreateMode.PERSISTENT)
                        .forPath(place(key, layout, place.getKey()), bytes(place.getValue()));
            }
            return Written.DONE;
        } catch (Exception e) {
            return failed(key, e);
        }
    }

    static String place(String key, long layout, String host) {
        return ClusterPaths.JOBS + "/" + key + "/" + PLACE + layout + "-" + host;
    }

    @Override
    public Written write(String key, int version, JobChange change) {
        String path = ClusterPaths.JOBS + "/" + key;
        try {
            List<CuratorOp> operations = new ArrayList<>();
            operations.add(
                    change.record().isPresent()
                            ? client.transactionOp()
                                    .setData()
                                    .withVersion(version)
                                    .forPath(path, change.record().get())
                            : client.transactionOp()
                                    .check()
                                    .withVersion(version)
                                    .forPath(path));
            for (Map.Entry<String, Set<String>> changed : change.places().entrySet()) {
                String place = place(key, change.layout(), changed.getKey());
                boolean isKnown = change.known().contains(changed.getKey());
                if (changed.getValue().isEmpty()) {
                    if (isKnown) {
                        operations.add(client.transactionOp().delete().forPath(place));
                    }
                } else if (isKnown) {
                    operations.add(client.transactionOp().setData().forPath(place, bytes(changed.getValue())));
                } else {
                    operations.add(client.transactionOp()
                            .create()
                            .withMode(CreateMode.PERSISTENT)
                            .forPath(place, bytes(changed.getValue())));
                }
            }
            for (Map.Entry<String, byte[]> set : change.newSets().entrySet()) {
                operations.add(client.transactionOp()
                        .create()
                        .withMode(CreateMode.PERSISTENT)
                        .forPath(path + "/" + SET + set.getKey(), set.getValue()));
            }
            for (Map.Entry<String, byte[]> set : change.changedSets().entrySet()) {
                operations.add(
                        client.transactionOp().setData().forPath(path + "/" + SET + set.getKey(), set.getValue()));
            }
            for (String set : change.oldSets()) {
                operations.add(client.transactionOp().delete().forPath(path + "/" + SET + set));
            }
            client.transaction().forOperations(operations);
            return Written.DONE;
        } catch (Exception e) {
            return failed(key, e);
        }
    }

    private static Written failed(String key, Exception e) {
        if (e instanceof InterruptedException) {
            Thread.currentThread().interrupt();
        }
        LOG.info("the record of job {} was not written: {}", key, e.getMessage());
        return e instanceof KeeperException.BadVersionException
                        || e instanceof KeeperException.NodeExistsException
                        || e instanceof KeeperException.NoNodeException
                ? Written.CHANGED
                : Written.UNKNOWN;
    }

    @Override
    public void removeLayouts(String key, Consumer<Map<Long, Map<String, Set<String>>>> keep) {
        try {
            Optional<StoredJob> job = read(key);
            if (job.isPresent()) {
                Map<Long, Map<String, Set<String>>> old =
                        new TreeMap<>(job.get().places());
                keep.accept(old);
                for (Map.Entry<Long, Map<String, Set<String>>> layout : old.entrySet()) {
                    for (String host : layout.getValue().keySet()) {
                        client.delete().quietly().forPath(place(key, layout.getKey(), host));
                    }
                }
            }
        } catch (Exception e) {
            LOG.info("old places of job {} stay for now: {}", key, e.getMessage());
        }
    }

    @Override
    public Written remove(String key, int version) {
        String path = ClusterPaths.JOBS + "/" + key;
        try {
            // The record itself is changed first, so that no other change can come between.
            client.setData().withVersion(version).forPath(path, new byte[0]);
            client.delete().deletingChildrenIfNeeded().forPath(path);
            return Written.DONE;
        } catch (Exception e) {
            return failed(key, e);
        }
    }

    @Override
    public Written order(String host, Set<String> keys) {
        String path = ClusterPaths.ORDERS + "/" + host;
        try {
            client.create().orSetData().withMode(CreateMode.PERSISTENT).forPath(path, bytes(keys));
            return Written.DONE;
        } catch (Exception e) {
            return failed(host, e);
        }
    }

    @Override
    public Map<String, Set<String>> orders() throws IOException {
        try {
            Map<String, Set<String>> orders = new TreeMap<>();
            for (String host : client.getChildren().forPath(ClusterPaths.ORDERS)) {
                orders.put(host, names(client.getData().forPath(ClusterPaths.ORDERS + "/" + host)));
            }
            return orders;
        } catch (Exception e) {
            throw ControllerStore.failure("the orders of nodes cannot be read", e);
        }
    }
}
